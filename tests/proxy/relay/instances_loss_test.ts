/**
 * Instances that lose their store for a while: routes that need it answer 503, retries are few, and delivery and
 * watches resume without a restart. Without a watch, polling every 2 s keeps delivery going.
 */
import { assert, assertEquals } from "@std/assert";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { codeOf, PROXY_URL, REGISTRY_URL } from "../../support/world.ts";
import { until } from "../../support/until.ts";
import { connected, type SharedStore, two } from "./two_instances.ts";

/** A store whose connection can be cut: calls fail, and watches end in an error. */
class CutStore implements SharedStore {
  readonly kv: Deno.Kv;
  readonly maxChecks = 10;
  isCut = false;
  /** Number of calls and watches tried while the connection was cut. */
  tried = 0;
  /** Number of open watches. */
  readonly #watches = new Set<ReadableStreamDefaultController<unknown>>();

  constructor(readonly faulty: FaultyKv) {
    this.kv = faulty.kv;
    const watch = this.kv.watch.bind(this.kv);
    this.kv.watch = ((keys: Deno.KvKey[]) => this.#watch(watch(keys).getReader())) as typeof this.kv.watch;
    faulty.faults = { maxChecks: 10, fails: () => this.isCut && ++this.tried > 0 };
  }

  get watches(): number {
    return this.#watches.size;
  }

  cut(): void {
    this.isCut = true;
    for (const controller of this.#watches) controller.error(new Error("connection reset"));
    this.#watches.clear();
  }

  #watch(real: ReadableStreamDefaultReader<unknown>): ReadableStream<unknown> {
    let own: ReadableStreamDefaultController<unknown>;
    const end = () => {
      this.#watches.delete(own);
      return real.cancel();
    };
    return new ReadableStream({
      start: (controller) => {
        own = controller;
        if (!this.isCut) return void this.#watches.add(controller);
        this.tried++;
        void end();
        controller.error(new Error("connection refused"));
      },
      pull: async (controller) => {
        const { done, value } = await real.read();
        if (done) void end();
        else if (this.#watches.has(controller)) controller.enqueue(value);
      },
      cancel: end,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.faulty[Symbol.dispose]();
  }
}

async function cutStore(): Promise<CutStore> {
  return new CutStore(await FaultyKv.open());
}

const NUMBER_OF_WATCHES = 4;

Deno.test("a store outage of one minute causes 503 and few retries, and delivery resumes without a restart", async (t) => {
  const store = await cutStore();
  await two(() => Promise.resolve(store), async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals(store.watches, NUMBER_OF_WATCHES);
    socket.alive = true;
    store.cut();

    await t.step("routes that need the store answer 503 with Retry-After at every instance", async () => {
      for (const w of [w1, w2]) {
        // For its own store a proxy answers SERVICE_UNAVAILABLE; for the registry's it answers that the registry is
        // unreachable.
        const own = "SERVICE_UNAVAILABLE", asked = "PROXY_AUTH_DEPENDENCY_UNAVAILABLE";
        const answers: [Response, codes: string[]][] = [
          [await w.message(a, b), [own, asked]],
          [await w.message(a, b, { headers: { Prefer: "respond-async" } }), [own, asked]],
          [await w.fetch(await w.signed(a, { method: "GET", target: "/pair/peers" })), [own, asked]],
          [await w.ask("GET", "/v1/me", { apiKey: a.owner.apiKey }), [own]],
        ];
        for (const [answer, codes] of answers) {
          assertEquals([answer.status, answer.headers.get("retry-after")], [503, "1"]);
          const code = await codeOf(answer);
          assert(codes.includes(code), code);
        }
        for (const url of [PROXY_URL, REGISTRY_URL]) {
          const health = await w.fetch(`${url}/health`);
          assertEquals(health.status, 503);
          await health.body?.cancel();
        }
      }
    });

    await t.step("the background work retries at most a few times a second", async () => {
      store.tried = 0;
      await w1.clock.advance(60_000);
      assert(store.tried >= 60, `${store.tried} attempts in a minute of two instances: they have given up`);
      assert(store.tried <= 360, `${store.tried} attempts in a minute of two instances`);
      assertEquals(socket.closed, null, "no socket is closed");
    });

    store.isCut = false;
    await t.step("watches are open again, and a message crosses without a step of the clock", async () => {
      await w1.clock.advance(5_000);
      await until(() => store.watches === NUMBER_OF_WATCHES);
      assertEquals(store.watches, NUMBER_OF_WATCHES);
      const before = socket.delivered.length;
      assertEquals((await w1.message(a, b)).status, 202);
      assertEquals(socket.delivered.length, before + 1);
      assertEquals((await w1.ask("GET", "/v1/me", { apiKey: a.owner.apiKey })).status, 200);
    });
    await t.step("a revocation arrives at once again", async () => {
      await w1.client.deleteAgent(b.owner.apiKey, b.agent.id);
      await until(() => socket.closed !== null);
      assertEquals(socket.closed?.code, 4401);
    });
  });
});

Deno.test("messages, refusals and revocations cross by polling every 2 s without a watch", async () => {
  const store = await cutStore();
  store.kv.watch = () => new ReadableStream();
  await two(() => Promise.resolve(store), async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    for (let n = 1; n <= 3; n++) {
      let answer: Response | undefined;
      void w1.message(a, b).then((response) => answer = response);
      // The message arrives within one poll, and its answer within another.
      for (let ms = 0; ms < 4_000 && !answer; ms += 500) {
        await w1.clock.advance(500);
        for (let i = 0; i < 5; i++) await flushTasks();
      }
      assertEquals([answer?.status, socket.delivered.length], [202, n]);
    }
    await w1.client.deleteAgent(b.owner.apiKey, b.agent.id);
    for (let ms = 0; ms < 2_000; ms += 500) await w1.clock.advance(500);
    await until(() => socket.closed !== null);
    assertEquals(socket.closed?.code, 4401);
  });
});
