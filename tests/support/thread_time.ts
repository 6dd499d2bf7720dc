/** The CPU time of a test: the time of day also passes while a busy machine runs something else. */
import process from "node:process";

/** CPU time of this thread in milliseconds. Some systems count it in steps of 10 ms. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
