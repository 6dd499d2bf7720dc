/**
 * Shows how bodies share the memory budget: bounded in total and per address, given first to the address that holds
 * least, not needed for small bodies, and taken from slow bodies when others wait.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Bytes } from "../../../../shared/protocol/base64url.ts";
import { ServiceError } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { AppDeps } from "../../../../shared/server/http/app.ts";
import { BODY_LEFT_MS } from "../../../../shared/server/http/body.ts";
import {
  BODIES_WAITING_MAX,
  BODY_ROOM_BYTES,
  BODY_WAIT_MS,
  BodyBudget,
  type BodyLease,
} from "../../../../shared/server/http/body_budget.ts";
import type { Peer } from "../../../../shared/server/http/client_ip.ts";
import { json, routeFor } from "../../../../shared/server/http/route.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { steps } from "../../../support/steps.ts";
import { until } from "../../../support/until.ts";
import { type Callers, TestApp } from "./small_app.ts";

const ALL = BODY_ROOM_BYTES;
const HALF = ALL / 2;

/** Requests a lease and records when it is granted. */
function asking(rooms: BodyBudget, address: string, bytes: number): { room: BodyLease | null; refused: string | null } {
  const asked: { room: BodyLease | null; refused: string | null } = { room: null, refused: null };
  Promise.resolve(rooms.take(address, bytes)).then(
    (room) => asked.room = room,
    (error: ServiceError) => asked.refused = error.code,
  );
  return asked;
}

Deno.test("bodies hold at most 4 MiB in total and 2 MiB for one address, until they are released", async () => {
  const rooms = new BodyBudget(new ManualClock());
  const first = await rooms.take("a", HALF);
  const more = asking(rooms, "a", LIMITS.bodyFreeBytes + 1);
  await flushTasks();
  assertEquals(more.room, null, "an address has half of it");
  await rooms.take("b", HALF);
  const other = asking(rooms, "c", LIMITS.bodyFreeBytes + 1);
  await flushTasks();
  assertEquals([other.room, rooms.total], [null, ALL]);
  first.release();
  first.release();
  await flushTasks();
  assert(more.room && other.room);
  assertEquals(rooms.total, HALF + 2 * (LIMITS.bodyFreeBytes + 1));
});

Deno.test("a small body is read without a lease when the budget is used up", async () => {
  const rooms = new BodyBudget(new ManualClock());
  await rooms.take("a", HALF);
  await rooms.take("b", HALF);
  (await rooms.take("a", LIMITS.bodyFreeBytes)).release();
  assertEquals(rooms.total, ALL);
});

Deno.test("the waiting address that holds least is served next", async () => {
  const rooms = new BodyBudget(new ManualClock());
  const piece = HALF / 2;
  const held = [await rooms.take("greedy", piece), await rooms.take("x", HALF), await rooms.take("y", piece)];
  const greedy = asking(rooms, "greedy", piece);
  const modest = asking(rooms, "modest", piece);
  await flushTasks();
  assertEquals([greedy.room, modest.room], [null, null]);
  held[2]?.release();
  await flushTasks();
  assertEquals(greedy.room, null);
  assert(modest.room);
});

Deno.test("a body is refused when it gets no lease within 2 s", async () => {
  const clock = new ManualClock();
  const rooms = new BodyBudget(clock);
  const held = await rooms.take("a", HALF);
  const late = asking(rooms, "a", HALF);
  await clock.advance(BODY_WAIT_MS - 1);
  assertEquals(late.refused, null);
  await clock.advance(1);
  assertEquals([late.refused, clock.waiting], ["SERVICE_UNAVAILABLE", 0]);
  held.release();
  await flushTasks();
  assertEquals([late.room, rooms.total], [null, 0]);
});

Deno.test("a body that fits is read as soon as the larger one before it is refused", async () => {
  const clock = new ManualClock();
  const rooms = new BodyBudget(clock);
  await rooms.take("a", HALF);
  await rooms.take("b", HALF - 2 * LIMITS.bodyBytes);
  const large = asking(rooms, "c", 3 * LIMITS.bodyBytes);
  await clock.advance(BODY_WAIT_MS / 2);
  const small = asking(rooms, "d", LIMITS.bodyBytes);
  await flushTasks();
  assertEquals(small.room, null, "it may not overtake the one before it");
  await clock.advance(BODY_WAIT_MS / 2);
  assertEquals(large.refused, "SERVICE_UNAVAILABLE");
  assert(small.room);
});

Deno.test("a body is refused at once when 500 of its address wait", async () => {
  const rooms = new BodyBudget(new ManualClock());
  await rooms.take("a", HALF);
  const waiting = Array.from({ length: BODIES_WAITING_MAX / 2 }, () => asking(rooms, "a", HALF));
  await assertRejects(async () => await rooms.take("a", HALF), ServiceError);
  await rooms.take("b", HALF);
  await flushTasks();
  assert(waiting.every(({ room, refused }) => room === null && refused === null));
});

Deno.test("an incomplete body is aborted after one second when others wait", async () => {
  const clock = new ManualClock();
  const rooms = new BodyBudget(clock);
  const cuts: string[] = [];
  const dribbling = await rooms.take("slow", HALF);
  dribbling.abort = () => {
    cuts.push("dribbling");
    dribbling.release();
  };
  await rooms.take("whole", HALF);
  await clock.advance(60_000);
  assertEquals(cuts, [], "no body waits");
  const honest = asking(rooms, "honest", HALF);
  await clock.advance(BODY_WAIT_MS / 2);
  assertEquals(cuts, ["dribbling"]);
  assert(honest.room);
});

Deno.test("a request releases its lease with any result, and calls within the process need none", async (t) => {
  const seen: number[] = [];
  let gate: Promise<void> = Promise.resolve();
  const route = routeFor<AppDeps, Callers>();
  const row = { auth: "none", limit: null, response: { status: 200 }, errors: [] } as const;
  const taking = route("POST", "/", "", {
    ...row,
    maxBodyBytes: LIMITS.bodyBytes,
    async handler(_deps, { exchange }) {
      seen.push(exchange.body.reduce((sum, byte) => sum + byte, 0));
      await gate;
      if (exchange.body[0] === 1) throw new Error("a fault");
      return json({});
    },
  });
  const bodyless = route("DELETE", "/", "", { ...row, handler: () => json({}) });
  using app = await TestApp.open(false, false, [taking, bodyless]);
  const { clock } = app;
  /** A body as a connection delivers it: its bytes can fill the reader's buffer. */
  const stream = (bytes: Bytes) =>
    new ReadableStream({
      type: "bytes",
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    });
  const ask = (
    body: Bytes,
    headers: Record<string, string> = {},
    peer?: Peer,
    form: (bytes: Bytes) => BodyInit = stream,
  ) => app.ask("/", { method: "POST", body: form(body), headers }, peer);
  const large = (first: number) => new Uint8Array(LIMITS.bodyBytes).fill(first, 0, 1);
  const length = { "Content-Length": String(LIMITS.bodyBytes) };
  const cases: [name: string, ask: () => Promise<Response>, status: number][] = [
    ["answered", () => ask(large(0), length), 200],
    ["answered, in pieces", () => ask(large(0), length, undefined, (bytes) => bytes), 200],
    ["answered, without a stated length", () => ask(large(0)), 200],
    ["failed", () => ask(large(1), length), 500],
    ["longer than the cap", () => ask(new Uint8Array(LIMITS.bodyBytes + 1)), 413],
    ["longer than it said", () => ask(large(0), { "Content-Length": "10000" }), 413],
  ];
  await steps(t, cases, async ([, request, status]) => {
    for (let i = 0; i <= HALF / LIMITS.bodyBytes; i++) assertEquals((await request()).status, status);
    await clock.advance(BODY_LEFT_MS);
    assertEquals(clock.waiting, 0);
  });
  await t.step("the body arrives unchanged, in one buffer or in pieces", async () => {
    seen.length = 0;
    for (const headers of [length, {}]) await ask(new Uint8Array(LIMITS.bodyBytes).fill(7), headers);
    assertEquals(seen, Array(2).fill(7 * LIMITS.bodyBytes));
  });
  await t.step("while others hold all of it", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    const holding = Array.from({ length: HALF / LIMITS.bodyBytes }, () => ask(large(0), length));
    const waiting = ask(large(0), length);
    await until(() => seen.length >= 2 + holding.length);
    const own = ask(large(0), {}, { from: "process" });
    const small = ask(new Uint8Array(LIMITS.bodyFreeBytes), { "Content-Length": String(LIMITS.bodyFreeBytes) });
    await until(() => seen.length >= 4 + holding.length);
    assertEquals(seen.length, 4 + holding.length, "every body except the waiting one is served");
    // As a connection delivers a request without a body: a stream that ends, and no length.
    const empty = new ReadableStream({ start: (controller) => controller.close() });
    assertEquals((await app.ask("/", { method: "DELETE", body: empty })).status, 200);
    await clock.advance(BODY_WAIT_MS);
    const refused = await waiting;
    assertEquals([refused.status, refused.headers.get("retry-after")], [503, "1"]);
    resolve();
    for (const answer of await Promise.all([...holding, own, small])) assertEquals(answer.status, 200);
  });
});
