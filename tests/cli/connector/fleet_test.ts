/** When the connectors of several agents are started, stopped and started again, with a moved clock. */
import { assertEquals } from "@std/assert";
import { ConnectorLockedError } from "../../../cli/connector/connector_lock.ts";
import type { EventFields } from "../../../cli/link/link_events.ts";
import { Fleet, type FleetMember } from "../../../cli/connector/fleet.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { ManualClock } from "../../support/manual_clock.ts";

const REVOKED = new ApiError(401, "PROXY_AUTH_REVOKED", "revoked", null);

/** A fleet whose connectors do nothing. */
class TestFleet implements AsyncDisposable {
  readonly clock = new ManualClock();
  names: string[];
  files = "1";
  /** Called at each start; throws when the connector does not start. */
  onStart: (name: string) => Promise<void> | void;
  readonly starts: string[] = [];
  readonly events: unknown[][] = [];
  readonly whys: unknown[] = [];
  readonly running = new Map<string, (why: unknown) => void>();
  readonly fleet: Fleet;
  readonly ended: Promise<unknown>;
  readonly #began = this.clock.now();

  private constructor(names: string[], onStart: (name: string) => Promise<void> | void, endsWithAgents: boolean) {
    this.names = names;
    this.onStart = onStart;
    this.fleet = new Fleet({
      clock: this.clock,
      names: () => Promise.resolve(this.names),
      start: (name) => this.#start(name),
      filesOf: () => Promise.resolve(this.files),
      emit: (name, event, fields: EventFields = {}) =>
        void [
          this.events.push([name, event, fields.pid ?? Number(fields.nextInMs ?? 0) / 1000]),
          this.whys.push(fields.why),
        ],
      endsWithAgents,
    });
    this.ended = this.fleet.run();
  }

  /** A fleet that runs, and whose first agents have started. */
  static async run(names: string[], onStart: TestFleet["onStart"] = () => {}, endsWithAgents = false) {
    const world = new TestFleet(names, onStart, endsWithAgents);
    await world.clock.advance(0);
    return world;
  }

  /** Stops it. Returns why it has ended. */
  async stop(): Promise<unknown> {
    this.fleet.stop();
    return await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #start(name: string): Promise<FleetMember> {
    this.starts.push(`${name} ${(this.clock.now() - this.#began) / 1000}`);
    await this.onStart(name);
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.running.set(name, resolve);
    const ended = promise.finally(() => this.running.delete(name));
    return { ended, stop: async () => void await ended.then(resolve(null) as never) };
  }

  async fail(name: string, why: unknown): Promise<void> {
    this.running.get(name)?.(why);
    await this.clock.advance(0);
  }
}

Deno.test("a failed connector is started again after 5 s doubling to 5 min, and the others go on", async () => {
  await using world = await TestFleet.run(["a", "b"], (name) => {
    if (name === "a") throw new Error("garbage");
  });
  await world.clock.advance(20 * 60_000);
  const starts = world.starts.filter((start) => start.startsWith("a")).map((start) => Number(start.slice(2)));
  assertEquals(starts, [0, 5, 15, 35, 75, 155, 315, 615, 915]);
  assertEquals(world.events.slice(0, 2), [["a", "agent_stopped", 5], ["a", "agent_stopped", 10]]);
  assertEquals([...world.running.keys()], ["b"]);
  assertEquals([await world.stop(), world.running.size, world.clock.waiting], [null, 0, 0]);
});

Deno.test("the wait after a failure is short again when the connector ran for five minutes before it", async () => {
  await using world = await TestFleet.run(["a"]);
  for (const seconds of [1, 1, 300]) {
    await world.clock.advance(seconds * 1000);
    await world.fail("a", new Error("lost"));
    await world.clock.advance(40_000);
  }
  assertEquals(world.events.map(([, , seconds]) => seconds), [5, 10, 5]);
});

Deno.test("a permanent failure is tried again when the files change, and every ten minutes", async () => {
  await using world = await TestFleet.run(["a"], () => {
    throw REVOKED;
  });
  await world.clock.advance(605_000);
  assertEquals(world.starts, ["a 0", "a 600"]);
  world.files = "2";
  await world.clock.advance(10_000);
  assertEquals(world.starts, ["a 0", "a 600", "a 610"]);
  world.onStart = () => {};
  world.files = "3";
  await world.clock.advance(10_000);
  assertEquals([...world.running.keys()], ["a"]);
});

Deno.test("what a person must do after a permanent failure names the agent, also in the error of the command", async () => {
  const revoked = new ApiError(401, "AGENT_AUTH_REFRESH_REVOKED", "revoked", null);
  await using world = await TestFleet.run(["a", "b"], (name) => {
    throw name === "a" ? revoked : new Error("garbage");
  }, true);
  const fix = "Run svc agent reissue a to start a new session.";
  assertEquals([await world.ended, revoked.fix], [revoked, fix]);
  assertEquals(world.whys, [`AGENT_AUTH_REFRESH_REVOKED: revoked. ${fix}`, "garbage"]);
});

Deno.test("after the clock was set back by an hour a permanent failure is still tried again in ten minutes", async () => {
  await using world = await TestFleet.run(["a"], () => {
    throw REVOKED;
  });
  world.clock.step(-3_600_000);
  await world.clock.advance(620_000);
  assertEquals(world.starts.length, 2);
});

Deno.test("an agent that another process runs is busy and is tried again after 30 s", async () => {
  const busy = () => {
    throw new ConnectorLockedError("a", "1");
  };
  await using world = await TestFleet.run(["a"], busy, true);
  await world.clock.advance(61_000);
  assertEquals([world.starts, world.events], [["a 0", "a 30", "a 60"], [["a", "busy", 1]]]);
  world.onStart = () => {};
  await world.clock.advance(30_000);
  assertEquals(world.running.size, 1);
  assertEquals(await world.stop(), null);
});

Deno.test("new and removed agents take effect at the next look, also when there was none", async () => {
  await using world = await TestFleet.run([]);
  await world.clock.advance(10_000);
  world.names = ["a", "b"];
  await world.clock.advance(10_000);
  assertEquals([...world.running.keys()], ["a", "b"]);
  world.names = ["b"];
  await world.clock.advance(10_000);
  assertEquals([...world.running.keys()], ["b"]);
  world.names = ["a", "b"];
  await world.clock.advance(10_000);
  assertEquals([...world.running.keys()], ["b", "a"]);
});

Deno.test("an agent that was deleted is not said to be started again, and is when it is there again", async () => {
  await using world = await TestFleet.run(["a"]);
  world.names = [];
  await world.fail("a", REVOKED);
  assertEquals(world.events, []);
  world.names = ["a"];
  await world.clock.advance(10_000);
  assertEquals(world.starts, ["a 0", "a 10"]);
});

Deno.test("a list of agents that cannot be read is a defect, and the connectors go on", async () => {
  await using world = await TestFleet.run(["a"]);
  const names = world.names;
  Object.defineProperty(world, "names", {
    get: () => {
      throw new Error("no permission");
    },
    configurable: true,
  });
  await world.clock.advance(10_000);
  Object.defineProperty(world, "names", { value: names });
  await world.clock.advance(10_000);
  assertEquals([world.events, [...world.running.keys()]], [[[null, "defect", 0]], ["a"]]);
});

Deno.test("named agents end the fleet with the first failure once all of them have failed", async () => {
  await using world = await TestFleet.run(["a", "b"], undefined, true);
  const first = new Error("first");
  await world.fail("a", first);
  // Started again before the other fails.
  await world.clock.advance(5_000);
  assertEquals(world.running.size, 2);
  await world.fail("b", new Error("second"));
  await world.fail("a", new Error("third"));
  assertEquals(await world.ended, first);
  assertEquals(world.clock.waiting, 0);
});

Deno.test("named agents that were deleted are not said to be started again, and the last one ends the fleet", async () => {
  await using world = await TestFleet.run(["a", "b"], undefined, true);
  world.names = ["b"];
  await world.fail("a", REVOKED);
  world.names = [];
  await world.fail("b", REVOKED);
  await world.clock.advance(10_000);
  assertEquals([world.events, await world.ended], [[], null]);
});

Deno.test("ten connectors start at the same time, the next when one of them has started", async () => {
  const gates: (() => void)[] = [];
  const names = Array.from({ length: 25 }, (_, i) => `a${i}`);
  await using world = await TestFleet.run(names, () => new Promise((resolve) => gates.push(resolve)));
  assertEquals(world.starts.length, 10);
  gates.shift()?.();
  await world.clock.advance(0);
  assertEquals(world.starts.length, 11);
  // A stop starts no other connector, and waits for those that are being started.
  world.fleet.stop();
  for (const open of gates) open();
  assertEquals([await world.ended, world.starts.length, world.running.size], [null, 11, 0]);
});
