/**
 * Runs `svc` and kills itself with SIGKILL just before the n-th file or network operation, so that every state that a
 * kill can leave is reached. Exits as `svc` does when there are fewer operations. deno run -A tests/cli/kill_at.ts <n>
 * <arguments of svc>
 */
import { realSystem } from "../../cli/system.ts";
import { run } from "../../cli/main.ts";

const [n, ...argv] = Deno.args;
let left = Number(n);

/** The same function, with a kill in front of it at the chosen operation. */
function deadly<A extends unknown[], R>(call: (...args: A) => R): (...args: A) => R {
  return function (this: unknown, ...args: A): R {
    if (--left === 0) Deno.kill(Deno.pid, "SIGKILL");
    return call.apply(this, args);
  };
}

for (const name of ["mkdir", "open", "rename", "remove", "chmod"] as const) {
  Object.assign(Deno, { [name]: deadly(Deno[name] as (...args: unknown[]) => unknown) });
}
for (const name of ["write", "sync", "truncate", "unlock"] as const) {
  Object.assign(Deno.FsFile.prototype, {
    [name]: deadly(Deno.FsFile.prototype[name] as (...args: unknown[]) => unknown),
  });
}
const real = realSystem("0.0.0-test");
// A request counts twice: before it is sent, and when its answer has arrived but is not processed.
const answered = deadly((response: Response) => response);
const sending = deadly(real.fetch);
Deno.exit(await run(argv, { ...real, fetch: async (input, init) => answered(await sending(input, init)) }));
