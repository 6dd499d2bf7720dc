/**
 * Checks an access token in two ways: for a request over HTTP, and for a proxy in the same process, whose commits then
 * depend on the records that were read.
 */
import { parseDid } from "../../shared/protocol/did.ts";
import { isSecret } from "../../shared/protocol/secrets.ts";
import {
  type AccessTokenCheck,
  readPrecondition,
  type RecordReader,
  requireUnchanged,
} from "../../shared/server/store/preconditions.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import { digest, equalDigests } from "../../shared/server/crypto.ts";
import type { AgentRecord, SessionRecord } from "../schema/records.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { RegistryStore } from "../store_deps.ts";
import { evaluateAccessToken } from "./session_rules.ts";

/**
 * Checks an access token against the stored records. A wrong token gets `wrong` even when the session has expired,
 * because its sender could otherwise learn about the session of another agent.
 */
export async function checkAccessToken(
  deps: RegistryStore,
  claim: AccessTokenCheck,
): Promise<"good" | "wrong" | "expired"> {
  if (!isSecret("access", claim.accessToken)) return "wrong";
  const id = parseDid(claim.agentDid)?.id ?? "";
  const [agent, session] = await Promise.all([
    deps.reads.get<AgentRecord>(KEYS.agent(id)),
    deps.reads.get<SessionRecord>(KEYS.session(id)),
  ]);
  if (!isIdentity(agent.value, claim)) return "wrong";
  return evaluateAccessToken(session.value, comparisonOf(claim.accessToken), deps.clock.now());
}

/** The registry's implementation of `CheckAccessToken`. Returns `null` for a token that is not valid. */
export async function accessTokenPreconditions<R>(
  deps: RegistryStore,
  claim: AccessTokenCheck,
  records: RecordReader,
  refuse: R,
): Promise<readonly Update<R>[] | null> {
  if (!isSecret("access", claim.accessToken)) return null;
  const id = parseDid(claim.agentDid)?.id ?? "";
  const isTokenOf = comparisonOf(claim.accessToken);
  const isAgentGood = (agent: AgentRecord | null) => isIdentity(agent, claim);
  const isSessionGood = (session: SessionRecord | null) =>
    evaluateAccessToken(session, isTokenOf, deps.clock.now()) === "good";
  const now = deps.clock.now();
  const [agent, session] = await Promise.all([
    readPrecondition(records, KEYS.agent(id), isAgentGood),
    readPrecondition(records, KEYS.session(id), isSessionGood),
  ]);
  if (!isAgentGood(agent.value) || !isSessionGood(session.value)) return null;
  return [
    requireUnchanged(records, agent, now, isAgentGood, refuse),
    requireUnchanged(records, session, now, isSessionGood, refuse),
  ];
}

function isIdentity(agent: AgentRecord | null, { agentDid, aitJti }: AccessTokenCheck): boolean {
  return agent?.did === agentDid && agent.status === "active" && agent.currentJti === aitJti;
}

/**
 * Returns a function that tells whether an access token is the one of a session. A request compares its token with the
 * same record before its commit and during it, so the last result is kept.
 */
function comparisonOf(accessToken: string): (session: SessionRecord) => boolean {
  const sha256 = digest(accessToken);
  let last: SessionRecord | null = null, isSame = false;
  return (session) => {
    if (session !== last) [last, isSame] = [session, equalDigests(session.accessDigest, sha256)];
    return isSame;
  };
}
