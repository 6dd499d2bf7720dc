/** How a person who looks elsewhere is told of messages. */
import { assertEquals, assertThrows } from "@std/assert";
import { CliError } from "../../../../cli/errors.ts";
import { Notifier } from "../../../../cli/connector/talk/notifier.ts";
import { NOTIFY, type Notify } from "../../../../cli/files/profile.ts";
import { parseWord } from "../../../../cli/command_line/numbers.ts";
import { ManualClock } from "../../../support/manual_clock.ts";

Deno.test("a person is told of messages once in 30 s, without their text, and the title is given back", () => {
  const told = (how: Notify, term = "xterm") => {
    const clock = new ManualClock();
    const written: string[] = [];
    const notifier = new Notifier(clock, (sequence) => void written.push(sequence), how, term);
    notifier.arrived("alpha", 1);
    notifier.arrived("alpha", 2);
    clock.step(30_000);
    notifier.arrived("alpha", 3);
    clock.step(-60_000);
    notifier.arrived("alpha", 4);
    notifier.title("alpha · 3 unread");
    notifier.title("alpha");
    notifier.close();
    return written;
  };
  const title = ["\x1b[22;0t\x1b]2;alpha · 3 unread\x07", "\x1b]2;alpha\x07", "\x1b[23;0t"];
  assertEquals(told(NOTIFY[1]), ["\x07", "\x07", "\x07", ...title]);
  assertEquals(told("off"), []);
  assertEquals(told("desktop").slice(0, 3), [
    "\x1b]9;svc: 1 unread message for alpha\x07",
    "\x1b]9;svc: 3 unread messages for alpha\x07",
    "\x1b]9;svc: 4 unread messages for alpha\x07",
  ]);
  assertEquals(told("desktop", "foot-extra")[0], "\x1b]777;notify;svc;1 unread message for alpha\x07");
  assertThrows(() => parseWord(NOTIFY, "loud", "--notify"), CliError, NOTIFY.join(", "));
});
