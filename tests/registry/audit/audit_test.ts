/**
 * Shows the audit log: every listed event has actor, action, time and request, newest first, in pages, for admins only,
 * and without a secret.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { ADM, parseShortToken } from "../../../shared/protocol/signed/short_token.ts";
import { AUDIT_EVENTS } from "../../../shared/protocol/api/audit.ts";
import type { AuditList } from "../../../shared/protocol/api/audit.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import {
  answered,
  openRegistry,
  pagesOf,
  refresh,
  refused,
  withTime,
  writeRecords,
} from "../../support/registry_world.ts";
import { AMPLE_QUOTAS, BOOTSTRAP_SECRET, type World } from "../../support/world.ts";

async function page(w: World, query = "limit=100"): Promise<AuditList> {
  return await answered<AuditList>(
    await w.ask("GET", `/v1/admin/audit?${query}`, { apiKey: (await w.admin()).apiKey }),
  );
}

/** Does one thing of each kind, each in a request with its own ID. */
async function playEverything(
  w: World,
): Promise<{ wanted: [event: string, actor: string, subject: string, requestId: string][]; token: string }> {
  const wanted: [string, string, string, string][] = [];
  let n = 0;
  const next = () => ({ "x-request-id": `request-${++n}` });
  const note = (event: string, actor: string, subject: string) => wanted.push([event, actor, subject, `request-${n}`]);

  const boot = await w.ask("POST", "/v1/admin/bootstrap", {
    headers: { ...next(), "x-bootstrap-secret": BOOTSTRAP_SECRET },
  });
  const { human: admin, apiKey: { token: adminKey } } = await answered<
    { human: { did: string }; apiKey: { token: string } }
  >(boot, 201);
  note("admin.bootstrapped", admin.did, admin.did);
  // The world's own admin is this one.
  w.admin = () => Promise.resolve({ id: "", did: admin.did, apiKey: adminKey });
  const ask = async <T>(
    method: string,
    path: string,
    apiKey: string | undefined,
    status: number,
    body?: unknown,
  ): Promise<T> => await answered<T>(await w.ask(method, path, { apiKey, body, headers: next() }), status);

  const kept = await ask<{ invite: { id: string; code: string } }>("POST", "/v1/invites", adminKey, 201);
  note("invite.created", admin.did, kept.invite.id);
  const dropped = await ask<{ invite: { id: string } }>("POST", "/v1/invites", adminKey, 201);
  note("invite.created", admin.did, dropped.invite.id);
  await ask("DELETE", `/v1/invites/${dropped.invite.id}`, adminKey, 204);
  note("invite.deleted", admin.did, dropped.invite.id);
  const { human, apiKey } = await ask<{ human: { did: string }; apiKey: { token: string } }>(
    "POST",
    "/v1/invites/redeem",
    undefined,
    201,
    { code: kept.invite.code },
  );
  note("invite.redeemed", human.did, kept.invite.id);
  const further = await ask<{ apiKey: { id: string } }>("POST", "/v1/me/api-keys", apiKey.token, 201);
  note("api_key.created", human.did, further.apiKey.id);
  await ask("DELETE", `/v1/me/api-keys/${further.apiKey.id}`, apiKey.token, 204);
  note("api_key.revoked", human.did, further.apiKey.id);

  const a = await w.agent(
    { id: "", did: human.did, apiKey: apiKey.token },
    "alpha",
    await keyPairFromSeed(w.random.bytes(32)),
  );
  wanted.push(["agent.registered", human.did, a.agent.did, ""]);
  const rotate = async (refreshToken: string, recovery = false) => {
    await w.clock.advance(1000);
    const answer = await refresh(w, a, refreshToken, { recovery, headers: next() });
    return (await answered<{ agentAuth: { refreshToken: string } }>(answer)).agentAuth.refreshToken;
  };
  const one = await rotate(a.agentAuth.refreshToken);
  note("session.refreshed", a.agent.did, a.agent.did);
  await w.clock.advance(1000);
  const two = await rotate(a.agentAuth.refreshToken, true);
  note("session.recovered", a.agent.did, a.agent.did);
  await rotate(two);
  note("session.refreshed", a.agent.did, a.agent.did);
  await refused(await refresh(w, a, a.agentAuth.refreshToken, { headers: next() }), "AGENT_AUTH_REFRESH_INVALID", 401);
  note("session.reuse_detected", a.agent.did, a.agent.did);
  assert(one);
  await ask("POST", `/v1/agents/${a.agent.id}/reissue`, apiKey.token, 200);
  note("agent.reissued", human.did, a.agent.did);
  await ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, apiKey.token, 204);
  note("session.revoked", human.did, a.agent.did);
  await ask("DELETE", `/v1/agents/${a.agent.id}`, apiKey.token, 204);
  note("agent.deleted", human.did, a.agent.did);

  const person = `/v1/admin/people/${human.did.split(":").at(-1)}`;
  await ask("POST", `${person}/suspend`, adminKey, 200, { reason: "a test" });
  note("person.suspended", admin.did, human.did);
  await ask("POST", `${person}/restore`, adminKey, 200);
  note("person.restored", admin.did, human.did);

  const services = "/v1/admin/internal-services";
  const service = await ask<{ internalService: { id: string } }>("POST", services, adminKey, 201, {
    name: "relay",
    scopes: ["crl.read"],
  });
  note("service.created", admin.did, service.internalService.id);
  await ask("POST", `${services}/${service.internalService.id}/rotate`, adminKey, 200);
  note("service.rotated", admin.did, service.internalService.id);
  await ask("DELETE", `${services}/${service.internalService.id}`, adminKey, 204);
  note("service.deleted", admin.did, service.internalService.id);
  const { kid } = await ask<{ kid: string }>("POST", "/v1/admin/keys/rotate", adminKey, 200);
  note("signing_key.rotated", admin.did, kid);
  const { token } = await ask<{ token: string }>("POST", "/v1/admin/tokens", adminKey, 201);
  note("admin.token_issued", admin.did, JSON.parse(parseShortToken(ADM, token).payloadJson).jti);
  return { wanted, token };
}

Deno.test("the audit log holds actor, action, target and request of every event, newest first", async () => {
  await using w = await openRegistry();
  const { wanted, token } = await playEverything(w);
  const { events } = await page(w);
  assert(!JSON.stringify(events).includes(token.slice(0, 20)), "a token is in the log");
  const noted = events.toReversed().map(({ event, actor, subject, requestId }) => [event, actor, subject, requestId]);
  // The client sends the registration, which leaves the request ID to the registry.
  const known = noted.map((row) => row[0] === "agent.registered" ? [...row.slice(0, 3), ""] : row);
  assertEquals(known, wanted);
  // Recovery works on the store, without a request: accounts_test.ts shows its event, and console_test.ts that of the console.
  assertEquals(new Set(noted.map(([event]) => event)).size, AUDIT_EVENTS.length - 2);
  const ids = events.map(({ id }) => id);
  assertEquals(ids, [...new Set(ids)].sort().reverse());
  const times = events.map(({ at }) => Date.parse(at));
  assertEquals(times, times.toSorted((a, b) => b - a));
  assertEquals(times[0], w.clock.now());
});

Deno.test("a refused request writes no audit event", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const { apiKey } = a.owner;
  const before = await page(w);
  await refused(await w.ask("POST", "/v1/invites", { apiKey }), "INVITE_CREATE_FORBIDDEN");
  await refused(
    await w.ask("POST", "/v1/invites/redeem", { body: { code: "svc_inv_unknown" } }),
    "INVITE_REDEEM_CODE_INVALID",
  );
  await refused(await w.ask("POST", "/v1/me/api-keys", { apiKey, body: "[]" }), "API_KEY_CREATE_INVALID");
  await refused(await refresh(w, a, "unknown"), "AGENT_AUTH_REFRESH_INVALID", 401);
  await refused(await w.ask("DELETE", `/v1/agents/${w.newId()}`, { apiKey }), "AGENT_NOT_FOUND");
  assertEquals(await page(w), before);
});

Deno.test("the audit log accepts only a valid filter and order", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  for (
    const query of [
      "event=",
      "event=agent",
      "event=agent.unknown",
      "event=.",
      `event=${"a".repeat(10_000)}.`,
      "actor=",
      `actor=${"a".repeat(201)}`,
      `subject=${"a".repeat(10_000)}`,
      "since=yesterday",
      "since=2026-02-30T00:00:00Z",
      "until=",
      "order=up",
    ]
  ) {
    await refused(await w.ask("GET", `/v1/admin/audit?${query}`, { apiKey: admin.apiKey }), "AUDIT_INVALID_QUERY");
  }
});

Deno.test("the audit log's pages have no gap and no duplicate while events are added", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const { apiKey } = await w.person();
  for (let i = 0; i < 20; i++) await answered(await w.ask("POST", "/v1/me/api-keys", { apiKey }), 201);
  const before = (await page(w)).events.map(({ id }) => id);
  const walked: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const query: string = `limit=7${cursor && `&cursor=${cursor}`}`;
    const [{ events, pagination }] = await withTime(
      w,
      Promise.all([page(w, query), w.ask("POST", "/v1/me/api-keys", { apiKey })]),
    );
    assertEquals(pagination.limit, 7);
    walked.push(...events.map(({ id }) => id));
    cursor = pagination.nextCursor;
  }
  assertEquals(walked.slice(-before.length), before);
  assertEquals(new Set(walked).size, walked.length);
  assertEquals((await page(w, "")).pagination.limit, 100);
});

Deno.test("the audit log is filtered by event, group, actor, subject and time, in both orders", async () => {
  await using w = await openRegistry();
  await playEverything(w);
  const { events } = await page(w);
  const until = w.clock.now();
  await w.clock.advance(10_000);
  const admin = await w.admin();
  await answered(await w.ask("POST", "/v1/invites", admin), 201);
  const newest = (await page(w)).events.slice(0, 1);
  const ids = async (query: string) => (await page(w, query)).events.map(({ id }) => id);
  const wanted = (fits: (event: AuditList["events"][number]) => boolean) => events.filter(fits).map(({ id }) => id);
  assertEquals(await ids("event=agent.deleted"), wanted(({ event }) => event === "agent.deleted"));
  const ofAgents = wanted(({ event }) => event.startsWith("agent."));
  assertEquals(await ids("event=agent."), ofAgents);
  assertEquals(await ids("event=agent.&order=asc"), ofAgents.toReversed());
  const [deleted] = events.filter(({ event }) => event === "agent.deleted");
  assert(deleted);
  assertEquals(await ids(`subject=${deleted.subject}`), wanted(({ subject }) => subject === deleted.subject));
  assertEquals(await ids(`actor=${deleted.actor}`), wanted(({ actor }) => actor === deleted.actor));
  assertEquals((await page(w, "event=person.suspended")).events[0]?.detail, "a test");
  const edge = new Date(until + 5_000).toISOString();
  assertEquals(await ids(`since=${edge}`), newest.map(({ id }) => id));
  assertEquals(await ids(`until=${edge}`), events.map(({ id }) => id));
  assertEquals(await ids(`since=${edge}&until=${edge}`), []);
  assertEquals(await ids(`since=2030-01-01T00:00:00Z&until=2001-01-01T00:00:00Z&order=asc`), []);
  const at = encodeURIComponent(deleted.at);
  assertEquals(
    await ids(`since=${at}&order=asc`),
    [...events.filter((one) => one.at >= deleted.at).reverse(), ...newest].map(({ id }) => id),
  );
  assertEquals(await ids(`until=${at}`), wanted((one) => one.at < deleted.at));
});

Deno.test("pages of the audit log hold each entry once in both orders and with a rare filter", async () => {
  await using w = await openRegistry();
  const ids: string[] = [];
  await writeRecords(w, 2_200, (operation, i) => {
    const event = i % 1_050 === 5 ? "agent.deleted" : "session.refreshed";
    const id = w.newId();
    const at = new Date(w.clock.now()).toISOString();
    operation.set(KEYS.audit(id), { id, at, event, actor: "a", subject: "s", requestId: "request" });
    if (event === "agent.deleted") ids.push(id);
    if (i % 200 === 199) w.clock.step(1_000);
  });
  const walk = (query: Record<string, string>) => pagesOf(w, "/v1/admin/audit", "events", query);
  assertEquals((await walk({ event: "agent." })).flat(), ids.toReversed());
  assertEquals((await walk({ event: "agent.", order: "asc", limit: "1" })).flat(), ids);
  assertEquals(await walk({ event: "service." }), [[], [], []]);
  const all = (await walk({ order: "asc", actor: "a" })).flat();
  assertEquals([all.length, new Set(all).size, all.toSorted()], [2_200, 2_200, all]);
});

Deno.test("a page up to a time has the events after a step back of the clock, whose IDs are later than they are", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  await answered(await w.ask("POST", "/v1/invites", admin), 201);
  w.clock.step(-1_800_000);
  const { invite } = await answered<{ invite: { id: string } }>(await w.ask("POST", "/v1/invites", admin), 201);
  const until = new Date(w.clock.now() + 1_000).toISOString();
  const { events } = await page(w, `event=invite.&until=${until}`);
  assertEquals(events.map(({ subject }) => subject), [invite.id]);
});
