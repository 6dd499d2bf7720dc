/**
 * What registry and proxy agree on about access tokens where they share process and store (D-63). Types only.
 */
import type { RecordReader } from "./preconditions.ts";
import type { Update } from "./group_commit.ts";

/** An access token, and who shows it with which identity token. */
export interface AccessTokenCheck {
  accessToken: string;
  agentDid: string;
  aitJti: string;
}

/**
 * Judges an access token for a claim that takes effect only while the judgement holds: the updates that see to that,
 * each refusing with `refuse`, or `null` for a token that is not good.
 */
export type CheckAccessToken = <R>(
  claim: AccessTokenCheck,
  records: RecordReader,
  refuse: R,
) => Promise<readonly Update<R>[] | null>;
