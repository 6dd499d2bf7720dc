/**
 * Caches the revocation list and refreshes it in the background. It rejects older lists, and without a usable one no
 * agent passes, because a party that withholds the list could otherwise undo revocations. The store keeps the sequence
 * number of the newest installed list, because an older one or a forged 404 could otherwise replace it after a restart.
 */
import type { KvKey } from "../../shared/server/kv.ts";
import type { KeyCache } from "./key_cache.ts";
import { LONG_ANSWER, type RegistryClient, RegistryUnavailable } from "../registry_client.ts";
import type { CrlSeen } from "../schema/records.ts";
import { yieldToEventLoop } from "../../shared/clock.ts";
import type { Bytes } from "../../shared/protocol/base64url.ts";
import { type CrlClaims, isCrlRollback, type Revocation, verifyCrl } from "../../shared/protocol/signed/crl.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { fraction } from "../../shared/random.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

/** Longest wait between two retries. With more, the list could reach its largest age although the registry is back. */
const RETRY_MAX_MS = 60_000;
/**
 * Time between two looks whether the list can still be used. With more, an instance whose clock was set stays unready
 * for longer, because no request that could cause a refresh reaches it.
 */
const LOOK_MS = 10_000;

interface Installed {
  /** Unix seconds; `null` for the empty list after `CRL_NOT_FOUND`. */
  exp: number | null;
  /** Reasons by `jti` of the revoked AIT. */
  revoked: ReadonlyMap<string, Revocation["reason"]>;
  /** Times of deletion by agent DID, unix seconds. */
  deleted: ReadonlyMap<string, number>;
  etag: string | null;
}

/** Entries that are added in one turn of the event loop. With more, other requests wait for a long list. */
const ENTRIES_AT_ONCE = 5_000;

const NONE: ReadonlyMap<string, number> = new Map();

/** Thrown when the registry sends a list that is older than the installed one. */
class CrlRollback extends RegistryUnavailable {}

interface CrlCacheOptions {
  issuer: string;
  /** Where the sequence number of the newest list is kept, and for how long after it was installed, milliseconds. */
  seen: { key: KvKey; expireIn?: number };
  refreshIntervalMs: number;
  maxAgeMs: number;
}

interface CrlCacheDeps extends Pick<ServiceDeps, "kv" | "clock" | "log" | "random"> {
  /** `null` for a list of another registry, because such fetches have a counter of their own. */
  metrics: Metrics | null;
  registry: RegistryClient;
  keys: KeyCache;
}

export class CrlCache {
  #seen: CrlSeen | null | undefined;
  #installed: Installed | null = null;
  #confirmedAt = -Infinity;
  #failures = 0;
  #refreshing: Promise<boolean> | null = null;
  #cancel = () => {};
  #stopped = false;
  /** Why the last fetch gave no list that counts; `null` after one that did. */
  problem: string | null = null;
  onInstalled: () => void = () => {};

  constructor(private readonly deps: CrlCacheDeps, private readonly options: CrlCacheOptions) {}

  get ready(): boolean {
    return this.usable !== null;
  }

  /** Seconds since the registry confirmed the installed list; -1 without a list. */
  get ageSeconds(): number {
    return this.#installed ? Math.max(0, this.deps.clock.now() - this.#confirmedAt) / 1000 : -1;
  }

  /** Entries of the installed list; -1 without a list. */
  get entries(): number {
    return this.#installed?.revoked.size ?? -1;
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  /**
   * Returns true when an AIT is revoked. Waits for a running refresh only when there is no usable list.
   *
   * @throws {RegistryUnavailable} when there is no usable list
   */
  async isRevoked(jti: string): Promise<boolean> {
    return (await this.#list()).revoked.has(jti);
  }

  /**
   * Returns true when messages that an agent sent with this AIT must no longer be delivered. An AIT that was only
   * replaced by a newer one does not count as revoked, because the agent still exists.
   *
   * @throws {RegistryUnavailable} when there is no usable list
   */
  async isSenderRevoked(agentDid: string, jti: string): Promise<boolean> {
    await this.#list();
    return this.wasRevoked(agentDid, jti);
  }

  /**
   * Returns true when the list names the agent as deleted.
   *
   * @throws {RegistryUnavailable} when there is no usable list
   */
  async isDeleted(agentDid: string): Promise<boolean> {
    return (await this.#list()).deleted.has(agentDid);
  }

  /** As `isSenderRevoked`, by the newest list that was seen, of any age; false without one. */
  wasRevoked(agentDid: string, jti: string): boolean {
    const { deleted = NONE, revoked } = this.#installed ?? {};
    return deleted.has(agentDid) || (revoked?.get(jti) ?? "reissued") !== "reissued";
  }

  /** Times of deletion by agent DID in the newest list, unix seconds. Each list has a new map. */
  get deletedAgents(): ReadonlyMap<string, number> {
    return this.#installed?.deleted ?? NONE;
  }

  /**
   * Fetches the list, and again after each interval until `stop()`. Concurrent calls share one fetch. Never rejects; a
   * failure is logged, retried unless stopped, and returned as false.
   */
  refresh(): Promise<boolean> {
    this.#refreshing ??= this.#refresh().finally(() => this.#refreshing = null);
    return this.#refreshing;
  }

  /** Fetches the list after a running fetch, because that one's response may be older than the expected change. */
  async refreshAgain(): Promise<void> {
    await this.#refreshing;
    await this.refresh();
  }

  async #list(): Promise<Installed> {
    if (this.usable === null) await (this.#refreshing ?? (this.#failures === 0 ? this.refresh() : undefined));
    const list = this.usable;
    if (!list) throw new RegistryUnavailable("There is no usable revocation list");
    return list;
  }

  /** The installed list while it is usable, else `null`. Each list is a new object. */
  get usable(): Installed | null {
    const now = this.deps.clock.now();
    const list = this.#installed;
    // Without the absolute value, a clock that stepped back would keep an old list usable for as long as the step.
    if (!list || Math.abs(now - this.#confirmedAt) > this.options.maxAgeMs) return null;
    return this.#hasExpired(list) ? null : list;
  }

  #hasExpired({ exp }: Installed): boolean {
    return exp !== null && unixSeconds(this.deps.clock.now()) >= exp;
  }

  async #refresh(): Promise<boolean> {
    this.#cancel();
    const { clock, random, log, metrics } = this.deps;
    let wait = this.options.refreshIntervalMs * (1 - 0.1 * fraction(random));
    try {
      const result = await this.#fetch();
      metrics?.count("crl_refreshes_total", result);
      this.#confirmedAt = clock.now();
      this.#failures = 0;
      this.problem = null;
    } catch (cause) {
      this.problem = cause instanceof RegistryUnavailable ? cause.message : "The revocation list cannot be used";
      log("warn", "crl_refresh_failed", { issuer: this.options.issuer, cause });
      metrics?.count("crl_refreshes_total", cause instanceof CrlRollback ? "rollback" : "failed");
      const retry = LIMITS.crlRetryMs * 2 ** this.#failures++;
      wait = Math.min(wait, retry, RETRY_MAX_MS);
    }
    if (!this.#stopped) this.#refreshIn(wait);
    return this.#failures === 0;
  }

  /** Refreshes the list after `ms`, or earlier when it has ended before its time, as after a step of the clock. */
  #refreshIn(ms: number): void {
    const look = Math.min(ms, LOOK_MS);
    this.#cancel = this.deps.clock.after(look, () => {
      const hasEnded = this.usable === null && this.#failures === 0;
      if (ms > look && !hasEnded) this.#refreshIn(ms - look);
      else void this.refresh();
    });
  }

  async #fetch(): Promise<"new" | "same" | "empty"> {
    const { kv, registry, keys, log } = this.deps, { key, ...expiry } = this.options.seen;
    // The health check needs the keys even if no list needs them.
    await keys.current();
    if (this.#seen === undefined) this.#seen = (await kv.get<CrlSeen>(key)).value;
    // An expired list is fetched whole, because a 304 would count as a success: each request would ask again, and no log
    // would say that the clocks of registry and proxy differ.
    const etag = this.#installed && !this.#hasExpired(this.#installed) ? this.#installed.etag : null;
    const { status, headers, value } = await registry.crl(etag);
    if (status === 304 && etag) return "same";
    const response = value as { crl?: unknown; error?: { code?: unknown } } | undefined;
    if (status === 404 && response?.error?.code === "CRL_NOT_FOUND" && this.#seen === null) {
      this.#installed = { exp: null, revoked: new Map(), deleted: NONE, etag: null };
      return "empty";
    }
    const crl = response?.crl;
    if (status === 404 && this.#seen) {
      throw new CrlRollback(`There is no revocation list, and number ${this.#seen.seq} was seen before`);
    }
    if (status !== 200 || !(typeof crl === "string" || crl instanceof Uint8Array)) {
      throw new RegistryUnavailable(`The request for the revocation list got status ${status}`);
    }
    const yieldIfLong = crl.length < LONG_ANSWER ? () => Promise.resolve() : yieldToEventLoop;
    await yieldIfLong();
    const claims = await this.#verify(crl as string | Bytes, yieldIfLong);
    await yieldIfLong();
    if (this.#seen && isCrlRollback(claims, this.#seen)) {
      log("error", "crl_rollback", { seq: claims.seq, knownSeq: this.#seen.seq });
      throw new CrlRollback(`The revocation list has number ${claims.seq}, and ${this.#seen.seq} was seen before`);
    }
    // Another instance of the registry signed it earlier, and it may lack a revocation that is newer than its number.
    if (this.usable && claims.seq === this.#seen?.seq && claims.iat < this.#seen.iat) return "same";
    const seen: CrlSeen = { seq: claims.seq, iat: claims.iat };
    if (this.#seen?.seq !== seen.seq || this.#seen.iat !== seen.iat) {
      await kv.set(key, seen, expiry);
    }
    this.#seen = seen;
    const revoked = new Map<string, Revocation["reason"]>(), deleted = new Map<string, number>();
    for (const [i, { jti, agentDid, reason, revokedAt }] of claims.revocations.entries()) {
      revoked.set(jti, reason);
      if (reason === "agent_deleted") deleted.set(agentDid, revokedAt);
      if (i % ENTRIES_AT_ONCE === ENTRIES_AT_ONCE - 1) await yieldIfLong();
    }
    this.#installed = { exp: claims.exp, revoked, deleted, etag: headers.get("etag") };
    this.onInstalled();
    return "new";
  }

  async #verify(crl: string | Bytes, yieldIfLong: () => Promise<void>): Promise<CrlClaims> {
    const { clock, keys } = this.deps, { issuer } = this.options;
    const now = unixSeconds(clock.now());
    try {
      return await verifyCrl(crl, { issuer, keys: await keys.current() }, now, yieldIfLong);
    } catch (error) {
      if (!(error instanceof TokenError && error.reason === "unknown_kid")) throw error;
      // The list may be signed with a newer key, which is searched for once.
      return await verifyCrl(crl, { issuer, keys: await keys.search() }, now, yieldIfLong);
    }
  }
}
