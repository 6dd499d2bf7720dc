/**
 * Saves an API key that was just issued. The command prints the key first, so that it is not lost if saving fails.
 */
import { type Config, configPath, readConfig, updateConfig } from "./config_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { saveTrust } from "../files/profile.ts";
import { maskSecret } from "../../shared/protocol/secrets.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";

/** The account that later commands use. */
export interface Account {
  registry: RegistryClient;
  apiKey: string;
  humanName: string;
  /** The proxy URL if it is known; else the registry is queried. */
  proxyUrl?: string;
  /** Plain http was allowed for this server; later commands then need no option. */
  allowInsecure: boolean;
}

/** Saves key, name and URLs in config.json. @throws {CliError} `CLI_SAVE_FAILED`; its fix says how to save the key */
export async function saveAccount(ctx: Context, account: Account): Promise<void> {
  const { registry, apiKey, humanName } = account;
  try {
    const before = readConfig(ctx);
    const config: Config = { registryUrl: registry.registryUrl, apiKey, humanName };
    const proxyUrl = parseServiceUrl(account.proxyUrl ?? await proxyOf(registry));
    if (proxyUrl !== null) config.proxyUrl = proxyUrl;
    await updateConfig(ctx, config);
    await saveTrust(
      ctx,
      [config.registryUrl, config.proxyUrl].filter((url) => url !== undefined),
      account.allowInsecure,
    );
    ctx.out.note(`The API key is saved in ${configPath(ctx)}.`);
    if (before?.apiKey !== undefined && before.apiKey !== apiKey) {
      ctx.out.warn(`It replaces the previously saved key ${maskSecret(before.apiKey)}`);
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const fix = "Store it now, and save it with svc config set apiKey - when the file is writable.";
    throw new CliError("CLI_SAVE_FAILED", `The API key above could not be saved: ${why}`, { cause, fix });
  }
}

/** Returns the proxy URL; empty when the registry does not answer. The key is then saved without it. */
async function proxyOf(registry: RegistryClient): Promise<string> {
  try {
    return (await registry.metadata()).proxyUrl;
  } catch {
    return "";
  }
}
