/** Whether a process is in the foreground of its terminal, from what `ps` prints. */
import { assertEquals } from "@std/assert";
import { foregroundOf } from "../../../cli/terminal/keyboard.ts";

Deno.test("a process is in the foreground when its group is that of the terminal", () => {
  assertEquals(foregroundOf("  4711  4711\n"), true);
  assertEquals(foregroundOf("4711 815\n"), false);
  // A process without a terminal.
  assertEquals(foregroundOf(" 4711    -1\n"), false);
  assertEquals(["", "4711\n", "PGID TPGID\n1 1\n", "a b"].map(foregroundOf), [null, null, null, null]);
});
