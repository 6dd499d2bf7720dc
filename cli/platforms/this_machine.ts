/** The machine that `svc` runs on, as detection and set-up see it. Starts programs only to ask for their version. */
import { sleep } from "../../shared/clock.ts";
import type { Context, EnvironmentName } from "../context.ts";
import type { Machine } from "./machine.ts";

const ASK_MS = 2_000;
const RUN_MS = 10_000;
const MAX_BYTES = 1024 * 1024;

export function thisMachine(ctx: Context): Machine {
  const env = (name: string) => ctx.env(name as EnvironmentName);
  return {
    home: env("HOME") ?? null,
    os: ctx.os,
    env,
    async ask(url) {
      const late = new AbortController();
      const cancel = ctx.clock.after(ASK_MS, () => late.abort());
      try {
        const response = await ctx.fetch(url, { redirect: "manual", signal: late.signal });
        return { status: response.status, body: (await response.text()).slice(0, MAX_BYTES) };
      } catch {
        return null;
      } finally {
        cancel();
      }
    },
    async run(command, args) {
      let child: Deno.ChildProcess;
      try {
        child = new Deno.Command(command, { args: [...args], stdin: "null", stdout: "piped", stderr: "null" }).spawn();
      } catch {
        return null;
      }
      const done = new AbortController();
      const late = sleep(ctx.clock, RUN_MS, done.signal).then(() => {
        if (!done.signal.aborted) child.kill("SIGKILL");
      });
      const { success, stdout } = await child.output();
      done.abort();
      await late;
      return success ? new TextDecoder().decode(stdout) : null;
    },
    async read(path) {
      try {
        if ((await Deno.stat(path)).size > MAX_BYTES) return null;
        return await Deno.readTextFile(path);
      } catch {
        return null;
      }
    },
    exists: (path) => Deno.stat(path).then(() => true, () => false),
  };
}
