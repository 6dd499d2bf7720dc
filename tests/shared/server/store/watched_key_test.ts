/** Shows when a watched key runs its handler: at a change, at each poll, never twice at once, never after `stop()`. */
import { assertEquals } from "@std/assert";
import { LOOK_MS, WatchedKey } from "../../../../shared/server/store/watched_key.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { openTestKv } from "../../../support/test_store.ts";

const KEY = ["watched"];

/** A watched key over a store whose watch a test controls; `watch: "store"` keeps that of the store. */
class Fixture implements Disposable {
  readonly clock = new ManualClock();
  readonly events: string[] = [];
  readonly watched: WatchedKey;
  runs = 0;
  watches = 0;
  run: () => Promise<void> = () => Promise.resolve();

  constructor(readonly kv: Deno.Kv, watch: "store" | "silent" | "failing") {
    const { watch: original } = kv;
    kv.watch = ((...args: Parameters<typeof original>) => {
      this.watches++;
      if (watch === "store") return original.apply(kv, args);
      return new ReadableStream({
        start: (controller) => watch === "failing" ? controller.error(new Error("no watch")) : undefined,
      });
    }) as typeof kv.watch;
    const log = (_level: string, event: string) => void this.events.push(event);
    this.watched = new WatchedKey({ kv, clock: this.clock, log }, {
      key: KEY,
      handler: () => {
        this.runs++;
        return this.run();
      },
      failureEvents: { poll: "test_poll_failed", watch: "test_watch_failed" },
    });
  }

  static async open(watch: "store" | "silent" | "failing" = "silent"): Promise<Fixture> {
    return new Fixture(await openTestKv(), watch);
  }

  [Symbol.dispose](): void {
    this.watched.stop();
    this.kv.close();
  }
}

Deno.test("WatchedKey runs its handler when the key changes, without a poll", async () => {
  using fixture = await Fixture.open("store");
  fixture.watched.start();
  await until(() => fixture.runs === 1);
  await fixture.kv.set(KEY, 1);
  await until(() => fixture.runs === 2);
});

Deno.test("WatchedKey runs its handler at each poll when the watch reports nothing", async () => {
  using fixture = await Fixture.open();
  fixture.watched.start();
  await fixture.kv.set(KEY, 1);
  await fixture.clock.advance(LOOK_MS - 1);
  assertEquals(fixture.runs, 0);
  for (const runs of [1, 2, 3]) {
    await fixture.clock.advance(runs === 1 ? 1 : LOOK_MS);
    assertEquals(fixture.runs, runs);
  }
});

Deno.test("WatchedKey logs a failed watch and starts it again at the next poll", async () => {
  using fixture = await Fixture.open("failing");
  fixture.watched.start();
  await until(() => fixture.events.length === 1);
  await fixture.clock.advance(LOOK_MS);
  await until(() => fixture.events.length === 2);
  assertEquals([fixture.events, fixture.watches], [["test_watch_failed", "test_watch_failed"], 2]);
});

Deno.test("WatchedKey runs its handler once more when changes come during a run, and never two at once", async () => {
  using fixture = await Fixture.open();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let atOnce = 0, most = 0;
  fixture.run = async () => {
    most = Math.max(most, ++atOnce);
    await gates[fixture.runs - 1]?.promise;
    atOnce--;
  };
  const first = fixture.watched.poll();
  const joined = fixture.watched.poll();
  const changes = [fixture.watched.onChange(), fixture.watched.onChange()];
  await flushTasks();
  assertEquals(fixture.runs, 1);
  gates[0]?.resolve();
  await Promise.all([first, joined]);
  await until(() => fixture.runs === 2);
  gates[1]?.resolve();
  await Promise.all(changes);
  assertEquals([fixture.runs, most], [2, 1]);
});

Deno.test("WatchedKey logs a failed run, and the next poll runs the handler again", async () => {
  using fixture = await Fixture.open();
  fixture.run = () => Promise.reject(new Error("disk I/O error"));
  await fixture.watched.poll();
  fixture.run = () => Promise.resolve();
  await fixture.watched.poll();
  assertEquals([fixture.runs, fixture.events], [2, ["test_poll_failed"]]);
});

Deno.test("WatchedKey runs nothing and keeps no timer when it is stopped", async () => {
  using fixture = await Fixture.open("store");
  fixture.watched.start();
  await until(() => fixture.runs === 1);
  fixture.watched.stop();
  await fixture.kv.set(KEY, 1);
  await fixture.clock.advance(10 * LOOK_MS);
  assertEquals([fixture.runs, fixture.clock.waiting, fixture.watched.isStopped, fixture.events], [1, 0, true, []]);
});
