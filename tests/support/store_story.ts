/**
 * A store with records of every kind, and the proof that they stay valid when the store is moved.
 */
import { assertEquals } from "@std/assert";
import { STORED as PROXY_STORED } from "../../proxy/schema/retention.ts";
import { STORED as REGISTRY_STORED } from "../../registry/schema/retention.ts";
import { fromBase64Url } from "../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { flushTasks } from "./manual_clock.ts";
import { until } from "./until.ts";
import { codeOf, type Person, type TestAgent, type World } from "./world.ts";

export const TABLES = { registry: REGISTRY_STORED, proxy: PROXY_STORED };

/** An agent as its owner keeps it. */
type KeptAgent = Pick<TestAgent, "owner" | "agent" | "agentAuth"> & { ait: string; seed: string };

/** Everything that people and agents keep outside the store when it is moved. */
export interface Kept {
  /** Milliseconds since the Unix epoch at the time of the export. */
  now: number;
  admin: Person;
  inviteCode: string;
  /** Of an open pairing of `a`. */
  ticket: string;
  /** `a` is paired with `b` and `c`. */
  a: KeptAgent;
  b: KeptAgent;
  /** Not connected: a message waits for it. */
  c: KeptAgent;
  queuedRequestId: string;
  /** Request ID of a message from `a` to `b` that was delivered. */
  nonce: string;
  requestId: string;
  /** Deleted while paired with `b`. */
  deleted: KeptAgent;
}

const QUEUED = JSON.stringify({ text: "queued €" });
const FIRST = JSON.stringify({ message: "first" });

function keep({ owner, agent, agentAuth, identity, keys }: TestAgent): KeptAgent {
  return { owner, agent, agentAuth, ait: identity.ait, seed: keys.seed };
}

async function back(w: World, { owner, agent, agentAuth, ait, seed }: KeptAgent): Promise<TestAgent> {
  const keys = await keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array());
  const identity = { did: agent.did, ait, privateKey: keys.privateKey, accessToken: agentAuth.accessToken };
  return { owner, agent, keys, identity, agentAuth, client: w.clientOf(identity) };
}

/** Fills a store with records of every kind. */
export async function tellStory(w: World): Promise<Kept> {
  const admin = await w.admin();
  const { invite } = await w.client.createInvite(admin.apiKey);
  const [a, b, c, deleted] = [await w.agent(), await w.agent(), await w.agent(), await w.agent()];
  for (const [one, other] of [[a, b], [a, c], [deleted, b]] as const) await w.pair(one, other);
  w.connect(b);
  const nonce = "bm9uY2Utb2YtdGhlLXN0b3J5";
  const delivered = await w.message(a, b, { nonce, body: FIRST });
  const { requestId } = await delivered.json();
  const queued = await w.message(a, c, { body: QUEUED, headers: { Prefer: "respond-async" } });
  const { requestId: queuedRequestId } = await queued.json();
  assertEquals([delivered.status, queued.status], [202, 202]);
  await w.client.deleteAgent(deleted.owner.apiKey, deleted.agent.id);
  const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
  // The results of the deliveries are written after the answers.
  await flushTasks();
  return {
    now: w.clock.now(),
    admin,
    inviteCode: invite.code,
    ticket,
    a: keep(a),
    b: keep(b),
    c: keep(c),
    queuedRequestId,
    nonce,
    requestId,
    deleted: keep(deleted),
  };
}

/** Fails unless every record is valid over the store of this world. */
export async function goesOn(w: World, kept: Kept): Promise<void> {
  const [a, b, c, deleted] = await Promise.all([kept.a, kept.b, kept.c, kept.deleted].map((one) => back(w, one))) as [
    TestAgent,
    TestAgent,
    TestAgent,
    TestAgent,
  ];
  // Single-use items stay used, and repeated requests get the same answer.
  assertEquals(await codeOf(await w.message(a, b, { nonce: kept.nonce, body: FIRST })), "PROXY_AUTH_REPLAY");
  const atC = w.connect(c);
  const atB = w.connect(b);
  await until(() => atC.delivered.length > 0);
  assertEquals(atC.delivered.map(({ requestId, payload }) => [requestId, payload]), [[kept.queuedRequestId, QUEUED]]);
  const again = await w.message(a, b, { body: FIRST, headers: { "x-request-id": kept.requestId } });
  assertEquals([again.status, atB.delivered.length], [202, 0], "a delivered message arrives once");
  assertEquals([(await w.message(a, b)).status, (await w.message(b, a)).status, atB.delivered.length], [202, 502, 1]);
  assertEquals(await codeOf(await w.message(deleted, b)), "PROXY_AUTH_REVOKED");
  assertEquals((await w.client.me(kept.admin.apiKey)).human.role, "admin");
  for (const agent of [a, b, c]) await w.client.refresh(agent.identity, agent.agentAuth.refreshToken);
  const apiKey = (await w.client.redeemInvite(kept.inviteCode, "Late")).apiKey.token;
  const late = await w.agent({ id: "", did: "", apiKey });
  await late.client.pairConfirm(kept.ticket, { agentName: "late", humanName: "Late" });
  assertEquals((await w.message(late, b)).status, 403);
  w.connect(a);
  const fresh = await w.client.refresh(late.identity, late.agentAuth.refreshToken);
  const identity = { ...late.identity, accessToken: fresh.accessToken };
  assertEquals((await w.message({ ...late, identity }, a)).status, 202);
}
