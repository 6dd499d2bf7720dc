/** The commands with which an admin sees the relay: results, pages, refusals, and where the API key goes. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { RequestContext } from "../../../shared/server/http/route.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until, untilLater } from "../../support/until.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { PROXY_URL, World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

const ID = "request-1";
const didOf = (i: number) => `did:svc:registry.example.test:agent:01KHYQ5H00${String(i).padStart(16, "0")}`;

async function queued(world: World): Promise<{ sender: string; recipient: string }> {
  const a = await world.agent();
  const b = await world.agent();
  await world.pair(a, b);
  const answer = await world.message(a, b, { headers: { Prefer: "respond-async", "x-request-id": ID } });
  assertEquals(answer.status, 202);
  await answer.body?.cancel();
  return { sender: a.agent.did, recipient: b.agent.did };
}

Deno.test("admin relay queues lists the recipients, one page or all", async () => {
  await using admin = await Machine.ofAdmin();
  assertStringIncludes((await admin.svc("admin", "relay", "queues")).stdout, "No queued messages");
  const dids = Array.from({ length: 5 }, (_, i) => didOf(i));
  for (const did of dids) {
    await admin.world.kv.set(KEYS.mailboxState(did), { next: 3, total: 2, bySender: { [didOf(9)]: 2 }, byPayer: {} });
    const entry = { number: 1, message: {}, parts: 0, expiresAt: admin.world.clock.now(), nacks: 0, notBefore: 0 };
    await admin.world.kv.set(KEYS.mailboxEntry(did, 1), entry);
  }
  const first = await admin.json("admin", "relay", "queues", "--limit", "2");
  assertEquals(first.queues.map((one: { recipientAgentDid: string }) => one.recipientAgentDid), dids.slice(0, 2));
  assertEquals(first.pagination, { limit: 2, nextCursor: dids[1] });
  const all = await admin.json("admin", "relay", "queues", "--limit", "2", "--all");
  assertEquals(all.queues.map((one: { recipientAgentDid: string }) => one.recipientAgentDid), dids);
  const rest = await admin.json("admin", "relay", "queues", "--cursor", dids[2] ?? "");
  assertEquals(rest.queues.length, 2);
  const { stdout } = await admin.svc("admin", "relay", "queues");
  assertEquals(stdout.split("\n")[0]?.split(/ {2,}/), ["MESSAGES", "SENDERS", "OLDEST EXPIRES", "RECIPIENT"]);
  admin.isTerminal = true;
  admin.columns = 120;
  const { recipient } = await queued(admin.world);
  const { agents } = await admin.json("admin", "agents", "list");
  const { name, ownerName } = agents.find(({ did }: { did: string }) => did === recipient);
  assertStringIncludes((await admin.svc("admin", "relay", "queues")).stdout, `${name} of ${ownerName}`);
});

Deno.test("admin relay delivery shows the timeline of a message", async () => {
  await using admin = await Machine.ofAdmin();
  const { sender, recipient } = await queued(admin.world);
  const { requestId, deliveries } = await admin.json("admin", "relay", "delivery", ID);
  assertEquals([requestId, deliveries.length, deliveries[0].state], [ID, 1, "waiting"]);
  const { stdout } = await admin.svc("admin", "relay", "delivery", ID);
  for (const text of [`waiting: from ${sender} to ${recipient}`, "began", "queued", "place 1"]) {
    assertStringIncludes(stdout, text);
  }
  const unknown = ["admin", "relay", "delivery", "request-2"];
  await admin.refuses(unknown, 4, "CLI_MESSAGE_UNKNOWN", "No trace of request-2. Deliveries are kept 8 days");
  await admin.world.fetch(`${PROXY_URL}/pair/peers`, { headers: { "x-request-id": "request-3" } });
  const refused = await admin.json("admin", "relay", "delivery", "request-3");
  assertEquals([refused.deliveries, refused.refusals[0].code], [[], "PROXY_AUTH_MISSING_TOKEN"]);
  const sent = admin.requests.length;
  for (const wrong of ["x", "a b c d e f g h", "x".repeat(129)]) {
    assertEquals((await admin.failure("admin", "relay", "delivery", wrong)).exit, 2);
  }
  const end = await admin.svc("admin", "relay", "delivery", `…${ID.slice(-6)}`);
  assertStringIncludes(end.stderr, "Give the whole ID, which svc sent --wide shows.");
  assertEquals(admin.requests.length, sent);
});

Deno.test("admin relay refusals lists the newest ones and names the next command", async () => {
  await using admin = await Machine.ofAdmin();
  assertStringIncludes((await admin.svc("admin", "relay", "refusals")).stdout, "No refusals since 2026-");
  for (const id of ["request-1", "request-2"]) {
    await admin.world.fetch(`${PROXY_URL}/pair/peers`, { headers: { "x-request-id": id } });
  }
  const { refusals, instance } = await admin.json("admin", "relay", "refusals", "--limit", "1");
  assertEquals(refusals.map((one: { requestId: string }) => one.requestId), ["request-2"]);
  assertEquals(instance, admin.world.proxy.deps.presence.instance);
  const one = await admin.json("admin", "relay", "refusals", "--request", "request-1");
  assertEquals(one.refusals.length, 1);
  const { stdout, stderr } = await admin.svc("admin", "relay", "refusals");
  assertStringIncludes(stdout, "PROXY_AUTH_MISSING_TOKEN  1      GET /pair/peers");
  assertStringIncludes(stderr, "svc explain PROXY_AUTH_MISSING_TOKEN");
  assertEquals((await admin.failure("admin", "relay", "refusals", "--limit", "101")).exit, 2);
  assertEquals((await admin.failure("admin", "relay", "refusals", "--did", "x")).code, "CLI_NAME_UNKNOWN");
});

Deno.test("a terminal shows who was refused by name, and an agent elsewhere does not get the name of one here", async () => {
  await using admin = await Machine.ofAdmin();
  const eve = await admin.world.agent(await admin.world.person("Eve"), "crawler");
  await (await admin.world.message(eve, eve, { headers: { "x-request-id": ID } })).body?.cancel();
  const named = await admin.json("admin", "relay", "refusals", "--did", "crawler@Eve");
  assertEquals(named.refusals.map((one: { requestId: string }) => one.requestId), [ID]);
  assertStringIncludes((await admin.svc("admin", "relay", "refusals")).stdout, eve.agent.did);
  admin.isTerminal = true;
  admin.columns = 120;
  const shown = async () => (await admin.svc("admin", "relay", "delivery", ID)).stdout;
  assertStringIncludes(await shown(), "crawler of Eve");
  const elsewhere = eve.agent.did.replace("registry.example.test", "b.example");
  const request = new Request(`${PROXY_URL}/hooks/agent`, { method: "POST" });
  const about = { request, requestId: "request-2", check: 7, route: "/hooks/agent", agentDid: elsewhere };
  admin.world.proxy.deps.refusals.record("PROXY_AUTH_FORBIDDEN", about as RequestContext);
  const other = (await admin.svc("admin", "relay", "refusals", "--request", "request-2")).stdout;
  assert(other.includes("PROXY_AUTH_FORBIDDEN") && !other.includes("crawler"), other);
});

Deno.test("admin agents list shows with --online which agents are connected", async () => {
  await using admin = await Machine.ofAdmin();
  await admin.world.proxy.start();
  const c = await admin.world.agent();
  const never = await admin.world.agent(c.owner);
  const socket = admin.world.connect(c);
  await admin.world.connected();
  const list = async () => (await admin.json("admin", "agents", "list", "--online")).agents;
  const [second, first] = await list();
  assertEquals([first.did, first.connection.online, first.connection.disconnectedAt], [c.agent.did, true, null]);
  assertEquals([second.did, second.connection], [never.agent.did, null]);
  const { stdout } = await admin.svc("admin", "agents", "list", "--online");
  const seen = stdout.split("\n").slice(0, 3).map((line) => line.split(/ {2,}/)[3]);
  assertEquals(seen, ["LAST SEEN", "never", "online"]);
  await admin.world.client.deleteAgent(never.owner.apiKey, never.agent.id);
  const revoked = (await admin.svc("admin", "agents", "list", "--online")).stdout.split("\n")[1] ?? "";
  assertEquals(revoked.split(/ {2,}/).slice(2, 4), ["revoked", "–"]);
  socket.link.end(1000, "over");
  await until(async () => (await list())[1].connection.online === false);
  assertStringIncludes((await admin.svc("admin", "agents", "list", "--online")).stdout, "now");
  const away = async (time: string) => (await admin.json("admin", "agents", "list", "--offline-for", time)).agents;
  assertEquals(await away("1d"), []);
  admin.world.clock.step(2 * 86_400_000);
  assertEquals((await away("1d")).map((one: { did: string }) => one.did), [c.agent.did]);
  assertStringIncludes((await admin.svc("admin", "agents", "list", "--offline-for", "1d")).stdout, "2 d ago");
  for (const wrong of ["1", "d", "0d", "1w", "99999d", "-1d"]) {
    assertEquals((await admin.failure("admin", "agents", "list", `--offline-for=${wrong}`)).exit, 2, wrong);
  }
  const plain = await admin.json("admin", "agents", "list");
  assertEquals(plain.agents.map((one: object) => "connection" in one), [false, false]);
});

Deno.test("admin overview shows services, connected agents, queues and refusals", async () => {
  await using admin = await Machine.ofAdmin();
  await admin.world.proxy.start();
  const { recipient } = await queued(admin.world);
  const c = await admin.world.agent(undefined, "crawler");
  admin.world.connect(c);
  await admin.world.connected();
  for (let i = 0; i < 2; i++) await (await admin.world.message(c, c)).body?.cancel();
  const { registry, proxy, relay, counts } = await admin.json("admin", "overview");
  assertEquals([counts.people, counts.agents], [{ active: 4, suspended: 0 }, { active: 3, revoked: 0 }]);
  assertEquals([registry.problem, proxy.url, registry.version], [null, PROXY_URL, "0.0.0-test"]);
  const { agents, queues } = relay.overview;
  assertEquals([agents.online, queues.recipients, queues.messages], [1, 1, 1]);
  admin.world.clock.step(3 * 3_600_000);
  await admin.world.proxy.deps.crl.refresh();
  const { stdout } = await admin.svc("admin", "overview");
  const lines = stdout.split("\n");
  assertEquals(lines.slice(0, 6), [
    "registry.example.test · ready · version 0.0.0-test · up 3 h",
    "People       4",
    "Agents       3   1 online",
    "Tokens       0   identity tokens end within 7 days",
    "Waiting      1   message for 1 agent, the oldest since 3 h",
    "Memory  0 B",
  ]);
  assert(!stdout.includes(recipient) && lines.every((line) => line.length <= 80), stdout);
});

Deno.test("admin overview names who was refused, how often and when, and repeats itself with --watch", async () => {
  await using admin = await Machine.ofAdmin();
  const c = await admin.world.agent(await admin.world.person("Eve"), "crawler");
  for (let i = 0; i < 2; i++) await (await admin.world.message(c, c)).body?.cancel();
  await admin.world.fetch(`${PROXY_URL}/pair/peers`);
  const { relay } = await admin.json("admin", "overview");
  const [first] = relay.refused.byAgent;
  assertEquals([first.agentName, first.ownerName, first.count], ["crawler", "Eve", 2]);
  const { stdout } = await admin.svc("admin", "overview");
  const table = stdout.trimEnd().split("\n").slice(-3).map((line) => line.split(/ {2,}/));
  assertEquals(table.map(([, ...cells]) => cells), [["COUNT", "AGENT", "LAST"], ["2", "crawler of Eve", "now"], [
    "1",
    "–",
    "now",
  ]]);
  admin.readsCharacters = 2 * stdout.length;
  const watching = admin.svc("admin", "overview", "--watch");
  await until(() => admin.requests.filter((request) => request.includes("/v1/admin/counts")).length === 3);
  await flushTasks();
  await admin.world.clock.advance(5_000);
  await until(() => admin.requests.filter((request) => request.includes("/v1/admin/counts")).length === 4);
  await flushTasks();
  await admin.world.clock.advance(5_000);
  assertEquals((await watching).stdout.split("Refused since").length, 3);
});

Deno.test("admin overview --watch goes on when the server restarts, and ends when it refuses or never answered", async () => {
  await using admin = await Machine.ofAdmin();
  const asked = () => admin.requests.length, before = asked();
  const { stdout } = await admin.svc("admin", "overview");
  const perOverview = asked() - before;
  admin.readsCharacters = 2 * stdout.length;
  const watching = admin.svc("admin", "overview", "--watch");
  await until(() => asked() === before + 2 * perOverview);
  await flushTasks();
  const restarted = admin.answer(/./, () => Promise.reject(new TypeError("connection refused")));
  await admin.world.clock.advance(5_000);
  await until(() => asked() > before + 2 * perOverview);
  await flushTasks();
  restarted();
  let isOver = false;
  void watching.finally(() => isOver = true);
  await untilLater(admin.world.clock, () => isOver);
  const { code, stderr, stdout: shown } = await watching;
  assertEquals([code, shown.split(/^Agents/m).length], [0, 3]);
  assertMatch(stderr, /At \d\d:\d\d: .*cannot be reached\. It is asked again every 5 s\./);
  const ended = admin.svc("admin", "overview", "--watch"), shownBefore = asked();
  await until(() => asked() === shownBefore + perOverview);
  await flushTasks();
  const refused = { error: { code: "API_KEY_REVOKED", message: "revoked" } };
  admin.answer(/./, () => Response.json(refused, { status: 401 }));
  await admin.world.clock.advance(5_000);
  assertStringIncludes((await ended).stderr, "API_KEY_REVOKED");
  admin.answer(/./, () => Promise.reject(new TypeError("connection refused")));
  assertEquals((await admin.svc("admin", "overview", "--watch")).code, 5);
});

Deno.test("admin overview warns and shows the rest when the proxy does not answer", async () => {
  await using admin = await Machine.ofAdmin();
  admin.answer(new RegExp(PROXY_URL), () => Promise.reject(new TypeError("connection refused")));
  const { registry, proxy, relay, warnings } = await admin.json("admin", "overview");
  assertEquals([registry.problem, relay, typeof proxy.problem], [null, null, "string"]);
  assertStringIncludes(warnings[0], "The proxy did not report on its relay");
});

Deno.test("a command on a server whose disk is full says so, because waiting does not help", async () => {
  using faulty = await FaultyKv.open();
  await using world = await World.open({ kv: faulty.kv });
  await using admin = await Machine.ofAdmin(world);
  const writes = ["commit", "set", "delete"];
  faulty.faults.fails = ({ method }) => writes.includes(method) && new TypeError("database or disk is full");
  const { code, stderr } = await admin.svc("admin", "overview");
  assertEquals(code, 1);
  assertStringIncludes(stderr, "SERVICE_UNAVAILABLE: The disk of the server is full, so its operator must free some");
});

Deno.test("the API key of an admin is sent to the registry only, and a user's key is refused there", async () => {
  await using admin = await Machine.ofAdmin();
  await using user = await Machine.ofPerson(admin.world);
  const { apiKey } = await admin.world.admin();
  const toProxy: string[] = [];
  admin.fetch = async (input, init) => {
    const request = new Request(input, init);
    if (request.url.startsWith(PROXY_URL)) toProxy.push(JSON.stringify([request.url, ...request.headers]));
    return await admin.world.fetch(request);
  };
  const commands = [["issuers"], ["relay", "queues"], ["relay", "refusals"], ["relay", "delivery", ID], ["overview"]];
  for (const words of commands) {
    await admin.svc("admin", ...words);
    await user.refuses(["admin", ...words], 3, "ADMIN_REQUIRED");
  }
  assert(toProxy.length >= commands.length);
  for (const request of toProxy) assert(!request.includes(apiKey), request);
  assertEquals(user.requests.filter((line) => line.includes("/v1/admin/relay/")), []);
});
