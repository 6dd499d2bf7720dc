/** The sessions of the local page: how long they last, and that a code opens one. */
import { assertEquals } from "@std/assert";
import { LocalSessions } from "../../../cli/connector/pages/sessions.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";

const STEP_MS = 20 * 60_000;

Deno.test("a session lasts 8 h, 60 min without a click, and an open page is no click", async () => {
  const clock = new ManualClock();
  const sessions = new LocalSessions(clock, seededRandom(), () => {});
  for (const session of ["open", "used"]) {
    const made = await sessions.open();
    assertEquals(sessions.take(await sha256(made?.code ?? ""), session), true);
  }
  for (let step = 1; step < 8 * 3; step++) {
    clock.step(STEP_MS);
    assertEquals(sessions.find("open", false), step < 3 ? true : null, `step ${step}`);
    assertEquals(sessions.find("used", step % 2 === 0), true, `step ${step}`);
  }
  clock.step(STEP_MS);
  assertEquals(sessions.find("used", true), null);
});

Deno.test("a clock that is set back does not make a session longer", async () => {
  const clock = new ManualClock();
  const sessions = new LocalSessions(clock, seededRandom(), () => {});
  const made = await sessions.open();
  assertEquals(sessions.take(await sha256(made?.code ?? ""), "left"), true);
  clock.step(-24 * 3_600_000);
  assertEquals(sessions.find("left", true), null);
});

Deno.test("of twenty uses of one code at the same time one opens a session, and the file with the code goes once", async () => {
  let gone = 0;
  const clock = new ManualClock(), sessions = new LocalSessions(clock, seededRandom(), () => gone++);
  const digest = await sha256((await sessions.open())?.code ?? "");
  const names = Array.from({ length: 20 }, (_, i) => `session ${i}`);
  const opened = await Promise.all(names.map(async (name) => (await clock.advance(0), sessions.take(digest, name))));
  assertEquals(opened.filter((is) => is).length, 1);
  assertEquals(names.filter((name) => sessions.find(name, false)).length, 1);
  await clock.advance(LIMITS.pageCodeMs);
  assertEquals([gone, sessions.take(digest, "later")], [1, null]);
});

Deno.test("codes that are over open nothing and leave room for others, also while their timers are late after a sleep", async () => {
  const clock = new ManualClock();
  const sessions = new LocalSessions(clock, seededRandom(), () => {});
  const old = await sessions.open();
  while (await sessions.open() !== null);
  clock.step(LIMITS.pageCodeMs);
  assertEquals(sessions.take(await sha256(old?.code ?? ""), "old"), null);
  const made = await sessions.open();
  assertEquals(sessions.take(await sha256(made?.code ?? ""), "new"), true);
});
