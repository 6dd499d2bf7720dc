/** Starting a child process of a test or of the bench. Imports nothing, so that a child needs no further permission. */

/** Root folder of the project. */
export const ROOT = decodeURIComponent(new URL("../..", import.meta.url).pathname).replace(/\/$/, "");

/** Variables of this process's environment that a child needs to find its cache. No other is passed on. */
const PASSED_ON = ["HOME", "PATH", "DENO_DIR", "XDG_CACHE_HOME", "TMPDIR"];

/** Deno, or another command, in the project's folder. The child gets `env` and the variables of PASSED_ON only. */
export function childCommand(
  args: readonly string[],
  env: Record<string, string>,
  { command, stdin }: { command: string; stdin: "null" | "piped" },
): Deno.Command {
  const passedOn = PASSED_ON.flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return new Deno.Command(command, {
    args: [...args],
    cwd: ROOT,
    clearEnv: true,
    env: { ...Object.fromEntries(passedOn), NO_COLOR: "1", ...env },
    stdin,
    stdout: "piped",
    stderr: "piped",
  });
}

/**
 * Returns the result of a promise.
 *
 * @throws {Error} after `ms` milliseconds
 */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Not within ${ms} ms: ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
