/**
 * Decentralised identifiers of agents and humans: `did:svc:<authority>:<agent|human>:<ulid>`. The authority has no port
 * and no path, so that an identity survives a move of its registry to another port.
 */
import { isUlid } from "./ids.ts";

export type DidKind = "agent" | "human";

export interface Did {
  /** Lower-case host name of the registry, without port. */
  authority: string;
  kind: DidKind;
  id: string;
}

export const AUTHORITY_LENGTH_MAX = 119;
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const OCTET = /^(?:0|[1-9]\d{0,2})$/;

/** Tells whether a text is an authority: lower-case DNS labels or a dotted IPv4 address, at most 119 characters. */
export function isAuthority(text: string): boolean {
  if (text.length < 1 || text.length > AUTHORITY_LENGTH_MAX) return false;
  const labels = text.split(".");
  // A host whose last label is a number must be a complete IPv4 address, because a URL parser turns an incomplete one,
  // such as `127.1`, into another host.
  if (/^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "")) {
    return labels.length === 4 && labels.every((octet) => OCTET.test(octet) && Number(octet) <= 255);
  }
  return labels.every((label) => LABEL.test(label));
}

export function parseDid(text: string): Did | null {
  const parts = text.split(":");
  const [scheme, method, authority, kind, id] = parts;
  if (parts.length !== 5 || scheme !== "did" || method !== "svc") return null;
  if (kind !== "agent" && kind !== "human") return null;
  if (authority === undefined || !isAuthority(authority) || !isUlid(id)) return null;
  return { authority, kind, id };
}

export function formatDid(did: Did): string {
  return `did:svc:${did.authority}:${did.kind}:${did.id}`;
}

export function isAgentDid(value: unknown): value is string {
  return typeof value === "string" && parseDid(value)?.kind === "agent";
}

export function isHumanDid(value: unknown): value is string {
  return typeof value === "string" && parseDid(value)?.kind === "human";
}

/**
 * Returns the authority in the DIDs of an issuer, which is the host name of its URL. Returns `null` for a host that a
 * DID cannot contain, such as an IPv6 address, and for an issuer that is not a URL.
 */
export function authorityOf(issuer: string): string | null {
  if (!URL.canParse(issuer)) return null;
  const host = new URL(issuer).hostname;
  return isAuthority(host) ? host : null;
}
