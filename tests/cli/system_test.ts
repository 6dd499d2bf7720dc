/** The system of this machine: a program that svc starts holds up no command. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Context } from "../../cli/context.ts";
import { thisMachine } from "../../cli/platforms/local_machine.ts";
import { realSystem } from "../../cli/system.ts";
import { systemClock } from "../../shared/clock.ts";

const SECONDS = 10;

/** Stand-ins for `xdg-open`, which is a shell script: the browser outlives it, or it waits for the browser. */
const OPENERS = {
  "the opener leaves its browser behind": `sleep ${SECONDS} &`,
  "the opener waits for its browser": `sleep ${SECONDS}; :`,
};

for (const [what, script] of Object.entries(OPENERS)) {
  Deno.test({
    name: `a page counts as opened while its browser runs: ${what}`,
    ignore: Deno.build.os !== "linux",
    // The stand-in outlives the test, as a browser outlives the command.
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      const folder = await Deno.makeTempDir({ prefix: "svc_opener_" });
      const before = { PATH: Deno.env.get("PATH") ?? "", DISPLAY: Deno.env.get("DISPLAY") };
      try {
        await Deno.writeTextFile(`${folder}/xdg-open`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
        Deno.env.set("PATH", `${folder}:${before.PATH}`);
        Deno.env.set("DISPLAY", ":0");
        const began = performance.now();
        assertEquals(await realSystem("0").openFile?.(`${folder}/page.html`), true);
        assert(performance.now() - began < (SECONDS - 2) * 1000, "the command waits for the browser");
      } finally {
        Deno.env.set("PATH", before.PATH);
        if (before.DISPLAY === undefined) Deno.env.delete("DISPLAY");
        else Deno.env.set("DISPLAY", before.DISPLAY);
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

Deno.test({
  name: "a program that leaves another one behind is waited for no longer than any other",
  ignore: Deno.build.os === "windows",
  sanitizeResources: false,
  async fn() {
    const fast = { ...systemClock, after: (ms: number, fn: () => void) => systemClock.after(ms / 5, fn) };
    const machine = thisMachine({ clock: fast, env: () => undefined } as unknown as Context);
    const began = performance.now();
    assertEquals(await machine.run("sh", ["-c", `sleep ${SECONDS} & echo one 1.0`]), "one 1.0\n");
    assertEquals(await machine.run("sh", ["-c", "echo two 2.0; sleep 60; :"]), null);
    assertEquals(await machine.run("sh", ["-c", "echo three 3.0"]), "three 3.0\n");
    assert(performance.now() - began < (SECONDS - 2) * 1000, "the look waits for a program that it did not start");
  },
});

Deno.test({
  name: "a program of --exec does not start when the connector has ended already",
  ignore: Deno.build.os === "windows",
  async fn() {
    const folder = await Deno.makeTempDir({ prefix: "svc_exec_" });
    const program = `${folder}/program`;
    await Deno.writeTextFile(program, `#!/bin/sh\necho started >"${folder}/started"\n`, { mode: 0o755 });
    const run = realSystem("0").exec?.run(program, {}, AbortSignal.abort());
    await assertRejects(() => run ?? Promise.resolve(0), DOMException);
    assertEquals(await Array.fromAsync(Deno.readDir(folder), ({ name }) => name), ["program"]);
    await Deno.remove(folder, { recursive: true });
  },
});
