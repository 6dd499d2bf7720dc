/**
 * Shows how a note reaches another instance: in order, complete and once, for any number of notes, and by the next poll
 * when the watch reports nothing.
 */
import { assertEquals } from "@std/assert";
import { InstanceInbox } from "../../../proxy/relay/instance_inbox.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { addWrite } from "../../../shared/server/store/batch.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

/** A store whose watch reports nothing. */
async function unwatchedStore(): Promise<Deno.Kv> {
  const kv = await openTestKv();
  kv.watch = () => new ReadableStream();
  return kv;
}

interface Received {
  body: unknown;
  bytes: number;
}

/** The inboxes of two instances. */
function inboxes(kv: Deno.Kv, clock: ManualClock): [InstanceInbox, InstanceInbox] {
  const make = (seed: number) => {
    const newId = ulidSource(() => clock.now(), seededRandom(seed).bytes);
    return new InstanceInbox({ kv, clock, newId, log: () => {}, instance: newId() });
  };
  return [make(1), make(2)];
}

async function withInboxes(
  run: (a: InstanceInbox, b: InstanceInbox, received: Received[], clock: ManualClock, kv: Deno.Kv) => Promise<void>,
) {
  const kv = await unwatchedStore();
  const clock = new ManualClock();
  const [a, b] = inboxes(kv, clock);
  const received: Received[] = [];
  b.onNote = (body, bytes) => received.push({ body, bytes: bytes.length });
  for (const inbox of [a, b]) inbox.start();
  await run(a, b, received, clock, kv);
  for (const inbox of [a, b]) await inbox.stop();
  kv.close();
}

/** Writes a note to b. */
async function send(kv: Deno.Kv, a: InstanceInbox, b: InstanceInbox, body: unknown): Promise<void> {
  const operation = kv.atomic();
  for (const write of a.writesOf(b.instance, body)) addWrite(operation, write.key, write);
  await operation.commit();
}

Deno.test("the instance inbox receives a note at the next poll when the watch reports nothing", () =>
  withInboxes(async (a, b, received, clock, kv) => {
    await send(kv, a, b, "hello");
    await flushTasks();
    assertEquals(received, []);
    await clock.advance(2_000);
    await until(() => received.length > 0);
    assertEquals(received, [{ body: "hello", bytes: 0 }]);
  }));

Deno.test("the instance inbox receives the notes that were written before it stops, and no later one", () =>
  withInboxes(async (a, b, received, clock, kv) => {
    await send(kv, a, b, "before");
    const stopped = b.stop();
    await Promise.all([stopped, b.stop()]);
    await send(kv, a, b, "after");
    await clock.advance(10_000);
    assertEquals(received, [{ body: "before", bytes: 0 }]);
  }));

Deno.test("the instance inbox receives many notes in the order of their commits, complete and once", () =>
  withInboxes(async (a, b, received, clock, kv) => {
    const commits = new GroupCommit(kv, MAX_CHECKS);
    const sizes = Array.from({ length: 130 }, (_, i) => i % 40 === 0 ? 300_000 : i);
    // The most that a note holds itself, and one more.
    sizes.push(57_344, 57_345);
    for (const [i, size] of sizes.entries()) {
      assertEquals(await commits.claim([a.write(b.instance, i, new Uint8Array(size))]), { taken: true });
    }
    await clock.advance(2_000);
    await until(() => received.length >= sizes.length);
    await b.stop();
    assertEquals(received, sizes.map((bytes, i) => ({ body: i, bytes })));
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox"] })), []);
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox_part"] })), []);
  }));

Deno.test("a note whose deletion fails is handled once, and deleted after a later read", () =>
  withInboxes(async (a, b, received, clock, kv) => {
    const atomic = kv.atomic.bind(kv);
    for (const fails of [true, false]) {
      await send(kv, a, b, fails ? "first" : "second");
      kv.atomic = () => {
        const operation = atomic();
        if (fails) operation.commit = () => Promise.reject(new Error("the store is away"));
        return operation;
      };
      await clock.advance(2_000);
      await until(() => received.length === (fails ? 1 : 2));
      await flushTasks();
      kv.atomic = atomic;
    }
    await b.stop();
    assertEquals(received.map(({ body }) => body), ["first", "second"]);
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox"] })), []);
  }));

Deno.test("a full inbox whose deletion fails is read once, and deleted after the next poll", () =>
  withInboxes(async (a, b, received, clock, kv) => {
    for (let i = 0; i < 60; i++) await send(kv, a, b, i);
    const atomic = kv.atomic.bind(kv);
    let commits = 0;
    kv.atomic = () => Object.assign(atomic(), { commit: () => ++commits && Promise.reject(new Error("away")) });
    await clock.advance(2_000);
    await until(() => commits > 0);
    await flushTasks();
    assertEquals([received.length, commits], [60, 2]);
    kv.atomic = atomic;
    await clock.advance(2_000);
    await b.stop();
    assertEquals(received.map(({ body }) => body), Array.from({ length: 60 }, (_, i) => i));
    assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox"] })), []);
  }));

Deno.test("a note without content is handled from the wake key, before the inbox is read and only once", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const [a, b] = inboxes(kv, clock), received: unknown[] = [];
  b.onNote = (body) => received.push(body);
  const { list } = kv, held = Promise.withResolvers<void>();
  kv.list = ((...args: Parameters<typeof list>) => {
    const entries = list.apply(kv, args), next = entries.next.bind(entries);
    entries.next = async () => {
      await held.promise;
      return await next();
    };
    return entries;
  }) as typeof list;
  b.start();
  const commits = new GroupCommit(kv, MAX_CHECKS);
  await commits.claim([a.write(b.instance, "content", new Uint8Array(3))]);
  await commits.claim([a.write(b.instance, "result")]);
  await until(() => received.length > 0);
  assertEquals(received, ["result"]);
  held.resolve();
  await until(() => received.length > 1);
  await b.stop();
  assertEquals(received, ["result", "content"]);
  assertEquals(await Array.fromAsync(kv.list({ prefix: ["proxy", "inbox"] })), []);
});

Deno.test("a note is handled once when a watch begins again after its deletion", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const [a, b] = inboxes(kv, clock), received: unknown[] = [];
  b.onNote = (body) => received.push(body);
  const { watch } = kv, watches: ReadableStreamDefaultReader<unknown>[] = [];
  kv.watch = ((...args: Parameters<typeof watch>) => {
    const stream = watch.apply(kv, args), { getReader } = stream;
    stream.getReader = (() => {
      const reader = getReader.call(stream) as ReadableStreamDefaultReader<unknown>;
      watches.push(reader);
      return reader;
    }) as typeof getReader;
    return stream;
  }) as typeof watch;
  b.start();
  await send(kv, a, b, "paired");
  await until(() => received.length > 0);
  for (let i = 0; i < 3; i++) await b.catchUp();
  await watches[0]?.cancel();
  await clock.advance(2_000);
  await until(() => watches.length > 1);
  await clock.advance(2_000);
  for (let i = 0; i < 50; i++) await flushTasks();
  await b.stop();
  assertEquals(received, ["paired"]);
});
