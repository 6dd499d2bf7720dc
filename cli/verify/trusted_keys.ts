/**
 * The registry's published keys. They are fetched each time, and a copy is saved in `{config_dir}/keys/`. The copy is
 * used offline, and when the registry does not answer.
 */
import { join } from "node:path";
import * as z from "zod";
import type { AitAuthority } from "../../shared/protocol/signed/ait.ts";
import { KeyDocument, readKeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Context } from "../context.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { CliError } from "../errors.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { ensureDirectory, readPrivate, removeLeftovers, writePrivate } from "../files/private_files.ts";
import type { RegistryClient } from "../client/registry_client.ts";

const Copy = z.object({ issuer: z.string(), proxyUrl: z.string(), fetchedAt: z.string(), document: KeyDocument });
type Copy = z.infer<typeof Copy>;

const MAX_BYTES = 256 * 1024;

export interface TrustedKeys extends AitAuthority {
  proxyUrl: string;
  fetchedAt: string;
  /** Why the saved copy is used; `null` when the registry has answered. */
  stale: string | null;
}

/**
 * Returns the keys of a registry, and saves a copy of them.
 *
 * @param offline use the saved copy and make no request
 * @param isGone as in `keepCopy`
 * @throws {UnreachableError} when the registry does not answer and there is no copy
 */
export async function trustedKeys(
  ctx: Context,
  registry: RegistryClient,
  { offline = false, isGone }: { offline?: boolean; isGone?: () => boolean } = {},
): Promise<TrustedKeys> {
  const file = `${encodeURIComponent(registry.registryUrl)}.json`;
  const copy = readCopy(join(ctx.configDir, "keys", file));
  if (offline) {
    if (copy !== null) return await usable(copy, "the registry was not contacted");
    throw new UnreachableError(`The keys of ${registry.registryUrl} are not saved on this machine`, {
      fix: "Run the command once without --offline to save them.",
    });
  }
  try {
    ctx.out.doing("Fetching the registry's keys");
    const [{ registryUrl, proxyUrl }, document] = await Promise.all([registry.metadata(), registry.keyDocument()]);
    const fresh: Copy = { issuer: registryUrl, proxyUrl, fetchedAt: toIso(ctx.clock.now()), document };
    await keepCopy(ctx, file, `${JSON.stringify(fresh, null, 2)}\n`, isGone);
    return await usable(fresh, null);
  } catch (error) {
    if (copy === null || !isAway(error)) throw error;
    return await usable(copy, describeError(error));
  }
}

/**
 * Returns true when the registry itself has not answered. A 5xx may come from a server in front of it, and a 429 only
 * tells this caller to wait.
 */
function isAway(error: unknown): boolean {
  return error instanceof UnreachableError ||
    error instanceof ApiError && (error.status === 429 || error.status >= 500);
}

function readCopy(path: string): Copy | null {
  try {
    return Copy.parse(JSON.parse(readPrivate(path, MAX_BYTES) ?? ""));
  } catch {
    // A damaged copy counts as missing. The next fetch replaces it.
    return null;
  }
}

/**
 * Saves a text of the registry. A failure is ignored, because the copy only serves while the registry is away.
 *
 * @param isGone whether the folder of the configuration was removed since the text was asked for. It would otherwise
 * come back
 */
export async function keepCopy(
  ctx: Context,
  file: string,
  text: string,
  isGone: () => boolean = () => false,
): Promise<void> {
  const folder = join(ctx.configDir, "keys");
  if (isGone()) return;
  try {
    await ensureDirectory(folder, await ensureConfigDir(ctx));
    // A folder that was removed meanwhile would otherwise fail the command, because below only errors of svc are ignored.
    await removeLeftovers(folder, ctx.clock.now()).catch(() => {});
    await writePrivate(ctx.random, join(folder, file), text);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
  }
}

async function usable({ issuer, proxyUrl, fetchedAt, document }: Copy, stale: string | null): Promise<TrustedKeys> {
  const keys = await readKeyDocument(document);
  if (keys === null) throw new UnreachableError("The registry's keys cannot be read");
  return { issuer, proxyUrl, keys, fetchedAt, stale };
}
