/** The machine of this process, for detection and set-up. Starts programs only to read their version. */
import { exchange } from "../../shared/client/http.ts";
import type { Context, EnvironmentName } from "../context.ts";
import { type Machine, MAX_SETTINGS_BYTES } from "./platform.ts";

const ASK_MS = 2_000;
const RUN_MS = 10_000;
/** Most bytes that are read of a response or of a program's output, because one without an end would fill the memory. */
const MAX_BYTES = 1024 * 1024;

export function thisMachine(ctx: Context): Machine {
  const env = (name: string) => ctx.env(name as EnvironmentName);
  return {
    home: env("HOME") ?? null,
    env,
    async ask(url) {
      const request = { method: "GET", url, timeoutMs: ASK_MS, maxBytes: MAX_BYTES, onTooLarge: "truncate" } as const;
      try {
        if (await ctx.isOfOtherUser?.(url)) return null;
        const { status, text } = await exchange({ fetch: ctx.fetch, clock: ctx.clock }, request);
        return { status, body: text };
      } catch {
        return null;
      }
    },
    async run(command, args) {
      let child: Deno.ChildProcess;
      try {
        child = new Deno.Command(command, { args: [...args], stdin: "null", stdout: "piped", stderr: "null" }).spawn();
      } catch {
        return null;
      }
      let isRunning = true;
      const ended = child.status.finally(() => isRunning = false);
      const reader = child.stdout.getReader();
      const cancel = ctx.clock.after(RUN_MS, () => {
        if (isRunning) child.kill("SIGKILL");
        // The output too, because a program that the child has started keeps it open.
        void reader.cancel();
      });
      const stdout = await firstText(reader);
      const { success } = await ended;
      cancel();
      return success ? stdout : null;
    },
    async read(path) {
      try {
        if ((await Deno.stat(path)).size > MAX_SETTINGS_BYTES) return null;
        return await Deno.readTextFile(path);
      } catch {
        return null;
      }
    },
    exists: (path) => Deno.stat(path).then(() => true, () => false),
  };
}

/** The first `MAX_BYTES` of a stream as text; the rest is cancelled. */
async function firstText(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "", left = MAX_BYTES;
  while (left > 0) {
    const { value: chunk, done } = await reader.read();
    if (done) return text;
    text += decoder.decode(chunk.subarray(0, left), { stream: true });
    left -= Math.min(left, chunk.length);
  }
  await reader.cancel();
  return text;
}
