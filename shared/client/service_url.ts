/** Parses the URLs of services. */
import { isLoopback as isLoopbackHost } from "../protocol/ticket.ts";

/**
 * Returns the origin of a service URL, or `null` if it is not one: `https` or `http`, and nothing after the port but a
 * slash.
 *
 * @example `https://Registry.example/` gives `https://registry.example`
 */
export function parseServiceUrl(text: string): string | null {
  return /^https?:\/\/[^/?#@\\\s]+\/?$/i.test(text) && URL.canParse(text) ? new URL(text).origin : null;
}

/** Tells whether an address is on this machine. */
export function isLoopback(origin: string): boolean {
  return isLoopbackHost(new URL(origin).host);
}
