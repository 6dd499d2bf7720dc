/** The refusals that the proxy keeps for an admin: what each one says, how many there are, and what they never hold. */
import { assert, assertEquals } from "@std/assert";
import { GROUPS_MAX, Refusals, REFUSALS_PER_CODE } from "../../../proxy/admin/refusals.ts";
import type { RefusalList } from "../../../shared/protocol/api/relay_admin.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import type { RequestContext } from "../../../shared/server/http/route.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { refused } from "../../support/registry_world.ts";
import { PROXY_URL, type RequestParts, type World } from "../../support/world.ts";
import { openCast } from "../cast.ts";
import { aitWith, get, openProxy, restart, withAccess, withAit } from "../proxy_world.ts";
import { look, refusalsOf, seen, tokenOf } from "./admin_world.ts";

const numbered = (id: string) => ({ [HEADERS.requestId]: id });

Deno.test("a refusal has time, request, code, check, method, route and verified agent", async () => {
  const { w, a, b } = await openCast();
  await using _ = w;
  const c = await w.agent();
  const used = { nonce: "nonce-of-the-request" };
  await w.message(a, b, used);
  const expired = withAit(a, await aitWith(w, a, { iat: 100, nbf: 100, exp: 86_500 }));
  const wrong: [check: number | null, parts: RequestParts, who?: typeof a][] = [
    [1, { headers: { Authorization: null } }],
    [2, {}, expired],
    [3, { timestamp: "1" }],
    [4, { signed: { target: "/other" } }],
    [5, used],
    [7, {}, c],
    [8, {}, withAccess(a, "svc_agt_x")],
    [null, { headers: { "Content-Type": "text/plain" } }],
  ];
  for (const [i, [check, parts, who = a]] of wrong.entries()) {
    const id = `refused-${i}`;
    const answer = await w.message(who, b, { ...parts, headers: { ...numbered(id), ...parts.headers } });
    const { error: { code } } = await answer.json() as { error: { code: string } };
    const agentDid = check === 1 ? null : who.agent.did;
    assertEquals(await refusalsOf(w, `?requestId=${id}`), [{
      at: toIso(w.clock.now()),
      requestId: id,
      code,
      check,
      method: "POST",
      route: "/hooks/agent",
      agentDid,
    }]);
  }
  const ofAgent = await refusalsOf(w, `?agentDid=${c.agent.did}`);
  assertEquals(ofAgent.map(({ check }) => check), [7]);
});

Deno.test("a refusal of a full window and of a revoked token name their checks", async () => {
  const { w, a, b } = await openCast({ proxy: { agentRequests: 1 } });
  await using _ = w;
  await w.message(a, b);
  await refused(await w.message(a, b, { headers: numbered("request-9") }), "PROXY_RATE_LIMIT_EXCEEDED");
  assertEquals((await refusalsOf(w, "?requestId=request-9")).map(({ check }) => check), [9]);
  await w.client.reissueAgent(a.owner.apiKey, a.agent.id);
  await w.proxy.deps.crl.refresh();
  await refused(await w.message(a, b, { headers: numbered("request-6") }), "PROXY_AUTH_REVOKED");
  assertEquals((await refusalsOf(w, "?requestId=request-6")).map(({ check }) => check), [6]);
});

Deno.test("a flood of one code leaves the refusals of the others, newest first", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  await w.fetch(`${PROXY_URL}/nowhere`, { headers: numbered("the-first") });
  await get(w, withAit(a, "junk"), "/pair/peers");
  const flood = 10 * REFUSALS_PER_CODE;
  for (let i = 0; i < flood; i++) {
    await w.fetch(`${PROXY_URL}/pair/peers`, { headers: numbered(`flood-${i}`) });
  }
  const all = await refusalsOf(w, "?limit=100");
  const of = (code: string) => all.filter((one) => one.code === code).map(({ requestId }) => requestId);
  assertEquals(of("NOT_FOUND"), ["the-first"]);
  assertEquals(of("PROXY_AUTH_INVALID_AIT").length, 1);
  const newest = Array.from({ length: REFUSALS_PER_CODE }, (_, i) => `flood-${flood - 1 - i}`);
  assertEquals(of("PROXY_AUTH_MISSING_TOKEN"), newest);
  assertEquals((await refusalsOf(w)).map(({ requestId }) => requestId), newest.slice(0, 20));
});

Deno.test("refusals hold nothing of a path, a query, a header or a method, and no secret of a request ID", async () => {
  await using w = await openProxy();
  const secrets = ["svc_pat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "svc_inv_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"];
  for (const secret of secrets) {
    await w.fetch(`${PROXY_URL}/nowhere/${secret}?key=${secret}`, { headers: numbered(secret) });
    await w.fetch(`${PROXY_URL}/pair/peers?key=${secret}`, { headers: numbered(`x:${secret}:y`) });
    await w.fetch(`${PROXY_URL}/pair/peers`, { method: secret, headers: { Authorization: `Svc ${secret}` } });
    await look(w, `refusals?requestId=${secret}&agentDid=${secret}`, await tokenOf(w));
    await look(w, "refusals", secret);
  }
  const list = await seen<RefusalList>(w, "refusals?limit=100");
  const text = JSON.stringify(list);
  for (const secret of secrets) assert(!text.includes(secret.slice(0, 20)), text);
  assert(list.refusals.some(({ requestId }) => requestId === "[redacted]"));
  assertEquals(new Set(list.refusals.map(({ method }) => method)), new Set(["GET", "other"]));
  assertEquals(
    new Set(list.refusals.map(({ route }) => route)),
    new Set([null, "/pair/peers", "/v1/admin/relay/refusals"]),
  );
  const answer = await look(w, `deliveries?requestId=${secrets[0]}`, await tokenOf(w));
  assertEquals(await answer.text(), '{"deliveries":[]}');
});

Deno.test("refusals are counted by code and agent in this hour and the one before, a thousand pairs in each", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  const grouped = async () => {
    const { groups } = await seen<RefusalList>(w, "refusals?group=agent&limit=1");
    assert(groups);
    return { ...groups, byAgent: groups.byAgent.map(({ code, agentDid, count }) => [code, agentDid, count]) };
  };
  for (let i = 0; i < 3; i++) await w.message(a, await w.agent());
  await w.fetch(`${PROXY_URL}/pair/peers`);
  const ofA = ["PROXY_AUTH_FORBIDDEN", a.agent.did, 3], unknown = ["PROXY_AUTH_MISSING_TOKEN", null, 1];
  assertEquals(await grouped(), { since: toIso(w.proxy.deps.refusals.since), byAgent: [ofA, unknown], others: 0 });
  w.clock.step(3_600_000);
  await w.fetch(`${PROXY_URL}/pair/peers`);
  assertEquals((await grouped()).byAgent, [ofA, ["PROXY_AUTH_MISSING_TOKEN", null, 2]]);
  const ask = (agentDid: string) =>
    ({ request: new Request(PROXY_URL), requestId: "request-1", agentDid }) as RequestContext;
  const many = new Refusals(w.clock);
  for (let i = 0; i < GROUPS_MAX + 5; i++) many.record("PROXY_AUTH_REPLAY", ask(`agent ${i}`));
  assertEquals([many.byAgent().byAgent.length, many.byAgent().others], [GROUPS_MAX, 5]);
  w.clock.step(2 * 3_600_000);
  assertEquals([many.byAgent().byAgent, (await grouped()).byAgent], [[], []]);
});

Deno.test("refusals end with the process, and the answer says since when they are kept", async () => {
  await using w = await openProxy();
  const began = toIso(w.clock.now());
  await w.clock.advance(5_000);
  await w.fetch(`${PROXY_URL}/nowhere`);
  const before = await seen<RefusalList>(w, "refusals");
  assertEquals([before.refusals.length, before.since, before.instance], [1, began, w.proxy.deps.presence.instance]);
  await restart(w);
  const after = await seen<RefusalList>(w, "refusals");
  assertEquals([after.refusals, after.since], [[], toIso(w.clock.now())]);
});

Deno.test("the query of the refusals is refused when it does not fit", async () => {
  await using w = await openProxy();
  const token = await tokenOf(w);
  const did = (await w.agent()).agent.did;
  const queries = [
    "limit=0",
    "limit=101",
    "requestId=x",
    `requestId=${"x".repeat(10_000)}`,
    "agentDid=x",
    `agentDid=${"x".repeat(10_000)}`,
    `agentDid=did:svc:${"a.".repeat(2_000)}a:agent:01KHYQ5H00AAAAAAAAAAAAAAAA`,
    `agentDid=${did}&agentDid=${did}`,
    `agentDid=${did.replace("agent", "human")}`,
  ];
  const answers = async (w: World, query: string) =>
    await refused(await look(w, `refusals?${query}`, token), "PROXY_ADMIN_INVALID_QUERY");
  for (const query of queries) assert((await answers(w, query)).length < 1_000);
});
