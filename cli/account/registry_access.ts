/**
 * Builds the registry client of a command from options, environment and config.json. Rejects plain http to another
 * machine unless it is allowed.
 */
import { type Config, effectiveConfig } from "./config_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { AdminClient } from "../client/admin_client.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import { secureServiceUrl } from "../client/service_url.ts";

/** Values of `REGISTRY_OPTIONS` and `PERSON_OPTIONS`. */
export interface ConnectionOptions {
  "registry-url"?: string | undefined;
  "allow-insecure": boolean;
  "api-key"?: string | undefined;
}

export interface RegistryAccess {
  registry: RegistryClient;
  registryUrl: string;
  config: Config;
}

/**
 * Returns the client of the registry.
 *
 * @param own a URL that overrides environment and file
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`, `CLI_CONFIG_INVALID`
 */
export async function connect(ctx: Context, options: ConnectionOptions, own?: string): Promise<RegistryAccess> {
  const flags: Config = {};
  const wanted = options["registry-url"] ?? own;
  if (wanted !== undefined) flags.registryUrl = wanted;
  if (options["api-key"] !== undefined) flags.apiKey = options["api-key"];
  const config = effectiveConfig(ctx, flags);
  const what = options["registry-url"] === undefined ? "registryUrl" : "--registry-url";
  const registryUrl = secureServiceUrl(ctx, config.registryUrl ?? "", what, options["allow-insecure"]);
  const { RegistryClient } = await import("../client/registry_client.ts");
  return { registry: new RegistryClient(ctx, registryUrl), registryUrl, config };
}

/** Returns the client of the registry and the API key. @throws {CliError} `API_KEY_MISSING` */
export async function connectAsPerson(
  ctx: Context,
  options: ConnectionOptions,
): Promise<RegistryAccess & { apiKey: string }> {
  const connection = await connect(ctx, options);
  const { apiKey } = connection.config;
  if (apiKey === undefined) throw new CliError("API_KEY_MISSING", "No API key is configured");
  ctx.out.doing(`Calling ${connection.registryUrl}`);
  return { ...connection, apiKey };
}

/** Returns the client of the admin's routes. @throws {CliError} `API_KEY_MISSING` */
export async function connectAsAdmin(ctx: Context, options: ConnectionOptions): Promise<AdminClient> {
  const [{ registryUrl, apiKey }, { AdminClient }] = await Promise.all([
    connectAsPerson(ctx, options),
    import("../client/admin_client.ts"),
  ]);
  return new AdminClient(ctx, registryUrl, apiKey);
}
