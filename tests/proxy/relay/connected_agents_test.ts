/**
 * Shows which relay sockets stay open (docs/protocol.md#relay-frames, D-70): up to four per agent that answer within 60
 * s, have a valid AIT, follow the protocol and keep up. Sockets are fakes and tests move the clock.
 */
import { assert, assertEquals } from "@std/assert";
import { UNSENT_BYTES_MAX } from "../../../proxy/relay/agent_sockets.ts";
import { encodeFrame } from "../../../shared/protocol/frames.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { ack, agentOf, type Far, messageTo, newIds, Relay, within } from "./far_end.ts";
import { inFlight } from "../../support/in_flight.ts";

const A = agentOf("A"), B = agentOf("B");

Deno.test("the fifth socket of an agent closes its oldest with 4409; four stay", () => {
  const relay = new Relay();
  const all = Array.from({ length: 5 }, () => relay.connect());
  assertEquals(all.map((far) => far.closed?.code), [4409, undefined, undefined, undefined, undefined]);
  assertEquals([relay.connectedAgents.size, relay.connectedAgents.socketsOf(A.agentDid)?.links.length], [4, 4]);
  assertEquals([relay.connect(B).closed, relay.connectedAgents.size], [null, 5]);
});

Deno.test("a socket gets a heartbeat every 30 s while it answers", async () => {
  const relay = new Relay();
  const far = relay.connect();
  for (let beat = 1; beat <= 10; beat++) {
    await relay.clock.advance(29_999);
    assertEquals(far.of("heartbeat").length, beat - 1);
    await relay.clock.advance(1);
    const beats = far.of("heartbeat");
    assertEquals(beats.length, beat);
    far.say("heartbeat_ack", { ackId: beats.at(-1)?.id });
  }
  assertEquals([far.closed, relay.connectedAgents.size], [null, 1]);
});

Deno.test("a socket that is silent for 60 s is closed with 4408 and no longer counted", async (t) => {
  const cases: [name: string, speak: (far: Far) => void, closed: boolean][] = [
    ["nothing", () => {}, true],
    ["an answer to the heartbeat", (far) => far.say("heartbeat_ack", { ackId: far.of("heartbeat").at(-1)?.id }), false],
    ["a heartbeat of its own", (far) => far.say("heartbeat"), false],
    ["anything at all", (far) => far.link.receive("junk"), false],
  ];
  for (const [name, speak, closed] of cases) {
    await t.step(name, async () => {
      const relay = new Relay();
      const far = relay.connect();
      await relay.clock.advance(30_000);
      speak(far);
      await relay.clock.advance(30_000);
      assertEquals([far.closed?.code, relay.connectedAgents.size], closed ? [4408, 0] : [undefined, 1]);
      await relay.clock.advance(30_000);
      assertEquals([far.closed?.code, relay.connectedAgents.size], [4408, 0], "last frame 60 s ago");
      assertEquals(relay.clock.waiting, 0);
    });
  }
});

Deno.test("a message waits for the second of two sockets that open at once when the first one fails", async () => {
  const relay = new Relay(), { connectedAgents } = relay;
  const [first, second] = [connectedAgents.opening(A.agentDid), connectedAgents.opening(A.agentDid)];
  const opened = connectedAgents.opened(A.agentDid);
  first();
  await flushTasks();
  relay.connect(A);
  second();
  assertEquals((await opened)?.links.length, 1);
});

Deno.test("a silent socket is closed in time, also when the clock was set back by an hour", async () => {
  const relay = new Relay();
  const far = relay.connect();
  relay.clock.step(-3_600_000);
  await relay.clock.advance(90_000);
  assertEquals([far.closed?.code, relay.connectedAgents.size], [4408, 0]);
});

Deno.test("a socket that answers stays open when the clock is set ahead by an hour, and a silent one is closed", async () => {
  const relay = new Relay();
  const far = relay.connect();
  const answer = () => far.say("heartbeat_ack", { ackId: far.of("heartbeat").at(-1)?.id });
  await relay.clock.advance(30_000);
  answer();
  relay.clock.step(3_600_000);
  await relay.clock.advance(30_000);
  answer();
  await relay.clock.advance(30_000);
  assertEquals(far.closed, null);
  await relay.clock.advance(30_000);
  assertEquals(far.closed?.code, 4408);
});

Deno.test("a connector's heartbeat is answered", () => {
  const far = new Relay().connect();
  const id = far.say("heartbeat");
  assertEquals(far.of("heartbeat_ack").map((one) => one.ackId), [id]);
});

Deno.test("a socket is closed with 4401 when its AIT expires, also after many days", async () => {
  const soon = new Relay();
  const far = soon.connect(A, soon.clock.now() / 1000 + 45);
  await soon.clock.advance(44_999);
  assertEquals(far.closed, null);
  await soon.clock.advance(1);
  assertEquals([far.closed?.code, soon.connectedAgents.size, soon.clock.waiting], [4401, 0, 0]);

  // A platform timer takes at most 2^31 - 1 ms; an AIT is valid up to 90 days.
  const DAY_MS = 86_400_000;
  const late = new Relay(DAY_MS);
  const waits: number[] = [];
  const after = late.clock.after.bind(late.clock);
  late.clock.after = (ms, fn) => (waits.push(ms), after(ms, fn));
  const patient = late.connect(A, late.clock.now() / 1000 + 90 * 86_400);
  for (let day = 1; day < 90; day++) {
    await late.clock.advance(DAY_MS);
    patient.say("heartbeat");
  }
  await late.clock.advance(DAY_MS - 1);
  assertEquals(patient.closed, null);
  await late.clock.advance(1);
  assertEquals(patient.closed?.code, 4401);
  assert(waits.every((ms) => ms < 2 ** 31), `${waits}`);
});

Deno.test("an AIT that has already expired closes the socket at once", async () => {
  const relay = new Relay();
  const far = relay.connect(A, relay.clock.now() / 1000 - 1);
  await relay.clock.advance(0);
  assertEquals([far.closed?.code, relay.connectedAgents.size], [4401, 0]);
});

Deno.test("a lost socket and its timers are removed at once", () => {
  const relay = new Relay();
  const [first, second] = [relay.connect(), relay.connect()];
  first.link.lost();
  assertEquals([relay.connectedAgents.size, relay.connectedAgents.socketsOf(A.agentDid)?.links.length], [1, 1]);
  second.link.lost();
  second.link.lost();
  assertEquals([relay.connectedAgents.size, relay.connectedAgents.socketsOf(A.agentDid), relay.clock.waiting], [
    0,
    undefined,
    0,
  ]);
  assertEquals([first.closed, second.closed], [null, null], "it is not closed a second time");
});

Deno.test("closing all sockets ends each with 1001", () => {
  const relay = new Relay();
  const all = [relay.connect(), relay.connect(), relay.connect(B)];
  relay.connectedAgents.closeAll(5_000);
  assertEquals(all.map((far) => far.closed?.code), [1001, 1001, 1001]);
  assertEquals(all[0]?.closed?.reason, "shutting down; connect again within 5000 ms");
  assertEquals([relay.connectedAgents.size, relay.clock.waiting], [0, 0]);
});

Deno.test("a shutdown in parts closes the sockets evenly over its time, also late ones", async () => {
  const relay = new Relay();
  const all = Array.from({ length: 100 }, (_, i) => relay.connect(agentOf(i.toString(32).toUpperCase())));
  const closing = relay.connectedAgents.closeInWaves({ withinMs: 500, returnMs: 12_000 });
  const open = () => all.filter(({ closed }) => closed === null).length;
  const counts: number[] = [];
  for (let ms = 0; ms < 500; ms += 50) {
    await relay.clock.advance(50);
    counts.push(open());
    if (ms === 200) all.push(relay.connect(B));
  }
  await closing;
  assertEquals(counts, [90, 80, 70, 60, 50, 40, 30, 20, 10, 0]);
  assertEquals(
    new Set(all.map(({ closed }) => `${closed?.code} ${closed?.reason}`)),
    new Set(["1001 shutting down; connect again within 12000 ms"]),
  );
  assertEquals([relay.connectedAgents.size, relay.clock.waiting], [0, 0]);
});

Deno.test("a socket with a delivery leaves its agent at once and closes after the acknowledgement", async () => {
  const relay = new Relay();
  const gone: string[] = [];
  relay.connectedAgents.onGone = (agentDid) => gone.push(agentDid);
  const far = relay.connect();
  const delivered = relay.connectedAgents.socketsOf(A.agentDid)?.deliver(messageTo(A, B), within(10_000));
  const closing = relay.connectedAgents.closeInWaves({ withinMs: 500, returnMs: 1_000 });
  await relay.clock.advance(500);
  await closing;
  assertEquals([relay.connectedAgents.socketsOf(A.agentDid), far.closed, relay.connectedAgents.size, gone], [
    undefined,
    null,
    1,
    [A.agentDid],
  ]);
  ack(far, far.of("deliver")[0]?.id ?? "");
  assertEquals(await delivered, { acked: true, accepted: true });
  assertEquals([far.closed?.code, relay.connectedAgents.size, gone, relay.clock.waiting], [1001, 0, [A.agentDid], 0]);
});

Deno.test("a socket whose delivery has no acknowledgement closes at the time limit of the delivery", async () => {
  const relay = new Relay();
  const far = relay.connect();
  const delivered = relay.connectedAgents.socketsOf(A.agentDid)?.deliver(messageTo(A, B), within(2_000));
  const closing = relay.connectedAgents.closeInWaves({ withinMs: 500, returnMs: 1_000 });
  await relay.clock.advance(2_000);
  await closing;
  assertEquals([await delivered, far.closed?.code, relay.connectedAgents.size], [{ acked: false }, 1001, 0]);
});

Deno.test("a closed socket is neither written to nor read", async () => {
  const relay = new Relay();
  const far = relay.connect();
  far.link.end(1008, "for the test");
  const before = far.frames.length;
  far.say("heartbeat");
  for (let i = 0; i < 200; i++) far.link.receive("junk");
  relay.connectedAgents.tellPaired(A.agentDid, B.agentDid, { agentName: "b", humanName: "B" });
  await relay.clock.advance(120_000);
  assertEquals([far.frames.length, far.closed, far.closes], [before, { code: 1008, reason: "for the test" }, 1]);
});

Deno.test("the third message that is not a connector frame closes with 1008", async (t) => {
  const clock = new ManualClock();
  const head = { v: 1, id: newIds(clock)(), ts: "2026-02-21T00:01:00.000Z" };
  const bad: [name: string, text: string][] = [
    ["no JSON", "junk"],
    ["an unknown type", JSON.stringify({ ...head, type: "hello" })],
    ["an ack of nothing", JSON.stringify({ ...head, type: "deliver_ack", accepted: true })],
    ["a frame of the proxy's", JSON.stringify({ ...head, type: "paired", peerAgentDid: A.agentDid, profile: {} })],
    ["a deliver frame of its own", encodeFrame({ ...head, v: 1, type: "deliver", attempt: 1, ...messageTo(B, A) })],
  ];
  for (const [name, text] of bad) {
    await t.step(name, () => {
      const far = new Relay().connect();
      for (let i = 0; i < 2; i++) far.link.receive(text);
      assertEquals(far.closed, null);
      far.link.receive(text);
      assertEquals([far.closed?.code, far.frames], [1008, []]);
    });
  }
  await t.step("binary messages", () => {
    const far = new Relay().connect();
    for (let i = 0; i < 3; i++) far.link.misuse(8);
    assertEquals(far.closed?.code, 1008);
  });
  await t.step("unknown members are ignored", () => {
    const far = new Relay().connect();
    for (let i = 0; i < 5; i++) far.say("heartbeat", { extra: { a: 1 } });
    assertEquals([far.closed, far.of("heartbeat_ack").length], [null, 5]);
  });
});

Deno.test("50 frames a second are allowed, and those of ten seconds at once; acks of messages in flight do not count", async (t) => {
  const unknown = (far: Far, count: number) => {
    for (let i = 0; i < count; i++) ack(far, far.newId());
  };
  const BURST = 500;
  await t.step("50 frames a second are allowed permanently", async () => {
    const relay = new Relay();
    const far = relay.connect();
    for (let second = 0; second < 30; second++) {
      unknown(far, 50);
      await relay.clock.advance(1000);
    }
    assertEquals(far.closed, null);
  });
  await t.step(
    "what a late server reads at once does not close; one frame more does, and holds the owner",
    async () => {
      const relay = new Relay();
      const far = relay.connect();
      unknown(far, BURST);
      assertEquals([far.closed, relay.owners.connectWaitMs(A.ownerDid)], [null, 0]);
      unknown(far, 1);
      assertEquals([far.closed?.code, relay.owners.connectWaitMs(A.ownerDid)], [1008, 10_000]);
      await relay.clock.advance(10_000);
      assertEquals(relay.owners.connectWaitMs(A.ownerDid), 0);
    },
  );
  await t.step("200 acks of 200 messages and the ack of a heartbeat in flight do not count", async () => {
    const relay = new Relay();
    const far = relay.connect();
    const sent = Array.from(
      { length: 200 },
      () => relay.connectedAgents.socketsOf(A.agentDid)?.deliver(messageTo(A, B), within(10_000)),
    );
    for (const { id } of far.of("deliver")) ack(far, id);
    far.link.heartbeat();
    unknown(far, BURST);
    far.say("heartbeat_ack", { ackId: far.of("heartbeat")[0]?.id });
    assertEquals((await Promise.all(sent)).every((outcome) => outcome?.acked), true);
    assertEquals([far.closed, inFlight(relay.connectedAgents)], [null, 0]);
  });
  await t.step("an ack of a message in flight over 512 bytes counts, and is taken", async () => {
    const relay = new Relay();
    const far = relay.connect();
    const sent = relay.connectedAgents.socketsOf(A.agentDid)?.deliver(messageTo(A, B), within(10_000));
    unknown(far, BURST - 1);
    far.say("deliver_ack", { ackId: far.of("deliver")[0]?.id, accepted: true, padding: "x".repeat(512) });
    assertEquals([(await sent)?.acked, far.closed], [true, null]);
    unknown(far, 1);
    assertEquals(far.closed?.code, 1008);
  });
  await t.step("acks of one heartbeat count from the second on", () => {
    const far = new Relay().connect();
    far.link.heartbeat();
    const [heartbeat] = far.of("heartbeat");
    for (let i = 0; i < BURST + 1; i++) far.say("heartbeat_ack", { ackId: heartbeat?.id });
    assertEquals(far.closed, null);
    far.say("heartbeat_ack", { ackId: heartbeat?.id });
    assertEquals(far.closed?.code, 1008);
  });
  await t.step("acks of unanswered heartbeats count from the ninth newest on", () => {
    const far = new Relay().connect();
    for (let i = 0; i < 8 + BURST + 1; i++) far.link.heartbeat();
    const heartbeats = far.of("heartbeat").toReversed();
    for (const { id } of heartbeats.slice(0, 8 + BURST)) far.say("heartbeat_ack", { ackId: id });
    assertEquals(far.closed, null);
    far.say("heartbeat_ack", { ackId: heartbeats.at(-1)?.id });
    assertEquals(far.closed?.code, 1008);
  });
  await t.step("one heartbeat a second is answered, ten at once, and an eleventh or a large one closes", async () => {
    const relay = new Relay();
    const far = relay.connect();
    for (let second = 0; second < 20; second++) {
      far.say("heartbeat");
      await relay.clock.advance(1000);
    }
    for (let i = 0; i < 10; i++) far.say("heartbeat");
    assertEquals([far.closed, far.of("heartbeat_ack").length], [null, 30]);
    far.say("heartbeat");
    assertEquals(far.closed?.code, 1008);
    const large = relay.connect(B);
    large.say("heartbeat", { padding: "x".repeat(512) });
    assertEquals([large.closed?.code, large.frames], [1008, []]);
  });
  await t.step(
    "an owner's sockets share 200 frames and 256 KiB a second; another owner's are not affected",
    async () => {
      const relay = new Relay();
      const agents = Array.from({ length: 9 }, (_, i) => ({ ...agentOf("ABCDEFGHJ"[i] ?? "A"), ownerDid: A.ownerDid }));
      const sockets = agents.map((agent) => relay.connect(agent));
      const other = relay.connect({ ...agentOf("K"), ownerDid: B.ownerDid });
      for (const socket of sockets.slice(0, 4)) unknown(socket, BURST);
      unknown(other, BURST);
      assertEquals([...sockets, other].filter(({ closed }) => closed).length, 0);
      unknown(sockets[4] as Far, 1);
      assertEquals(sockets[4]?.closed, { code: 1008, reason: "too many frames of one owner" });
      await relay.clock.advance(10_000);
      const padded = { ackId: other.newId(), accepted: true, padding: "x".repeat(8_000) };
      for (let sent = 0; sent < 310; sent++) sockets[sent % 4]?.say("deliver_ack", padded);
      assertEquals(sockets.slice(0, 4).filter(({ closed }) => closed).length, 0);
      for (let sent = 0; sent < 20; sent++) sockets[5 + sent % 4]?.say("deliver_ack", padded);
      assertEquals(sockets.slice(5, 9).map(({ closed }) => closed?.code), Array(4).fill(1008));
    },
  );
  await t.step("a flood is not processed beyond the limit", () => {
    const far = new Relay().connect();
    for (let i = 0; i < 10_000; i++) far.link.receive("garbage");
    assertEquals([far.closed?.code, far.closes], [1008, 1]);
  });
});

Deno.test("a connector frame over 8 KiB of UTF-8 closes with 1009 before it is parsed", () => {
  for (
    const [text, code] of [
      [`"${"x".repeat(LIMITS.connectorFrameBytes - 2)}"`, undefined],
      [`"${"x".repeat(LIMITS.connectorFrameBytes - 1)}"`, 1009],
      [`"${"\u20ac".repeat(Math.ceil(LIMITS.connectorFrameBytes / 3))}"`, 1009],
      ["[".repeat(LIMITS.connectorFrameBytes + 1), 1009],
      ["x".repeat(64 * 2 ** 20), 1009],
    ] as const
  ) {
    const far = new Relay().connect();
    far.link.receive(text);
    assertEquals(far.closed?.code, code);
  }
});

Deno.test("a socket with more than 8 MiB unsent is closed with 1013 at the next frame, and not before", async () => {
  const relay = new Relay();
  const far = relay.connect();
  far.unsentBytes = UNSENT_BYTES_MAX;
  await relay.clock.advance(30_000);
  assertEquals([far.closed, far.of("heartbeat").length], [null, 1]);
  far.unsentBytes = UNSENT_BYTES_MAX + 1;
  far.say("heartbeat");
  assertEquals([far.closed?.code, relay.connectedAgents.size, far.frames.length], [1013, 0, 1]);
});

Deno.test("a socket is ended when writing to it fails", () => {
  const relay = new Relay();
  const far = relay.connect();
  far.broken = true;
  far.say("heartbeat");
  assertEquals([far.closes, relay.connectedAgents.size], [1, 0]);
});

Deno.test("beyond 64 MiB of unsent bytes the slowest socket of the owner with most of them is closed with 1013", () => {
  const relay = new Relay();
  const slow = [..."ABCDEFGHJ"].map((letter, i) => {
    const far = relay.connect({ ...agentOf(letter), ownerDid: `${A.ownerDid.slice(0, -1)}${i % 3}` });
    far.unsentBytes = UNSENT_BYTES_MAX - (i % 3 === 1 ? 0 : i + 1);
    return far;
  });
  // The slowest socket of all is of an owner that has no other.
  const single = relay.connect({ ...agentOf("K"), ownerDid: `${A.ownerDid.slice(0, -1)}9` });
  single.unsentBytes = UNSENT_BYTES_MAX;
  const quick = relay.connect(agentOf("M"));
  quick.link.heartbeat();
  assertEquals(slow.filter((far) => far.closed).length, 0, "a socket that keeps up closes no other");
  slow.at(-1)?.link.heartbeat();
  assertEquals(slow.map((far) => far.closed?.code), [undefined, 1013, ...Array(7).fill(undefined)]);
  assertEquals(single.closed, null);
  slow.at(-1)?.link.heartbeat();
  assertEquals(slow.at(-1)?.of("heartbeat").length, 2);
});

Deno.test("rare heartbeats keep sockets that answer each of them and close those that do not", async () => {
  const relay = new Relay(300_000);
  const [alive, silent] = [relay.connect(A), relay.connect(B)];
  for (let beat = 1; beat <= 3; beat++) {
    await relay.clock.advance(300_000);
    if (!alive.closed) alive.say("heartbeat_ack", { ackId: alive.of("heartbeat").at(-1)?.id });
  }
  assertEquals([alive.closed, silent.closed?.code], [null, 4408]);
});
