/**
 * Shows how a message is delivered over the relay sockets of one agent (D-67, D-70): to the newest, to the next when
 * that one is lost, within one time limit over all attempts. Every sender gets an answer.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type DeliveryResult, UNSENT_BYTES_MAX } from "../../../proxy/relay/agent_sockets.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { ack, agentOf, type Far, messageTo, newIds, Relay, within } from "./far_end.ts";
import { inFlight } from "../../support/in_flight.ts";

const A = agentOf("A"), B = agentOf("B");
const TIMEOUT_MS = 10_000;
const FAILED: DeliveryResult = { acked: false };
const ACCEPTED: DeliveryResult = { acked: true, accepted: true };

class Delivering extends Relay {
  /** Starts to deliver a message to A. */
  deliver(payload?: string): { outcome: Promise<DeliveryResult>; ended: () => boolean } {
    const sockets = this.connectedAgents.socketsOf(A.agentDid);
    assert(sockets);
    let over = false;
    const outcome = sockets.deliver(messageTo(A, B, payload), within(TIMEOUT_MS)).finally(() => over = true);
    return { outcome, ended: () => over };
  }
}

function only<T>(all: readonly T[]): T {
  assertEquals(all.length, 1);
  return all[0] as T;
}

Deno.test("the sender is answered at once when the last socket is lost, with either side closing", async (t) => {
  const endings: [name: string, end: (far: Far, relay: Delivering) => void][] = [
    ["the peer is gone", (far) => far.link.lost()],
    ["closed for misuse", (far) => ["", "", ""].forEach((text) => far.link.receive(text))],
    ["closed as too large", (far) => far.link.receive("x".repeat(LIMITS.connectorFrameBytes + 1))],
    ["closed as too slow", (far) => {
      far.unsentBytes = UNSENT_BYTES_MAX + 1;
      far.say("heartbeat");
    }],
    ["shut down", (_, relay) => relay.connectedAgents.closeAll(5_000)],
    ["no longer authorised", (far, relay) => relay.connectedAgents.revoke(far.link, "revoked")],
  ];
  for (const [name, end] of endings) {
    await t.step(name, async () => {
      const relay = new Delivering();
      const far = relay.connect();
      const waiting = [relay.deliver(), relay.deliver(), relay.deliver()];
      end(far, relay);
      for (const { outcome } of waiting) assertEquals(await outcome, FAILED);
      assertEquals([inFlight(relay.connectedAgents), relay.clock.waiting], [0, 0]);
    });
  }
});

Deno.test("a message whose socket is lost goes to the next newest with a new ID, as the next attempt", async () => {
  const relay = new Delivering();
  const all = [relay.connect(), relay.connect(), relay.connect()];
  const { outcome, ended } = relay.deliver();
  for (const far of [all[2], all[1]]) {
    far?.link.lost();
    await flushTasks();
  }
  assertEquals(ended(), false);
  const frames = all.toReversed().map((far) => only(far.of("deliver")));
  assertEquals(frames.map((frame) => frame.attempt), [1, 2, 3]);
  assertEquals(new Set(frames.map((frame) => frame.id)).size, 3);
  assertEquals(new Set(frames.map((frame) => `${frame.fromAgentDid} ${frame.requestId} ${frame.payload}`)).size, 1);
  ack(all[0] as Far, frames[2]?.id ?? "");
  assertEquals(await outcome, ACCEPTED);
});

Deno.test("a message whose socket is lost goes to a socket that connected meanwhile", async () => {
  const relay = new Delivering();
  const first = relay.connect();
  const { outcome } = relay.deliver();
  const second = relay.connect();
  first.link.lost();
  await flushTasks();
  assertEquals(only(second.of("deliver")).attempt, 2);
  ack(second, only(second.of("deliver")).id);
  assertEquals(await outcome, ACCEPTED);
});

Deno.test("one time limit covers all attempts", async () => {
  const relay = new Delivering();
  const [older, newer] = [relay.connect(), relay.connect()];
  const { outcome, ended } = relay.deliver();
  await relay.clock.advance(TIMEOUT_MS - 1000);
  newer.link.lost();
  await flushTasks();
  assertEquals(older.of("deliver").length, 1);
  await relay.clock.advance(999);
  assertEquals(ended(), false);
  await relay.clock.advance(1);
  assertEquals(await outcome, FAILED);
});

Deno.test("a socket that does not keep up is skipped and closed", async () => {
  const relay = new Delivering();
  const [older, newer] = [relay.connect(), relay.connect()];
  newer.unsentBytes = UNSENT_BYTES_MAX + 1;
  const { outcome } = relay.deliver();
  await flushTasks();
  assertEquals([newer.frames, newer.closed?.code], [[], 1013]);
  ack(older, only(older.of("deliver")).id);
  assertEquals(await outcome, ACCEPTED);
});

Deno.test("an ack counts once and only from the socket that the frame went to", async () => {
  const relay = new Delivering();
  const [older, newer, stranger] = [relay.connect(), relay.connect(), relay.connect(B)];
  const { outcome, ended } = relay.deliver();
  const { id } = only(newer.of("deliver"));
  for (const other of [older, stranger]) ack(other, id);
  await flushTasks();
  assertEquals([ended(), inFlight(relay.connectedAgents)], [false, 1]);
  ack(newer, id, false, "full");
  ack(newer, id);
  assertEquals(await outcome, { acked: true, accepted: false, reason: "full" });
  assertEquals([older, newer, stranger].map((far) => far.closed), [null, null, null]);
});

Deno.test("a socket that leaves stays open until what follows the ack has ended, also when that fails", async () => {
  for (const end of ["resolve", "reject"] as const) {
    const relay = new Delivering(), far = relay.connect();
    const removal = Promise.withResolvers<void>();
    const outcome = relay.connectedAgents.socketsOf(A.agentDid)?.deliver(
      messageTo(A, B),
      { ...within(TIMEOUT_MS), after: () => removal.promise },
    );
    ack(far, only(far.of("deliver")).id);
    assertEquals(await outcome, ACCEPTED);
    far.link.leave(1001, "shutting down");
    await flushTasks();
    assertEquals(far.closed, null);
    removal[end]();
    await flushTasks();
    assertEquals(far.closed?.code, 1001);
  }
});

Deno.test("an ack of a lost attempt does not count for the next attempt", async () => {
  const relay = new Delivering();
  const [older, newer] = [relay.connect(), relay.connect()];
  const { outcome, ended } = relay.deliver();
  const { id } = only(newer.of("deliver"));
  newer.link.lost();
  await flushTasks();
  ack(newer, id);
  ack(older, id);
  await flushTasks();
  assertEquals(ended(), false);
  ack(older, only(older.of("deliver")).id);
  assertEquals(await outcome, ACCEPTED);
});

Deno.test("every message ends under random socket events, as delivered exactly when one ack accepted it", async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("connect" as const) }),
    fc.record({ kind: fc.constant("send" as const) }),
    fc.record({ kind: fc.constant("ack" as const), who: fc.nat(5), accepted: fc.boolean() }),
    fc.record({ kind: fc.constant("lose" as const), who: fc.nat(5) }),
    fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(1, 9_999, 10_000) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const relay = new Delivering();
      const all: Far[] = [];
      const sent: { outcome: Promise<DeliveryResult>; payload: string }[] = [];
      const accepted = new Map<string, number>();
      const acked = new Set<string>();
      for (const one of steps) {
        if (one.kind === "connect") all.push(relay.connect());
        if (one.kind === "send" && relay.connectedAgents.socketsOf(A.agentDid)) {
          const payload = String(sent.length);
          sent.push({ ...relay.deliver(payload), payload });
        }
        const far = "who" in one ? all[one.who] : undefined;
        if (one.kind === "lose") far?.link.lost();
        if (one.kind === "ack" && far && relay.connectedAgents.links().includes(far.link)) {
          const open = far.of("deliver").find(({ id }) => !acked.has(id));
          if (open && far.link.inFlight > 0) {
            acked.add(open.id);
            const before = inFlight(relay.connectedAgents);
            ack(far, open.id, one.accepted);
            if (inFlight(relay.connectedAgents) < before && one.accepted) {
              accepted.set(open.payload, (accepted.get(open.payload) ?? 0) + 1);
            }
          }
        }
        if (one.kind === "wait") await relay.clock.advance(one.ms);
        await Promise.resolve();
        for (const live of relay.connectedAgents.links()) {
          live.receive(
            JSON.stringify({
              v: 1,
              type: "heartbeat_ack",
              id: newIds(relay.clock)(),
              ts: "2026-02-21T00:01:00Z",
              ackId: newIds(relay.clock)(),
            }),
          );
        }
      }
      await relay.clock.advance(TIMEOUT_MS);
      for (const { outcome, payload } of sent) {
        const ended = await outcome;
        assertEquals(ended.acked && ended.accepted ? 1 : 0, accepted.get(payload) ?? 0, payload);
      }
      assertEquals(inFlight(relay.connectedAgents), 0);
      const ids = all.flatMap((far) => far.of("deliver").map((frame) => frame.id));
      assertEquals(new Set(ids).size, ids.length);
      relay.connectedAgents.closeAll(5_000);
      assertEquals([relay.connectedAgents.size, relay.clock.waiting], [0, 0]);
    }),
    { numRuns: 40, seed: 1 },
  );
});

Deno.test("an acknowledgement counts against the limit of frames from its second copy on, also during a removal", () => {
  const relay = new Delivering();
  const far = relay.connect();
  const removal = Promise.withResolvers<void>();
  void relay.connectedAgents.socketsOf(A.agentDid)?.deliver(
    messageTo(A, B),
    { ...within(TIMEOUT_MS), after: () => removal.promise },
  );
  const { id } = only(far.of("deliver"));
  for (let i = 0; i < 1_000; i++) ack(far, id);
  assertEquals(far.closed, { code: 1008, reason: "too many frames" });
  removal.resolve();
});
