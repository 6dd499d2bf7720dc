/**
 * Approvals of a person. Each question has a state that belongs to one tool and its arguments, counts once and for a
 * few minutes, and cannot be made outside of this process, because a model could otherwise use it for another pairing.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../shared/clock.ts";
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Random } from "../../shared/random.ts";

/** With more, a model could ask until the person says yes out of fatigue. */
export const QUESTIONS_MAX = 3;
/** With less, a model could soon ask as often again. */
export const QUESTIONS_WINDOW_MS = 10 * 60_000;
/** With more, an answer could concern a question that the person no longer sees. */
export const APPROVAL_MS = 5 * 60_000;

const KEY_BYTES = 32;
const NONCE_BYTES = 16;

export class Approvals {
  readonly #key: Uint8Array;
  /** Open questions: nonce → when it expires. At most `QUESTIONS_MAX` of them in a window. */
  readonly #open = new Map<string, number>();
  #asked: number[] = [];

  constructor(private readonly deps: { clock: Clock; random: Random }) {
    this.#key = deps.random.bytes(KEY_BYTES);
  }

  /** The state of a new question; `null` when too many were asked. */
  ask(tool: string, args: unknown): string | null {
    const now = this.deps.clock.now();
    this.#asked = this.#asked.filter((at) => Math.abs(now - at) < QUESTIONS_WINDOW_MS);
    for (const [nonce, until] of this.#open) if (until <= now) this.#open.delete(nonce);
    if (this.#asked.length >= QUESTIONS_MAX) return null;
    this.#asked.push(now);
    const nonce = toBase64Url(this.deps.random.bytes(NONCE_BYTES));
    this.#open.set(nonce, now + APPROVAL_MS);
    return this.#state(tool, args, nonce);
  }

  /** Ends a question. Returns true when the state is that of an open question about this tool and these arguments. */
  take(state: string, tool: string, args: unknown): boolean {
    const [nonce = ""] = state.split(".", 1);
    const until = this.#open.get(nonce);
    const expected = utf8Bytes(this.#state(tool, args, nonce)), given = utf8Bytes(state);
    if (expected.length !== given.length || !timingSafeEqual(expected, given)) return false;
    this.#open.delete(nonce);
    return until !== undefined && this.deps.clock.now() < until;
  }

  #state(tool: string, args: unknown, nonce: string): string {
    const mac = createHmac("sha256", this.#key).update(JSON.stringify([tool, args, nonce])).digest();
    return `${nonce}.${toBase64Url(new Uint8Array(mac))}`;
  }
}
