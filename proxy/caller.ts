/** What admission knows of a caller. */
import type { PrefetchedRecords } from "./admission/checks.ts";
import type { Update } from "../shared/server/store/group_commit.ts";

/** An agent whose request passed every check that its route asks for. */
export interface AdmittedAgent {
  agentDid: string;
  ownerDid: string;
  issuer: string;
  aitJti: string;
  name: string;
  /** When the AIT expires, unix seconds. */
  aitExpiresAt: number;
  /** What was read ahead of a message. */
  ahead: PrefetchedRecords["message"];
  /**
   * Makes the nonce and the counted request durable, together with `more`, while trust and session still stand. Gives
   * what refused `more`, if anything did: nonce and window are durable then all the same. Called again, it is about
   * `more` alone, and a store that fails is the route's.
   *
   * @throws {ServiceError} `PROXY_AUTH_REPLAY`, `PROXY_AUTH_FORBIDDEN`, `PROXY_AGENT_ACCESS_INVALID`,
   * `PROXY_RATE_LIMIT_EXCEEDED` or `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
   * @throws {StoreUnavailable} when called again
   */
  settle<R>(more?: readonly Update<R>[]): Promise<R | null>;
}
