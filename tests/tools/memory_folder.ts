/** Where the tests of the gate have their files: in memory, where the system has a folder for that. */
import { statfsSync } from "node:fs";

const SHARED_MEMORY = "/dev/shm";
/** Many times what the tests of the gate have there at once. Where less is free, they could fail on a full disk. */
const FREE_BYTES = 512 * 1024 ** 2;

/**
 * Makes a folder in memory; `null` where there is no room, or where programs in it cannot be started, because some tests
 * start programs that they have written.
 */
export async function memoryFolder(prefix: string, memory = SHARED_MEMORY): Promise<string | null> {
  let folder: string | null = null;
  try {
    const { bavail, bsize } = statfsSync(memory);
    if (bavail * bsize < FREE_BYTES) return null;
    folder = await Deno.makeTempDir({ dir: memory, prefix });
    const program = `${folder}/program`;
    await Deno.writeTextFile(program, "#!/bin/sh\n", { mode: 0o700 });
    await new Deno.Command(program, { stdin: "null", stdout: "null", stderr: "null" }).output();
    await Deno.remove(program);
    return folder;
  } catch {
    if (folder !== null) await Deno.remove(folder, { recursive: true });
    return null;
  }
}
