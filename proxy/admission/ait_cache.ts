/**
 * Identity tokens whose signature was verified (D-20): kept, so that one token costs one signature check. A kept token
 * counts only while the document that its key came from serves; its times are judged at every use by the caller.
 */
import type { KeyObject } from "node:crypto";
import { type AitClaims, parseAit, verifyAitSignature } from "../../shared/protocol/ait.ts";
import type { VerificationKey } from "../../shared/protocol/jws.ts";
import { BoundedMap } from "../../shared/server/bounded_map.ts";
import { digest, readPublicKey } from "../../shared/server/crypto.ts";
import type { KeyCache } from "./key_cache.ts";

/** A token that the registry signed. */
export interface VerifiedAit {
  claims: AitClaims;
  kid: string;
  /** What the document had under that `kid`: a later one may name another key so. */
  signer: VerificationKey | undefined;
  /** base64url SHA-256 of the token. */
  sha256: string;
  /** The agent's key, ready to verify proofs. */
  publicKey: KeyObject;
}

const MAX_KEPT = 20_000;

export class AitCache {
  readonly #keys: KeyCache;
  readonly #issuer: string;
  /** By token. */
  readonly #kept = new BoundedMap<string, VerifiedAit>(MAX_KEPT);

  constructor(keys: KeyCache, issuer: string) {
    this.#keys = keys;
    this.#issuer = issuer;
  }

  /**
   * Verifies signature and claims of a token.
   *
   * @throws {TokenError} when it must not be believed
   * @throws {RegistryUnavailable} when the registry's keys are not known
   */
  async verify(token: string): Promise<VerifiedAit> {
    const kept = this.#kept.get(token);
    let keys = await this.#keys.current();
    if (kept?.signer && keys.get(kept.kid) === kept.signer) return kept;
    const jws = parseAit(token);
    if (!keys.has(jws.kid)) keys = await this.#keys.search();
    const claims = await verifyAitSignature(jws, { issuer: this.#issuer, keys });
    const publicKey = readPublicKey(claims.cnf.jwk.x);
    const verified = { claims, kid: jws.kid, signer: keys.get(jws.kid), sha256: digest(token), publicKey };
    this.#kept.set(token, verified);
    return verified;
  }
}
