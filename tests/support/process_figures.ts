/** What a process uses, on Linux. */

const TICKS_PER_SECOND = 100;
const PAGE_BYTES = 4_096;

/** The user and system time of a process, or of one thread, seconds. `path`: its folder in /proc. */
export function cpuSeconds(path: string): number {
  const text = Deno.readTextFileSync(`${path}/stat`);
  const [user = 0, system = 0] = text.slice(text.lastIndexOf(")") + 2).split(" ").slice(11, 13).map(Number);
  return (user + system) / TICKS_PER_SECOND;
}

/** The memory that a process holds, bytes. */
export function heldBytes(pid: number): number {
  return Number(Deno.readTextFileSync(`/proc/${pid}/statm`).split(" ")[1]) * PAGE_BYTES;
}

/** Milliseconds for which the first thread of a process, or one thread, was ready and had no core. `path`: its folder in /proc. */
function waitedMs(path: string): number {
  return Number(Deno.readTextFileSync(`${path}/schedstat`).split(" ")[1]) / 1_000_000;
}

/**
 * Returns a function with the milliseconds since now. Where a process is named, those do not count for which it or this thread
 * waits for a core: what else runs on the machine would otherwise count as its work.
 */
export function stopwatch(pid?: number): () => number {
  const waited = () => pid === undefined ? 0 : waitedMs(`/proc/${pid}`) + waitedMs("/proc/thread-self");
  const began = performance.now() - waited();
  return () => Math.max(0, performance.now() - waited() - began);
}
