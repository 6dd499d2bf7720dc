/** The caller of an admitted request (D-196). */
import type { Update, Write } from "../shared/server/store/group_commit.ts";
import type { PairRecord, Presence } from "./schema/records.ts";

/** A cached record, or the pending read of one. */
export type Prefetched<T> = Deno.KvEntryMaybe<T> | Promise<Deno.KvEntryMaybe<T>>;

/** An agent whose request passed all checks of its route. */
export interface AdmittedAgent {
  agentDid: string;
  ownerDid: string;
  issuer: string;
  aitJti: string;
  name: string;
  /** When the AIT expires, unix seconds. */
  aitExpiresAt: number;
  /** When the request was signed, unix seconds, and when its checks began, milliseconds since the Unix epoch. */
  signedAt: number;
  admittedAt: number;
  /** Records of a message to an agent, read during admission; otherwise `null`. */
  prefetched: { pair: Prefetched<PairRecord>; presence: Prefetched<Presence> } | null;
  admission: Admission;
}

/** The beginning of a delivery, as parts of the claim of its request (D-261). */
export interface Beginning<R> {
  /** Checks the delivery record, if there is one. It is applied before `place`. */
  check: Update<R>;
  /**
   * Returns the packed begun deliveries of the sender with this one, and what is written beside them, or refuses. `begun`
   * is what the record of the sender has now.
   */
  place(begun: Uint8Array): { begun: Uint8Array; also: readonly Write[] } | { refuse: R };
  /** The claim was not committed. */
  cancel(): void;
}

/**
 * Commits what a request uses up (D-198). Both methods commit the nonce and the rate-limit count with the first call, on
 * condition that trust and session are unchanged.
 *
 * @throws {ServiceError} on the first commit: `PROXY_AUTH_REPLAY`, `PROXY_AUTH_FORBIDDEN`, `PROXY_AGENT_ACCESS_INVALID`,
 * `PROXY_RATE_LIMIT_EXCEEDED` or `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
 */
export interface Admission {
  /** Commits the nonce and the rate-limit count. No-op after the first commit of either method. */
  commitAlone(): Promise<void>;
  /**
   * Commits `updates`, and the beginning of a delivery if any, with all preconditions. The first call also commits nonce
   * and count, even if `updates` fail.
   *
   * @throws {ServiceError} after the first commit: `PROXY_AUTH_FORBIDDEN` or `PROXY_AGENT_ACCESS_INVALID`
   * @throws {StoreUnavailable} after the first commit
   */
  commitWith<R>(
    updates: readonly Update<R>[],
    beginning?: Beginning<R>,
  ): Promise<{ committed: true } | { committed: false; refused: R }>;
}
