/**
 * Which registries' agents may visit this server (D-280). An issuer is an https origin with a DNS name and no port
 * (shared/protocol/origins.ts), because with a port another service of the same host could claim its DIDs.
 */
import type { Environment } from "../shared/protocol/api/meta.ts";
import { authorityOf, isAuthority } from "../shared/protocol/did.ts";
import { isForeignOrigin } from "../shared/protocol/origins.ts";
import { list, type Parse } from "../shared/server/config_reader.ts";

/** The variable `FEDERATION`: every issuer, none, only those of `hosts`, or all but those of `hosts`. */
export interface FederationRules {
  mode: "off" | "only" | "except";
  hosts: readonly string[];
}

/** Parses `on`, `off`, host names with commas between them, or `on,-host`. */
export const federationRules: Parse<FederationRules> = (text) => {
  const words = list(text), isExcept = words[0] === "on";
  if (words.length === 1 && words[0] === "off") return { mode: "off", hosts: [] };
  const named = isExcept ? words.slice(1) : words;
  const hosts = named.map((word) => isExcept && word.startsWith("-") ? word.slice(1) : isExcept ? "" : word);
  // A word without a dot names no other server. Without this check, `off` beside a host name would be read as a host.
  if (words.length === 0 || !hosts.every((host) => isAuthority(host) && (host.includes(".") || host === "localhost"))) {
    throw new TypeError("must be on, off, host names as a.example,b.example, or on,-c.example to leave one out");
  }
  return { mode: isExcept ? "except" : "only", hosts };
};

export class IssuerPolicy {
  readonly #home: string | null;

  constructor(
    private readonly config: { registryUrl: string; environment: Environment; federation: FederationRules },
  ) {
    this.#home = authorityOf(config.registryUrl);
  }

  /** Returns the authority of an issuer whose agents may visit; `null` for any other, and for the own registry. */
  accepts(issuer: string): string | null {
    const { environment, federation: { mode, hosts } } = this.config;
    const authority = isForeignOrigin(issuer, environment) ? authorityOf(issuer) : null;
    if (authority === null || authority === this.#home || mode === "off") return null;
    return hosts.includes(authority) === (mode === "only") ? authority : null;
  }

  /** Returns true when agents of this authority may visit, from any origin of theirs. */
  acceptsAuthority(authority: string): boolean {
    return this.accepts(`https://${authority}`) !== null ||
      this.config.environment === "local" && this.accepts(`http://${authority}`) !== null;
  }
}
