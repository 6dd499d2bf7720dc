/**
 * Caches identity tokens with a verified signature (D-20), so that a token costs one signature check for each key
 * document that is fetched. An entry counts only for the document with which it was verified, because the tokens of a
 * withdrawn key would otherwise pass. Check 2 of admission checks the times at every use.
 */
import type { KeyObject } from "node:crypto";
import type { FrameIdentity } from "../../shared/protocol/frames.ts";
import { type AitClaims, parseAit, verifyAitSignature } from "../../shared/protocol/signed/ait.ts";
import type { VerificationKey } from "../../shared/protocol/signed/jws.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { digest, readPublicKey } from "../../shared/server/crypto.ts";
import type { KeyCache } from "./key_cache.ts";

export interface VerifiedAit {
  claims: AitClaims;
  kid: string;
  /** The key that verified the token. Each document has new objects, because it may use the `kid` for another key. */
  signer: VerificationKey | undefined;
  /** base64url SHA-256 of the token. */
  sha256: string;
  /** The agent's public key, which verifies proofs. */
  publicKey: KeyObject;
  /** What messages say of the agent. All messages share this object, so that the identity block is made only once. */
  identity: FrameIdentity;
}

/** Verified tokens by their text. */
export type KeptAits = BoundedMap<string, VerifiedAit>;

const MAX_KEPT = 20_000;

export class AitCache {
  readonly #kept: KeptAits;

  constructor(
    private readonly keys: KeyCache,
    private readonly issuer: string,
    kept: KeptAits = new BoundedMap(MAX_KEPT),
  ) {
    this.#kept = kept;
  }

  /** Returns a token that was verified, if it is kept. Its key may have been replaced since. */
  kept(token: string): VerifiedAit | undefined {
    return this.#kept.get(token);
  }

  /**
   * Returns a token with its signature and claims verified. Does not check its times.
   *
   * @throws {TokenError} when the token is invalid
   * @throws {RegistryUnavailable} when no usable key document is available
   */
  async verify(token: string): Promise<VerifiedAit> {
    const kept = this.#kept.get(token);
    if (kept?.signer && (await this.keys.current()).get(kept.kid) === kept.signer) return kept;
    const jws = parseAit(token), keys = await this.keys.withKey(jws.kid);
    const claims = await verifyAitSignature(jws, { issuer: this.issuer, keys });
    const publicKey = readPublicKey(claims.cnf.jwk.x);
    const { sub: agentDid, ownerDid, iss: issuer, jti: aitJti, name } = claims;
    const identity = { agentDid, ownerDid, issuer, aitJti, name };
    const verified = { claims, kid: jws.kid, signer: keys.get(jws.kid), sha256: digest(token), publicKey, identity };
    this.#kept.set(token, verified);
    return verified;
  }
}
