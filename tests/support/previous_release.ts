/**
 * The previous release, as processes of its own: the server and the command `svc` of one commit, from the repository's
 * own history. The files are checked out once, below `.data/`. A test counts as skipped where the history is missing.
 */
import type { Program } from "../cli/program.ts";
import { ChildProcess, ROOT } from "./process.ts";

/** Commit of the previous release. */
export const PREVIOUS_COMMIT = "a8b5329";

export interface PreviousRelease {
  /** How `svc` is started. */
  program: Program;
  /** How its server is started, for `ServerOptions` and `Service`. */
  entry: readonly string[];
}

/** Returns the previous release, or `null`, with a line printed, where the repository does not have its commit. */
export async function previousRelease(): Promise<PreviousRelease | null> {
  const folder = `${ROOT}/.data/previous/${PREVIOUS_COMMIT}`;
  await Deno.mkdir(`${ROOT}/.data/previous`, { recursive: true });
  using lock = await Deno.open(`${folder}.lock`, { create: true, write: true });
  await lock.lock(true);
  if (!await exists(folder) && !await checkOut(folder)) {
    console.log(`The previous release is NOT checked here: this repository has no commit ${PREVIOUS_COMMIT}`);
    return null;
  }
  const config = ["--config", `${folder}/deno.json`];
  return {
    program: {
      name: "previous release",
      command: Deno.execPath(),
      args: ["run", "-A", "--no-prompt", ...config, `${folder}/cli/main.ts`],
    },
    entry: [...config, `${folder}/deploy.ts`],
  };
}

/** Writes the files of the commit to a folder. Returns false where git or the commit is missing. */
async function checkOut(folder: string): Promise<boolean> {
  const [part, index] = [`${folder}.part`, `${folder}.index`];
  await Deno.remove(part, { recursive: true }).catch(() => {});
  // An index of its own: the repository's index and work tree stay as they are.
  for (const args of [["read-tree", PREVIOUS_COMMIT], ["checkout-index", "--all", `--prefix=${part}/`]]) {
    if (!await git(args, { GIT_INDEX_FILE: index })) return false;
  }
  await Deno.rename(part, folder);
  await Deno.remove(index);
  return true;
}

async function git(args: readonly string[], env: Record<string, string>): Promise<boolean> {
  try {
    await using child = new ChildProcess(args, env, "git");
    return (await child.status).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
