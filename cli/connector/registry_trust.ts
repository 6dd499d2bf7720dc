/**
 * What the connector believes of its registry (D-143): the keys that sign identity tokens, and the revocation list.
 * Both are read from the registry itself, with a copy on disk, because a relay that named them could vouch for anyone.
 * The agents of a process share one object for each registry, because each would otherwise read the same lists.
 */
import { type Clock, DAY_MS } from "../../shared/clock.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { authorityOf } from "../../shared/protocol/did.ts";
import {
  type AitAuthority,
  type AitClaims,
  parseAit,
  readAitClaims,
  verifyAitSignature,
} from "../../shared/protocol/signed/ait.ts";
import { type CrlClaims, isCrlRollback, type Revocation, verifyCrl } from "../../shared/protocol/signed/crl.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { Undecided } from "../link/reconnect.ts";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ApiError } from "../../shared/client/errors.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import type { Context } from "../context.ts";
import { readPrivate } from "../files/private_files.ts";
import { MinuteCounts } from "../link/minute_counts.ts";
import { ServiceClock } from "../link/service_clock.ts";
import { issuerOf } from "../link/signed_headers.ts";
import { Output } from "../terminal/output.ts";
import { keepCopy, trustedKeys } from "../verify/trusted_keys.ts";
import { registryAt } from "./file_credentials.ts";

/**
 * How long keys and list are used before they are read again. With more, a revoked key or token counts for longer; with
 * less, each message costs a request.
 */
const FRESH_MS = 300_000;
/** Time between two requests for the keys, or for the list. With less, a registry that is down is asked all the time. */
const KEYS_AGAIN_MS = 30_000;
/**
 * Requests in a minute for a key that is not known. With one, tokens of a key that follows another at once would be
 * refused. With more, forged messages cause more requests.
 */
const SEARCHES_A_MINUTE = 4;
const LIST_AGAIN_MS = 60_000;
/**
 * Age from which a list no longer counts. With more, a relay on the way to the registry could hide a revocation longer.
 */
const LIST_MAX_MS = DAY_MS;
/**
 * Offset of this machine's clock beyond which no message is taken, because good ones would be refused by their time.
 */
const CLOCK_MAX_MS = DAY_MS;
/** Verified tokens that are remembered. With fewer, the tokens of many peers are verified at every message. */
const AITS_KEPT = 1_000;
/** Seconds after a reissue in which the old token may sign. With less, messages that were on their way are refused. */
const REISSUE_GRACE_SECONDS = 300;

export interface TrustSource {
  /** Origin of the registry, as in the agent's own token. */
  issuer: string;
  /**
   * Returns the published keys and the proxy, or the saved ones when the registry does not answer. @throws without
   * saved ones
   */
  keys(): Promise<AitAuthority & { proxyUrl?: string }>;
  /** The signed list; `null` while the registry has none. @throws when it does not answer */
  list(): Promise<string | null>;
  /**
   * What was saved last: a list, or when the registry said that it has none (Unix milliseconds); `null` without either.
   */
  savedList(): string | number | null;
  saveList(list: string | number): Promise<void>;
  /** Milliseconds from this machine's clock to the registry's, when it last answered; `null` before. */
  offsetMs(): number | null;
}

/** A revocation list, indexed for look-ups. */
interface KnownList {
  claims: Pick<CrlClaims, "seq" | "iat">;
  byJti: ReadonlyMap<string, Revocation>;
  deleted: ReadonlySet<string>;
}

const NO_LIST: KnownList = { claims: { seq: -1, iat: 0 }, byJti: new Map(), deleted: new Set() };

export class RegistryTrust {
  readonly #aits = new BoundedMap<string, AitClaims>(AITS_KEPT);
  /** The public origin of the proxy that the registry names; `null` before its keys are known. */
  proxyOrigin: string | null = null;
  #keys: AitAuthority | null = null;
  #keysAt = -Infinity;
  #keysTriedAt = -Infinity;
  readonly #searches = new MinuteCounts();
  #list: KnownList | null = null;
  /** When the registry last gave its list, or said that it has none. */
  #listAt = -Infinity;
  #listTriedAt = -Infinity;
  #readingKeys: Promise<void> | null = null;
  #readingList: Promise<void> | null = null;

  constructor(private readonly clock: Clock, private readonly source: TrustSource) {}

  /** Resolves when messages can be decided. @throws {Undecided} why they cannot */
  async ready(): Promise<void> {
    await Promise.all([this.#currentKeys(), this.#currentList()]);
    const offset = Math.abs(this.source.offsetMs() ?? 0);
    if (offset > CLOCK_MAX_MS) {
      throw new Undecided(`the clock of this machine is ${Math.round(offset / 3_600_000)} h from the registry's`);
    }
  }

  /**
   * Returns the claims of an identity token that a key of the registry signed. For a token of a pinned key the pin is
   * enough when the registry is another one or its keys cannot be had.
   *
   * @throws {TokenError} when the token is not genuine
   * @throws {Undecided} when the keys cannot be had and there is no pin
   */
  async claimsOf(token: string, isPinned: (key: string) => boolean): Promise<AitClaims> {
    const hash = await sha256(token);
    const known = this.#aits.get(hash);
    if (known !== undefined && this.#isWithin(FRESH_MS, this.#keysAt)) return known;
    const jws = parseAit(token);
    const unsigned = readAitClaims(jws);
    if (unsigned.iss !== this.source.issuer) {
      // A token of another origin of this authority is refused, because a deleted agent could sign one itself, and no
      // revocation list of that origin is read.
      const isElsewhere = authorityOf(unsigned.iss) !== authorityOf(this.source.issuer);
      if (isElsewhere && isPinned(unsigned.cnf.jwk.x)) return unsigned;
      throw new TokenError("issuer", "The token was issued by another registry");
    }
    try {
      const claims = await verifyAitSignature(jws, await this.#keysFor(jws.kid));
      this.#aits.set(hash, claims);
      return claims;
    } catch (error) {
      if (error instanceof Undecided && isPinned(unsigned.cnf.jwk.x)) return unsigned;
      throw error;
    }
  }

  /** Whether the sender is deleted, or signed with a token from before a reissue. @throws {Undecided} without a list */
  async isRevoked({ jti, sub, iss }: Pick<AitClaims, "jti" | "sub" | "iss">, signedAt: number): Promise<boolean> {
    if (iss !== this.source.issuer) return false;
    const list = await this.#currentList();
    const entry = list.byJti.get(jti);
    return list.deleted.has(sub) ||
      entry?.reason === "reissued" && signedAt > entry.revokedAt + REISSUE_GRACE_SECONDS;
  }

  /**
   * Whether a time is less than `ms` ago. One in the future is not, because it would count for days after a clock was
   * set back.
   */
  #isWithin(ms: number, at: number): boolean {
    const ago = this.clock.now() - at;
    return ago >= 0 && ago < ms;
  }

  /** Returns the keys after a search for `kid`, where it is new. */
  async #keysFor(kid: string): Promise<AitAuthority> {
    const known = await this.#currentKeys();
    if (known.keys.has(kid)) return known;
    if (this.#readingKeys === null) {
      if (this.#searches.add("keys", this.clock.now()).count > SEARCHES_A_MINUTE) return known;
      this.#beginReadingKeys();
    }
    return await this.#currentKeys();
  }

  #beginReadingKeys(): void {
    this.#keysTriedAt = this.clock.now();
    this.#readingKeys = this.#readKeys().finally(() => this.#readingKeys = null);
  }

  async #currentKeys(): Promise<AitAuthority> {
    if (!this.#isWithin(FRESH_MS, this.#keysAt) && !this.#isWithin(KEYS_AGAIN_MS, this.#keysTriedAt)) {
      this.#beginReadingKeys();
    }
    await this.#readingKeys;
    if (this.#keys === null) throw new Undecided(this.#problem);
    return this.#keys;
  }
  #problem = "the registry does not answer";

  async #readKeys(): Promise<void> {
    try {
      const { proxyUrl = null, ...keys } = await this.source.keys();
      this.#keys = { ...keys, issuer: this.source.issuer };
      this.proxyOrigin = proxyUrl;
      this.#keysAt = this.clock.now();
      // Known tokens are forgotten, because one that a withdrawn key signed would otherwise still count.
      this.#aits.clear();
    } catch (error) {
      this.#problem = describeError(error);
    }
  }

  async #currentList(): Promise<KnownList> {
    if (!this.#isWithin(FRESH_MS, this.#listAt) && !this.#isWithin(LIST_AGAIN_MS, this.#listTriedAt)) {
      this.#readingList = this.#readList().finally(() => this.#readingList = null);
    }
    await this.#readingList;
    const list = this.#list;
    // By the time in the list, because an old list that is repeated on the way to the registry would otherwise stay valid.
    const age = this.clock.now() - (list === NO_LIST ? this.#listAt : (list?.claims.iat ?? 0) * 1000);
    if (list === null || age > LIST_MAX_MS) throw new Undecided(`${this.#problem}; the revocation list is unknown`);
    return list;
  }

  async #readList(): Promise<void> {
    this.#listTriedAt = this.clock.now();
    try {
      const text = await this.source.list();
      if (text !== null) {
        await this.#take(text);
        await this.source.saveList(text);
      } else if (this.#list === NO_LIST || this.#list === null && typeof this.source.savedList() !== "string") {
        this.#list = NO_LIST;
        await this.source.saveList(this.clock.now());
      } // A registry that has published a list always has one, so an answer without it hides revocations.
      else throw new TokenError("claims", "The registry withholds its revocation list");
      this.#listAt = this.clock.now();
      this.#problem = "the registry answers with a list that is over a day old";
    } catch (error) {
      this.#problem = describeError(error);
      if (this.#list === null) await this.#takeSaved();
    }
  }

  /**
   * Takes the copy on disk, because the connector would otherwise stay offline while the registry does not answer, or
   * answers 429 because many connectors behind one address start at once.
   */
  async #takeSaved(): Promise<void> {
    const saved = this.source.savedList();
    if (typeof saved === "string") await this.#take(saved).catch(() => {});
    else if (saved !== null) {
      this.#list = NO_LIST;
      this.#listAt = Math.min(saved, this.clock.now());
    }
  }

  /** Takes a list whose signature verifies, unless it is older than the known one. `#currentList` judges its age. */
  async #take(text: string): Promise<void> {
    const claims = await verifyCrl(text, await this.#currentKeys(), null);
    if (this.#list !== null && isCrlRollback(claims, this.#list.claims)) {
      const restored = "if it was restored from a backup, start this connector again";
      throw new TokenError("claims", `The registry answered with an older revocation list: ${restored}`);
    }
    const { revocations, seq, iat } = claims;
    const deleted = revocations.filter(({ reason }) => reason === "agent_deleted").map(({ agentDid }) => agentDid);
    const byJti = new Map(revocations.map((revocation) => [revocation.jti, revocation]));
    this.#list = { claims: { seq, iat }, byJti, deleted: new Set(deleted) };
  }
}

export function registryTrust(ctx: Context, folder: AgentFolder): RegistryTrust {
  const { registryUrl } = folder.identity();
  // The connector owns the terminal, so the progress of a request is not printed.
  const quiet = { ...ctx, out: new Output(ctx.terminal, ctx.clock, { json: true, colour: false }) };
  // A clock of its own, because the clock of other requests also takes the time of the proxy.
  const clock = new ServiceClock(ctx.clock);
  const registry = () => registryAt(ctx, clock, registryUrl);
  const file = `${encodeURIComponent(registryUrl)}.crl`;
  // The registry may answer after the end of the connector, when a person has removed everything.
  const isGone = () => !existsSync(ctx.configDir);
  return new RegistryTrust(ctx.clock, {
    issuer: issuerOf(folder.ait()) ?? registryUrl,
    keys: async () => await trustedKeys(quiet, registry(), { isGone }),
    list: async () =>
      await registry().crl().catch((error) => {
        if (error instanceof ApiError && error.code === "CRL_NOT_FOUND") return null;
        throw error;
      }),
    savedList: () => {
      try {
        const saved = readPrivate(join(ctx.configDir, "keys", file), LIMITS.crlBytes);
        // A number is the time at which the registry had no list; a signed list never reads as one.
        return saved === null || Number.isNaN(Number(saved)) ? saved : Number(saved);
      } catch {
        // A copy that cannot be read counts as missing, because the registry's list replaces it.
        return null;
      }
    },
    saveList: (list) => keepCopy(ctx, file, String(list), isGone),
    offsetMs: () => clock.seenMs,
  });
}
