/**
 * Publishing the revocation list (D-21): read, built and signed once per change, served from memory until the next.
 * When it cannot be built it is an error, never an older list. A long one is made in parts, others served in between
 * (D-104).
 */
import { type Bytes, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { isRevocation, type Revocation, signCrl } from "../../shared/protocol/crl.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { type Clock, turn } from "../../shared/clock.ts";
import type { Reads } from "../../shared/server/reads.ts";
import { KEYS } from "../keys.ts";
import type { Signing } from "../signing.ts";
import { type CrlHead, type RevocationRecord, seqOf } from "./store.ts";

/** A signed list, ready to be answered. */
export interface PublishedCrl {
  /** The answer's JSON text, as UTF-8. */
  body: Bytes;
  etag: string;
  seq: number;
  kid: string;
  /** Unix seconds. */
  issuedAt: number;
}

/** Revocations read in one go; requests that wait are answered in between. */
const BATCH = 500;

/** Keeps the newest signed list. */
export class CrlPublisher {
  readonly #kv: Deno.Kv;
  readonly #reads: Reads;
  readonly #clock: Clock;
  readonly #newId: NewId;
  readonly #signing: Signing;
  readonly #issuer: string;
  #published: PublishedCrl | null = null;
  #building: { seq: number; kid: string; list: Promise<PublishedCrl> } | null = null;

  constructor(
    seams: { kv: Deno.Kv; reads: Reads; clock: Clock; newId: NewId; signing: Signing },
    issuer: string,
  ) {
    this.#kv = seams.kv;
    this.#reads = seams.reads;
    this.#clock = seams.clock;
    this.#newId = seams.newId;
    this.#signing = seams.signing;
    this.#issuer = issuer;
  }

  /**
   * The list as it stands now, or `null` when nothing was ever revoked.
   *
   * @throws {ServiceError} `CRL_BUILD_FAILED`
   */
  async current(): Promise<PublishedCrl | null> {
    try {
      const [head, { kid }] = await Promise.all([
        this.#reads.get<CrlHead>(KEYS.crlHead()),
        this.#signing.current(),
      ]);
      const seq = seqOf(head.value);
      if (seq === 0) return null;
      if (this.#published && this.#isFresh(this.#published, seq, kid)) return this.#published;
      // Whoever comes while this very list is being built waits for it.
      if (this.#building?.seq !== seq || this.#building.kid !== kid) {
        const list = this.#build().finally(() => this.#building = null);
        this.#building = { seq, kid, list };
      }
      return this.#published = await this.#building.list;
    } catch (cause) {
      throw new ServiceError("CRL_BUILD_FAILED", { cause });
    }
  }

  #isFresh(list: PublishedCrl, seq: number, kid: string): boolean {
    const age = unixSeconds(this.#clock.now()) - list.issuedAt;
    return list.seq === seq && list.kid === kid && age >= 0 && age < LIMITS.crlTtlSeconds / 2;
  }

  async #build(): Promise<PublishedCrl> {
    const issuedAt = unixSeconds(this.#clock.now());
    // A revocation that lands while the list is read may be in it or not; under the number read first, both are true.
    const seq = seqOf((await this.#kv.get<CrlHead>(KEYS.crlHead())).value);
    const revocations: Revocation[] = [];
    let read = 0;
    for await (const { value } of this.#kv.list({ prefix: KEYS.revocations() }, { batchSize: BATCH })) {
      const { keptUntil, ...revocation } = value as RevocationRecord;
      if (!isRevocation(revocation) || !Number.isSafeInteger(keptUntil)) {
        throw new TypeError("A revocation does not parse");
      }
      if (keptUntil > issuedAt) revocations.push(revocation);
      if (++read % BATCH === 0) await turn();
    }
    revocations.sort((a, b) => b.revokedAt - a.revokedAt || (a.jti < b.jti ? 1 : -1));
    const breathe = revocations.length < BATCH ? () => Promise.resolve() : turn;
    await breathe();
    const key = await this.#signing.current();
    const jti = this.#newId();
    const crl = await signCrl({ issuer: this.#issuer, jti, issuedAtSeconds: issuedAt, seq, revocations }, key);
    await breathe();
    // A JWS needs no escaping.
    return { body: utf8Bytes(`{"crl":"${crl}"}`), etag: `"${jti}"`, seq, kid: key.kid, issuedAt };
  }
}
