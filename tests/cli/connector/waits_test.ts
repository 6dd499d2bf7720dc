/** Calls of the local API that wait: what ends a wait, how many there are, and for whom a reply is kept. */
import { assert, assertEquals } from "@std/assert";
import { ENDED_WAITS, Waits } from "../../../cli/connector/waits.ts";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { ManualClock } from "../../support/manual_clock.ts";

const never = () => new AbortController().signal;
const QUESTION = { toDid: "did:svc:r.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA", requestId: "request-1" };
const REPLY = { fromDid: QUESTION.toDid, conversationId: null, inReplyTo: QUESTION.requestId };
const stored = { kind: "arrived", message: { seq: 1, ...REPLY }, waiting: null } as const;

function begin(waits: Waits, question?: typeof QUESTION): Disposable {
  const call = waits.begin(question);
  assert(call !== null);
  return call;
}

function wait(waits: Waits, look: () => string | null, ms = 60_000, signal = never()) {
  return waits.until(look, ({ kind }) => kind === "arrived", ms, signal);
}

Deno.test("a wait ends at a match, at its time, when its caller has gone, and when the connector stops", async (t) => {
  await t.step("at once", async () => {
    assertEquals(await wait(new Waits(new ManualClock()), () => "found"), "found");
  });
  await t.step("at a match", async () => {
    const waits = new Waits(new ManualClock());
    let found: string | null = null, looks = 0;
    const waiting = wait(waits, () => {
      looks++;
      return found;
    });
    waits.changed({ kind: "taken" });
    waits.changed(stored);
    await Promise.resolve();
    found = "found";
    waits.changed(stored);
    assertEquals(await waiting, "found");
    assertEquals(looks <= 3, true);
  });
  await t.step("at its time, with a last look", async () => {
    const clock = new ManualClock();
    let found: string | null = null;
    const waiting = wait(new Waits(clock), () => found, 1_000);
    await clock.advance(999);
    found = "late";
    await clock.advance(1);
    assertEquals([await waiting, clock.waiting], ["late", 0]);
  });
  await t.step("when its caller has gone", async () => {
    const clock = new ManualClock();
    const caller = new AbortController();
    const waits = new Waits(clock);
    const waiting = wait(waits, () => null, 60_000, caller.signal);
    caller.abort();
    assertEquals([await waiting, clock.waiting], [null, 0]);
    assertEquals(await wait(waits, () => null, 60_000, caller.signal), null);
  });
  await t.step("at a stop, and at once after it", async () => {
    const clock = new ManualClock();
    const waits = new Waits(clock);
    const waiting = [wait(waits, () => null), wait(waits, () => "second")];
    waits.stop();
    assertEquals(await Promise.all(waiting), [null, "second"]);
    assertEquals([await wait(waits, () => null), clock.waiting], [null, 0]);
  });
});

Deno.test("64 calls may wait at the same time; a call that ends makes room", () => {
  const waits = new Waits(new ManualClock());
  const calls = Array.from({ length: CONNECTOR_LIMITS.waitingCalls }, () => begin(waits));
  assertEquals(calls.length, 64);
  assertEquals(waits.begin(), null);
  for (let n = 0; n < 2; n++) calls[0]?.[Symbol.dispose]();
  begin(waits);
  assertEquals(waits.begin(), null);
});

Deno.test("a reply is kept for 30 s while a caller waits for it, and until 10 s after its wait", async () => {
  const clock = new ManualClock();
  const waits = new Waits(clock);
  const held = (question = QUESTION) => {
    const until = waits.heldUntil(question, clock.now());
    return until === 0 ? 0 : until - clock.now();
  };
  assertEquals(held(), 0);
  const [one, two] = [begin(waits, QUESTION), begin(waits, QUESTION)];
  assertEquals(held(), 30_000);
  for (const other of [{ toDid: "other" }, { requestId: "request-2" }]) {
    assertEquals(held({ ...QUESTION, ...other }), 0);
  }
  one[Symbol.dispose]();
  await clock.advance(60_000);
  assertEquals(held(), 30_000);
  two[Symbol.dispose]();
  await clock.advance(10_000);
  assertEquals(held(), 30_000);
  await clock.advance(1);
  assertEquals(held(), 0);
});

Deno.test("at most 1,000 waits are remembered after their end", () => {
  const clock = new ManualClock();
  const waits = new Waits(clock);
  for (let n = 0; n <= ENDED_WAITS; n++) {
    begin(waits, { ...QUESTION, requestId: `request-${n}` })[Symbol.dispose]();
  }
  const held = (n: number) => waits.heldUntil({ ...QUESTION, requestId: `request-${n}` }, clock.now()) > 0;
  assertEquals([held(0), held(1), held(ENDED_WAITS)], [false, true, true]);
});
