/**
 * Shows what an admin reads and stops: people and agents page by page with any filter, one record with its
 * details, and the end of a foreign agent. Also odd queries, and that the owners' routes stay with the owners.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { AgentRecord, ApiKeyRecord, HumanRecord } from "../../../registry/schema/records.ts";
import type {
  AdminAgentAnswer,
  AdminAgentList,
  AdminCounts,
  PeopleList,
  PersonAnswer,
} from "../../../shared/protocol/api/admin.ts";
import {
  answered,
  auditEvents,
  openRegistry,
  outcome,
  pagesOf,
  readCrl,
  refreshed,
  refused,
  validate,
  writeRecords,
} from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { AMPLE_QUOTAS, codeOf, type World } from "../../support/world.ts";
import { owned, registration } from "../steps.ts";

const PEOPLE = 500;

/** Reads all pages of people that fit a query. */
const walk = (w: World, query: Record<string, string> = {}) =>
  pagesOf(w, "/v1/admin/people", "people", { limit: "100", ...query });

Deno.test("500 people page through completely, each once and newest first, with every filter", async () => {
  await using w = await openRegistry();
  const { id: adminId } = await w.admin();
  const people: HumanRecord[] = [];
  await writeRecords(w, PEOPLE, (operation, i) => {
    const id = w.newId();
    const isSuspended = i % 200 === 7;
    const human: HumanRecord = {
      id,
      did: `did:svc:registry.example.test:human:${id}`,
      displayName: `Person ${i}`,
      role: "user",
      status: isSuspended ? "suspended" : "active",
      createdAt: new Date(w.clock.now()).toISOString(),
      ...isSuspended ? { suspendedAt: new Date(w.clock.now()).toISOString() } : {},
    };
    people.push(human);
    operation.set(KEYS.human(id), human);
  });
  const newestFirst = people.map(({ id }) => id).reverse();
  const suspended = people.filter(({ status }) => status === "suspended").map(({ id }) => id).reverse();
  const all = await walk(w);
  assertEquals([all.flat(), all.length], [[...newestFirst, adminId], 6]);
  assertEquals((await walk(w, { status: "suspended" })).flat(), suspended);
  assertEquals((await walk(w, { role: "admin" })).flat(), [adminId]);
  assertEquals((await walk(w, { role: "admin", status: "suspended" })).flat(), []);
  assertEquals((await walk(w, { role: "user", status: "active" })).flat().length, PEOPLE - suspended.length);
  const { apiKey } = await w.admin();
  const first = await answered<PeopleList>(await w.ask("GET", "/v1/admin/people", { apiKey }));
  assertEquals([first.people.length, first.pagination.limit], [20, 20]);
});

Deno.test("a person is shown with active keys first, the number of its agents and the last use of a key", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const { apiKey } = await w.admin();
  const a = await w.agent(await w.person("Bob"));
  const gone = await w.agent(a.owner);
  await w.client.deleteAgent(a.owner.apiKey, gone.agent.id);
  for (let i = 0; i < 3; i++) {
    const { apiKey: key } = await w.client.createApiKey(a.owner.apiKey, `key ${i}`);
    await w.client.revokeApiKey(a.owner.apiKey, key.id);
  }
  const path = `/v1/admin/people/${a.owner.id}`;
  const { person, apiKeys, agents, lastUsedAt } = await answered<PersonAnswer>(await w.ask("GET", path, { apiKey }));
  assertEquals([person.displayName, person.role, person.status, person.suspendedAt], ["Bob", "user", "active", null]);
  assertEquals(apiKeys.map(({ status }) => status), ["active", "revoked", "revoked", "revoked"]);
  assertEquals(agents, { active: 1, revoked: 1 });
  assertEquals(lastUsedAt, apiKeys[0]?.lastUsedAt);
  assert(lastUsedAt !== null && !JSON.stringify(apiKeys).includes("svc_"));
  const { value: record } = await w.kv.get<AgentRecord>(KEYS.agent(gone.agent.id));
  await writeRecords(w, 1_000, (operation) => {
    const id = w.newId();
    operation.set(KEYS.agent(id), { ...record, id }).set(KEYS.agentOf(a.owner.id, id), w.clock.now());
  });
  const later = await answered<PersonAnswer>(await w.ask("GET", path, { apiKey }));
  assertEquals(later.agents, { active: 1, revoked: 1_000 }, "an active agent that is older than 1,000 others");
});

Deno.test("an active key is shown behind 1,000 newer revoked ones, to three who look at once", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const bob = await w.person("Bob");
  const [own] = await w.client.apiKeys(bob.apiKey);
  assert(own);
  await writeRecords(w, 1_000, (operation) => {
    const id = w.newId(), record: ApiKeyRecord = { ...own, id, status: "revoked", humanId: bob.id, digest: `of ${id}` };
    operation.set(KEYS.apiKey(record.digest), record).set(KEYS.apiKeyOf(bob.id, id), record.digest);
  });
  const reads = [1, 2, 3].map(() => w.ask("GET", `/v1/admin/people/${bob.id}`, { apiKey }));
  for (const read of reads) {
    const { apiKeys: [first, second] } = await answered<PersonAnswer>(await read);
    assertEquals([first?.id, first?.status, second?.status], [own.id, "active", "revoked"]);
  }
});

Deno.test("all agents are listed with their sessions, by status, framework and owner", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const [a, b] = [await w.agent(), await w.agent()];
  const other = await w.agent(a.owner);
  await w.client.deleteAgent(a.owner.apiKey, other.agent.id);
  await answered(await w.ask("DELETE", `/v1/agents/${b.agent.id}/auth/revoke`, b.owner), 204);
  const { value } = await w.kv.get<AgentRecord>(KEYS.agent(b.agent.id));
  assert(value);
  await w.kv.set(KEYS.agent(b.agent.id), { ...value, framework: "openclaw" });
  const { apiKey } = await w.admin();
  const list = async (query: string) => {
    const { agents } = await answered<AdminAgentList>(await w.ask("GET", `/v1/admin/agents?${query}`, { apiKey }));
    return agents.map(({ id, session }) => [id, session]);
  };
  const [ofA, ofB, ofOther] = [[a.agent.id, "active"], [b.agent.id, "revoked"], [other.agent.id, "revoked"]];
  assertEquals(await list(""), [ofOther, ofB, ofA]);
  assertEquals(await list("status=revoked"), [ofOther]);
  assertEquals(await list("framework=openclaw"), [ofB]);
  assertEquals(await list(`ownerId=${a.owner.id}`), [ofOther, ofA]);
  assertEquals(await list(`ownerId=${a.owner.id}&status=active`), [ofA]);
  assertEquals(await list(`ownerId=${w.newId()}`), []);
  const pages = await pagesOf(w, "/v1/admin/agents", "agents", { limit: "1" });
  assertEquals(pages.flat(), [other.agent.id, b.agent.id, a.agent.id]);
  await w.kv.delete(KEYS.session(a.agent.id));
  assertEquals(await list(`ownerId=${a.owner.id}&status=active`), [[a.agent.id, null]]);
});

Deno.test("agents whose identity ends within days are listed and counted, without those that are over or revoked", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const { apiKey } = await w.admin(), owner = await w.person();
  const make = async (ttlDays: number) => await w.agent(owner, undefined, undefined, { ttlDays });
  const [over, soon, later, gone] = [await make(1), await make(9), await make(10), await make(9)];
  await w.client.deleteAgent(owner.apiKey, gone.agent.id);
  const expiring = async (days: number) =>
    (await pagesOf(w, "/v1/admin/agents", "agents", { expiringDays: String(days), limit: "100" })).flat();
  // The clock stands, so all identities began at the same moment.
  await w.clock.advance(2 * 86_400_000);
  assertEquals(await expiring(7), [soon.agent.id]);
  assertEquals(await expiring(8), [later.agent.id, soon.agent.id]);
  const { expiring7d, agents } = await answered<AdminCounts>(await w.ask("GET", "/v1/admin/counts", { apiKey }));
  assertEquals([expiring7d, agents], [1, { active: 3, revoked: 1 }]);
  assert(over.agent.expiresAt < soon.agent.expiresAt);
});

Deno.test("a filtered list of all agents reads at most 1,000 records and goes on behind the last one read", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const a = await w.agent();
  const { value: record } = await w.kv.get<AgentRecord>(KEYS.agent(a.agent.id));
  await writeRecords(w, 1_500, (operation) => {
    const id = w.newId();
    operation.set(KEYS.agent(id), { ...record, id, status: "revoked" });
  });
  const { apiKey } = await w.admin();
  const path = "/v1/admin/agents?status=active";
  const first = await answered<AdminAgentList>(await w.ask("GET", path, { apiKey }));
  assertEquals(first.agents, []);
  const rest = `${path}&cursor=${first.pagination.nextCursor}`;
  const second = await answered<AdminAgentList>(await w.ask("GET", rest, { apiKey }));
  assertEquals([second.agents.map(({ id }) => id), second.pagination.nextCursor], [[a.agent.id], null]);
});

Deno.test("one agent is shown with its full record and the times of its session, without its tokens", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const a = await w.agent();
  const read = async () =>
    await answered<AdminAgentAnswer>(await w.ask("GET", `/v1/admin/agents/${a.agent.id}`, { apiKey }));
  const before = await read();
  assertEquals(before.agent, a.agent);
  assertEquals(before.session, {
    status: "active",
    accessExpiresAt: a.agentAuth.accessExpiresAt,
    refreshExpiresAt: a.agentAuth.refreshExpiresAt,
    refreshedAt: null,
  });
  await w.clock.advance(5_000);
  await refreshed(w, a, a.agentAuth.refreshToken);
  assertEquals((await read()).session?.refreshedAt, new Date(w.clock.now()).toISOString());
});

Deno.test("an admin deletes a foreign agent: its socket and requests end, the audit names the admin", async () => {
  await using w = await openRegistry({});
  await w.proxy.start();
  const { a, b, socket } = await w.story();
  const admin = await w.admin();
  await w.connected();
  assertEquals(await outcome(await w.ask("DELETE", `/v1/admin/agents/${b.agent.id}`, admin)), "204");
  await until(() => socket.closed !== null);
  assertEquals(socket.closed?.code, 4401);
  assertEquals((await w.message(b, a)).status, 401);
  const { agents } = await w.client.agents(b.owner.apiKey);
  assertEquals(agents.map(({ status }) => status), ["revoked"]);
  assertEquals((await readCrl(w)).revocations.map(({ jti, reason }) => [jti, reason]), [[
    b.agent.currentJti,
    "agent_deleted",
  ]]);
  const events = await auditEvents(w, "event=agent.deleted");
  assertEquals(events.map(({ actor, subject }) => [actor, subject]), [[admin.did, b.agent.did]]);
  await refused(await w.ask("DELETE", `/v1/admin/agents/${b.agent.id}`, admin), "AGENT_REVOKE_INVALID_STATE");
});

Deno.test("an admin's deletion frees the place of the owner, and counts as a revocation of the owner", async () => {
  await using w = await openRegistry({ registry: { quotas: { ...AMPLE_QUOTAS, agents: 1, revocations: 1 } } });
  const admin = await w.admin(), own = await w.agent(admin);
  const { agent, owner } = await w.agent();
  await answered(await w.ask("DELETE", `/v1/admin/agents/${agent.id}`, admin), 204);
  const { agents } = await answered<PersonAnswer>(await w.ask("GET", `/v1/admin/people/${owner.id}`, admin));
  assertEquals(agents, { active: 0, revoked: 1 });
  const next = await (await registration(w, owner))();
  assertEquals(await outcome(next), "409 QUOTA_EXCEEDED", "the list has as many entries of the owner as one may have");
  assertEquals(await outcome(await owned(w, "POST", own, "/reissue")), "200", "and none of the admin");
  assertEquals(await outcome(await (await registration(w, admin))()), "409 QUOTA_EXCEEDED");
});

Deno.test("an admin's end of a session is 204 in every state of the agent", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const a = await w.agent();
  const path = `/v1/admin/agents/${a.agent.id}/auth/revoke`;
  assertEquals(await outcome(await w.ask("DELETE", path, admin)), "204");
  assertEquals(await outcome(await validate(w, a, a.agentAuth.accessToken)), "401 AGENT_AUTH_VALIDATE_UNAUTHORIZED");
  assertEquals(await outcome(await w.ask("DELETE", path, admin)), "204");
  await w.client.deleteAgent(a.owner.apiKey, a.agent.id);
  assertEquals(await outcome(await w.ask("DELETE", path, admin)), "204");
  await w.kv.delete(KEYS.session(a.agent.id));
  assertEquals(await outcome(await w.ask("DELETE", path, admin)), "204");
  assertEquals((await auditEvents(w, "event=session.revoked")).length, 1);
});

Deno.test("odd filters, cursors and IDs of an admin are refused with the code of their route", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const long = "0".repeat(10_000);
  const pages = ["limit=0", "limit=101", "limit=", "cursor=x", `cursor=${long}`, "limit=1&limit=2"];
  const people = ["status=", "status=revoked", "role=root", "status=active&status=active", `role=${long}`];
  const agents = ["status=suspended", "framework=", `framework=${long}`, "ownerId=x", `ownerId=${long}`];
  const lists: [string, string[]][] = [["people", people], ["agents", agents]];
  for (const [list, filters] of lists) {
    for (const query of [...pages, ...filters]) {
      await refused(await w.ask("GET", `/v1/admin/${list}?${query}`, admin), "ADMIN_INVALID_QUERY");
    }
    for (const cursor of ["00000000000000000000000000", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"]) {
      assertEquals((await w.ask("GET", `/v1/admin/${list}?cursor=${cursor}`, admin)).status, 200);
    }
  }
  await refused(await w.ask("GET", `/v1/admin/people/${long}`, admin), "PERSON_NOT_FOUND");
  await refused(await w.ask("POST", `/v1/admin/people/${long}/suspend`, admin), "PERSON_NOT_FOUND");
  await refused(await w.ask("DELETE", `/v1/admin/agents/${long}`, admin), "AGENT_REVOKE_INVALID_PATH");
  assertEquals(await codeOf(await w.ask("GET", `/v1/admin/people/${admin.did}`, admin)), "PERSON_NOT_FOUND");
});

Deno.test("every admin's list refuses a parameter that it does not know, and names it and the known ones", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const lists: [path: string, code: string, known: string][] = [
    ["/v1/admin/people", "ADMIN_INVALID_QUERY", "name, status, role, limit, cursor"],
    ["/v1/admin/agents", "ADMIN_INVALID_QUERY", "status, framework, name, ownerId, expiringDays, limit, cursor"],
    ["/v1/admin/audit", "AUDIT_INVALID_QUERY", "event, actor, subject, since, until, order, limit, cursor"],
    ["/v1/admin/internal-services", "LIST_INVALID_QUERY", "limit, cursor"],
    ["/v1/invites", "LIST_INVALID_QUERY", "limit, cursor"],
  ];
  for (const [path, code, known] of lists) {
    const answer = await w.ask("GET", `${path}?limit=5&state=suspended`, admin);
    const { error } = await answer.json();
    assertEquals([answer.status, error.code], [400, code], path);
    assert(error.message.endsWith(`: the input may name only ${known}, and not "state"`), error.message);
    assertEquals((await w.ask("GET", `${path}?limit=5`, admin)).status, 200);
  }
  const { error } = await (await w.ask("GET", `/v1/admin/people?${"%0a".repeat(1_000)}=1`, admin)).json();
  assert(error.message.length < 250 && !error.message.includes("\n"), error.message);
});
