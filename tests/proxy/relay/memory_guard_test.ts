/** Shows which sockets are ended when memory runs out: those that do not answer, and never an honest one. */
import { assertEquals } from "@std/assert";
import { MemoryGuard } from "../../../proxy/relay/memory_guard.ts";
import type { Kv } from "../../../shared/server/kv.ts";
import { agentOf, type Far, Relay } from "./far_end.ts";

const MIB = 2 ** 20;
const BOUND = 700 * MIB;

class Guarded extends Relay implements Disposable {
  readonly lines: unknown[] = [];
  heldBytes = 100 * MIB;
  /** What a read of the store waits for. */
  reading = Promise.resolve();
  isBusy = true;
  readonly #guard = new MemoryGuard({
    clock: this.clock,
    owners: this.owners,
    connectedAgents: this.connectedAgents,
    log: (_level, event, fields) => this.lines.push([event, fields]),
    heldBytes: () => this.heldBytes,
    file: { get: () => this.reading } as unknown as Pick<Kv, "get">,
    processorMs: () => this.isBusy ? this.clock.now() : 0,
  }, BOUND);

  constructor() {
    super();
    this.#guard.start();
  }

  /** Answers the heartbeats of the guard. */
  answer(...all: Far[]): void {
    for (const far of all) far.say("heartbeat_ack", { ackId: far.of("heartbeat").at(-1)?.id });
  }

  [Symbol.dispose](): void {
    this.#guard.stop();
    this.connectedAgents.closeAll(0);
  }
}

Deno.test("when memory grows by 64 MiB in a second, a socket that does not answer in 2 s is dropped, and its owner waits", async () => {
  using guarded = new Guarded();
  const { clock, owners } = guarded;
  const honest = guarded.connect(agentOf("A")), hostile = guarded.connect(agentOf("B"));
  await clock.advance(1_000);
  guarded.heldBytes += 63 * MIB;
  await clock.advance(250);
  assertEquals(honest.frames, [], "nothing is asked yet");
  guarded.heldBytes += MIB;
  await clock.advance(250);
  assertEquals([honest.of("heartbeat").length, hostile.of("heartbeat").length], [1, 1]);
  await clock.advance(1_900);
  guarded.answer(honest);
  assertEquals([hostile.closed, hostile.isDropped], [null, false]);
  await clock.advance(1_000);
  assertEquals([honest.closed, honest.isDropped], [null, false]);
  assertEquals([hostile.closed?.code, hostile.isDropped], [4408, true]);
  const [a, b] = [agentOf("A").ownerDid, agentOf("B").ownerDid];
  assertEquals([owners.connectWaitMs(a), owners.connectWaitMs(b) > 58_000], [0, true]);
  assertEquals(guarded.lines, [["memory_guard", { bytes: 164 * MIB, sockets: 1, ownerDids: [b] }]]);
});

Deno.test("above the bound sockets are asked every 30 s, and slow growth below it asks none", async () => {
  using guarded = new Guarded();
  const { clock } = guarded;
  const honest = guarded.connect(agentOf("A"));
  const asked = () => honest.of("heartbeat").length;
  for (let second = 0; second < 20; second++) {
    guarded.heldBytes += 25 * MIB;
    await clock.advance(1_000);
  }
  assertEquals(asked(), 0);
  guarded.heldBytes = BOUND + 1;
  for (let second = 0; second < 9; second++) {
    await clock.advance(1_000);
    guarded.answer(honest);
  }
  assertEquals([asked(), honest.closed], [1, null]);
  for (let second = 0; second < 25; second++) {
    await clock.advance(1_000);
    guarded.answer(honest);
  }
  // One of them is the usual heartbeat.
  assertEquals([asked(), honest.closed], [3, null]);
});

Deno.test("a message that begins after a round and grows by less than 64 MiB in a second is ended soon above the bound", async () => {
  using guarded = new Guarded();
  const { clock } = guarded;
  const first = guarded.connect(agentOf("A")), next = guarded.connect(agentOf("B"));
  guarded.heldBytes = BOUND - 100 * MIB;
  await clock.advance(1_000);
  guarded.heldBytes += 100 * MIB;
  await clock.advance(250);
  guarded.answer(next);
  await clock.advance(2_250);
  assertEquals([first.isDropped, next.isDropped], [true, false]);
  guarded.heldBytes = BOUND - 100 * MIB;
  for (let quarter = 0; quarter < 20 && !next.isDropped; quarter++) {
    await clock.advance(250);
    guarded.heldBytes += 15 * MIB;
  }
  assertEquals(next.isDropped, true, `${guarded.heldBytes / MIB} MiB`);
});

Deno.test("a clock that steps back stops neither the rounds nor, for longer than they last, the owners that wait", async () => {
  using guarded = new Guarded();
  const { clock, owners } = guarded;
  guarded.connect(agentOf("A"));
  guarded.heldBytes = BOUND + MIB;
  await clock.advance(250 + 3_000);
  const { ownerDid } = agentOf("A"), other = guarded.connect(agentOf("B"));
  assertEquals(owners.connectWaitMs(ownerDid) > 50_000, true);
  clock.step(-3_600_000);
  assertEquals(owners.connectWaitMs(ownerDid), 0);
  owners.holdConnects(ownerDid);
  assertEquals(owners.connectWaitMs(ownerDid), 10_000);
  await clock.advance(1_000);
  assertEquals(other.of("heartbeat").length, 1);
});

Deno.test("a clock that steps back while sockets are asked ends only those that do not answer", async () => {
  using guarded = new Guarded();
  const honest = guarded.connect(agentOf("A")), hostile = guarded.connect(agentOf("B"));
  await guarded.clock.advance(1_000);
  guarded.heldBytes += 100 * MIB;
  await guarded.clock.advance(250);
  guarded.clock.step(-3_600_000);
  guarded.answer(honest);
  await guarded.clock.advance(3_000);
  assertEquals([honest.closed, honest.isDropped, hostile.isDropped], [null, false, true]);
});

Deno.test("a socket that opened while others were asked is not judged", async () => {
  using guarded = new Guarded();
  await guarded.clock.advance(1_000);
  const hostile = guarded.connect(agentOf("B"));
  guarded.heldBytes += 100 * MIB;
  await guarded.clock.advance(1_000);
  const late = guarded.connect(agentOf("A"));
  await guarded.clock.advance(2_000);
  assertEquals([hostile.isDropped, late.isDropped, late.closed], [true, false, null]);
});

Deno.test("when the store does not answer for a second, a socket that does not answer either is dropped, and its owner waits", async () => {
  using guarded = new Guarded();
  const { clock, owners } = guarded;
  const honest = guarded.connect(agentOf("A")), hostile = guarded.connect(agentOf("B"));
  await clock.advance(5_000);
  assertEquals(honest.frames, [], "the store answers");
  const held = Promise.withResolvers<void>();
  guarded.reading = held.promise;
  await clock.advance(1_250);
  guarded.answer(honest);
  await clock.advance(2_000);
  assertEquals([honest.closed, honest.isDropped], [null, false]);
  assertEquals([hostile.closed?.code, hostile.isDropped], [4408, true]);
  assertEquals([owners.connectWaitMs(agentOf("A").ownerDid), owners.connectWaitMs(agentOf("B").ownerDid) > 58_000], [
    0,
    true,
  ]);
  guarded.reading = Promise.resolve();
  held.resolve();
  await clock.advance(250);
  const asked = honest.of("heartbeat").length;
  await clock.advance(5_000);
  assertEquals(honest.of("heartbeat").length, asked, "nothing is asked once the store answers again");
});

Deno.test("while a disk stands still and the process has nothing to do, no socket is asked or ended", async () => {
  using guarded = new Guarded();
  const asleep = guarded.connect(agentOf("A"));
  guarded.isBusy = false;
  guarded.reading = new Promise(() => {});
  await guarded.clock.advance(20_000);
  assertEquals([asleep.frames, asleep.closed, guarded.lines], [[], null, []]);
});

Deno.test("sockets whose answers arrive late stay, when those of a more suspect owner are ended before", async () => {
  using guarded = new Guarded();
  const { clock, owners } = guarded;
  const honest = [guarded.connect(agentOf("A")), guarded.connect(agentOf("C"))];
  const many = { ...agentOf("D"), agentDid: agentOf("E").agentDid };
  const [prompt, late] = [guarded.connect(agentOf("D")), guarded.connect(many)];
  const hostile = [1, 2, 3].map(() => guarded.connect(agentOf("B")));
  await clock.advance(1_000);
  guarded.heldBytes += 100 * MIB;
  await clock.advance(250);
  guarded.answer(prompt);
  await clock.advance(2_100);
  assertEquals(hostile.map(({ isDropped }) => isDropped), [true, true, true]);
  assertEquals([...honest, prompt, late].map(({ isDropped }) => isDropped), [false, false, false, false]);
  guarded.answer(late, honest[0] as Far);
  await clock.advance(1_500);
  assertEquals([late, honest[0], honest[1]].map((far) => far?.isDropped), [false, false, true]);
  const waits = ["A", "B", "C", "D"].map((letter) => owners.connectWaitMs(agentOf(letter).ownerDid) > 0);
  assertEquals(waits, [false, true, true, false]);
  assertEquals(guarded.lines.length, 1);
});
