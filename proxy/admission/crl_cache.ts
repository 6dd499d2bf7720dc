/**
 * The revocation list as the proxy knows it (D-62): refreshed in the background, never rolled back, fail closed. That a
 * signed list was ever seen is remembered in the store, so that a forged 404 undoes nothing.
 */
import type { KeyCache } from "./key_cache.ts";
import { LONG_ANSWER, type RegistryClient, RegistryUnavailable } from "../registry_client.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { CrlSeen } from "../schema/records.ts";
import { type Clock, yieldToEventLoop } from "../../shared/clock.ts";
import type { Bytes } from "../../shared/protocol/base64url.ts";
import { type CrlClaims, isCrlRollback, type Revocation, verifyCrl } from "../../shared/protocol/crl.ts";
import { TokenError } from "../../shared/protocol/jws.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { fraction, type Random } from "../../shared/random.ts";
import type { Log } from "../../shared/server/log.ts";

interface Installed {
  /** Unix seconds; `null` for the empty list that `CRL_NOT_FOUND` stands for. */
  exp: number | null;
  /** `jti` of revoked AITs, with the reason. */
  revoked: ReadonlyMap<string, Revocation["reason"]>;
  /** Agents that were deleted, with the time in unix seconds. */
  deleted: ReadonlyMap<string, number>;
  etag: string | null;
}

/** Entries that are put into the maps in one go. */
const ENTRIES_AT_ONCE = 5_000;

const NONE: ReadonlyMap<string, number> = new Map();

interface CrlCacheOptions {
  issuer: string;
  refreshIntervalMs: number;
  maxAgeMs: number;
}

interface CrlCacheDeps {
  kv: Deno.Kv;
  clock: Clock;
  random: Random;
  log: Log;
  registry: RegistryClient;
  keys: KeyCache;
}

export class CrlCache {
  readonly #deps: CrlCacheDeps;
  readonly #options: CrlCacheOptions;
  #seen: CrlSeen | null | undefined;
  #installed: Installed | null = null;
  #confirmedAt = -Infinity;
  #failures = 0;
  #refreshing: Promise<void> | null = null;
  #cancel = () => {};
  #stopped = false;
  /** Called with each list that is installed. */
  onInstalled: () => void = () => {};

  constructor(deps: CrlCacheDeps, options: CrlCacheOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  /** True when a list is at hand that may be used. */
  get ready(): boolean {
    return this.#usable() !== null;
  }

  /** Fetches a first time and goes on by itself. */
  start(): void {
    this.refresh().catch(() => {});
  }

  /** Ends the refreshing. */
  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  /**
   * Whether an AIT is revoked. Waits for a refresh that is under way only when there is no list to use.
   *
   * @throws {RegistryUnavailable} when no list may be used
   */
  async isRevoked(jti: string): Promise<boolean> {
    return (await this.#list()).revoked.has(jti);
  }

  /**
   * Whether what an agent sent under this AIT must no longer be handed over: an AIT that was only replaced by a newer
   * one does not count.
   *
   * @throws {RegistryUnavailable} when no list may be used
   */
  async isSenderRevoked(agentDid: string, jti: string): Promise<boolean> {
    const { revoked, deleted } = await this.#list();
    return deleted.has(agentDid) || (revoked.get(jti) ?? "reissued") !== "reissued";
  }

  /**
   * Whether an agent was deleted.
   *
   * @throws {RegistryUnavailable} when no list may be used
   */
  async isDeleted(agentDid: string): Promise<boolean> {
    return (await this.#list()).deleted.has(agentDid);
  }

  /** Agents that were deleted by the newest list, with the time in unix seconds. Another map for each list. */
  get deletedAgents(): ReadonlyMap<string, number> {
    return this.#installed?.deleted ?? NONE;
  }

  /** Fetches now; whoever asks while one is under way shares it. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => this.#refreshing = null);
    return this.#refreshing;
  }

  /** Fetches after any fetch that is under way: it may have been answered before the change that is looked for. */
  async refreshAnew(): Promise<void> {
    await this.#refreshing;
    await this.refresh();
  }

  async #list(): Promise<Installed> {
    if (this.#usable() === null) await (this.#refreshing ?? (this.#failures === 0 ? this.refresh() : undefined));
    const list = this.#usable();
    if (!list) throw new RegistryUnavailable("No revocation list may be used");
    return list;
  }

  #usable(): Installed | null {
    const now = this.#deps.clock.now();
    const list = this.#installed;
    if (!list || now - this.#confirmedAt > this.#options.maxAgeMs) return null;
    return list.exp === null || unixSeconds(now) < list.exp ? list : null;
  }

  async #refresh(): Promise<void> {
    this.#cancel();
    const { clock, random, log } = this.#deps;
    let wait = this.#options.refreshIntervalMs * (1 - 0.1 * fraction(random));
    try {
      await this.#fetch();
      this.#confirmedAt = clock.now();
      this.#failures = 0;
    } catch (cause) {
      log("warn", "crl_refresh_failed", { cause });
      const retry = LIMITS.crlRetryMs * 2 ** Math.min(this.#failures++, 10);
      wait = Math.min(wait, retry, LIMITS.crlRetryMaxMs);
    }
    if (!this.#stopped) this.#cancel = clock.after(wait, () => void this.refresh());
  }

  async #fetch(): Promise<void> {
    const { kv, registry, keys, log } = this.#deps;
    // Keys at hand are part of being ready, also while there is no list that needs them.
    await keys.current();
    if (this.#seen === undefined) this.#seen = (await kv.get<CrlSeen>(KEYS.crlSeen())).value;
    const { status, headers, value } = await registry.crl(this.#installed?.etag ?? null);
    if (status === 304 && this.#installed?.etag) return;
    const response = value as { crl?: unknown; error?: { code?: unknown } } | undefined;
    if (status === 404 && response?.error?.code === "CRL_NOT_FOUND" && this.#seen === null) {
      this.#installed = { exp: null, revoked: new Map(), deleted: NONE, etag: null };
      return;
    }
    const crl = response?.crl;
    if (status !== 200 || !(typeof crl === "string" || crl instanceof Uint8Array)) {
      throw new RegistryUnavailable(`The revocation list was answered with ${status}`);
    }
    const yieldIfLong = crl.length < LONG_ANSWER ? () => Promise.resolve() : yieldToEventLoop;
    await yieldIfLong();
    const claims = await this.#verify(crl as string | Bytes, yieldIfLong);
    await yieldIfLong();
    if (this.#seen && isCrlRollback(claims, this.#seen)) {
      log("error", "crl_rollback", { seq: claims.seq, knownSeq: this.#seen.seq });
      throw new RegistryUnavailable("The revocation list is older than the one known");
    }
    const seen: CrlSeen = { seq: claims.seq, iat: claims.iat };
    if (this.#seen?.seq !== seen.seq || this.#seen.iat !== seen.iat) await kv.set(KEYS.crlSeen(), seen);
    this.#seen = seen;
    const revoked = new Map<string, Revocation["reason"]>(), deleted = new Map<string, number>();
    for (const [i, { jti, agentDid, reason, revokedAt }] of claims.revocations.entries()) {
      revoked.set(jti, reason);
      if (reason === "agent_deleted") deleted.set(agentDid, revokedAt);
      if (i % ENTRIES_AT_ONCE === ENTRIES_AT_ONCE - 1) await yieldIfLong();
    }
    this.#installed = { exp: claims.exp, revoked, deleted, etag: headers.get("etag") };
    this.onInstalled();
  }

  async #verify(crl: string | Bytes, yieldIfLong: () => Promise<void>): Promise<CrlClaims> {
    const { clock, keys } = this.#deps;
    const { issuer } = this.#options;
    const now = unixSeconds(clock.now());
    try {
      return await verifyCrl(crl, { issuer, keys: await keys.current() }, now, yieldIfLong);
    } catch (error) {
      if (!(error instanceof TokenError && error.reason === "unknown_kid")) throw error;
      // A key that came since: one look for it, then the list counts as wrong.
      return await verifyCrl(crl, { issuer, keys: await keys.search() }, now, yieldIfLong);
    }
  }
}
