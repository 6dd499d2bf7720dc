/**
 * Approvals of a person. The state of a question belongs to one tool and its arguments, counts once and for a few
 * minutes, and cannot be made outside of this process, because a model could otherwise use it for another pairing.
 */
import type { Clock } from "../../shared/clock.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import type { Random } from "../../shared/random.ts";

/** With more, a model could ask until the person says yes out of fatigue. */
export const QUESTIONS_MAX = 3;
/** Time in which `QUESTIONS_MAX` counts. With less, a model could soon ask that often again. */
export const QUESTIONS_WINDOW_MS = 10 * 60_000;
/** With more, an answer could concern a question that the person no longer sees. */
export const APPROVAL_MS = 5 * 60_000;

/** With less, a program could guess the state of an open question. */
const STATE_BYTES = 16;

export class Approvals {
  /** The questions of a window, by state. */
  readonly #asked = new Map<string, { about: string | null; at: number }>();

  constructor(private readonly deps: { clock: Clock; random: Random }) {}

  /** The state of a new question; `null` when too many were asked. */
  ask(tool: string, args: unknown): string | null {
    const now = this.deps.clock.now();
    for (const [state, { at }] of this.#asked) if (Math.abs(now - at) >= QUESTIONS_WINDOW_MS) this.#asked.delete(state);
    if (this.#asked.size >= QUESTIONS_MAX) return null;
    const state = toBase64Url(this.deps.random.bytes(STATE_BYTES));
    this.#asked.set(state, { about: JSON.stringify([tool, args]), at: now });
    return state;
  }

  /** Ends a question. Returns true when the state is that of an open question about this tool and these arguments. */
  take(state: string, tool: string, args: unknown): boolean {
    const question = this.#asked.get(state);
    if (question?.about !== JSON.stringify([tool, args])) return false;
    question.about = null;
    // Without the absolute value, a clock that was set back by an hour would make the question count an hour longer.
    return Math.abs(this.deps.clock.now() - question.at) < APPROVAL_MS;
  }
}
