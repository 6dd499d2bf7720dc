/** Holds an agent's connector lock in the test's process, as a running connector does. */
import { closeLocked } from "../../../shared/locked_file.ts";

/** @param folder path of the agent's folder */
export async function holdConnectorLock(folder: string): Promise<Disposable> {
  const path = `${folder}/connector.lock`;
  const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  if (!await file.tryLock(true)) throw new Error(`${path} is held already`);
  // A discovery file counts only when it is of the process that holds the lock.
  await file.truncate(0);
  await file.write(new TextEncoder().encode(`${Deno.pid}\n`));
  return { [Symbol.dispose]: () => closeLocked(file) };
}
