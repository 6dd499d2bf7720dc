/**
 * Builds the client of the proxy's admin routes (D-172): gets an admin token from the registry and gives only that token to
 * the proxy, never the API key.
 */
import { RelayAdminClient } from "../client/relay_admin_client.ts";
import { secureServiceUrl } from "../client/service_url.ts";
import type { Context } from "../context.ts";
import { AdminTokenAnswer } from "../../shared/protocol/api/relay_admin.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { callService } from "../link/service_call.ts";
import { connectAsPerson, type ConnectionOptions } from "./registry_access.ts";

/**
 * Returns the client of the configured proxy, or of the one that the registry names.
 *
 * @throws {CliError} `API_KEY_MISSING`, `CLI_INSECURE_URL`
 */
export async function connectToRelay(ctx: Context, options: ConnectionOptions): Promise<RelayAdminClient> {
  const { registryUrl, config, apiKey } = await connectAsPerson(ctx, options);
  const { token, audience } = await callService(ctx, {
    method: "POST",
    url: `${registryUrl}/v1/admin/tokens`,
    headers: { [HEADERS.authorization]: `Bearer ${apiKey}` },
    response: AdminTokenAnswer,
  });
  const what = config.proxyUrl === undefined ? "the proxy's address" : "proxyUrl";
  const proxyUrl = secureServiceUrl(ctx, config.proxyUrl ?? audience, what, options["allow-insecure"]);
  return new RelayAdminClient(ctx, proxyUrl, token);
}
