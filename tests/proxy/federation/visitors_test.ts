/**
 * Shows how an agent of another registry writes to an agent of this server (D-280, D-282): its registry is asked only when
 * it has business here, every check holds for it, and a local message never waits for another server.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { PairRecord } from "../../../proxy/schema/records.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { parseAit, readAitClaims } from "../../../shared/protocol/signed/ait.ts";
import { expositionOf } from "../../../shared/server/metrics/metrics.ts";
import { type ForeignAgent, ForeignIssuer } from "../../support/foreign_issuer.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered, outcome } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { PROXY_URL, type TestAgent, type WorldOptions } from "../../support/world.ts";
import { look, tokenOf } from "../admin/admin_world.ts";
import { get, openProxy, post, PROFILE, restart, ticketOf } from "../proxy_world.ts";
import { inWorld } from "../cast.ts";
import { cast, confirm, keyedTicket, keyOf, send, THEIRS } from "./visitor_cast.ts";

async function paired(options: WorldOptions = {}) {
  const all = await cast(options);
  const { w, alpha, beta } = all;
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  return all;
}

type Run = (all: Awaited<ReturnType<typeof paired>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(paired, run));

Deno.test("an agent of another registry pairs with a ticket, writes, and is answered at its own proxy only", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  const socket = w.connect(alpha);
  await w.connected();
  assertEquals(await outcome(await send(w, beta, alpha)), "401 PROXY_AUTH_INVALID_AIT");
  const body = JSON.stringify({ ticket: await keyedTicket(w, alpha) });
  assertEquals(
    await outcome(await w.message(beta as unknown as TestAgent, alpha, { body })),
    "401 PROXY_AUTH_INVALID_AIT",
    "a ticket counts only where tickets are confirmed",
  );
  assertEquals(b.asked, [], "nothing is asked for an agent without business here");
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  await flushTasks();
  const paired = socket.frames.find((frame) => frame.type === "paired");
  assertEquals([paired?.peerAgentDid, paired?.proxy], [beta.agent.did, "https://relay.b.example"]);
  assertEquals(b.asked, ["/.well-known/svc-keys.json", "/v1/crl"]);
  assertEquals(await outcome(await send(w, beta, alpha)), "202");
  const { identity } = socket.delivered[0] ?? {};
  assertEquals([identity?.agentDid, identity?.issuer, identity?.ownerDid], [beta.agent.did, b.origin, beta.ownerDid]);
  const { peers } = await answered<{ peers: Record<string, unknown>[] }>(await get(w, alpha, "/pair/peers"));
  assertEquals(peers.map(({ agentDid, proxy, online, lastSeenAt }) => ({ agentDid, proxy, online, lastSeenAt })), [{
    agentDid: beta.agent.did,
    proxy: "https://relay.b.example",
    online: null,
    lastSeenAt: null,
  }]);
  assertEquals(await outcome(await w.message(alpha, beta as unknown as TestAgent)), "400 PROXY_HOOK_RECIPIENT_INVALID");
  assertEquals(b.asked.length, 2, "the documents are kept");
  const counted = expositionOf(w.metrics);
  assertStringIncludes(counted, 'svc_relay_messages_total{outcome="delivered",origin="foreign"} 1\n');
  assertStringIncludes(counted, 'svc_refusals_total{code="PROXY_AUTH_INVALID_AIT",check="1",origin="foreign"} 2\n');
});

test("a registry speaks for no agent of another one, also with the same ID, and shares nothing with it", async ({ w, b, alpha }) => {
  const gamma = await w.agent(), socket = w.connect(alpha);
  await w.pair(gamma, alpha);
  await w.connected();
  const dids = [alpha.agent.did, gamma.agent.did, "did:svc:c.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA"];
  for (const did of dids) {
    const forged = await b.agent("forged", PROXY_URL, { did });
    assertEquals(await outcome(await send(w, forged, alpha)), "401 PROXY_AUTH_INVALID_AIT", did);
  }
  // The ID and the token's ID of gamma, at its own authority: another agent, with nonces and limits of its own.
  const did = `did:svc:b.example:agent:${gamma.agent.did.split(":").at(-1)}`;
  const twin = await b.agent("twin", PROXY_URL, { did, jti: readAitClaims(parseAit(gamma.identity.ait)).jti });
  assertEquals(await outcome(await send(w, twin, alpha)), "401 PROXY_AUTH_INVALID_AIT", "gamma's pair is not its own");
  await answered(await confirm(w, twin, await keyedTicket(w, alpha)), 201);
  assertEquals(await outcome(await send(w, twin, alpha)), "202");
  b.revoke(twin);
  const asked = Promise.withResolvers<null>();
  b.answer = (request) => request.url.endsWith("/v1/crl") ? asked.promise : null;
  w.clock.step(61_000);
  assertEquals(await outcome(await send(w, twin, alpha)), "202", "while the list is read again");
  asked.resolve(null);
  await until(async () => (await w.kv.get(KEYS.pair(alpha.agent.did, did))).value === null);
  assertEquals(await outcome(await send(w, twin, alpha)), "401 PROXY_AUTH_INVALID_AIT", "its pair has ended");
  assertEquals(await outcome(await w.message(gamma, alpha)), "202");
  assertEquals(socket.delivered.at(-1)?.identity?.agentDid, gamma.agent.did);
});

Deno.test("agents of two servers prove their keys when they pair, and the same confirmation gets the same answer", async () => {
  const { w, alpha, beta } = await cast();
  await using _ = w;
  const ticket = await keyedTicket(w, alpha);
  assertEquals(await outcome(await confirm(w, beta, ticket, false)), "400 PROXY_PAIR_INVALID_BODY");
  const initiatorKey = await keyOf(alpha, "initiator", alpha.agent.did);
  const responderKey = await keyOf(beta, "responder", beta.agent.did);
  const first = await answered<Record<string, unknown>>(await confirm(w, beta, ticket), 201);
  assertEquals(first.initiatorKey, initiatorKey);
  assertEquals(await answered(await confirm(w, beta, ticket), 201), first);
  const status = await answered<Record<string, unknown>>(await post(w, alpha, "/pair/status", { ticket }));
  assertEquals([status.initiatorKey, status.responderKey], [initiatorKey, responderKey]);
});

test("a visiting agent may send, ask for its receipts and deliveries, and end its pair, and nothing else", async ({ w, alpha, beta }) => {
  const visitor = beta as unknown as TestAgent;
  const query = `?requestId=${w.newId()}&recipientAgentDid=${encodeURIComponent(alpha.agent.did)}`;
  assertEquals(await outcome(await get(w, visitor, `/v1/relay/delivery-receipts${query}`)), "200");
  assertEquals(
    await outcome(
      await post(w, visitor, "/v1/relay/deliveries", {
        messages: [{ requestId: w.newId(), recipientAgentDid: alpha.agent.did }],
      }),
    ),
    "200",
  );
  const closed: [string, unknown][] = [
    ["/pair/start", { initiatorProfile: PROFILE }],
    ["/pair/status", { ticket: "x" }],
    ["/pair/accept", {}],
    ["/v1/relay/delivery-receipts", {}],
  ];
  for (const [path, body] of closed) {
    assertEquals(await outcome(await post(w, visitor, path, body)), "401 PROXY_AUTH_INVALID_AIT", path);
  }
  for (const path of ["/pair/peers", "/v1/relay/connect"]) {
    assertEquals(await outcome(await get(w, visitor, path)), "401 PROXY_AUTH_INVALID_AIT", path);
  }
  assertEquals(await outcome(await post(w, visitor, "/pair/remove", { peerAgentDid: alpha.agent.did })), "204");
  assertEquals(await outcome(await send(w, beta, alpha)), "401 PROXY_AUTH_INVALID_AIT");
});

test("a visit token counts for one agent, one identity token, one proxy and five minutes", async ({ w, b, alpha, beta }) => {
  w.connect(alpha);
  await w.connected();
  const other = await b.agent("gamma"), here = w.clock.now();
  const at = Math.floor(here / 1000);
  const bad: Record<string, string> = {
    "of another agent": other.identity.accessToken,
    "of another agent, for this identity token": await b.visit(other, {
      aitJti: readAitClaims(parseAit(beta.identity.ait)).jti,
    }),
    "for another identity token": await b.visit(beta, { aitJti: w.newId() }),
    "for another proxy": await b.visit(beta, { aud: "https://c.example" }),
    "expired": await b.visit(beta, { iat: at - 301 }),
    "ahead": await b.visit(beta, { iat: at + 120 }),
    "the identity token": beta.identity.ait,
    "with a proxy that is no https name": await b.visit(beta, { proxy: "https://10.0.0.1" }),
    "text": "abc",
  };
  for (const [name, token] of Object.entries(bad)) {
    assertEquals(
      await outcome(await send(w, beta, alpha, { [HEADERS.access]: token })),
      "401 PROXY_AGENT_ACCESS_INVALID",
      name,
    );
  }
  assertEquals(
    await outcome(await send(w, beta, alpha, { [HEADERS.access]: null })),
    "401 PROXY_AGENT_ACCESS_REQUIRED",
  );
  assertEquals(await outcome(await send(w, beta, alpha)), "202");
  w.clock.step((at + 299) * 1000 - here);
  assertEquals(await outcome(await send(w, beta, alpha)), "202");
  w.clock.step(1_000);
  assertEquals(await outcome(await send(w, beta, alpha)), "401 PROXY_AGENT_ACCESS_INVALID", "a kept one ends too");
  const moved = await b.visit(beta, { proxy: "https://new.b.example" });
  const pairOf = () => w.kv.get<{ proxy: string }>(KEYS.pair(alpha.agent.did, beta.agent.did));
  assertEquals(await outcome(await send(w, beta, alpha, { [HEADERS.access]: moved })), "202");
  const pair = await pairOf();
  assertEquals(pair.value?.proxy, "https://new.b.example", "the pair follows where the agent lives");
  assertEquals(await outcome(await send(w, beta, alpha, { [HEADERS.access]: moved })), "202");
  assertEquals((await pairOf()).versionstamp, pair.versionstamp, "and is not written again");
});

test("a revocation at home ends an agent here within a minute of its next message, with its pairs", async ({ w, b, alpha, beta }) => {
  w.connect(alpha);
  await w.connected();
  b.revoke(beta);
  assertEquals(await outcome(await send(w, beta, alpha)), "202", "the list is fresh");
  w.clock.step(61_000);
  await send(w, beta, alpha);
  await flushTasks();
  assert(["401 PROXY_AUTH_REVOKED", "401 PROXY_AUTH_INVALID_AIT"].includes(await outcome(await send(w, beta, alpha))));
  await flushTasks();
  assertEquals((await w.kv.get(KEYS.pair(alpha.agent.did, beta.agent.did))).value, null);
});

test("while an issuer is down its agents go on for ten minutes, then they are told which one it is", async ({ w, b, alpha, beta }) => {
  w.connect(alpha);
  await w.connected();
  b.answer = () => Promise.reject(new TypeError("down"));
  const fresh = async () => ({ [HEADERS.access]: await b.visit(beta) });
  for (const ms of [120_000, 240_000, 200_000]) {
    w.clock.step(ms);
    assertEquals(await outcome(await send(w, beta, alpha, await fresh())), "202");
    await flushTasks();
  }
  w.clock.step(120_000);
  const late = await send(w, beta, alpha, await fresh());
  const text = await late.text();
  assertEquals(late.status, 503);
  assert(text.includes("PROXY_AUTH_DEPENDENCY_UNAVAILABLE") && text.includes("https://b.example"), text);
  assert(Number(late.headers.get("retry-after")) > 0);
  const gamma = await w.agent();
  await w.pair(gamma, alpha);
  assertEquals(await outcome(await w.message(gamma, alpha)), "202", "local traffic does not notice");
  b.answer = null;
  w.clock.step(301_000);
  assertEquals(await outcome(await send(w, beta, alpha, await fresh())), "202");
});

test("an excluded issuer is refused from the restart on, and what its agents queued becomes a dead letter", async ({ w, beta, alpha }) => {
  const queued = await w.message(beta as unknown as TestAgent, alpha, { headers: { Prefer: "respond-async" } });
  assertEquals(await outcome(queued), "202");
  w.options.proxy = { ...w.options.proxy, federation: { mode: "except", hosts: ["b.example"] } };
  await restart(w);
  assertEquals(await outcome(await send(w, beta, alpha)), "401 PROXY_AUTH_INVALID_AIT");
  const socket = w.connect(alpha);
  await w.connected();
  await flushTasks();
  assertEquals(socket.delivered, []);
  w.options.proxy = { ...w.options.proxy, federation: { mode: "except", hosts: [] } };
  await restart(w);
  w.connect(alpha);
  await w.connected();
  assertEquals(await outcome(await send(w, beta, alpha)), "202", "the pair counts again");
});

Deno.test("after a restart the list of an issuer is read before what its agents queued is handed over", async () => {
  for (const isDown of [false, true]) {
    const { w, b, beta, alpha } = await paired();
    await using _ = w;
    const queued = await w.message(beta as unknown as TestAgent, alpha, { headers: { Prefer: "respond-async" } });
    assertEquals(await outcome(queued), "202");
    b.revoke(beta);
    if (isDown) b.answer = () => new Response(null, { status: 500 });
    await restart(w);
    const socket = w.connect(alpha);
    await w.connected();
    await until(async () => (await w.kv.get(KEYS.mailboxBytes(alpha.owner.did))).value === null);
    assertEquals(socket.delivered.length, isDown ? 1 : 0);
  }
});

test("an issuer that does not answer holds up what others have queued for 2 s", async ({ w, b, beta, alpha }) => {
  const gamma = await w.agent();
  await w.pair(gamma, alpha);
  for (const agent of [beta as unknown as TestAgent, gamma]) {
    assertEquals(await outcome(await w.message(agent, alpha, { headers: { Prefer: "respond-async" } })), "202");
  }
  await restart(w);
  let isAsked = false;
  b.answer = () => {
    isAsked = true;
    return new Promise(() => {});
  };
  const socket = w.connect(alpha);
  await until(() => isAsked);
  await w.clock.advance(2_000);
  await until(() => socket.delivered.length === 2);
});

test("what a visiting agent queued is not handed over once the pair has ended, also while a first list is read", async ({ w, b, beta, alpha }) => {
  const queued = await w.message(beta as unknown as TestAgent, alpha, { headers: { Prefer: "respond-async" } });
  assertEquals(await outcome(queued), "202");
  await restart(w);
  const list = Promise.withResolvers<null>();
  let isAsked = false;
  b.answer = (request) => {
    if (!request.url.endsWith("/v1/crl")) return null;
    isAsked = true;
    return list.promise;
  };
  const socket = w.connect(alpha);
  await until(() => isAsked);
  assertEquals((await post(w, alpha, "/pair/remove", { peerAgentDid: beta.agent.did })).status, 204);
  list.resolve(null);
  await until(async () => (await w.kv.get(KEYS.mailboxBytes(alpha.owner.did))).value === null);
  assertEquals(socket.delivered, []);
});

test("what a visiting agent queued is handed over without a question to its registry", async ({ w, b, beta, alpha }) => {
  assertEquals(
    await outcome(await w.message(beta as unknown as TestAgent, alpha, { headers: { Prefer: "respond-async" } })),
    "202",
  );
  assertEquals(
    (await w.kv.get(KEYS.mailboxBytes(beta.ownerDid))).value,
    null,
    "no owner of another server has a budget",
  );
  assert((await w.kv.get(KEYS.mailboxBytes(alpha.owner.did))).value !== null);
  const asked = b.asked.length;
  // Longer than a list is used for new messages.
  w.clock.step(660_000);
  const socket = w.connect(alpha);
  await w.connected();
  await flushTasks();
  assertEquals([socket.delivered.length, b.asked.length], [1, asked]);
});

test("an agent writes on directly after its registry has rotated its signing key", async ({ w, b, alpha, beta }) => {
  assertEquals(await outcome(await send(w, beta, alpha, { Prefer: "respond-async" })), "202");
  await b.rotate();
  const headers = { Prefer: "respond-async", [HEADERS.access]: await b.visit(beta) };
  assertEquals(await outcome(await send(w, beta, alpha, headers)), "202");
});

test("a token of a new key is not called invalid while its registry does not answer", async ({ w, b, alpha }) => {
  w.clock.step(301_000);
  await b.rotate();
  b.answer = () => Promise.reject(new TypeError("refused"));
  const gamma = await b.agent("gamma");
  assertEquals(
    await outcome(await confirm(w, gamma, await keyedTicket(w, alpha))),
    "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE",
  );
});

Deno.test("a ticket lets this server ask at most three issuers", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  const ticket = await keyedTicket(w, alpha);
  const others = await Promise.all(
    ["c", "d", "e", "f"].map((name, i) => ForeignIssuer.open(w.clock, `https://${name}.example`, i)),
  );
  for (const other of others) {
    assertEquals(await outcome(await confirm(w, await other.agent(), ticket)), "401 PROXY_AUTH_INVALID_AIT");
  }
  assertEquals(b.asked.length, 3, "keys of c, d and e, which b's do not verify");
  assertEquals(await outcome(await confirm(w, beta, ticket)), "401 PROXY_AUTH_INVALID_AIT");
  const named = await ticketOf(w, alpha, { allowResponderAgentDid: (await b.agent("gamma")).agent.did });
  assertEquals(await outcome(await confirm(w, beta, named)), "401 PROXY_AUTH_INVALID_AIT");
  const short = await ticketOf(w, alpha, { ttlSeconds: 1 });
  w.clock.step(1_000);
  assertEquals(await outcome(await confirm(w, beta, short)), "401 PROXY_AUTH_INVALID_AIT");
  assertEquals(b.asked.length, 3, "nothing for a ticket that has expired");
  const good = await keyedTicket(w, alpha);
  for (const other of others.slice(0, 2)) await confirm(w, await other.agent(), good);
  assertEquals(await outcome(await confirm(w, beta, good, false)), "400 PROXY_PAIR_INVALID_BODY");
  assertEquals(await outcome(await confirm(w, beta, good)), "201", "one of the three may try again");
});

Deno.test("an agent lets a peer of another server write to it, as often as it says so", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  w.connect(alpha);
  await w.connected();
  const body = {
    peerAgentDid: beta.agent.did,
    peerProxy: "https://relay.b.example",
    peerProfile: THEIRS,
    peerKey: await keyOf(beta, "initiator", beta.agent.did),
  };
  const accept = (more: Record<string, unknown> = {}) => post(w, alpha, "/pair/accept", { ...body, ...more });
  const first = await answered(await accept(), 201);
  assertEquals(await answered(await accept(), 201), first);
  assertEquals((await w.kv.get(KEYS.pairCount(alpha.agent.did))).value, { pairs: 1 });
  assertEquals(b.asked, [], "no server is asked");
  assertEquals(await outcome(await send(w, beta, alpha)), "202");
  const pairOf = () => w.kv.get<PairRecord>(KEYS.pair(alpha.agent.did, beta.agent.did));
  const { versionstamp } = await pairOf();
  await answered(await accept(), 201);
  assertEquals((await pairOf()).versionstamp, versionstamp, "the same again writes nothing");
  const other = await keyOf(await b.agent("other"), "initiator", beta.agent.did), { peerKey } = body;
  const changes = [
    { peerProxy: "https://new.b.example" },
    { peerProfile: { ...THEIRS, agentName: "gamma" } },
    { peerProfile: { ...THEIRS, humanName: "Gus" } },
    { peerKey: { ...peerKey, mac: other.mac } },
    { peerKey: { ...peerKey, publicKey: other.publicKey } },
  ];
  for (const change of changes) {
    await answered(await accept(), 201);
    await answered(await accept(change), 201);
    const { proxy: peerProxy, peerProfile, peerKey } = (await pairOf()).value ?? {};
    assertEquals({ peerProxy, peerProfile, peerKey }, {
      peerProxy: body.peerProxy,
      peerProfile: body.peerProfile,
      peerKey: body.peerKey,
      ...change,
    });
  }
  const bad: Record<string, string>[] = [
    { peerProxy: "http://relay.b.example" },
    { peerProxy: "https://relay.b.example/" },
    { peerProxy: "https://10.0.0.1" },
    { peerProxy: "https://proxy.example.test" },
  ];
  for (const more of bad) {
    assertEquals(await outcome(await accept(more)), "400 PROXY_PAIR_INVALID_BODY", JSON.stringify(more));
  }
  const local = await w.agent();
  assertEquals(await outcome(await accept({ peerAgentDid: local.agent.did })), "403 PROXY_PAIR_RESPONDER_FORBIDDEN");
});

Deno.test("invented peers of other servers have a limit, and leave the disk's reserve free", async () => {
  const disk = { freeBytes: 1_000_000, totalBytes: 5_000_000 };
  const { w, b, alpha, beta } = await cast({ proxy: { ownerRequests: 40 }, diskSpace: () => ({ ...disk }) });
  await using _ = w;
  const peerKey = await keyOf(beta, "initiator", beta.agent.did);
  const accept = async () =>
    await outcome(
      await post(w, alpha, "/pair/accept", {
        peerAgentDid: `did:svc:${b.authority}:agent:${b.newId()}`,
        peerProxy: "https://relay.b.example",
        peerProfile: THEIRS,
        peerKey,
      }),
    );
  for (let n = 0; n < 3; n++) assertEquals(await accept(), "201");
  disk.freeBytes = 499_000;
  await w.clock.stepWhenIdle(1_000);
  assertEquals(await accept(), "503 SERVICE_UNAVAILABLE");
  disk.freeBytes = 1_000_000;
  await w.clock.stepWhenIdle(1_000);
  assertEquals(await accept(), "429 PROXY_RATE_LIMIT_EXCEEDED");
  assertEquals((await w.kv.get(KEYS.pairCount(alpha.agent.did))).value, { pairs: 3 });
});

test("an admin sees which registries have agents with pairs here, and why one cannot be asked", async ({ w, b, alpha, beta }) => {
  const token = await tokenOf(w);
  const issuers = async () =>
    (await answered<{ issuers: Record<string, unknown>[] }>(await look(w, "issuers", token))).issuers;
  const row = { authority: "b.example", agents: 1, pairs: 1, allowed: true, problem: null };
  assertEquals(await issuers(), [{ ...row, keysAgeSeconds: 0, listAgeSeconds: 0 }]);
  const local = await w.agent();
  await w.pair(local, alpha);
  assertEquals((await issuers()).length, 1, "agents of this server are not listed");
  b.answer = () => new Response("no", { status: 500 });
  w.clock.step(61_000);
  await send(w, beta, alpha);
  await flushTasks();
  assertEquals((await issuers())[0]?.problem, "Status 500");
});

Deno.test("a server that has an address which no other server accepts says so in its log", async () => {
  const off = { proxy: { federation: { mode: "off", hosts: [] } } } as const;
  const rows: [registryUrl: string, proxyUrl: string, options: WorldOptions, lines: number][] = [
    ["https://registry.example.test", PROXY_URL, {}, 0],
    ["https://registry.example.test:8443", PROXY_URL, {}, 1],
    ["https://registry.example.test", `${PROXY_URL}:8443`, {}, 1],
    ["http://192.168.1.20:8787", PROXY_URL, {}, 1],
    ["http://192.168.1.20:8787", PROXY_URL, off, 0],
  ];
  for (const [registryUrl, proxyUrl, options, lines] of rows) {
    await using w = await openProxy({ ...options, at: { registryUrl, proxyUrl } });
    await w.proxy.start();
    assertEquals(w.log.filter(({ event }) => event === "not_federated").length, lines, `${registryUrl} ${proxyUrl}`);
  }
});

test("a visit token for one origin of a server is none for another one, also once it is known", async ({ w, b, alpha, beta }) => {
  const other = "http://127.0.0.1:8788";
  (w.proxy.deps.origins as string[]).push(other);
  const sentTo = async (base: string, agent: ForeignAgent) => {
    const parts = { base, target: "/hooks/agent", recipient: alpha.agent.did, body: "{}" };
    return await outcome(await w.proxy.fetch(await w.signed(agent as unknown as TestAgent, parts), w.peer));
  };
  w.connect(alpha);
  await w.connected();
  assertEquals(await sentTo(PROXY_URL, beta), "202");
  assertEquals(await sentTo(other, beta), "401 PROXY_AGENT_ACCESS_INVALID");
  const accessToken = await b.visit(beta, { aud: other });
  const there = { ...beta, identity: { ...beta.identity, accessToken } };
  assertEquals(await sentTo(other, there), "202");
  assertEquals(await sentTo(PROXY_URL, there), "401 PROXY_AGENT_ACCESS_INVALID");
});
