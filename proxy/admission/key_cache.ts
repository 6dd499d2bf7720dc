/**
 * The registry's public keys as the proxy knows them (D-61): cached, fetched once at a time, kept for a while when the
 * registry fails. A bad document never replaces a good one.
 */
import type { Clock } from "../../shared/clock.ts";
import type { VerificationKeys } from "../../shared/protocol/jws.ts";
import { readKeyDocument } from "../../shared/protocol/key_document.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { type RegistryClient, RegistryUnavailable } from "../registry_client.ts";

/** How long one failure is taken as the answer before the registry is asked again. */
const RETRY_MS = LIMITS.crlRetryMs;

export class KeyCache {
  readonly #registry: RegistryClient;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #keys: VerificationKeys | null = null;
  #freshUntil = 0;
  #failedAt = -Infinity;
  #searchedAt = -Infinity;
  #fetching: Promise<void> | null = null;
  /** Number of times the keys were forgotten: a fetch that began before has the old document. */
  #generation = 0;

  constructor(registry: RegistryClient, clock: Clock, ttlMs: number) {
    this.#registry = registry;
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  /** True when keys are at hand. */
  get ready(): boolean {
    return this.#keys !== null && this.#clock.now() < this.#freshUntil + LIMITS.keysGraceMs;
  }

  /**
   * The keys as they are published.
   *
   * @throws {RegistryUnavailable} when there are none that may still be used
   */
  async current(): Promise<VerificationKeys> {
    const now = this.#clock.now();
    // A clock that stepped back must not stretch the life of the keys.
    const fresh = now < this.#freshUntil && now > this.#freshUntil - this.#ttlMs - 1000;
    if (this.#keys && fresh) return this.#keys;
    if (now < this.#failedAt + RETRY_MS && now >= this.#failedAt) return this.#stale();
    try {
      await this.#fetch();
    } catch {
      return this.#stale();
    }
    return this.#stale();
  }

  /**
   * The keys after a look for a `kid` that is not among them; the registry is asked at most once in 30 s.
   *
   * @throws {RegistryUnavailable} when it was asked and failed, also when that was up to 30 s ago
   */
  async search(): Promise<VerificationKeys> {
    const now = this.#clock.now();
    if (this.#fetching === null && now < this.#searchedAt + LIMITS.keysRefetchMs && now >= this.#searchedAt) {
      if (this.#failedAt >= this.#searchedAt) throw new RegistryUnavailable("The last look for keys failed");
      return this.#stale();
    }
    this.#searchedAt = now;
    await this.#fetch();
    return this.#stale();
  }

  /** The registry in this process has changed its keys: the next use asks for them again (D-249). */
  forget(): void {
    this.#generation++;
    this.#freshUntil = Math.min(this.#freshUntil, this.#clock.now());
    this.#searchedAt = -Infinity;
    this.#failedAt = -Infinity;
  }

  #stale(): VerificationKeys {
    if (!this.#keys || !this.ready) throw new RegistryUnavailable("The registry's keys are not known");
    return this.#keys;
  }

  #fetch(): Promise<void> {
    this.#fetching ??= this.#load().finally(() => this.#fetching = null);
    return this.#fetching;
  }

  async #load(): Promise<void> {
    try {
      const generation = this.#generation;
      const { status, headers, value } = await this.#registry.keys();
      const keys = status === 200 ? await readKeyDocument(value) : null;
      if (generation !== this.#generation) return await this.#load();
      if (!keys) throw new RegistryUnavailable(`The key document cannot be used (${status})`);
      this.#keys = keys;
      const maxAge = /(?:^|[\s,])max-age=(\d{1,9})/.exec(headers.get("cache-control") ?? "")?.[1];
      this.#freshUntil = this.#clock.now() +
        Math.min(this.#ttlMs, maxAge === undefined ? Infinity : Number(maxAge) * 1000);
      this.#failedAt = -Infinity;
    } catch (error) {
      this.#failedAt = this.#clock.now();
      throw error;
    }
  }
}
