/** The caller of an admitted request. */
import type { FrameIdentity } from "../shared/protocol/frames.ts";
import type { KvEntryMaybe } from "../shared/server/kv.ts";
import type { Update } from "../shared/server/store/batch.ts";
import type { BeginningOfDelivery, DuplicateResult } from "./message/delivery.ts";
import type { PairRecord, Presence } from "./schema/records.ts";

export type Prefetched<T> = KvEntryMaybe<T> | Promise<KvEntryMaybe<T>>;

/** An agent whose request passed all checks of its route. */
export interface AdmittedAgent {
  identity: FrameIdentity;
  agentDid: string;
  ownerDid: string;
  /** The budgets of its requests: that of its owner; for a visitor that of all visitors of one owner here, and its registry's. */
  payers: readonly [string, ...string[]];
  /**
   * The owner here whose room its waiting messages take: its own, or the one who has let a visitor in. With a room of
   * their own, two owners and their visitors could fill the memory that all share.
   */
  holder: string;
  /** Origin of the home proxy of an agent of another registry, as its visit token says; otherwise `null`. */
  homeProxy: string | null;
  /** When the AIT expires, unix seconds. */
  aitExpiresAt: number;
  /** When the request was signed, unix seconds, and when its checks began, milliseconds since the Unix epoch. */
  signedAt: number;
  admittedAt: number;
  /** The origin of the proxy that the request was signed for. */
  origin: string;
  /** The pair with the recipient of a message; `null` without one, and for other requests. */
  pair: PairRecord | null;
  /** The presence of a message's recipient; absent for other requests, and with a standing, because none is read then. */
  presence: Prefetched<Presence> | undefined;
  admission: Admission;
  /** Lets the next connect of the owner begin. Idempotent; does nothing for other requests. */
  endTurn(): void;
}

/**
 * Commits what a request uses up. The first call of either method commits the nonce and the rate-limit count, on
 * condition that trust and session are unchanged.
 *
 * @throws {ServiceError} on the first commit: `PROXY_AUTH_REPLAY`, `PROXY_AUTH_FORBIDDEN`,
 *   `PROXY_AGENT_ACCESS_INVALID`, `PROXY_RATE_LIMIT_EXCEEDED` or `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
 */
export interface Admission {
  /** Commits the nonce and the rate-limit count. Does nothing after the first commit of either method. */
  commitAlone(): Promise<unknown> | void;
  /**
   * Commits `updates`, and the beginning of a delivery if there is one, with all preconditions. The first call also
   * commits nonce and count, even if `updates` refuse. Returns their refusal, or `null` after the commit.
   *
   * @throws {ServiceError} after the first commit: `PROXY_AUTH_FORBIDDEN` or `PROXY_AGENT_ACCESS_INVALID`
   * @throws {StoreUnavailable} after the first commit
   */
  commitWith<R>(updates: readonly Update<R>[], beginning?: BeginningOfDelivery): Promise<R | DuplicateResult | null>;
}
