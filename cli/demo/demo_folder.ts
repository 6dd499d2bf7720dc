/** The folder of the demo's files: private, with a name of its own, removed at the end. */
import { resolve } from "node:path";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { reason } from "../files/private_files.ts";

const PREFIX = "svc-demo-";

/**
 * Creates the folder.
 *
 * @param parent the folder that holds it, created if it is absent; default: that of the system for temporary files
 * @throws {CliError} `CLI_SAVE_FAILED`
 */
export function makeDemoFolder(parent: string | undefined): string {
  try {
    if (parent !== undefined) Deno.mkdirSync(parent, { recursive: true, mode: 0o700 });
    return resolve(Deno.makeTempDirSync({ prefix: PREFIX, ...parent === undefined ? {} : { dir: parent } }));
  } catch (error) {
    const where = parent ?? "the system's folder for temporary files";
    throw new CliError("CLI_SAVE_FAILED", `No folder could be created in ${where}: ${reason(error)}`, {
      fix: "Name a folder that you may write to with --temp-dir.",
      cause: error,
    });
  }
}

/** Removes the folder. A failure is a warning: the result of the demo counts. */
export async function removeDemoFolder({ out }: Pick<Context, "out">, path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    out.warn(`${path} could not be removed: ${reason(error)}`);
  }
}
