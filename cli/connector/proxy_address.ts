/** The address of the proxy (D-24): the URL to connect to, and the public origin that is signed. */
import type { Context } from "../context.ts";
import { effectiveConfig } from "../account/config_store.ts";
import { CliError } from "../errors.ts";
import { secureServiceUrl } from "../files/profile.ts";
import type { ProxyPlace } from "../link/link.ts";

const CONNECT_PATH = "/v1/relay/connect";

/**
 * The address from `--proxy-ws-url`, `SVC_PROXY_WS_URL`, then the configuration.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export function proxyAddress(ctx: Context, wsUrl?: string): ProxyPlace {
  const configured = effectiveConfig(ctx).proxyUrl;
  const given = wsUrl ?? ctx.env("SVC_PROXY_WS_URL");
  if (given !== undefined) {
    const dialUrl = parseWsUrl(ctx, given, wsUrl === undefined ? "SVC_PROXY_WS_URL" : "--proxy-ws-url");
    return { dialUrl, origin: configured === undefined ? dialUrl : new URL(configured).origin };
  }
  if (configured === undefined) {
    throw new CliError("CLI_USAGE", "No proxy is configured: run svc config init, or give --proxy-ws-url");
  }
  const origin = secureServiceUrl(ctx, configured, "proxyUrl");
  return { dialUrl: origin, origin };
}

function parseWsUrl(ctx: Context, text: string, what: string): string {
  if (!/^wss?:\/\//i.test(text)) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as wss://proxy.example: "${text}"`);
  }
  const http = text.replace(/^ws/i, "http").replace(new RegExp(`${CONNECT_PATH}/?$`), "");
  return secureServiceUrl(ctx, http, what);
}
