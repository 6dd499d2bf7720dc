/**
 * Shows how a note reaches another instance (D-105): in order, complete and once, for any number of notes; at once
 * after a wake-up from the same process, otherwise at the next poll.
 */
import { assertEquals } from "@std/assert";
import { type LocalWakeups, PresenceStore } from "../../../proxy/relay/presence.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { seededRandom } from "../../support/seeded_random.ts";

/** A store whose watch never reports a change. */
async function storeWithoutWatch(): Promise<Deno.Kv> {
  const kv = await Deno.openKv(":memory:");
  kv.watch = () => new ReadableStream();
  return kv;
}

/** Wakers of two isolates: a wake-up by one reaches the other. */
function linkedWakeups(): [LocalWakeups, LocalWakeups] {
  const make = (other: () => LocalWakeups): LocalWakeups => ({
    onmessage: null,
    postMessage: (data) => other().onmessage?.(new MessageEvent("message", { data })),
  });
  const pair: [LocalWakeups, LocalWakeups] = [make(() => pair[1]), make(() => pair[0])];
  return pair;
}

interface ReceivedNote {
  body: unknown;
  bytes: number;
}

async function buses(
  run: (a: PresenceStore, b: PresenceStore, received: ReceivedNote[], clock: ManualClock, kv: Deno.Kv) => Promise<void>,
  knocks: boolean,
) {
  const kv = await storeWithoutWatch();
  const clock = new ManualClock();
  const [one, other] = linkedWakeups();
  const make = (seed: number, siblings: LocalWakeups) => {
    const random = seededRandom(seed);
    const newId = ulidSource(() => clock.now(), random.bytes);
    return new PresenceStore({ kv, clock, random, newId, log: () => {}, ...(knocks ? { siblings } : {}) });
  };
  const a = make(1, one), b = make(2, other);
  const received: ReceivedNote[] = [];
  b.onNote = (body, bytes) => received.push({ body, bytes: bytes.length });
  await Promise.all([a.start(false), b.start(false)]);
  await run(a, b, received, clock, kv);
  await Promise.all([a.stop(), b.stop()]);
  kv.close();
}

Deno.test("a note for an isolate of the same process arrives by a wake-up, without a watch", () =>
  buses(async (a, b, received) => {
    await a.send(b.instance, "hello");
    await until(() => received.length > 0);
    assertEquals(received, [{ body: "hello", bytes: 0 }]);
  }, true));

Deno.test("a note without a wake-up arrives at the next poll", () =>
  buses(async (a, b, received, clock) => {
    await a.send(b.instance, "hello");
    await flushTasks();
    assertEquals(received, []);
    await clock.advance(2_000);
    await until(() => received.length > 0);
    assertEquals(received, [{ body: "hello", bytes: 0 }]);
  }, false));

Deno.test("notes are read in the order they were written, complete and once", () =>
  buses(async (a, b, received, _clock, kv) => {
    const commits = new GroupCommit(kv, 100);
    const sizes = Array.from({ length: 130 }, (_, i) => i % 40 === 0 ? 300_000 : i);
    for (const [i, size] of sizes.entries()) {
      assertEquals(await commits.claim([a.post(b.instance, i, new Uint8Array(size))]), { taken: true });
    }
    a.wakeUp(b.instance);
    a.wakeUp(b.instance);
    await until(() => received.length >= sizes.length);
    await flushTasks();
    assertEquals(received, sizes.map((bytes, i) => ({ body: i, bytes })));
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox"] })), []);
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox_part"] })), []);
  }, true));
