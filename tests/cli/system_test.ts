/** The system of this machine: a program that svc starts holds up no command. */
import { assertEquals, assertRejects } from "@std/assert";
import { thisHost } from "../../cli/autostart/control.ts";
import type { Context } from "../../cli/context.ts";
import { thisMachine } from "../../cli/platforms/local_machine.ts";
import { realSystem } from "../../cli/system.ts";
import { systemClock } from "../../shared/clock.ts";
import { SOON_MS, within } from "../support/process.ts";
import { tempFolder } from "../support/temp_folder.ts";

/** Runs as long as its folder is there. */
const stays = (folder: string) => `while [ -e '${folder}' ]; do sleep 0.1; done`;

/** Stand-ins for `xdg-open`, which is a shell script: the browser outlives it, or it waits for the browser. */
const OPENERS = {
  "the opener leaves its browser behind": (folder: string) => `${stays(folder)} &`,
  "the opener waits for its browser": (folder: string) => `${stays(folder)}; :`,
};

for (const [what, script] of Object.entries(OPENERS)) {
  Deno.test({
    name: `a page counts as opened while its browser runs: ${what}`,
    ignore: Deno.build.os !== "linux",
    // The stand-in outlives the test, as a browser outlives the command.
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      await using temp = await tempFolder();
      const folder = temp.path;
      const before = { PATH: Deno.env.get("PATH") ?? "", DISPLAY: Deno.env.get("DISPLAY") };
      try {
        await Deno.writeTextFile(`${folder}/xdg-open`, `#!/bin/sh\n${script(folder)}\n`, { mode: 0o755 });
        Deno.env.set("PATH", `${folder}:${before.PATH}`);
        Deno.env.set("DISPLAY", ":0");
        const opening = Promise.resolve(realSystem("0").openFile?.(`${folder}/page.html`));
        assertEquals(await within(SOON_MS, "the page is opened", opening), true);
      } finally {
        Deno.env.set("PATH", before.PATH);
        if (before.DISPLAY === undefined) Deno.env.delete("DISPLAY");
        else Deno.env.set("DISPLAY", before.DISPLAY);
      }
    },
  });
}

/** A clock on which a program has `ms` instead of its usual time. */
const clockOf = (ms: number) => ({ ...systemClock, after: (_: number, fn: () => void) => systemClock.after(ms, fn) });

Deno.test({
  name: "a program that leaves another one behind is waited for no longer than any other",
  ignore: Deno.build.os === "windows",
  sanitizeResources: false,
  async fn() {
    await using folder = await tempFolder();
    const run = (ms: number, script: string) => {
      const machine = thisMachine({ clock: clockOf(ms), env: () => undefined } as unknown as Context);
      return within(SOON_MS, `the end of ${script}`, machine.run("sh", ["-c", script]));
    };
    let printed: string | null = null;
    // A busy machine needs longer for the script itself.
    for (let ms = 200; printed === null && ms < SOON_MS; ms *= 2) {
      printed = await run(ms, `${stays(folder.path)} & echo one 1.0`);
    }
    assertEquals(printed, "one 1.0\n");
    assertEquals(await run(200, `echo two 2.0; ${stays(folder.path)}; :`), null);
    assertEquals(await run(SOON_MS, "echo three 3.0"), "three 3.0\n");
  },
});

Deno.test({
  name: "a service manager that hangs, or prints without an end, holds up no command",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using folder = await tempFolder();
    const run = (ms: number, script: string) => {
      const host = thisHost({ clock: clockOf(ms), env: () => folder.path } as unknown as Context);
      return within(SOON_MS, `the end of ${script}`, host.run("sh", ["-c", script]));
    };
    assertEquals(await run(SOON_MS, "echo one; echo two >&2; exit 3"), { code: 3, stdout: "one\n", stderr: "two\n" });
    const hung = await run(200, `${stays(folder.path)}; :`);
    assertEquals([hung?.code, hung?.stderr], [137, "it did not end within 60 s"]);
    for (const end of ["", " >&2"]) {
      const endless = await run(SOON_MS, `yes ${end}`);
      assertEquals((endless?.stdout ?? "").length + (endless?.stderr ?? "").length, 1024 ** 2);
    }
  },
});

Deno.test({
  name: "a program of --exec does not start when the connector has ended already",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using folder = await tempFolder();
    const program = `${folder.path}/program`;
    await Deno.writeTextFile(program, `#!/bin/sh\necho started >"${folder.path}/started"\n`, { mode: 0o755 });
    const run = realSystem("0").exec?.run(program, {}, AbortSignal.abort());
    await assertRejects(() => run ?? Promise.resolve(0), DOMException);
    assertEquals(await Array.fromAsync(Deno.readDir(folder.path), ({ name }) => name), ["program"]);
  },
});
