/**
 * The lock that prevents two uses of one store file. The operating system releases the lock of a killed process. The PID in
 * the file is for the operator only, because two containers can both have PID 1 (D-241).
 */
import { StartRefused } from "../config_reader.ts";

/** The store is in use by another process, or cannot be opened. The message is for the operator. */
export class StoreRefused extends StartRefused {
  override name = "StoreRefused";
}

/**
 * Locks a file and writes the PID into it. Returns the function that releases the lock.
 *
 * @throws {StoreRefused} when the lock is held
 */
export async function lockFile(path: string): Promise<() => void> {
  const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  if (file.tryLockSync(true)) {
    file.truncateSync(0);
    file.writeSync(new TextEncoder().encode(`${Deno.pid}\n`));
    return () => file.close();
  }
  file.close();
  const holder = (await Deno.readTextFile(path)).trim();
  const who = holder === String(Deno.pid) ? `another process with PID ${holder}` : `process ${holder || "unknown"}`;
  throw new StoreRefused(
    `Cannot open the store ${path.slice(0, -".lock".length)}: ${who} uses it. ` +
      `Stop that one, or set KV_URL to another path.`,
  );
}
