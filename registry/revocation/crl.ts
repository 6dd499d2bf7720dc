/**
 * Publishes the revocation list. It is built and signed after a change of list or key, or once half its validity is
 * over, and is otherwise served from memory. If it cannot be built, the request fails, because an older list would undo
 * revocations. A long list is built in chunks, because other requests would otherwise wait for it.
 */
import { type Bytes, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { isRevocation, type Revocation, signCrl } from "../../shared/protocol/signed/crl.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { sleep, yieldToEventLoop } from "../../shared/clock.ts";
import type { Log } from "../../shared/server/log.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { mostRevocations } from "../quota.ts";
import type { Signing } from "../signing_keys.ts";
import type { CrlHead, RevocationRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { seqOf } from "./store.ts";

/** Shortest time between two builds of a long list. With less, it is signed for nearly every revocation of a flood. */
export const REBUILD_MS = 1_000;
/**
 * Lists up to this length are built at each change. With more, a build costs more than the request that changed the
 * list; with less, short lists come late without need.
 */
export const REBUILD_FREE_ENTRIES = 500;
/** How full the list is when the log warns. With more, the operator has too little time before refusals begin. */
const WARN_PERCENT = 50;
/** Time between two warnings. With less, each build of a nearly full list writes the same warning. */
const WARN_MS = 3_600_000;

export interface PublishedCrl {
  /** The JSON text of the response, as UTF-8. */
  body: Bytes;
  etag: string;
  seq: number;
  kid: string;
  /** Unix seconds. */
  issuedAt: number;
}

/** Entries of a chunk. With more, a build holds back other requests for longer; with less, the build takes longer. */
const BATCH = 500;

interface CrlDeps extends Pick<RegistryStore, "kv" | "reads" | "clock" | "newId" | "config"> {
  signing: Signing;
  log: Log;
}

export class CrlPublisher {
  #published: PublishedCrl | null = null;
  #building: Promise<void> | null = null;
  #looking: Promise<PublishedCrl | null> | null = null;
  #builtAt = -Infinity;
  #entries = 0;
  #warnedAt = -Infinity;

  /** @param bytesMax bytes of the largest list that verifiers read; tests give fewer, because filling it takes 10 s */
  constructor(private readonly deps: CrlDeps, private readonly bytesMax: number = LIMITS.crlBytes) {}

  /**
   * Returns the current list, or `null` when nothing was ever revoked. A long list is built at most once a second,
   * because signing it takes long. A request that finds it changed within that second waits for the next build, because
   * a verifier that got the older list would use it until its next refresh.
   *
   * @throws {ServiceError} `CRL_BUILD_FAILED`
   */
  async current(): Promise<PublishedCrl | null> {
    try {
      const [head, signer] = await Promise.all([
        this.deps.reads.get<CrlHead>(KEYS.crlHead()),
        this.deps.signing.current(),
      ]);
      const seq = seqOf(head.value);
      if (seq === 0) return null;
      for (let key = signer;; key = await this.deps.signing.current()) {
        if (this.#published && this.#isFresh(this.#published, seq, key.kid)) return this.#published;
        // A build that is under way may have begun before the change, and is then followed by another one.
        await (this.#building ??= this.#build().finally(() => this.#building = null));
      }
    } catch (cause) {
      throw new ServiceError("CRL_BUILD_FAILED", { cause });
    }
  }

  /** Returns the size of the last list as a share, 0 to 1, of the largest list that verifiers read. */
  async fill(): Promise<number> {
    // Those that ask at once share a look, because 500 changes before the first list would fill the queue of reads.
    const looked = this.#published ??
      (this.#looking ??= this.current().catch(() => null).finally(() => this.#looking = null));
    const list = await looked;
    return list === null ? 0 : Math.min(1, list.body.length / this.bytesMax);
  }

  async #pause(): Promise<void> {
    if (this.#entries <= REBUILD_FREE_ENTRIES) return;
    const since = this.deps.clock.now() - this.#builtAt;
    if (since >= 0 && since < REBUILD_MS) await sleep(this.deps.clock, REBUILD_MS - since);
  }

  #isFresh(list: PublishedCrl, seq: number, kid: string): boolean {
    const age = unixSeconds(this.deps.clock.now()) - list.issuedAt;
    return list.seq >= seq && list.kid === kid && age >= 0 && age < LIMITS.crlTtlSeconds / 2;
  }

  async #build(): Promise<void> {
    await this.#pause();
    this.#builtAt = this.deps.clock.now();
    const issuedAt = unixSeconds(this.deps.clock.now());
    // The sequence number is read first. A revocation that commits while the entries are read has a higher one, so the
    // list is correct whether or not it contains that revocation.
    const seq = seqOf((await this.deps.kv.get<CrlHead>(KEYS.crlHead())).value);
    const revocations: Revocation[] = [];
    let read = 0;
    for await (const { value } of this.deps.kv.list({ prefix: KEYS.revocations() }, { batchSize: BATCH })) {
      const { keptUntil, ...revocation } = value as RevocationRecord;
      if (!isRevocation(revocation) || !Number.isSafeInteger(keptUntil)) {
        throw new TypeError("A revocation does not parse");
      }
      if (keptUntil > issuedAt) revocations.push(revocation);
      if (++read % BATCH === 0) await yieldToEventLoop();
    }
    revocations.sort((a, b) => b.revokedAt - a.revokedAt || (a.jti < b.jti ? 1 : -1));
    const yieldIfLong = revocations.length < BATCH ? () => Promise.resolve() : yieldToEventLoop;
    await yieldIfLong();
    const key = await this.deps.signing.current();
    const jti = this.deps.newId(), issuer = this.deps.config.registryUrl;
    const crl = await signCrl({ issuer, jti, issuedAtSeconds: issuedAt, seq, revocations }, key);
    await yieldIfLong();
    // No character of a JWS needs an escape in JSON, so `JSON.stringify` would only cost time on a long list.
    const body = utf8Bytes(`{"crl":"${crl}"}`);
    this.#entries = revocations.length;
    await this.#warn(body.length);
    this.#published = { body, etag: `"${jti}"`, seq, kid: key.kid, issuedAt };
  }

  /** When the list is half full, logs the humans with the most entries, at most once an hour. */
  async #warn(bytes: number): Promise<void> {
    const now = this.deps.clock.now();
    const isDue = now >= this.#warnedAt + WARN_MS || now < this.#warnedAt;
    if (bytes * 100 < this.bytesMax * WARN_PERCENT || !isDue) return;
    this.#warnedAt = now;
    const humans = await mostRevocations(this.deps.kv, { now, limit: 10 });
    this.deps.log("warn", "crl_filling", { bytes, bytesMax: this.bytesMax, entries: this.#entries, humans });
  }
}
