/** What the server takes for its memory: the limit of its container, else that of the machine. */
import { assertEquals } from "@std/assert";
import { memoryBytes } from "../../../shared/server/machine.ts";

Deno.test("a process without a limit has the memory of its machine", () => {
  const total = () => 100;
  assertEquals(memoryBytes(() => 40, total), 40);
  // Deno says 0 on macOS, on Windows, and for `max` of cgroup v2; cgroup v1 says a number above any memory.
  assertEquals(memoryBytes(() => 0, total), 100);
  assertEquals(memoryBytes(() => 2 ** 63, total), 100);
});
