/** What handles Ctrl-C: the program ends at once, or a command finishes its work first. */
import { assertEquals } from "@std/assert";
import { Interrupt } from "../../../cli/terminal/interrupt.ts";
import { ManualClock } from "../../support/manual_clock.ts";

Deno.test("Ctrl-C ends the program unless a command handles it; the second one always ends it", () => {
  const clock = new ManualClock();
  const interrupt = new Interrupt(clock);
  assertEquals(interrupt.press(), true);
  clock.step(1_000);
  let stops = 0;
  const release = interrupt.take(() => stops++);
  assertEquals([interrupt.press(), stops], [false, 1]);
  clock.step(1_000);
  assertEquals([interrupt.press(), stops], [true, 1]);
  clock.step(1_000);
  interrupt.take(() => stops++);
  release();
  assertEquals([interrupt.press(), stops], [true, 1]);
});

Deno.test("a Ctrl-C that a launcher also forwards counts once", () => {
  const clock = new ManualClock();
  const interrupt = new Interrupt(clock);
  let stops = 0;
  interrupt.take(() => stops++);
  const pressed = [interrupt.press(), interrupt.press(), interrupt.press()];
  assertEquals([pressed, stops], [[false, false, false], 1]);
  clock.step(199);
  assertEquals(interrupt.press(), false);
  clock.step(1_000);
  assertEquals(interrupt.press(), true);
});
