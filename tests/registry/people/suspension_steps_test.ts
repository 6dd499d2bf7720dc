/**
 * Shows a suspension or restore whose work is cut, repeated or turned round in the middle: no session is left out,
 * whichever of its tokens still works.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { SessionRecord } from "../../../registry/schema/records.ts";
import type { SuspensionAnswer } from "../../../shared/protocol/api/admin.ts";
import { FaultyKv, type KvCall } from "../../support/faulty_kv.ts";
import { answered, openRegistry, outcome, refresh, restart, validate, withTime } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { AMPLE_QUOTAS, type Person, type TestAgent, type World } from "../../support/world.ts";

const AMPLE = { registry: { quotas: AMPLE_QUOTAS } };
const SUSPENDED = "revoked, suspended";

async function change(w: World, { id }: Person, what: "suspend" | "restore"): Promise<SuspensionAnswer> {
  const { apiKey } = await w.admin();
  return await answered(await withTime(w, w.ask("POST", `/v1/admin/people/${id}/${what}`, { apiKey }), 100));
}

/** Gives the owner of an agent more agents, each with a copy of its session. */
async function copies(w: World, { agent, owner }: TestAgent, count: number): Promise<void> {
  const { value: session } = await w.kv.get<SessionRecord>(KEYS.session(agent.id));
  const operation = w.kv.atomic();
  for (let i = 0; i < count; i++) {
    const id = w.newId();
    operation.set(KEYS.agentOf(owner.id, id), true).set(KEYS.session(id), session);
  }
  await operation.commit();
}

/** How many sessions of all agents have each state. */
async function states(w: World): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for await (const { value } of w.kv.list<SessionRecord>({ prefix: KEYS.session("").slice(0, -1) })) {
    const name = value.suspended ? `${value.status}, suspended` : value.status;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

const ofSession = ({ method, keys }: KvCall) => method === "commit" && keys.some((key) => key[1] === "session");

/** Fails every commit of sessions after the first. */
function failsAfterOne(): (call: KvCall) => boolean {
  let commits = 0;
  return (call) => ofSession(call) && ++commits > 1;
}

Deno.test("all sessions of 121 agents change, also when the store fails after the first four", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv });
  const a = await w.agent();
  await copies(w, a, 120);
  for (const [what, wanted] of [["suspend", { [SUSPENDED]: 121 }], ["restore", { active: 121 }]] as const) {
    const fails = failsAfterOne();
    let failures = 0;
    faulty.faults.fails = (call) => fails(call) && ++failures === 1;
    assertEquals((await change(w, a.owner, what)).complete, true);
    assertEquals([failures > 0, await states(w)], [true, wanted]);
  }
  const lines = w.log.filter(({ event }) => event === "suspension_failed");
  assertEquals(lines.map(({ fields }) => fields.humanId), [a.owner.id, a.owner.id]);
});

Deno.test("a suspension in the middle of a restore ends the sessions that the restore has brought back", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv });
  const a = await w.agent();
  await copies(w, a, 9);
  assertEquals((await change(w, a.owner, "suspend")).complete, true);
  faulty.faults.fails = failsAfterOne();
  const began = w.clock.now();
  assertEquals((await change(w, a.owner, "restore")).complete, false);
  assert(w.clock.now() - began < 6_000, "the answer waits 5 s");
  assertEquals(await states(w), { active: 4, [SUSPENDED]: 6 });
  const again = change(w, a.owner, "suspend");
  delete faulty.faults.fails;
  assertEquals((await again).complete, true);
  assertEquals(await states(w), { [SUSPENDED]: 10 });
});

Deno.test("a registry that stops in the middle of a suspension ends its work, and says that the work goes on", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv });
  const a = await w.agent();
  await copies(w, a, 9);
  faulty.faults.before = (call) => ofSession(call) ? w.registry.stop() : undefined;
  assertEquals((await change(w, a.owner, "suspend")).complete, false);
  assertEquals(await states(w), { active: 6, [SUSPENDED]: 4 });
  // The next start finds a store that does not answer at first.
  let failures = 0;
  faulty.faults = {
    fails: ({ method, keys }) => method === "list" && keys[0]?.[1] === "suspension" && ++failures === 1,
  };
  await restart(w);
  await until(() => w.log.some(({ event }) => event === "suspensions_unread"));
  await w.clock.advance(1_000);
  await until(async () => (await w.kv.get(KEYS.suspension(a.owner.id))).value === null);
  assertEquals(await states(w), { [SUSPENDED]: 10 });
});

Deno.test("a suspension ends a session of which only the refresh token or only the access token still works", async () => {
  for (const [access, of] of [[60, "refresh"], [120, "access"]] as const) {
    await using w = await openRegistry({ registry: { accessTokenTtlSeconds: access, refreshTokenTtlSeconds: 90 } });
    const a = await w.agent();
    await w.clock.advance(of === "refresh" ? 60_000 : 90_000);
    await change(w, a.owner, "suspend");
    assertEquals(await outcome(await refresh(w, a, a.agentAuth.refreshToken)), "403 ACCOUNT_SUSPENDED", of);
    assertEquals(await outcome(await validate(w, a, a.agentAuth.accessToken)), "401 AGENT_AUTH_VALIDATE_UNAUTHORIZED");
  }
});
