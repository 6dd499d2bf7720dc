/**
 * The interface between registry and proxy for access tokens when they share process and store (D-63). Types only.
 */
import type { RecordReader } from "./preconditions.ts";
import type { Update } from "./batch.ts";

/** An access token with the agent and the AIT of its request. */
export interface AccessTokenCheck {
  accessToken: string;
  agentDid: string;
  aitJti: string;
}

/**
 * Checks an access token. Returns `null` for an invalid token, else the updates that make a claim depend on the token
 * being valid at its commit; each refuses with `refuse`.
 */
export type CheckAccessToken = <R>(
  claim: AccessTokenCheck,
  records: RecordReader,
  refuse: R,
) => Promise<readonly Update<R>[] | null>;
