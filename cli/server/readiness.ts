/** Asks a server whether it is ready (D-162). */
import { asUnreachable, exchange } from "../../shared/client/http.ts";
import { CLIENT_LIMITS } from "../../shared/client/limits.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";

/**
 * Returns the origin, and whether the server is ready. No secret is sent, so plain http is accepted.
 *
 * @throws {CliError} `CLI_USAGE` for a URL that is not an origin
 * @throws {import("../../shared/client/errors.ts").UnreachableError} when no server answers
 */
export async function readiness(ctx: Context, url: string): Promise<{ url: string; ready: boolean }> {
  const origin = parseServiceUrl(url);
  if (origin === null) throw new CliError("CLI_USAGE", "--url must be an origin such as http://127.0.0.1:8787");
  const status = await statusOf(ctx, origin, "/readyz");
  // A server of an earlier version has only the long form.
  return { url: origin, ready: (status === 404 ? await statusOf(ctx, origin, "/health") : status) === 200 };
}

async function statusOf(ctx: Context, origin: string, path: string): Promise<number> {
  const { status } = await exchange(ctx, {
    method: "GET",
    url: origin + path,
    timeoutMs: CLIENT_LIMITS.registryTimeoutMs,
    connectMs: CLIENT_LIMITS.registryConnectMs,
    maxBytes: 0,
    onTooLarge: "truncate",
  }).catch((error) => {
    throw asUnreachable(origin, error);
  });
  return status;
}
