/**
 * Saves an API key that was just issued. By then it has been shown: should saving fail, the person still has it.
 */
import { type Config, configPath, readConfig, updateConfig } from "./config_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { maskSecret } from "../../shared/protocol/secrets.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import { parseServiceUrl } from "../client/service_url.ts";

/** An account to work as from now on. */
export interface Account {
  registry: RegistryClient;
  apiKey: string;
  humanName: string;
  /** Where it is known already; else the registry is asked. */
  proxyUrl?: string;
}

/** @throws {CliError} `CLI_SAVE_FAILED` with what to do with the key */
export async function saveAccount(ctx: Context, account: Account): Promise<void> {
  const { registry, apiKey, humanName } = account;
  try {
    const before = readConfig(ctx);
    const config: Config = { registryUrl: registry.registryUrl, apiKey, humanName };
    const proxyUrl = parseServiceUrl(account.proxyUrl ?? await proxyOf(registry));
    if (proxyUrl !== null) config.proxyUrl = proxyUrl;
    await updateConfig(ctx, config);
    ctx.out.note(`The API key is saved in ${configPath(ctx)}.`);
    if (before?.apiKey !== undefined && before.apiKey !== apiKey) {
      ctx.out.warn(`It takes the place of ${maskSecret(before.apiKey)}, which was saved there before`);
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const fix = "Keep it; svc config set apiKey - saves it once the file can be written.";
    throw new CliError("CLI_SAVE_FAILED", `The API key above could not be saved: ${why}`, { cause, fix });
  }
}

/** The proxy's address; empty when the registry does not say: the key is worth saving without it. */
async function proxyOf(registry: RegistryClient): Promise<string> {
  try {
    return (await registry.metadata()).proxyUrl;
  } catch {
    return "";
  }
}
