/** Parses the URLs of services, and decides which may be used without TLS. */
import { CliError } from "../errors.ts";

/**
 * Returns the origin of a service URL, or `null`: `https` or `http`, and nothing after the port but a slash.
 *
 * @example `https://Registry.example/` gives `https://registry.example`
 */
export function parseServiceUrl(text: string): string | null {
  return /^https?:\/\/[^/?#@\\\s]+\/?$/i.test(text) && URL.canParse(text) ? new URL(text).origin : null;
}

/** True for an address on this machine. */
export function isLoopback(origin: string): boolean {
  const { hostname } = new URL(origin);
  return hostname === "localhost" || hostname === "[::1]" ||
    /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/**
 * Returns the origin of a URL that secrets may be sent to.
 *
 * @param what the source of the URL, for the message: `--registry-url`, `registryUrl in config.json`
 * @throws {CliError} `CLI_USAGE` for an invalid URL, `CLI_INSECURE_URL` for plain http to another machine
 */
export function secureServiceUrl(text: string, what: string, allowInsecure: boolean): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as https://registry.example: "${text}"`);
  }
  if (!allowInsecure && origin.startsWith("http:") && !isLoopback(origin)) {
    throw new CliError("CLI_INSECURE_URL", `${what} is ${origin}: plain http would expose your secrets to the network`);
  }
  return origin;
}
