/**
 * Addresses of services as people give them: what is one, and which may be spoken to without TLS.
 */
import { CliError } from "../errors.ts";

/**
 * Reads the origin of a service, or gives `null`: `https` or `http`, nothing after the port but a slash.
 *
 * @example `https://Registry.example/` gives `https://registry.example`
 */
export function parseServiceUrl(text: string): string | null {
  return /^https?:\/\/[^/?#@\\\s]+\/?$/i.test(text) && URL.canParse(text) ? new URL(text).origin : null;
}

/** True for an address that never leaves this machine. */
export function isLoopback(origin: string): boolean {
  const { hostname } = new URL(origin);
  return hostname === "localhost" || hostname === "[::1]" ||
    /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/**
 * Reads an address that secrets may be sent to.
 *
 * @param what who wants it, for the message: `--registry-url`, `registryUrl in config.json`
 * @throws {CliError} `CLI_USAGE` for no address, `CLI_INSECURE_URL` for plain http to another machine
 */
export function secureServiceUrl(text: string, what: string, allowInsecure: boolean): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as https://registry.example: "${text}"`);
  }
  if (!allowInsecure && origin.startsWith("http:") && !isLoopback(origin)) {
    throw new CliError("CLI_INSECURE_URL", `${what} is ${origin}: everybody on the way could read your secrets`);
  }
  return origin;
}
