/** The machine of this process, for detection and set-up, and programs that run for a short time. */
import type { Clock } from "../../shared/clock.ts";
import { exchange } from "../../shared/client/http.ts";
import type { Context, EnvironmentName } from "../context.ts";
import { MAX_SETTINGS_BYTES } from "../files/private_files.ts";
import type { Machine } from "./platform.ts";

const ASK_MS = 2_000;
const RUN_MS = 10_000;
/** Most bytes that are read of a response or of an output, because one without an end would fill the memory. */
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
      const ran = await runProgram(ctx.clock, command, args, RUN_MS);
      return ran?.code === 0 ? ran.stdout : null;
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

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program, and kills it after `ms`. Returns the start of what it prints; `null` when it is not installed. */
export async function runProgram(
  clock: Clock,
  command: string,
  args: readonly string[],
  ms: number,
): Promise<Ran | null> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(command, { args: [...args], stdin: "null", stdout: "piped", stderr: "piped" }).spawn();
  } catch {
    return null;
  }
  let isRunning = true, why = "";
  const ended = child.status.finally(() => isRunning = false);
  const [output, errors] = [child.stdout.getReader(), child.stderr.getReader()];
  const cancel = clock.after(ms, () => {
    if (isRunning) {
      why = `it did not end within ${ms / 1000} s`;
      child.kill("SIGKILL");
    }
    // The output is cancelled too, because a program that the child has started may keep it open.
    void output.cancel();
    void errors.cancel();
  });
  const [stdout, stderr] = await Promise.all([firstText(output), firstText(errors)]);
  const { code } = await ended;
  cancel();
  return { code, stdout, stderr: why || stderr };
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
