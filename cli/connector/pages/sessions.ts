/** The codes and sessions of the connector's page, in memory. */
import type { Clock } from "../../../shared/clock.ts";
import { newCode, type PageSessions } from "../../../shared/page/page_app.ts";
import { BoundedMap } from "../../../shared/bounded_map.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Random } from "../../../shared/random.ts";

/** Codes that are open at a time. Only a program that opens none of them would make more. */
const CODES_MAX = 5;
/** Sessions at a time, one for each browser of a person. A new one takes the place of the oldest. */
const SESSIONS_MAX = 4;
const SESSION_MS = 8 * 3_600_000;
const IDLE_MS = 3_600_000;

export class LocalSessions implements PageSessions<true> {
  /** When each code expires, by the digest of the code. */
  readonly #codes = new Map<string, number>();
  readonly #sessions = new BoundedMap<string, { createdAt: number; seenAt: number }>(SESSIONS_MAX);

  /** @param onCodeOver called when a code is used or has expired, so that the file that holds it is removed */
  constructor(readonly clock: Clock, readonly random: Random, readonly onCodeOver: () => void) {}

  /** Makes a code; `null` when too many are open. */
  async open(): Promise<{ code: string; expiresAt: number } | null> {
    const now = this.clock.now();
    // Codes are counted by their time, because the timer that deletes them is late after the machine has slept.
    if ([...this.#codes.values()].filter((over) => over > now).length >= CODES_MAX) return null;
    const { code, digest } = await newCode(this.random.bytes);
    const expiresAt = now + LIMITS.pageCodeMs;
    this.#codes.set(digest, expiresAt);
    this.clock.after(LIMITS.pageCodeMs, () => this.#codes.delete(digest) && this.onCodeOver());
    return { code, expiresAt };
  }

  take(code: string, session: string): true | null {
    const now = this.clock.now();
    if ((this.#codes.get(code) ?? 0) <= now) return null;
    this.#codes.delete(code);
    this.onCodeOver();
    this.#sessions.set(session, { createdAt: now, seenAt: now });
    return true;
  }

  find(digest: string, isUse: boolean): true | null {
    const session = this.#sessions.get(digest);
    if (session === undefined) return null;
    const now = this.clock.now();
    // A time in the future comes from a clock that was set back. Such a session ends, because it would last too long.
    if (Math.abs(now - session.createdAt) >= SESSION_MS || Math.abs(now - session.seenAt) >= IDLE_MS) {
      this.#sessions.delete(digest);
      return null;
    }
    if (isUse) session.seenAt = now;
    return true;
  }

  end(digest: string): void {
    this.#sessions.delete(digest);
  }
}
