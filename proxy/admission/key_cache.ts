/**
 * Caches the registry's public keys. At most one fetch runs at a time, because every waiting request would otherwise
 * ask the registry. When the registry fails, the keys stay usable for a grace period, because a short outage would
 * otherwise stop all messages. An invalid document never replaces a valid one, because every token would then be
 * refused.
 */
import { type Clock, settledWithin } from "../../shared/clock.ts";
import type { VerificationKeys } from "../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { type RegistryClient, RegistryUnavailable } from "../registry_client.ts";

/**
 * How long the keys stay usable while the registry fails. With less, a short outage of it would refuse each request.
 * With more, a withdrawn key would be accepted for longer.
 */
const GRACE_MS = 900_000;
/**
 * Least time between two searches. With less, tokens with invented key IDs, or a registry that forbids caching, would
 * make each request ask the registry.
 */
const REFETCH_MS = 30_000;
/**
 * Searches that may follow each other at once while each one brings a new key. With one, the tokens of a key that
 * follows another within 30 s would be refused, which ends messages. With more, a registry that changes its keys all
 * the time would be asked all the time.
 */
const SEARCHES_IN_A_ROW = 3;

/** Time after a failure in which only a search asks the registry. With less, requests wait while it is down. */
const RETRY_MS = LIMITS.crlRetryMs;

/** Longest wait for newer keys while old ones are usable. With more, a message waits for a silent registry twice. */
const NEWER_WAIT_MS = 500;

export class KeyCache {
  #keys: VerificationKeys | null = null;
  #freshUntil = 0;
  #loadedAt = 0;
  #failedAt = -Infinity;
  #searchedAt = -Infinity;
  #searches = 0;
  /** Whether the newest document has a key that the one before did not have. */
  #hasNewKey = false;
  #fetching: Promise<void> | null = null;
  /** Number of `forget` calls. A fetch that started in an earlier generation has the old document. */
  #generation = 0;

  constructor(
    private readonly registry: RegistryClient,
    private readonly clock: Clock,
    private readonly ttlMs: number,
  ) {}

  get ready(): boolean {
    return this.#keys !== null && this.clock.now() < this.#freshUntil + GRACE_MS;
  }

  /** Seconds since the keys were fetched; -1 without keys. */
  get ageSeconds(): number {
    return this.#keys ? Math.max(0, this.clock.now() - this.#loadedAt) / 1000 : -1;
  }

  /**
   * The keys until they must be fetched again, then `null`. Each fetched document has a new map to compare with `===`.
   */
  get fresh(): VerificationKeys | null {
    const now = this.clock.now();
    // Without the lower bound, a clock that stepped back would keep the keys for longer, even a withdrawn one.
    return now < this.#freshUntil && now > this.#freshUntil - this.ttlMs - 1000 ? this.#keys : null;
  }

  /**
   * Returns the published keys. Fetches them when the cached ones are no longer fresh.
   *
   * @throws {RegistryUnavailable} when there are no usable keys
   */
  async current(): Promise<VerificationKeys> {
    const now = this.clock.now(), { fresh } = this;
    if (fresh) return fresh;
    if (now < this.#failedAt + RETRY_MS && now >= this.#failedAt) return this.#stale();
    const fetched = this.#fetch().catch(() => {});
    await (this.ready ? settledWithin(this.clock, fetched, NEWER_WAIT_MS) : fetched);
    return this.#stale();
  }

  /**
   * Returns keys of which one has this `kid`, if the newest document has it. If the keys were fetched just for this, no
   * newer ones are searched for, because a stranger's token would otherwise cost its registry two requests. If that
   * fetch failed, the search fails too, because the token would otherwise be called invalid although only its registry
   * is away.
   *
   * @throws {RegistryUnavailable} when there are no usable keys, or the search fails
   */
  async withKey(kid: string): Promise<VerificationKeys> {
    const { fresh } = this;
    const keys = await this.current();
    const isJustFetched = fresh === null && this.fresh !== null;
    return keys.has(kid) || isJustFetched ? keys : await this.search();
  }

  /**
   * Returns the keys after a search for an unknown `kid`. Calls the registry at most once in 30 s, or three times if new
   * keys were found, because tokens with invented key IDs could otherwise make a call each.
   *
   * @throws {RegistryUnavailable} when the call fails, or failed in the last 30 s
   */
  async search(): Promise<VerificationKeys> {
    const now = this.clock.now();
    const isSoon = now < this.#searchedAt + REFETCH_MS && now >= this.#searchedAt;
    const mayFollow = this.#hasNewKey && this.#searches < SEARCHES_IN_A_ROW;
    if (this.#fetching === null && isSoon && !mayFollow) {
      if (this.#failedAt >= this.#searchedAt) throw new RegistryUnavailable("The last search for keys failed");
      return this.#stale();
    }
    if (this.#fetching === null) this.#searches = isSoon ? this.#searches + 1 : 1;
    this.#searchedAt = now;
    await this.#fetch();
    return this.#stale();
  }

  /** Expires the cached keys after a rotation in this process. The next use fetches them again. */
  forget(): void {
    this.#generation++;
    this.#freshUntil = Math.min(this.#freshUntil, this.clock.now());
    this.#failedAt = -Infinity;
  }

  #stale(): VerificationKeys {
    if (!this.#keys || !this.ready) throw new RegistryUnavailable("There are no usable registry keys");
    return this.#keys;
  }

  #fetch(): Promise<void> {
    this.#fetching ??= this.#load().finally(() => this.#fetching = null);
    return this.#fetching;
  }

  async #load(): Promise<void> {
    try {
      const generation = this.#generation;
      const { status, headers, value } = await this.registry.keys();
      const keys = status === 200 ? await readKeyDocument(value) : null;
      if (generation !== this.#generation) return await this.#load();
      if (!keys) throw new RegistryUnavailable(`The key document cannot be used (${status})`);
      const before = this.#keys;
      this.#hasNewKey = before !== null && [...keys.keys()].some((kid) => !before.has(kid));
      this.#keys = keys;
      this.#loadedAt = this.clock.now();
      const maxAge = /(?:^|[\s,])max-age=(\d{1,9})/.exec(headers.get("cache-control") ?? "")?.[1];
      this.#freshUntil = this.clock.now() +
        Math.min(this.ttlMs, maxAge === undefined ? Infinity : Math.max(Number(maxAge) * 1000, REFETCH_MS));
      this.#failedAt = -Infinity;
    } catch (error) {
      this.#failedAt = this.clock.now();
      throw error;
    }
  }
}
