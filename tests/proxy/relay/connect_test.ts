/**
 * Shows how an admitted request becomes a relay socket (D-70), and what passes between the WebSocket and the
 * relay. The WebSocket is a fake; real ones are in tests/e2e. Decisions: D-67.
 */
import type { PeerList } from "../../../shared/protocol/api/pairing.ts";
import { assert, assertEquals } from "@std/assert";
import type { ProxyDeps } from "../../../proxy/deps.ts";
import { CONNECT_LATE_MS } from "../../../proxy/relay/presence.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { Seen } from "../../../proxy/schema/records.ts";
import { OPENS_MS, relayConnect } from "../../../proxy/relay/connect.ts";
import type { UpgradeWebSocket } from "../../../shared/server/http/open_sockets.ts";
import { AUTHENTICATORS, type ProxyCallers } from "../../../proxy/routes.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { type App, createApp } from "../../../shared/server/http/app.ts";
import { routeFor } from "../../../shared/server/http/route.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { answered, outcome, refused } from "../../support/registry_world.ts";
import { codeOf, type TestAgent, type World } from "../../support/world.ts";
import { get, openProxy, restart } from "../proxy_world.ts";
import { inWorld } from "../cast.ts";

/** The members of a WebSocket that the proxy uses. */
class FakeSocket {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  bufferedAmount = 0;
  readonly sent: string[] = [];
  readonly closed: [number, string][] = [];

  send(text: string): void {
    this.sent.push(text);
  }

  close(code: number, reason: string): void {
    this.closed.push([code, reason]);
  }
}

/** A proxy whose upgrades return fake sockets. */
class Upgrading {
  readonly sockets: FakeSocket[] = [];
  readonly deps: ProxyDeps;
  readonly app: App;

  constructor(readonly w: World) {
    const upgrade: UpgradeWebSocket = () => {
      const socket = new FakeSocket();
      this.sockets.push(socket);
      return { socket: socket as unknown as WebSocket, response: new Response(null, { status: 200 }) };
    };
    this.deps = { ...w.proxy.deps, upgrade };
    const row = { auth: "connect", limit: null, errors: [], response: { status: 101 }, handler: relayConnect } as const;
    const route = routeFor<ProxyDeps, ProxyCallers>();
    this.app = createApp(
      [route("GET", "/v1/relay/connect", "", row)],
      AUTHENTICATORS,
      this.deps,
    );
  }

  async connect(
    agent: TestAgent,
    headers: Record<string, string | null> = { Upgrade: "websocket" },
    target = "/v1/relay/connect",
    signal?: AbortSignal,
  ): Promise<Response> {
    const request = await this.w.signed(agent, { method: "GET", target, headers });
    return await this.app.fetch(signal ? new Request(request, { signal }) : request, this.w.peer);
  }

  /** Returns an open socket. */
  async open(agent: TestAgent, target?: string): Promise<FakeSocket> {
    assertEquals((await this.connect(agent, undefined, target)).status, 200);
    const socket = this.sockets.at(-1);
    assert(socket);
    socket.onopen?.();
    return socket;
  }
}

async function cast(): Promise<{ w: World; a: TestAgent; b: TestAgent; upgrading: Upgrading }> {
  const w = await openProxy();
  return { w, ...await w.pairedAgents(), upgrading: new Upgrading(w) };
}

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

test("an admitted request without a WebSocket upgrade gets 426", async ({ w, a, upgrading }, t) => {
  for (const upgrade of [null, "", "h2c", "websocket2"]) {
    await t.step(String(upgrade), async () => {
      const answer = await upgrading.connect(a, { Upgrade: upgrade });
      assertEquals([answer.headers.get("upgrade"), answer.headers.get("connection")], ["websocket", "Upgrade"]);
      await refused(answer, "PROXY_RELAY_UPGRADE_REQUIRED");
    });
  }
  for (const version of ["8", "12", "13, 8", ""]) {
    await t.step(`version ${version}`, async () => {
      const answer = await upgrading.connect(a, { Upgrade: "websocket", "Sec-WebSocket-Version": version });
      assertEquals(answer.headers.get("sec-websocket-version"), "13");
      await refused(answer, "PROXY_RELAY_UPGRADE_REQUIRED");
    });
  }
  await t.step("HEAD, which cannot be upgraded", async () => {
    const headers = { Upgrade: "websocket", "Sec-WebSocket-Version": "13" };
    const request = await w.signed(a, { method: "HEAD", target: "/v1/relay/connect", headers });
    assertEquals((await upgrading.app.fetch(request, w.peer)).status, 426);
  });
  assertEquals(upgrading.sockets, []);
  // A request that the runtime refuses to upgrade gets the same answer.
  const headers = { Upgrade: "websocket" };
  const request = await w.signed(a, { method: "GET", target: "/v1/relay/connect", headers });
  await refused(await w.fetch(request), "PROXY_RELAY_UPGRADE_REQUIRED");
});

test("an upgrade is decided after authentication, and a captured request works once", async ({ w, a, upgrading }) => {
  const headers = { Upgrade: "websocket" };
  const signed = await w.signed(a, { method: "GET", target: "/v1/relay/connect", headers });
  assertEquals((await upgrading.app.fetch(signed.clone(), w.peer)).status, 200);
  await refused(await upgrading.app.fetch(signed, w.peer), "PROXY_AUTH_REPLAY");
  await refused(await upgrading.connect(a, { "X-Svc-Proof": null }), "PROXY_AUTH_INVALID_PROOF");
  await refused(await upgrading.connect(a, { Upgrade: null, Authorization: null }), "PROXY_AUTH_MISSING_TOKEN");
  await refused(
    await upgrading.connect(a, { Upgrade: "websocket", "X-Svc-Agent-Access": "x" }),
    "PROXY_AGENT_ACCESS_INVALID",
  );
  assertEquals(upgrading.sockets.length, 1);
});

test("an agent without a pair connects; it counts as connected once the socket is open", async ({ w, upgrading }) => {
  const lonely = await w.agent();
  assertEquals((await upgrading.connect(lonely, { Upgrade: "WebSocket" })).status, 200);
  assertEquals(w.proxy.deps.connectedAgents.socketsOf(lonely.agent.did), undefined);
  upgrading.sockets[0]?.onopen?.();
  const [link] = w.proxy.deps.connectedAgents.socketsOf(lonely.agent.did)?.links ?? [];
  assertEquals(link?.agent, {
    agentDid: lonely.agent.did,
    ownerDid: lonely.agent.ownerDid,
    aitJti: lonely.agent.currentJti,
    aitExpiresAt: Date.parse(lonely.agent.expiresAt) / 1000,
  });
});

test("frames pass between socket and relay in both directions until the socket closes", async ({ w, a, b, upgrading }) => {
  const socket = await upgrading.open(b);
  const sending = w.message(a, b, { body: '{"n":1}' });
  while (socket.sent.length === 0) await w.clock.advance(0);
  const frame = JSON.parse(socket.sent[0] ?? "");
  assertEquals([frame.type, frame.payload], ["deliver", { n: 1 }]);
  const ack = { v: 1, type: "deliver_ack", id: w.newId(), ts: frame.ts, ackId: frame.id, accepted: true };
  socket.onmessage?.({ data: JSON.stringify(ack) });
  assertEquals((await answered<{ delivered: boolean }>(await sending, 202)).delivered, true);
  assertEquals(w.proxy.deps.connectedAgents.size, 1);
  socket.onclose?.();
  assertEquals([w.proxy.deps.connectedAgents.size, socket.closed], [0, []]);
  assertEquals(await outcome(await w.message(a, b)), "502 PROXY_RELAY_CONNECTOR_OFFLINE");
});

test("binary messages count as misuse, and a socket error ends the connection", async ({ w, a, b, upgrading }) => {
  const binary = await upgrading.open(a);
  for (let i = 0; i < 3; i++) binary.onmessage?.({ data: new ArrayBuffer(8) });
  assertEquals(binary.closed.map(([code]) => code), [1008]);
  const broken = await upgrading.open(b);
  broken.onerror?.();
  assertEquals([broken.closed.length, w.proxy.deps.connectedAgents.size], [1, 0]);
});

test("a socket that closes or sends before it is open breaks nothing", async ({ w, a, upgrading }) => {
  assertEquals((await upgrading.connect(a)).status, 200);
  const [socket] = upgrading.sockets;
  socket?.onmessage?.({ data: "junk" });
  socket?.onmessage?.({ data: new ArrayBuffer(8) });
  socket?.onerror?.();
  socket?.onclose?.();
  assertEquals([w.proxy.deps.connectedAgents.size, socket?.closed], [0, []]);
});

Deno.test("eight agents of an owner connect at once, the others in turn, and other owners at the same time", async () => {
  await using w = await openProxy();
  const owner = await w.person();
  const agents = await w.agents(12, owner);
  const other = await w.agent();
  const upgrading = new Upgrading(w);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  let writing = 0;
  const { presence } = w.proxy.deps;
  const claim = presence.claim.bind(presence);
  presence.claim = async (agentDid, request) => {
    if (agentDid !== other.agent.did) {
      writing++;
      await held;
    }
    await claim(agentDid, request);
  };
  const answers = agents.map((agent) => upgrading.connect(agent));
  await until(() => writing === 8);
  assertEquals((await upgrading.connect(other)).status, 200);
  assertEquals([writing, upgrading.sockets.length], [8, 1]);
  release();
  assertEquals((await Promise.all(answers)).map(({ status }) => status), Array(12).fill(200));
  assertEquals((await upgrading.connect(agents[0] as TestAgent)).status, 200, "each turn has ended");
});

test("after a flood no agent of the owner connects for 10 s, and others do", async ({ w, a, b, upgrading }) => {
  const sibling = await w.agent(a.owner);
  const socket = await upgrading.open(a);
  const ackId = "01KHYQ5H00AAAAAAAAAAAAAAAA";
  const frame = { v: 1, id: ackId, ts: toIso(w.clock.now()), type: "deliver_ack", ackId, accepted: true };
  for (let i = 0; i < 501; i++) socket.onmessage?.({ data: JSON.stringify(frame) });
  assertEquals(socket.closed, [[1008, "too many frames"]]);
  for (const agent of [a, sibling]) {
    const answer = await upgrading.connect(agent);
    assertEquals(answer.headers.get("retry-after"), "10");
    await refused(answer, "PROXY_RATE_LIMIT_EXCEEDED");
  }
  assertEquals((await upgrading.connect(b)).status, 200);
  assertEquals(await outcome(await get(w, a, "/pair/peers")), "200", "only connects wait");
  await w.clock.stepWhenIdle(10_000);
  assertEquals((await upgrading.connect(sibling)).status, 200);
});

Deno.test("a connect whose presence cannot be written is 503 and opens no socket", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const a = await w.agent();
  const upgrading = new Upgrading(w);
  assertEquals(await outcome(await get(w, a, "/pair/peers")), "200");
  store.faults.fails = ({ keys }) => keys.some((key) => key[0] === "proxy" && key[1] === "presence");
  const answer = await upgrading.connect(a);
  assertEquals([answer.status, upgrading.sockets.length], [503, 0]);
  assert(answer.headers.get("retry-after"));
  await refused(answer, "PROXY_RELAY_UNAVAILABLE");
  delete store.faults.fails;
  await restart(w);
  assertEquals((await new Upgrading(w).connect(a)).status, 200);
});

Deno.test("a connect whose answer of the store is lost leaves no presence of an agent that is not connected", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const a = await w.agent();
  const upgrading = new Upgrading(w);
  const presence = KEYS.presence(a.agent.did);
  let lost = 0;
  store.faults.loses = ({ keys }) => keys.some((key) => key.join() === presence.join()) && ++lost > 0;
  await refused(await upgrading.connect(a), "PROXY_RELAY_UNAVAILABLE");
  store.faults = {};
  assertEquals([lost > 0, upgrading.sockets.length], [true, 0]);
  await w.clock.advance(1_000);
  await until(async () => (await store.kv.get(presence)).value === null);
});

Deno.test("a connect whose commit takes effect after its 503 leaves no presence of an agent that is not connected", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  await using w = await openProxy({ kv: store.kv, clock });
  const a = await w.agent(), presence = KEYS.presence(a.agent.did), held = Promise.withResolvers<void>();
  let isHeld = false;
  store.faults.before = async ({ method, keys }) => {
    if (isHeld || method !== "commit" || !keys.some((key) => key.join() === presence.join())) return;
    isHeld = true;
    await held.promise;
  };
  const answer = new Upgrading(w).connect(a);
  await until(() => isHeld);
  await clock.advance(LIMITS.commitWaitMs);
  await refused(await answer, "PROXY_RELAY_UNAVAILABLE");
  held.resolve();
  await until(async () => (await store.kv.get(presence)).value !== null);
  await clock.advance(60_000);
  await until(async () => (await store.kv.get(presence)).value === null);
});

Deno.test("an agent that leaves while the store fails is offline to its peers once the store is back", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const { a, b, socket } = await w.story();
  const isOnline = async () =>
    (await answered<PeerList>(await get(w, a, "/pair/peers"))).peers.map(({ online }) => online);
  assertEquals(await isOnline(), [true]);
  let failed = 0;
  const gone = KEYS.presence(b.agent.did).join();
  store.faults.fails = ({ keys }) => keys.some((key) => key.join() === gone) && ++failed > 0;
  socket.link.lost();
  await until(() => failed === 1);
  await w.clock.advance(1_000);
  await until(() => failed === 2);
  store.faults = {};
  await w.clock.advance(2_000);
  await until(async () => (await isOnline())[0] === false);
});

Deno.test("a connect that waited for the store does not end a newer socket at another instance", async () => {
  using faulty = await FaultyKv.open();
  await using w1 = await openProxy({ kv: faulty.kv, seed: 1 });
  await using w2 = await openProxy({ kv: faulty.kv, seed: 2, clock: w1.clock });
  await Promise.all([w1.proxy.start(), w2.proxy.start()]);
  const { a } = await w1.story();
  const stalled = Promise.withResolvers<void>();
  let isStalled = false;
  // The nonce of the first connect waits for the store; its client has long given up.
  const nonces = KEYS.sender(a.agent.did).join();
  faulty.faults.before = async ({ method, keys }) => {
    if (isStalled || method !== "commit" || !keys.some((key) => key.join() === nonces)) return;
    isStalled = true;
    await stalled.promise;
  };
  const waiting = new Upgrading(w1).connect(a);
  await until(() => isStalled);
  w1.clock.step(CONNECT_LATE_MS + 1_000);
  const socket = await new Upgrading(w2).open(a);
  stalled.resolve();
  const answer = await waiting;
  assertEquals([answer.headers.get("retry-after"), await codeOf(answer)], ["1", "PROXY_RELAY_UNAVAILABLE"]);
  await flushTasks();
  const { value } = await faulty.kv.get<{ instance: string }>(KEYS.presence(a.agent.did));
  assertEquals([socket.closed, value?.instance], [[], w2.proxy.deps.presence.instance]);
});

test("a failed upgrade leaves no record of the agent at this instance", async ({ w, a, upgrading }, t) => {
  const { presence } = w.proxy.deps;
  const holder = async () => (await w.kv.get<{ instance: string }>(KEYS.presence(a.agent.did))).value?.instance;
  const gone = async () => {
    await until(async () => await holder() === undefined);
  };
  await t.step("the client leaves before the socket opens", async () => {
    assertEquals((await upgrading.connect(a)).status, 200);
    assertEquals(await holder(), presence.instance);
    upgrading.sockets.at(-1)?.onerror?.();
    upgrading.sockets.at(-1)?.onclose?.();
    await gone();
  });
  await t.step("the client left before the upgrade, of which Deno reports nothing", async () => {
    assertEquals((await upgrading.connect(a)).status, 200);
    const socket = upgrading.sockets.at(-1);
    await w.clock.advance(OPENS_MS - 1);
    assertEquals(w.proxy.deps.connectedAgents.isOpening(a.agent.did), true);
    await w.clock.advance(1);
    assertEquals(w.proxy.deps.connectedAgents.isOpening(a.agent.did), false);
    await gone();
    // A socket that opens after all is closed, because its presence has ended.
    socket?.onopen?.();
    assertEquals([socket?.closed.length, w.proxy.deps.connectedAgents.size], [1, 0]);
  });
  await t.step("the client left in the moment of the upgrade, so its owner waits", async () => {
    const client = new AbortController();
    assertEquals((await upgrading.connect(a, undefined, undefined, client.signal)).status, 200);
    client.abort();
    await w.clock.advance(OPENS_MS);
    await gone();
    assertEquals(await codeOf(await upgrading.connect(a)), "PROXY_RATE_LIMIT_EXCEEDED");
    await w.clock.advance(60_000);
  });
  await t.step("the runtime refuses the upgrade", async () => {
    upgrading.deps.upgrade = () => {
      throw new TypeError("Invalid Header: 'sec-websocket-key' header must be set");
    };
    await refused(await upgrading.connect(a), "PROXY_RELAY_UPGRADE_REQUIRED");
    await gone();
  });
});

test("an instance that stops takes no further socket", async ({ w, a, upgrading }) => {
  await w.proxy.start();
  const leaving = w.proxy.leave();
  const answer = await upgrading.connect(a);
  assertEquals([answer.headers.get("retry-after"), await codeOf(answer)], ["1", "PROXY_RELAY_UNAVAILABLE"]);
  assertEquals((await w.kv.get(KEYS.presence(a.agent.did))).value, null);
  while (w.proxy.deps.leases.isLeaving === false) await flushTasks();
  await w.clock.advance(LIMITS.stopNoticeMs);
  await leaving;
});

test("a message waits for a socket that is about to open, and for no other", async ({ w, a, b, upgrading }, t) => {
  await t.step("it opens", async () => {
    await upgrading.connect(b);
    const sending = w.message(a, b);
    for (let i = 0; i < 3; i++) await flushTasks();
    upgrading.sockets.at(-1)?.onopen?.();
    await until(() => upgrading.sockets.at(-1)?.sent.length === 1);
    const { id: ackId } = JSON.parse(upgrading.sockets.at(-1)?.sent[0] ?? "{}");
    const ack = { v: 1, id: w.newId(), ts: toIso(w.clock.now()), type: "deliver_ack", ackId, accepted: true };
    upgrading.sockets.at(-1)?.onmessage?.({ data: JSON.stringify(ack) });
    assertEquals((await sending).status, 202);
    upgrading.sockets.at(-1)?.onclose?.();
    await until(() => w.proxy.deps.connectedAgents.size === 0);
  });
  await t.step("its client leaves", async () => {
    await upgrading.connect(b);
    const sending = w.message(a, b);
    for (let i = 0; i < 3; i++) await flushTasks();
    upgrading.sockets.at(-1)?.onclose?.();
    assertEquals(await codeOf(await sending), "PROXY_RELAY_CONNECTOR_OFFLINE");
  });
  await t.step("it never opens", async () => {
    await upgrading.connect(b);
    const sending = w.message(a, b);
    for (let i = 0; i < 3; i++) await flushTasks();
    let answer: Response | undefined;
    void sending.then((response) => answer = response);
    for (let ms = 0; ms < 10_000 && !answer; ms += 500) await w.clock.advance(500);
    assert(answer);
    assertEquals(await codeOf(answer), "PROXY_RELAY_CONNECTOR_OFFLINE");
  });
});

test("a failed upgrade of a second socket does not remove the first one", async ({ w, a, upgrading }) => {
  await upgrading.open(a);
  await upgrading.connect(a);
  upgrading.sockets.at(-1)?.onclose?.();
  await flushTasks();
  assertEquals(
    (await w.kv.get<{ instance: string }>(KEYS.presence(a.agent.did))).value?.instance,
    w.proxy.deps.presence.instance,
  );
});

Deno.test("a socket is closed when trust in its agent ended between admission and attachment", async (t) => {
  const endings: [name: string, end: (w: World, agent: TestAgent) => Promise<unknown>][] = [
    ["agent deleted", (w, { owner, agent }) => w.client.deleteAgent(owner.apiKey, agent.id)],
    [
      "session ended",
      (w, { owner, agent }) => w.ask("DELETE", `/v1/agents/${agent.id}/auth/revoke`, { apiKey: owner.apiKey }),
    ],
  ];
  for (const [name, end] of endings) {
    await t.step(name, async () => {
      await using w = await openProxy();
      const upgrading = new Upgrading(w);
      const agent = await w.agent();
      assertEquals((await upgrading.connect(agent)).status, 200);
      const socket = upgrading.sockets.at(-1) as FakeSocket;
      await end(w, agent);
      socket.onopen?.();
      await until(() => socket.closed.length > 0);
      assertEquals(socket.closed.map(([code]) => code), [4401]);
      assertEquals(w.proxy.deps.connectedAgents.size, 0);
    });
  }
});

test("peers are told whether an agent is connected, and to the minute when it was; others and of others not", async ({ w, a, b, upgrading }) => {
  const stranger = await w.agent();
  w.clock.step(30_500);
  const listed = async () => {
    const { peers } = await answered<PeerList>(await get(w, a, "/pair/peers"));
    return peers.map(({ agentDid, online, lastSeenAt }) => [agentDid, online, lastSeenAt]);
  };
  const { did } = b.agent;
  const minute = () => toIso(Math.floor(w.clock.now() / 60_000) * 60_000);
  assertEquals(await listed(), [[did, false, null]]);
  await upgrading.open(stranger);
  const socket = await upgrading.open(b);
  assertEquals(await listed(), [[did, true, minute()]]);
  // A claim of the test world that ends later would take the agent back.
  await w.connected();
  socket.onclose?.();
  // A list would count against the rate limit, which a busy machine would reach.
  await until(async () => await w.proxy.deps.presence.holderOf(did) === null);
  const left = minute();
  await w.clock.advance(180_000);
  assertEquals(await listed(), [[did, false, left]]);
  // As an instance that was killed leaves it.
  const seen: Seen = { instance: "gone", connectedAt: w.clock.now() - 86_400_000, disconnectedAt: null };
  await w.kv.set(KEYS.seen(did), seen);
  assertEquals(await listed(), [[did, false, null]]);
});

test("of an agent that hides it, peers learn nothing, also after its end and until it connects openly", async ({ w, a, b, upgrading }) => {
  const listed = async () => {
    const { peers: [peer] } = await answered<PeerList>(await get(w, a, "/pair/peers"));
    return [peer?.online, peer?.lastSeenAt === null];
  };
  const HIDDEN = "/v1/relay/connect?hidden=1";
  const open = await upgrading.open(b);
  assertEquals(await listed(), [true, false]);
  // Beside a socket that is open already.
  const hidden = await upgrading.open(b, HIDDEN);
  assertEquals(await listed(), [null, true]);
  // A claim of the test world that ends later would take the agent back.
  await w.connected();
  for (const socket of [open, hidden]) socket.onclose?.();
  await until(async () => await w.proxy.deps.presence.holderOf(b.agent.did) === null);
  assertEquals(await listed(), [null, true]);
  await upgrading.open(b);
  assertEquals(await listed(), [true, false]);
  await upgrading.open(b, "/v1/relay/connect?hidden=yes&hidden=1&x");
  assertEquals(await listed(), [true, false]);
});
