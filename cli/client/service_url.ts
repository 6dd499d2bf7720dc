/** Decides which service URLs may be used without TLS. */
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { isPlain, readProfile } from "../files/profile.ts";

/**
 * Returns the origin of a URL that secrets may be sent to.
 *
 * @param what the source of the URL, for the message: `--registry-url`, `registryUrl in config.json`
 * @throws {CliError} `CLI_USAGE` for an invalid URL, `CLI_INSECURE_URL` for plain http to another machine
 */
export function secureServiceUrl(
  ctx: Pick<Context, "configDir">,
  text: string,
  what: string,
  allowInsecure: boolean,
): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as https://registry.example: "${text}"`);
  }
  if (!allowInsecure && isPlain(origin) && !readProfile(ctx).insecureOrigins.includes(origin)) {
    throw new CliError("CLI_INSECURE_URL", `${what} is ${origin}: plain http would expose your secrets to the network`);
  }
  return origin;
}
