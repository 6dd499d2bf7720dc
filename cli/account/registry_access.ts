/**
 * Builds the clients of a command from options, environment and config.json. Plain http to another machine is refused
 * unless it is allowed, because others on the network could read the API key.
 */
import { effectiveConfig } from "./config_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { AdminClient, RelayAdminClient } from "../client/admin_client.ts";
import { RegistryClient } from "../client/registry_client.ts";
import { secureServiceUrl } from "../files/profile.ts";

/** Values of `REGISTRY_OPTIONS` and `PERSON_OPTIONS`. */
export interface ConnectionOptions {
  "registry-url"?: string | undefined;
  "api-key"?: string | undefined;
}

/**
 * Returns a client of the registry, with the configuration that chose it.
 *
 * @param own a URL that overrides environment and file
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`, `CLI_CONFIG_INVALID`
 */
export function connect(ctx: Context, options: ConnectionOptions, own?: string) {
  const config = effectiveConfig(ctx, { registryUrl: options["registry-url"] ?? own, apiKey: options["api-key"] });
  const what = options["registry-url"] === undefined ? "registryUrl" : "--registry-url";
  const registryUrl = secureServiceUrl(ctx, config.registryUrl ?? "", what);
  return { registry: new RegistryClient(ctx, registryUrl), registryUrl, config };
}

/**
 * Returns the words that name the same registry again. Without them, the next command would go to the saved one, or be
 * refused for plain http.
 */
export function registryWords(ctx: Pick<Context, "allowInsecure">, options: ConnectionOptions): string[] {
  const url = options["registry-url"];
  return [...url === undefined ? [] : [`--registry-url=${url}`], ...ctx.allowInsecure ? ["--allow-insecure"] : []];
}

/** Returns the client of the registry and the API key. @throws {CliError} `API_KEY_MISSING` */
export function connectAsPerson(ctx: Context, options: ConnectionOptions = {}) {
  const connection = connect(ctx, options);
  const { apiKey } = connection.config;
  if (apiKey === undefined) throw new CliError("API_KEY_MISSING", "No API key is configured");
  ctx.out.doing(`Calling ${connection.registryUrl}`);
  return { ...connection, apiKey };
}

/** Returns the client of the admin's routes. @throws {CliError} `API_KEY_MISSING` */
export function connectAsAdmin(ctx: Context, options: ConnectionOptions): AdminClient {
  const { registryUrl, apiKey } = connectAsPerson(ctx, options);
  return new AdminClient(ctx, registryUrl, apiKey);
}

/**
 * Returns a client for the admin routes of the configured proxy, or else of the proxy that the registry names. The
 * proxy gets a token from the registry and never the API key, because its operator could administer the registry with
 * that key (D-172).
 *
 * @throws {CliError} `API_KEY_MISSING`, `CLI_INSECURE_URL`
 */
export async function connectToRelay(ctx: Context, options: ConnectionOptions): Promise<RelayAdminClient> {
  const { registryUrl, config, apiKey } = connectAsPerson(ctx, options);
  const { token, audience } = await new AdminClient(ctx, registryUrl, apiKey).relayToken();
  const what = config.proxyUrl === undefined ? "the proxy's address" : "proxyUrl";
  const proxyUrl = secureServiceUrl(ctx, config.proxyUrl ?? audience, what);
  return new RelayAdminClient(ctx, proxyUrl, token);
}
