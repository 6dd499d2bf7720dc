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
