/** Who answers Ctrl-C: the program at once, or a command that has something to finish. */
import { assertEquals } from "@std/assert";
import { Interrupt } from "../../../cli/terminal/interrupt.ts";
import { ManualClock } from "../../support/manual_clock.ts";

Deno.test("Ctrl-C ends the program, unless a command took it over; the next one ends it then", () => {
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

Deno.test("a Ctrl-C that a launcher passes on as well is one", () => {
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
