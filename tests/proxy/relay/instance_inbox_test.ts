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
async function deafStore(): Promise<Deno.Kv> {
  const kv = await Deno.openKv(":memory:");
  kv.watch = () => new ReadableStream();
  return kv;
}

/** Wakers of two isolates: a wake-up by one reaches the other. */
function doors(): [LocalWakeups, LocalWakeups] {
  const make = (other: () => LocalWakeups): LocalWakeups => ({
    onmessage: null,
    postMessage: (data) => other().onmessage?.(new MessageEvent("message", { data })),
  });
  const pair: [LocalWakeups, LocalWakeups] = [make(() => pair[1]), make(() => pair[0])];
  return pair;
}

interface Heard {
  body: unknown;
  bytes: number;
}

async function buses(
  run: (a: PresenceStore, b: PresenceStore, heard: Heard[], clock: ManualClock, kv: Deno.Kv) => Promise<void>,
  knocks: boolean,
) {
  const kv = await deafStore();
  const clock = new ManualClock();
  const [one, other] = doors();
  const make = (seed: number, siblings: LocalWakeups) => {
    const random = seededRandom(seed);
    const newId = ulidSource(() => clock.now(), random.bytes);
    return new PresenceStore({ kv, clock, random, newId, log: () => {}, ...(knocks ? { siblings } : {}) });
  };
  const a = make(1, one), b = make(2, other);
  const heard: Heard[] = [];
  b.onNote = (body, bytes) => heard.push({ body, bytes: bytes.length });
  await Promise.all([a.start(false), b.start(false)]);
  await run(a, b, heard, clock, kv);
  await Promise.all([a.stop(), b.stop()]);
  kv.close();
}

Deno.test("a note for an isolate of the same process arrives by a wake-up, without a watch", () =>
  buses(async (a, b, heard) => {
    await a.send(b.instance, "hello");
    await until(() => heard.length > 0);
    assertEquals(heard, [{ body: "hello", bytes: 0 }]);
  }, true));

Deno.test("a note without a wake-up arrives at the next poll", () =>
  buses(async (a, b, heard, clock) => {
    await a.send(b.instance, "hello");
    await flushTasks();
    assertEquals(heard, []);
    await clock.advance(2_000);
    await until(() => heard.length > 0);
    assertEquals(heard, [{ body: "hello", bytes: 0 }]);
  }, false));

Deno.test("notes are read in the order they were written, complete and once", () =>
  buses(async (a, b, heard, _clock, kv) => {
    const commits = new GroupCommit(kv, 100);
    const sizes = Array.from({ length: 130 }, (_, i) => i % 40 === 0 ? 300_000 : i);
    for (const [i, size] of sizes.entries()) {
      assertEquals(await commits.claim([a.post(b.instance, i, new Uint8Array(size))]), { taken: true });
    }
    a.wakeUp(b.instance);
    a.wakeUp(b.instance);
    await until(() => heard.length >= sizes.length);
    await flushTasks();
    assertEquals(heard, sizes.map((bytes, i) => ({ body: i, bytes })));
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox"] })), []);
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox_part"] })), []);
  }, true));
