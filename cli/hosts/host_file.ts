/** Reads a configuration file of a host, unless another user could have changed it. */
import { basename, dirname, join, sep } from "node:path";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { type OtherFile, reason, textOf } from "../files/private_files.ts";
import { shellWord } from "../terminal/output.ts";

export interface HostFilePlace {
  path: string;
  hostName: string;
  /** The folder of the project that the file belongs to; `null` for a file of the user. */
  project: string | null;
}

const BY_HAND = "Change it by hand; see --print.";
const OWNER_MAY_WRITE = 0o200;
const OTHERS_MAY_WRITE = 0o002;
const GROUP_MAY_WRITE = 0o020;

/**
 * Reads a configuration file, which may not exist. A link of the user is followed to a file of the user. A link of a
 * project is not, because the author of the repository could point it at the user's own files.
 *
 * @returns the file itself, behind links
 * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`
 */
export async function readHostFile(ctx: Context, place: HostFilePlace): Promise<OtherFile> {
  const real = await behindLinks(place);
  for (const folder of new Set([dirname(place.path), dirname(real)])) await checkFolder(ctx, folder);
  let stat: Deno.FileInfo;
  try {
    stat = await Deno.stat(real);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { path: real, text: null, mode: null };
    throw new CliError("CLI_FILE_INVALID", `${real} cannot be read: ${reason(error)}`, { fix: "" });
  }
  if (!stat.isFile) throw new CliError("CLI_FILE_UNSAFE", `${real} is not a plain file`);
  if (isOfOther(ctx, stat.uid)) throw new CliError("CLI_FILE_UNSAFE", `${real} belongs to another user`);
  const most = place.path.endsWith(".toml") ? CONNECTOR_LIMITS.hostTomlBytes : CONNECTOR_LIMITS.hostFileBytes;
  if (stat.size > most) {
    const mib = most / 1024 ** 2;
    throw new CliError("CLI_FILE_INVALID", `${real} is over ${mib} MiB`, { fix: BY_HAND });
  }
  const text = textOf(real);
  if (text === undefined) throw new CliError("CLI_FILE_INVALID", `${real} cannot be read as text`, { fix: BY_HAND });
  return { path: real, text, mode: stat.mode };
}

/**
 * Refuses a read-only file. It would otherwise be replaced, because replacing needs only the right to write to its
 * folder.
 *
 * @throws {CliError} `CLI_FILE_UNSAFE`
 */
export function refuseReadOnly({ path, mode }: OtherFile): void {
  if (mode === null || (mode & OWNER_MAY_WRITE) !== 0) return;
  throw new CliError("CLI_FILE_UNSAFE", `${path} is read-only, so it stays as it is`, {
    fix: `Change it by hand as --print shows, or run the command again after: chmod u+w ${shellWord(path)}`,
  });
}

/**
 * Returns the path of the file itself, behind links.
 *
 * @throws {CliError} `CLI_FILE_INVALID` without the folder, `CLI_FILE_UNSAFE` for a link to nothing or out of a project
 */
async function behindLinks({ path, hostName: host, project }: HostFilePlace): Promise<string> {
  let folder: string;
  try {
    folder = await Deno.realPath(dirname(path));
  } catch (error) {
    const why = error instanceof Deno.errors.NotFound ? "does not exist" : `cannot be read: ${reason(error)}`;
    throw new CliError("CLI_FILE_INVALID", `${dirname(path)} ${why}: is ${host} installed for this user?`, {
      fix: `Start ${host} once, or add by hand what --print shows.`,
    });
  }
  const place = join(folder, basename(path));
  const isLink = await Deno.lstat(place).then((stat) => stat.isSymlink, () => false);
  if (project !== null) {
    const inside = await Deno.realPath(project);
    if (isLink) throw outOfProject(`${path} is a link`);
    if (folder !== inside && !folder.startsWith(inside + sep)) throw outOfProject(`${path} is outside the project`);
  }
  if (!isLink) return place;
  try {
    return await Deno.realPath(place);
  } catch (error) {
    throw new CliError("CLI_FILE_UNSAFE", `${path} is a link to a file that cannot be read: ${reason(error)}`);
  }
}

function outOfProject(what: string): CliError {
  return new CliError("CLI_FILE_UNSAFE", `${what}, and links of a project are not followed`, {
    fix: "Replace the link with a plain file or folder, or use --scope user.",
  });
}

/** Checks the folder of a file. @throws {CliError} `CLI_FILE_UNSAFE` when another user can replace files in it */
async function checkFolder(ctx: Context, folder: string): Promise<void> {
  const { mode, uid, gid } = await Deno.stat(folder);
  if (ctx.uid === null || mode === null) return;
  if (uid !== 0 && isOfOther(ctx, uid)) throw new CliError("CLI_FILE_UNSAFE", `${folder} belongs to another user`);
  // A group with the user's own number has no other member, so its right to write, given by pam_umask, is harmless.
  const isPrivateGroup = gid === ctx.uid;
  if ((mode & OTHERS_MAY_WRITE) === 0 && (isPrivateGroup || (mode & GROUP_MAY_WRITE) === 0)) return;
  throw new CliError("CLI_FILE_UNSAFE", `Other users can write to ${folder}`, {
    fix: `Take that right away, then run the command again: chmod go-w ${shellWord(folder)}`,
  });
}

function isOfOther({ uid: own }: Context, uid: number | null): boolean {
  return own !== null && uid !== null && uid !== own;
}
