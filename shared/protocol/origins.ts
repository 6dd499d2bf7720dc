/** Which texts are origins, and which of them can be those of another server. */
import { isLoopback } from "./ticket.ts";

/** The longest origin with the longest authority of a DID is shorter. */
const ORIGIN_MAX = 150;

/** Whether a text is an http or https origin in its one spelling. Two spellings of one origin would not be equal. */
export function isOrigin(text: string): boolean {
  return text.length <= ORIGIN_MAX && URL.canParse(text) && new URL(text).origin === text && /^https?:/.test(text);
}

/**
 * Whether an origin can be that of another server: https, a DNS name with a dot, no port, because another service of
 * the host could otherwise claim its DIDs. With `ENVIRONMENT=local` http on loopback is one too, because trials have
 * neither names nor certificates.
 */
export function isForeignOrigin(origin: string, environment: "local" | "dev" | "production"): boolean {
  if (!isOrigin(origin)) return false;
  const { protocol, host, hostname } = new URL(origin);
  if (protocol === "http:") return environment === "local" && isLoopback(host);
  return host === hostname && hostname.includes(".") && !/\.\d+$/.test(hostname);
}
