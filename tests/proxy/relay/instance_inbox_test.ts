/**
 * Shows how a note reaches another instance (D-105): in order, whole and once, however many lie there; at once where a
 * sibling knocks, and by the next look where nobody does.
 */
import { assertEquals } from "@std/assert";
import { type LocalWakeups, PresenceStore } from "../../../proxy/relay/presence.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { seededRandom } from "../../support/seeded_random.ts";

/** A store whose watch never says anything. */
async function deafStore(): Promise<Deno.Kv> {
  const kv = await Deno.openKv(":memory:");
  kv.watch = () => new ReadableStream();
  return kv;
}

/** Doors of two isolates: whoever knocks is heard at the other one. */
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

Deno.test("a note for a sibling is heard by its knock, without the bell", () =>
  buses(async (a, b, heard) => {
    await a.send(b.instance, "hello");
    await until(() => heard.length > 0);
    assertEquals(heard, [{ body: "hello", bytes: 0 }]);
  }, true));

Deno.test("a note that nobody knocks for is found by the next look", () =>
  buses(async (a, b, heard, clock) => {
    await a.send(b.instance, "hello");
    await flushTasks();
    assertEquals(heard, []);
    await clock.advance(2_000);
    await until(() => heard.length > 0);
    assertEquals(heard, [{ body: "hello", bytes: 0 }]);
  }, false));

Deno.test("notes are taken in the order they were written, whole, and once", () =>
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
