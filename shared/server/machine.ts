/**
 * Memory, disk and used time of the machine. An answer is `null` when this process may not ask or the system does not
 * tell.
 */
import { statfsSync, statSync } from "node:fs";
import process from "node:process";

export interface DiskSpace {
  freeBytes: number;
  totalBytes: number;
}

export function memoryBytes(
  limit = () => process.constrainedMemory(),
  total = () => Deno.systemMemoryInfo().total,
): number | null {
  // 0 means no limit. Taken for a limit, it would make the memory guard ask and close sockets all the time.
  return orNull(() => Math.min(limit() || Infinity, total()));
}

/** Returns the time for which processors have worked for this process, milliseconds. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

export function diskSpace(folder: string): DiskSpace | null {
  return orNull(() => {
    const { bsize, bavail, blocks } = statfsSync(folder);
    return { freeBytes: bsize * bavail, totalBytes: bsize * blocks };
  });
}

/** Returns the bytes of all the files together. A missing file counts as empty. */
export function fileBytes(paths: readonly string[]): number | null {
  return orNull(() => paths.reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0));
}

function orNull<T>(look: () => T): T | null {
  try {
    return look();
  } catch {
    return null;
  }
}
