/** Which texts are origins, and which of them can be those of another server. */
import { isAuthority } from "./did.ts";
import { isLoopback } from "./ticket.ts";

/** Longest origin that is accepted. It has room for the longest authority of a DID. */
const ORIGIN_MAX = 150;

/**
 * Tells whether a text is an http or https origin in its only valid spelling. Other spellings are refused, because
 * origins are compared as texts, and two spellings of one origin would count as two.
 */
export function isOrigin(text: string): boolean {
  return text.length <= ORIGIN_MAX && URL.canParse(text) && new URL(text).origin === text && /^https?:/.test(text);
}

/**
 * Tells whether an origin can be that of another server: https, a DNS name with a dot, and no port, because another
 * service of the same host could otherwise claim its DIDs. A URL parser takes hosts such as `a;'b'.example`. They are
 * refused, because people and models are shown the proxy of a peer. With `ENVIRONMENT=local`, http on loopback is
 * accepted too, because trials have neither names nor certificates.
 */
export function isForeignOrigin(origin: string, environment: "local" | "dev" | "production"): boolean {
  if (!isOrigin(origin)) return false;
  const { protocol, host, hostname } = new URL(origin);
  if (protocol === "http:") return environment === "local" && isLoopback(host);
  return host === hostname && hostname.includes(".") && !/\.\d+$/.test(hostname) && isAuthority(hostname);
}

/** What a person reads about the ticket of a server for which `mayPair` is false. */
export const PAIRING_SERVERS =
  "Agents of two servers pair only if their host names differ, and both have https and no port.";

/**
 * Tells whether agents of two servers, given by the origins of their proxies, can pair at all. A port is no part of an
 * identity, so two servers of one host would claim each other's agents.
 */
export function mayPair(own: string, other: string): boolean {
  const isTrial = (origin: string) => origin.startsWith("http:");
  return [own, other].every((origin) => isForeignOrigin(origin, "local")) && isTrial(own) === isTrial(other) &&
    new URL(own).hostname !== new URL(other).hostname;
}
