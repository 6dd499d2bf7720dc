/**
 * Approvals of a person (D-130). Each question has a state that belongs to one tool and its arguments, counts once and
 * for a few minutes, and cannot be made outside of this process. Asks nothing itself.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../shared/clock.ts";
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Random } from "../../shared/random.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";

const KEY_BYTES = 32;
const NONCE_BYTES = 16;

export class Approvals {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #key: Uint8Array;
  /** Open questions: nonce → when it expires. At most `questions` of them in a window. */
  readonly #open = new Map<string, number>();
  /** Times of the questions in the window. */
  #asked: number[] = [];

  constructor({ clock, random }: { clock: Clock; random: Random }) {
    this.#clock = clock;
    this.#random = random;
    this.#key = random.bytes(KEY_BYTES);
  }

  /** The state of a new question; `null` when too many were asked. */
  ask(tool: string, args: unknown): string | null {
    const now = this.#clock.now();
    this.#asked = this.#asked.filter((at) => Math.abs(now - at) < LIMIT.questionWindowMs);
    for (const [nonce, until] of this.#open) if (until <= now) this.#open.delete(nonce);
    if (this.#asked.length >= LIMIT.questions) return null;
    this.#asked.push(now);
    const nonce = toBase64Url(this.#random.bytes(NONCE_BYTES));
    this.#open.set(nonce, now + LIMIT.approvalMs);
    return this.#state(tool, args, nonce);
  }

  /** Ends a question. Returns true when the state is that of an open question about this tool and these arguments. */
  take(state: string, tool: string, args: unknown): boolean {
    const [nonce = ""] = state.split(".", 1);
    const until = this.#open.get(nonce);
    const expected = utf8Bytes(this.#state(tool, args, nonce)), given = utf8Bytes(state);
    if (expected.length !== given.length || !timingSafeEqual(expected, given)) return false;
    this.#open.delete(nonce);
    return until !== undefined && this.#clock.now() < until;
  }

  #state(tool: string, args: unknown, nonce: string): string {
    const mac = createHmac("sha256", this.#key).update(JSON.stringify([tool, args, nonce])).digest();
    return `${nonce}.${toBase64Url(new Uint8Array(mac))}`;
  }
}
