/** The state of a terminal while its keys are read, and whether a process is in its foreground. */
import { assertEquals } from "@std/assert";
import { settledWithin, systemClock } from "../../../shared/clock.ts";
import { foregroundOf, systemKeyboard } from "../../../cli/terminal/keyboard.ts";

Deno.test("a process is in the foreground when its group is that of the terminal", () => {
  assertEquals(foregroundOf("  4711  4711\n"), true);
  assertEquals(foregroundOf("4711 815\n"), false);
  // A process without a terminal.
  assertEquals(foregroundOf(" 4711    -1\n"), false);
  assertEquals(["", "4711\n", "PGID TPGID\n1 1\n", "a b"].map(foregroundOf), [null, null, null, null]);
});

Deno.test({
  name: "keys arrive without Enter again after Ctrl-Z and fg",
  ignore: Deno.build.os === "windows",
  async fn() {
    const done: unknown[] = [];
    const continued = Promise.withResolvers<void>();
    const setRaw = (isRaw: boolean) => {
      done.push(isRaw);
      if (done.length > 2) continued.resolve();
    };
    const writeSync = (bytes: Uint8Array) => done.push(new TextDecoder().decode(bytes)) && bytes.length;
    const stdin = { isTerminal: () => true, setRaw, read: () => Promise.resolve(null) };
    const stdout = { isTerminal: () => true, writeSync };
    Object.assign(Deno.stdin, stdin);
    Object.assign(Deno.stdout, stdout);
    try {
      const close = systemKeyboard(() => Promise.resolve(null))?.open(() => {}, () => {});
      Deno.kill(Deno.pid, "SIGCONT");
      await settledWithin(systemClock, continued.promise, 5_000);
      close?.();
      assertEquals(done, [true, "\x1b[?2004h", true, "\x1b[?2004h", false, "\x1b[?2004l"]);
    } finally {
      for (const name of Object.keys(stdin)) Reflect.deleteProperty(Deno.stdin, name);
      for (const name of Object.keys(stdout)) Reflect.deleteProperty(Deno.stdout, name);
    }
  },
});
