/**
 * Shows the suspension of a person (D-170): API keys and sessions stop and come back, a restart resumes the work, no race
 * leaves a live session, and a restore brings nothing back that ended otherwise.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { recoverAdmin } from "../../../registry/accounts/store.ts";
import { REGISTRY_ROUTES } from "../../../registry/routes.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { AgentRecord, HumanRecord, SessionRecord } from "../../../registry/schema/records.ts";
import type { AdminAgentList, SuspensionAnswer } from "../../../shared/protocol/api/admin.ts";
import { expositionOf } from "../../../shared/server/metrics/metrics.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import {
  answered,
  auditEvents,
  openRegistry,
  outcome,
  readCrl,
  refresh,
  refused,
  restart,
  tally,
  validate,
  withTime,
} from "../../support/registry_world.ts";
import { MAX_CHECKS } from "../../support/test_store.ts";
import { IS_LONG } from "../../support/trials.ts";
import { until } from "../../support/until.ts";
import { registration } from "../steps.ts";
import { AMPLE_QUOTAS, codeOf, type Person, type TestAgent, World } from "../../support/world.ts";

const AMPLE = { registry: { quotas: AMPLE_QUOTAS } };

async function change(
  w: World,
  person: Person,
  what: "suspend" | "restore",
  body?: unknown,
): Promise<SuspensionAnswer> {
  const path = `/v1/admin/people/${person.id}/${what}`;
  return await answered(await w.ask("POST", path, { apiKey: (await w.admin()).apiKey, body }));
}

async function sessionOf(w: World, { agent }: Pick<TestAgent, "agent">): Promise<SessionRecord> {
  const { value } = await w.kv.get<SessionRecord>(KEYS.session(agent.id));
  assert(value);
  return value;
}

const audit = (w: World, event: string) => auditEvents(w, `event=${event}&order=asc`);

/** Gives a person copies of an agent and its session, written to the store. */
async function copies(w: World, { agent, owner }: TestAgent, count: number): Promise<string[]> {
  const [record, session] = await w.kv.getMany<[AgentRecord, SessionRecord]>([
    KEYS.agent(agent.id),
    KEYS.session(agent.id),
  ]);
  const operation = w.kv.atomic();
  const ids = Array.from({ length: count }, () => w.newId());
  for (const id of ids) {
    operation.set(KEYS.agent(id), { ...record.value, id, did: agent.did.replace(agent.id, id) })
      .set(KEYS.agentOf(owner.id, id), true)
      .set(KEYS.session(id), session.value);
  }
  await operation.commit();
  return ids;
}

async function states(w: World, ids: readonly string[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const id of ids) {
    const { value } = await w.kv.get<SessionRecord>(KEYS.session(id));
    const name = `${value?.status}${value?.suspended ? ", suspended" : ""}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

Deno.test("the key of a suspended person is refused on every route until the restore", async () => {
  await using w = await openRegistry();
  const person = await w.person();
  const { person: shown, complete } = await change(w, person, "suspend", { reason: " stolen laptop " });
  assertEquals([shown.status, shown.suspendedAt, complete], ["suspended", new Date(w.clock.now()).toISOString(), true]);
  const keyed = REGISTRY_ROUTES.filter(({ auth }) =>
    ["api_key", "admin", "invite_admin", "service_admin"].includes(auth)
  );
  assert(keyed.length > 20);
  for (const { method, path } of keyed) {
    const target = path.replace(":id", "01KHYQ5H00AAAAAAAAAAAAAAAA");
    await refused(await w.ask(method, target, { apiKey: person.apiKey }), "ACCOUNT_SUSPENDED");
  }
  const { person: restored } = await change(w, person, "restore");
  assertEquals([restored.status, restored.suspendedAt], ["active", null]);
  assertEquals((await w.ask("GET", "/v1/me", person)).status, 200);
  const { did } = await w.admin();
  const events = [...await audit(w, "person.suspended"), ...await audit(w, "person.restored")];
  assertEquals(events.map(({ event, actor, subject, detail }) => [event, actor, subject, detail]), [
    ["person.suspended", did, person.did, "stolen laptop"],
    ["person.restored", did, person.did, undefined],
  ]);
});

Deno.test("twelve connected agents of a suspended person stop at once, and work again after the restore", async () => {
  await using w = await World.open({ ...AMPLE, sharedProcess: true });
  await w.proxy.start();
  const peer = await w.agent();
  const owner = await w.person("Bob");
  const agents = await w.agents(12, owner);
  const [speaker, ...others] = agents.slice(0, 3);
  assert(speaker);
  for (const agent of [speaker, ...others]) await w.pair(agent, peer);
  const ofPeer = w.connect(peer);
  const sockets = agents.map((agent) => w.connect(agent));
  await w.connected();
  assertEquals((await w.message(speaker, peer)).status, 202);

  assertEquals((await change(w, owner, "suspend")).complete, true);
  await until(() => sockets.every(({ closed }) => closed?.code === 4401));
  assertEquals(ofPeer.closed, null);
  for (const agent of [speaker, ...others]) {
    assertEquals(await codeOf(await w.message(agent, peer)), "PROXY_AGENT_ACCESS_INVALID");
  }
  // An agent without a pair is refused by an earlier check of the proxy, so the registry is asked about all.
  for (const agent of agents) assertEquals((await validate(w, agent, agent.agentAuth.accessToken)).status, 401);
  const refresher = await refresh(w, speaker, speaker.agentAuth.refreshToken);
  const { error } = await refresher.json();
  assertEquals([refresher.status, error.code], [403, "ACCOUNT_SUSPENDED"]);
  assertMatch(error.message, /^\S+'s account is suspended\. Ask the administrator$/);
  const body = JSON.stringify({ initiatorProfile: { agentName: "a", humanName: "Bob" } });
  const pairing = await w.fetch(await w.signed(speaker, { target: "/pair/start", body }));
  assertEquals(await codeOf(pairing), "PROXY_PAIR_OWNERSHIP_FORBIDDEN");
  // The identities stay valid for others, and messages to the agents wait as for any offline agent.
  assertEquals((await w.ask("GET", "/v1/crl")).status, 404);
  assertEquals((await w.ask("GET", `/v1/resolve/${speaker.agent.id}`)).status, 200);

  assertEquals((await change(w, owner, "restore")).complete, true);
  for (const agent of agents) assertEquals((await validate(w, agent, agent.agentAuth.accessToken)).status, 204);
  assertEquals((await w.message(speaker, peer)).status, 202);
  assertEquals((await refresh(w, speaker, speaker.agentAuth.refreshToken)).status, 200);
});

Deno.test("a session that ended before or during the suspension is still ended after the restore", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const owner = await w.person();
  const [before, during, deleted, kept] = await w.agents(4, owner) as [TestAgent, TestAgent, TestAgent, TestAgent];
  await answered(await w.ask("DELETE", `/v1/agents/${before.agent.id}/auth/revoke`, owner), 204);
  await change(w, owner, "suspend");
  await answered(await w.ask("DELETE", `/v1/admin/agents/${during.agent.id}/auth/revoke`, admin), 204);
  await answered(await w.ask("DELETE", `/v1/admin/agents/${deleted.agent.id}`, admin), 204);
  // An admin would otherwise send the owner to reissue what the restore brings back.
  const { agents } = await answered<AdminAgentList>(await w.ask("GET", "/v1/admin/agents", admin));
  const shown = [before, during, kept].map(({ agent }) => agents.find(({ id }) => id === agent.id)?.session);
  assertEquals(shown, ["revoked", "revoked", "suspended"]);
  // A connector waits for a restore, and asks for a reissue when its own session has ended.
  const refusals = [before, during, deleted, kept].map(async (one) =>
    await outcome(await refresh(w, one, one.agentAuth.refreshToken))
  );
  const ended = "401 AGENT_AUTH_REFRESH_REVOKED";
  assertEquals(await Promise.all(refusals), [ended, ended, ended, "403 ACCOUNT_SUSPENDED"]);
  await change(w, owner, "restore");
  for (const agent of [before, during, deleted]) {
    const { status, suspended } = await sessionOf(w, agent);
    assertEquals([status, suspended], ["revoked", undefined]);
  }
  assertEquals((await sessionOf(w, kept)).status, "active");
  assertEquals((await refresh(w, kept, kept.agentAuth.refreshToken)).status, 200);
  assertEquals((await readCrl(w)).revocations.length, 1);
  assertEquals((await audit(w, "session.revoked")).map(({ actor }) => actor), [owner.did, admin.did]);
});

Deno.test("no admin can be suspended, and a change to the present status only records its reason", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  await refused(await w.ask("POST", `/v1/admin/people/${admin.id}/suspend`, admin), "ADMIN_SUSPEND_FORBIDDEN");
  assertEquals((await change(w, admin, "restore")).person.status, "active");
  const person = await w.person();
  await change(w, person, "restore");
  const first = await change(w, person, "suspend");
  await w.clock.advance(1_000);
  assertEquals(await change(w, person, "suspend", { reason: "again" }), first);
  await change(w, person, "suspend");
  assertEquals((await audit(w, "person.")).map(({ event, detail }) => [event, detail]), [
    ["person.suspended", undefined],
    ["person.suspended", "again"],
  ]);
  await change(w, person, "restore");
  assertMatch(expositionOf(w.metrics), /^svc_people_suspended_total 1$/m);
  await refused(await w.ask("POST", `/v1/admin/people/${w.newId()}/suspend`, admin), "PERSON_NOT_FOUND");
});

Deno.test("ten registrations and reissues against one suspension leave no live session", async () => {
  for (let seed = 1; seed <= 2; seed++) {
    await using w = await openRegistry({ ...AMPLE, seed });
    const owner = await w.person();
    const admin = await w.admin();
    const old = await Promise.all(Array.from({ length: 3 }, () => w.agent(owner)));
    const registrations = await Promise.all(Array.from({ length: 7 }, () => registration(w, owner)));
    const reissues = old.map(({ agent }) => () => w.ask("POST", `/v1/agents/${agent.id}/reissue`, owner));
    const suspension = () => w.ask("POST", `/v1/admin/people/${owner.id}/suspend`, admin);
    const calls: (() => Promise<Response>)[] = [...registrations, ...reissues];
    calls.splice(seed * 3, 0, suspension);
    const counts = await withTime(w, tally(calls.map((call) => call())));
    assertEquals(Object.keys(counts).filter((name) => !/^20[01]$|^403 ACCOUNT_SUSPENDED$/.test(name)), []);
    const ids = await Array.fromAsync(w.kv.list({ prefix: KEYS.agentsOf(owner.id) }), ({ key }) => String(key.at(-1)));
    const { "revoked, suspended": ended = 0, ...others } = await states(w, ids);
    assertEquals([ended, others], [ids.length, {}]);
  }
});

Deno.test("a suspension that is cut at any moment ends every session after the restart", async () => {
  for (let moment = 1; moment <= 20; moment += IS_LONG ? 1 : 5) {
    using faulty = await FaultyKv.open();
    await using w = await openRegistry({ ...AMPLE, kv: faulty.kv });
    const a = await w.agent();
    const { apiKey } = await w.admin();
    const ids = [a.agent.id, ...await copies(w, a, 49)];
    await flushTasks();
    let calls = 0;
    faulty.faults.fails = () => ++calls > moment * 2;
    // What a killed process has not answered is lost with it.
    const request = w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey }).catch(() => null);
    await flushTasks();
    w.registry.stop();
    const answer = await withTime(w, request);
    delete faulty.faults.fails;
    await restart(w);
    await until(async () => (await w.kv.get(KEYS.suspension(a.owner.id))).value === null);
    const { value: human } = await w.kv.get<HumanRecord>(KEYS.human(a.owner.id));
    const wanted = human?.status === "suspended" ? "revoked, suspended" : "active";
    assertEquals(await states(w, ids), { [wanted]: 50 }, `moment ${moment}`);
    if (answer?.status === 200) assertEquals(human?.status, "suspended");
  }
});

Deno.test("two registries that work on one person at once change each session once", async () => {
  await using w = await openRegistry(AMPLE);
  const a = await w.agent();
  const { apiKey } = await w.admin();
  const ids = [a.agent.id, ...await copies(w, a, 49)];
  await using other = await World.open({ ...AMPLE, kv: w.kv, clock: w.clock, seed: 9 });
  const path = `/v1/admin/people/${a.owner.id}`;
  for (const what of ["suspend", "restore", "suspend"]) {
    const both = Promise.all([
      w.ask("POST", `${path}/${what}`, { apiKey }),
      other.ask("POST", `${path}/${what}`, { apiKey }),
    ]);
    for (const answer of await withTime(w, both)) {
      assertEquals((await answered<SuspensionAnswer>(answer)).complete, true);
    }
    const wanted = what === "suspend" ? "revoked, suspended" : "active";
    assertEquals(await states(w, ids), { [wanted]: 50 });
  }
  assertEquals((await audit(w, "person.")).map(({ event }) => event), [
    "person.suspended",
    "person.restored",
    "person.suspended",
  ]);
});

Deno.test("forty suspensions and restores at once end in the status of the human record", async () => {
  await using w = await openRegistry(AMPLE);
  const a = await w.agent();
  const { apiKey } = await w.admin();
  const ids = [a.agent.id, ...await copies(w, a, 5)];
  const path = `/v1/admin/people/${a.owner.id}`;
  const calls = Array.from(
    { length: 40 },
    (_, i) => w.ask("POST", `${path}/${i % 3 === 0 ? "restore" : "suspend"}`, { apiKey }),
  );
  assertEquals(await withTime(w, tally(calls)), { 200: 40 });
  await until(async () => (await w.kv.get(KEYS.suspension(a.owner.id))).value === null);
  const { value: human } = await w.kv.get<HumanRecord>(KEYS.human(a.owner.id));
  assertEquals(await states(w, ids), { [human?.status === "active" ? "active" : "revoked, suspended"]: 6 });
  const events = (await audit(w, "person.")).map(({ event }) => event);
  assert(events.every((event, i) => event === (i % 2 === 0 ? "person.suspended" : "person.restored")), events.join());
});

Deno.test("ten requests for one suspension change the sessions in as many commits as one request", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv });
  const a = await w.agent();
  const { apiKey } = await w.admin();
  const ids = [a.agent.id, ...await copies(w, a, 49)];
  let commits = 0;
  faulty.faults.before = ({ method, keys }) => {
    if (method === "commit" && keys.some((key) => key[1] === "session")) commits++;
  };
  const path = `/v1/admin/people/${a.owner.id}/suspend`;
  const calls = Array.from({ length: 10 }, () => w.ask("POST", path, { apiKey }));
  for (const answer of await withTime(w, Promise.all(calls))) {
    assertEquals((await answered<SuspensionAnswer>(answer)).complete, true);
  }
  assertEquals(commits, 13);
  assertEquals(await states(w, ids), { "revoked, suspended": 50 });
});

Deno.test("twenty people with a hundred agents each are suspended at once without a failure, while lists are read", async () => {
  await using w = await openRegistry(AMPLE);
  const { apiKey } = await w.admin();
  const people: Person[] = [];
  for (let i = 0; i < 20; i++) {
    const a = await w.agent();
    people.push(a.owner);
    await copies(w, a, 99);
  }
  const suspensions = people.map(({ id }) => w.ask("POST", `/v1/admin/people/${id}/suspend`, { apiKey }));
  const lists = Array.from({ length: 20 }, () => w.ask("GET", "/v1/admin/agents?limit=100", { apiKey }));
  assertEquals(await withTime(w, tally([...suspensions, ...lists])), { "200": 40 });
  assertEquals(w.log.filter(({ event }) => event === "suspension_failed"), []);
});

Deno.test("the answer says that the work goes on when the sessions are not all changed after 5 s", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv });
  const a = await w.agent();
  const { apiKey } = await w.admin();
  faulty.faults.fails = ({ method, keys }) => method === "commit" && keys.some((key) => key[1] === "session");
  const request = w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey });
  const { complete } = await answered<SuspensionAnswer>(await withTime(w, request, 100));
  assertEquals([complete, (await sessionOf(w, a)).status], [false, "active"]);
  delete faulty.faults.fails;
  await w.clock.advance(2_000);
  await until(async () => (await sessionOf(w, a)).status === "revoked");
});

Deno.test("a suspension whose registry stops in the middle is finished by another one that runs", async () => {
  using faulty = await FaultyKv.open();
  await using other = await openRegistry({ ...AMPLE, kv: faulty.kv, seed: 2 });
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv, clock: other.clock });
  const a = await w.agent();
  const { apiKey } = await w.admin();
  faulty.faults.fails = ({ method, keys }) => method === "commit" && keys.some((key) => key[1] === "session");
  const request = w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey });
  assertEquals((await answered<SuspensionAnswer>(await withTime(w, request, 100))).complete, false);
  w.registry.stop();
  delete faulty.faults.fails;
  // The process of a registry does this once a minute.
  await other.registry.deps.suspensions.resume();
  assertEquals((await sessionOf(w, a)).status, "revoked");
  // What this means for the agent.
  assertEquals(await outcome(await refresh(other, a, a.agentAuth.refreshToken)), "403 ACCOUNT_SUSPENDED");
});

Deno.test("a commit of a suspension has at most six checks and announces its agents", async () => {
  using faulty = await FaultyKv.open({ maxChecks: 10 });
  await using w = await openRegistry({ ...AMPLE, kv: faulty.kv, maxChecks: 10 });
  const a = await w.agent();
  const ids = [a.agent.id, ...await copies(w, a, 24)];
  const commits: number[] = [];
  faulty.faults.before = ({ method, keys, checks }) => {
    if (method === "commit" && keys.some((key) => key[1] === "session")) commits.push(checks ?? 0);
  };
  await change(w, a.owner, "suspend");
  assertEquals([commits.length, Math.max(...commits)], [7, 6]);
  assertEquals(await states(w, ids), { "revoked, suspended": 25 });
  await change(w, a.owner, "restore");
  assertEquals(await states(w, ids), { active: 25 });
});

Deno.test("recovery makes a suspended admin active again, with its agents", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const a = await w.agent(admin);
  const second = await w.person();
  const { value: human } = await w.kv.get<HumanRecord>(KEYS.human(admin.id));
  await w.kv.set(KEYS.human(admin.id), { ...human, role: "user" });
  const { value: other } = await w.kv.get<HumanRecord>(KEYS.human(second.id));
  await w.kv.set(KEYS.human(second.id), { ...other, role: "admin" });
  const path = `/v1/admin/people/${admin.id}/suspend`;
  assertEquals(await outcome(await w.ask("POST", path, second)), "200");
  const recovered = await recoverAdmin({ ...w, maxChecks: MAX_CHECKS });
  await restart(w);
  await until(async () => (await sessionOf(w, a)).status === "active");
  assertEquals((await w.ask("GET", "/v1/me", { apiKey: recovered?.key.token })).status, 200);
});

Deno.test("the socket of an agent whose session its owner or an admin ends closes at once", async () => {
  await using w = await World.open({ ...AMPLE, sharedProcess: true });
  await w.proxy.start();
  const admin = await w.admin(), owner = await w.person(), peer = await w.agent();
  const [own, foreign, other] = await w.agents(3, owner) as [TestAgent, TestAgent, TestAgent];
  for (const agent of [own, foreign, other]) await w.pair(agent, peer);
  const [ofOwn, ofForeign, ofOther] = [own, foreign, other].map((agent) => w.connect(agent));
  await w.connected();
  await answered(await w.ask("DELETE", `/v1/agents/${own.agent.id}/auth/revoke`, owner), 204);
  await answered(await w.ask("DELETE", `/v1/admin/agents/${foreign.agent.id}/auth/revoke`, admin), 204);
  await until(() => ofOwn?.closed?.code === 4401 && ofForeign?.closed?.code === 4401);
  assertEquals(ofOther?.closed, null);
});
