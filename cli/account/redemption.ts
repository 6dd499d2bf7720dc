/** Redeems an invite so that a command that was killed, or whose answer was lost, can be run again (D-37). */
import { join } from "node:path";
import { sha256, toBase64Url } from "../../shared/protocol/base64url.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";
import { withConfigLock } from "../files/lock.ts";
import { readPrivate, writePrivate } from "../files/private_files.ts";

const FILE = ".redemption.secret";
const FORM = /^[A-Za-z0-9_-]{43}$/;
const AGAIN = "The account may exist by now. To get its key, run the command again on this machine.";

/**
 * Redeems an invite. The secret that repeats the request is on disk before it is sent, because the account of an answer
 * that is lost would otherwise stay without a key. Each code gets its own, because a registry could use that of another.
 */
export async function redeem(ctx: Context, registry: RegistryClient, code: string, displayName: string | undefined) {
  const path = join(ctx.configDir, FILE);
  let isNew = false;
  const secret = await withConfigLock(ctx, async () => {
    const saved = readPrivate(path, 64) ?? "";
    if (FORM.test(saved)) return saved;
    const made = toBase64Url(ctx.random.bytes(32));
    await writePrivate(ctx.random, path, made);
    isNew = true;
    return made;
  });
  const retrySecret = await sha256(`${secret}\n${registry.registryUrl}\n${code}`);
  try {
    return await registry.redeemInvite(code, displayName, retrySecret);
  } catch (error) {
    // An earlier run's secret stays, because the answer of another code may have been lost.
    if (isNew && error instanceof ApiError && error.code?.startsWith("INVITE_REDEEM_")) await forgetRedemption(ctx);
    if (!(error instanceof UnreachableError) || !error.mayHaveArrived) throw error;
    // The account may exist, so a person who asks for another invite instead would leave it behind.
    throw new UnreachableError(error.message, { cause: error.cause, fix: AGAIN, code: error.code });
  }
}

/** Called when the API key is saved. */
export async function forgetRedemption({ configDir }: Pick<Context, "configDir">): Promise<void> {
  await Deno.remove(join(configDir, FILE)).catch(() => {});
}
