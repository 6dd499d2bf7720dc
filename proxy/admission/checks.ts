/**
 * The nine checks of a request in their fixed order (D-60). Each row lists its error codes, and the first check that
 * fails decides the response. A failure before check 5 writes nothing, because a stranger could otherwise load the
 * store.
 */
import type { AccessTokenCheck } from "../../shared/server/store/preconditions.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import {
  readCached,
  readPrecondition,
  type RecordReader,
  requireUnchanged,
} from "../../shared/server/store/preconditions.ts";
import {
  decide,
  type Decision,
  rateLimitHeaders,
  type WindowRecord,
  type WindowRule,
} from "../../shared/server/rate_limit.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import type { AitClaims } from "../../shared/protocol/signed/ait.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { checkTimes, TokenError, type VerificationKeys } from "../../shared/protocol/signed/jws.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isNonce } from "../../shared/protocol/proof.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import type { KvEntryMaybe } from "../../shared/server/kv.ts";
import { provenOrigin, requestTimestamp, signedHeaders } from "../../shared/server/http/signed_request.ts";
import type { Prefetched } from "../caller.ts";
import type { ProxyConfig } from "../config.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { PairRecord, Presence } from "../schema/records.ts";
import { type OwnerBudgets, rateRefusal } from "../owner_budgets.ts";
import { firstPair, type PairStoreDeps } from "../trust/store.ts";
import type { NonceUse, Sender, Senders } from "../message/sender.ts";
import { PreconditionFailed, type Standing, type Standings } from "./standing.ts";
import type { VerifiedAit } from "./ait_cache.ts";
import type { BadProofLimiter } from "./bad_proof_limiter.ts";

export type WindowName = "agent" | "receipts" | "connect";

/** The checks of a route in addition to checks 1 to 6, which every route has. */
export interface AdmissionProfile {
  /** Check 7: the sender is in a confirmed pair. */
  trust: boolean;
  /** Check 8: a valid access token. */
  access: boolean;
  /** Check 9: the rate-limit window that counts the request. */
  window: WindowName;
  /** Set for rare requests. Their records are not cached, because they would push out those of messages. */
  uncached?: true;
  /** Agents of other registries may make the request. */
  visits?: true;
}

/** A request during admission. Each check adds its result. */
export interface AdmissionState {
  exchange: RequestContext;
  profile: AdmissionProfile;
  /** The time for all checks, milliseconds since the Unix epoch. */
  now: number;
  /** What earlier messages have proven; `null` when every check must be made. */
  standing: Standing | null;
  ait?: VerifiedAit;
  /** Whose budgets the request uses: an owner, or the issuer of a visitor. */
  payer?: string;
  /** For an agent of another registry: that registry's keys and list, and its home proxy by its visit token. */
  visitor?: IssuerDocuments;
  /** The owner here who has let the visitor in, by a pair or a ticket. */
  host?: string;
  homeProxy?: string;
  timestamp?: number;
  /** The service's origin that the proof names. */
  origin?: string;
  use?: NonceUse | undefined;
  /** The pair of the sender with the recipient, when check 7 has found it. */
  pair?: KvEntryMaybe<PairRecord>;
  prefetched?: PrefetchedRecords;
  /** The records that checks 7 and 8 rely on. The commit is refused if they no longer hold. */
  preconditions: readonly Update<PreconditionFailed>[];
  /** Of the window that counts the request. */
  rule: WindowRule;
  /** Lets the owner's next connect begin. */
  endTurn?: () => void;
  /** Set when the bad-proof limiter has counted the request. */
  isCounted?: true;
}

const PAIR_LOST = new PreconditionFailed("PROXY_AUTH_FORBIDDEN");
export const ACCESS_TOKEN_ENDED = new PreconditionFailed("PROXY_AGENT_ACCESS_INVALID");

/** Records for later checks and the delivery. Their reads begin at check 5; each is awaited where it is used. */
interface PrefetchedRecords {
  /** The window of a route that has a window of its own; otherwise `null`. */
  window: Prefetched<WindowRecord> | null;
  /** Records of a message to an agent; otherwise `null`, and also with a standing, which has the pair. */
  message: { pair: Prefetched<PairRecord>; presence: Prefetched<Presence> } | null;
  /** The result of `CheckDeps.access()` once that has begun to read records; `null` when nothing has begun. */
  access: ReturnType<CheckDeps["access"]> | null;
}

/** What a registry publishes, as the checks use it. */
export interface IssuerDocuments {
  readonly issuer: string;
  aits: { verify(token: string): Promise<VerifiedAit> };
  keys: { current(): Promise<VerificationKeys>; withKey(kid: string): Promise<VerificationKeys> };
  crl: {
    isRevoked(jti: string): Promise<boolean>;
    /** True when the newest list that was seen, of any age, ends the agent or its token; false if none can be read. */
    wasRevoked(agentDid: string, jti: string): Promise<boolean>;
  };
}

/** What the checks ask about agents of other registries; visitors.ts answers. */
export interface VisitorChecks {
  claimsOf(token: string): AitClaims | null;
  admit(claims: AitClaims, exchange: RequestContext): Promise<{ issuer: IssuerDocuments; host: string }>;
  visit(visitor: IssuerDocuments, token: string, ait: VerifiedAit, origin: string): Promise<string | null>;
  writes(agentDid: string, recipient: string): void;
}

export interface CheckDeps extends RecordReader, PairStoreDeps {
  guard: BadProofLimiter;
  standings: Standings;
  /** Origins that a proof may name. The first one is the public origin. */
  origins: readonly string[];
  windows: Readonly<Record<WindowName, WindowRule>>;
  aits: { verify(token: string): Promise<VerifiedAit>; kept(token: string): VerifiedAit | undefined };
  visitors: VisitorChecks;
  senders: Senders;
  owners: OwnerBudgets;
  crl: { isRevoked(jti: string): Promise<boolean>; isDeleted(agentDid: string): Promise<boolean> };
  /** The preconditions of a valid access token, or `null` for an invalid one. */
  access(check: AccessTokenCheck): Promise<readonly Update<PreconditionFailed>[] | null>;
  /** True when `access()` only reads records. It then begins at check 5, which saves a round trip. */
  readsAccess: boolean;
}

export interface AdmissionCheck {
  name: string;
  failsWith: readonly ErrorCode[];
  /** True when a standing covers the check, which is then left out. */
  isStanding?: true;
  run(deps: CheckDeps, state: AdmissionState): Promise<void> | void;
}

export const CHECKS: readonly AdmissionCheck[] = [
  {
    name: "AIT signature",
    isStanding: true,
    failsWith: [
      "PROXY_AUTH_MISSING_TOKEN",
      "PROXY_AUTH_INVALID_SCHEME",
      "PROXY_AUTH_INVALID_AIT",
      "PROXY_AUTH_DEPENDENCY_UNAVAILABLE",
    ],
    async run(deps, state) {
      const { token } = signedHeaders(state.exchange);
      if (token === null) throw new ServiceError("PROXY_AUTH_MISSING_TOKEN");
      if (token === "") throw new ServiceError("PROXY_AUTH_INVALID_SCHEME");
      const visiting = deps.aits.kept(token) ? null : deps.visitors.claimsOf(token);
      state.ait = await asInvalidAit(() =>
        visiting ? verifyVisiting(deps, state, token, visiting) : deps.aits.verify(token)
      );
      const { sub, ownerDid } = state.ait.claims;
      state.exchange.agentDid = sub;
      state.payer ??= ownerDid;
    },
  },
  {
    name: "AIT expiry",
    isStanding: true,
    failsWith: ["PROXY_AUTH_INVALID_AIT"],
    run: (_deps, { ait, now }) => asInvalidAit(() => checkTimes(requireSet(ait).claims, unixSeconds(now))),
  },
  {
    name: "timestamp",
    failsWith: ["PROXY_AUTH_INVALID_TIMESTAMP", "PROXY_AUTH_TIMESTAMP_SKEW"],
    run(_deps, state) {
      const timestamp = requestTimestamp(state.exchange, state.now);
      if (timestamp === "invalid") throw new ServiceError("PROXY_AUTH_INVALID_TIMESTAMP");
      if (timestamp === "skew") throw new ServiceError("PROXY_AUTH_TIMESTAMP_SKEW");
      state.timestamp = timestamp;
    },
  },
  {
    name: "proof of possession",
    failsWith: ["PROXY_AUTH_INVALID_NONCE", "PROXY_AUTH_INVALID_PROOF"],
    run(deps, state) {
      const { exchange, ait } = state;
      if (!isNonce(signedHeaders(exchange).nonce)) throw new ServiceError("PROXY_AUTH_INVALID_NONCE");
      const { publicKey, sha256 } = requireSet(ait);
      const origin = provenOrigin(exchange, publicKey, sha256, deps.origins);
      if (origin === null) {
        throw new ServiceError("PROXY_AUTH_INVALID_PROOF", {
          message: `The proof of possession does not verify for the origin ${deps.origins[0]}`,
        });
      }
      state.origin = origin;
    },
  },
  {
    name: "nonce",
    failsWith: ["PROXY_AUTH_REPLAY", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    run: (deps, state) => state.profile.window === "connect" ? inTurn(deps, state) : reserveNonce(deps, state),
  },
  {
    name: "revocation",
    isStanding: true,
    failsWith: ["PROXY_AUTH_REVOKED", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run({ crl }, { ait, visitor }) {
      if (await (visitor ?? { crl }).crl.isRevoked(requireSet(ait).claims.jti)) {
        throw new ServiceError("PROXY_AUTH_REVOKED");
      }
    },
  },
  {
    name: "trust",
    isStanding: true,
    failsWith: ["PROXY_AUTH_FORBIDDEN", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run(deps, state) {
      const { exchange, profile, ait, now, prefetched } = state;
      if (!profile.trust) return;
      const pair = await prefetched?.message?.pair;
      // A pair with a deleted agent ends when the revocation list names the agent, even before its record is removed.
      if (pair?.value && await deps.crl.isDeleted(signedHeaders(exchange).recipient)) {
        throw new ServiceError("PROXY_AUTH_FORBIDDEN");
      }
      if (pair?.value) {
        state.pair = pair;
        state.preconditions = [requireUnchanged(deps, pair, now, isPresent, PAIR_LOST)];
      } else if (await firstPair(deps.kv, requireSet(ait).claims.sub) === null) {
        throw new ServiceError("PROXY_AUTH_FORBIDDEN", { message: "The agent is in no confirmed pair" });
      }
    },
  },
  {
    name: "access token",
    isStanding: true,
    failsWith: ["PROXY_AGENT_ACCESS_REQUIRED", "PROXY_AGENT_ACCESS_INVALID", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run(deps, state) {
      const { profile, exchange, ait, prefetched, visitor } = state;
      if (!profile.access && !visitor) return;
      const { access: accessToken } = signedHeaders(exchange);
      if (!accessToken) throw new ServiceError("PROXY_AGENT_ACCESS_REQUIRED");
      if (visitor) {
        const homeProxy = await deps.visitors.visit(visitor, accessToken, requireSet(ait), requireSet(state.origin));
        if (homeProxy === null) throw new ServiceError("PROXY_AGENT_ACCESS_INVALID");
        state.homeProxy = homeProxy;
        if (state.pair) deps.visitors.writes(requireSet(ait).claims.sub, signedHeaders(exchange).recipient);
        return;
      }
      const unchanged = await (prefetched?.access ?? checkAccess(deps, accessToken, requireSet(ait)));
      if (!unchanged) throw new ServiceError("PROXY_AGENT_ACCESS_INVALID");
      state.preconditions = [...state.preconditions, ...unchanged];
    },
  },
  {
    name: "rate limit",
    failsWith: ["PROXY_RATE_LIMIT_EXCEEDED", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    run(deps, state) {
      const { window } = requireSet(state.prefetched), { rule } = state;
      // By the present time, because requests counted since this one began would otherwise seem to be in the future.
      if (!window) return judgeRate(deps, state, requireSet(state.use).sender.window.peek(rule, deps.clock.now()));
      return Promise.resolve(window).then(({ value }) => judgeRate(deps, state, decide(rule, value ?? [], state.now)));
    },
  },
];

/**
 * Reserves the nonce of a connect once its owner has a turn, because many agents that return at once would otherwise
 * stop other requests.
 *
 * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` when too many of the owner's agents connect
 */
async function inTurn(deps: CheckDeps, state: AdmissionState): Promise<void> {
  const end = await deps.owners.connects.take(requireSet(state.ait).claims.ownerDid);
  if (!end) throw rateRefusal(1_000, "Too many agents of your account connect at once");
  state.endTurn = end;
  await reserveNonce(deps, state);
}

/**
 * Reserves the nonce in the memory of its sender, and begins to read what later checks need. If the sender is not in
 * memory, it is read together with those records. If it is, the nonce is reserved before they are read, because replays
 * on many connections would otherwise fill the queue of the store with reads that no request waits for, and every other
 * caller would stand behind them.
 *
 * @throws {ServiceError} `PROXY_AUTH_REPLAY`
 * @throws {StoreUnavailable} when the sender cannot be read
 */
function reserveNonce(deps: CheckDeps, state: AdmissionState): Promise<void> | void {
  const { exchange, ait, timestamp, now } = state;
  const sender = deps.senders.loaded(requireSet(ait).claims.sub, now);
  const reserve = (sender: Sender): void => {
    state.use = sender.reserve(signedHeaders(exchange).nonce, requireSet(timestamp), now) ?? undefined;
    if (!state.use) throw new ServiceError("PROXY_AUTH_REPLAY");
    state.prefetched ??= readAhead(deps, state);
  };
  if (!(sender instanceof Promise)) return reserve(sender);
  state.prefetched = readAhead(deps, state);
  return sender.then(reserve);
}

/** Returns the refusal of check 9 for a request that the agent's own window has no room for. */
export function windowFull({ rule, exchange }: AdmissionState): ServiceError {
  exchange.check = 9;
  const { name, requests, windowMs } = rule;
  const message = `The agent has reached its limit "${name}": ${requests} requests in ${windowMs / 1000} s`;
  return new ServiceError("PROXY_RATE_LIMIT_EXCEEDED", { message });
}

/**
 * Counts an allowed request for its owner, and refuses any other. A request that the agent's own window refuses is not
 * counted, because an agent that repeats without an end would otherwise use up what the owner's other agents have.
 *
 * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED`
 */
function judgeRate({ owners }: CheckDeps, state: AdmissionState, decision: Decision): void {
  if (!decision.allowed) {
    showDecision(state, decision);
    throw windowFull(state);
  }
  const ownerDid = requireSet(state.payer), { window } = state.profile, payers = payersOf(state);
  const waitMs = window === "connect" ? owners.connectWaitMs(ownerDid) : 0;
  if (waitMs > 0) {
    throw rateRefusal(waitMs, "A socket of your account sent too much, so its agents must wait before they connect");
  }
  owners.takeRequest(payers, window, factorOf(window));
  owners.takeBody(payers, state.exchange.body.length);
}

/**
 * Returns the budgets that a request uses, the narrowest first. All visitors of one owner here share one beside that of
 * their registry, because a person could let in the agents of a hundred host names, and each of those has a budget of
 * its own.
 */
export function payersOf({ payer, host }: Pick<AdmissionState, "payer" | "host">): [string, ...string[]] {
  const own = requireSet(payer);
  return host === undefined ? [own] : [`visitors of ${host}`, own];
}

/**
 * Verifies the token of an agent of another registry.
 *
 * @throws {TokenError}
 * @throws {ServiceError} `PROXY_AUTH_INVALID_AIT` where only agents of this registry may call
 */
async function verifyVisiting(
  { visitors }: CheckDeps,
  state: AdmissionState,
  token: string,
  claims: AitClaims,
): Promise<VerifiedAit> {
  state.exchange.isVisit = true;
  if (!state.profile.visits) {
    throw new ServiceError("PROXY_AUTH_INVALID_AIT", { message: "This route is for agents of this server's registry" });
  }
  state.payer = claims.iss;
  const { issuer, host } = await visitors.admit(claims, state.exchange);
  state.visitor = issuer;
  state.host = host;
  return await issuer.aits.verify(token);
}

/** Sets the response headers of the rate-limit window. */
export function showDecision(state: AdmissionState, decision: Decision): void {
  Object.assign(state.exchange.responseHeaders, rateLimitHeaders(state.rule, decision));
}

/**
 * Returns the result of an earlier check.
 *
 * @throws {Error} when that check did not run, which is a defect
 */
export function requireSet<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("A check ran before the one it builds on");
  return value;
}

/**
 * Resolves when every read of a request has ended. A refusal waits for it, because the reads of refused requests would
 * otherwise pile up and hold up others.
 */
export async function readsEnded({ window, message, access }: PrefetchedRecords): Promise<void> {
  await Promise.allSettled([window, message?.pair, message?.presence, access]);
}

const NOTHING_READ: PrefetchedRecords = { window: null, message: null, access: null };

function readAhead(
  deps: CheckDeps,
  { exchange, profile, ait, now, rule, standing, visitor }: AdmissionState,
): PrefetchedRecords {
  const sender = requireSet(ait).claims.sub;
  const { recipient, access } = signedHeaders(exchange);
  if (standing) return NOTHING_READ;
  // The request may end before a read is awaited. Without this handler, a read that fails then would be an unhandled
  // rejection.
  const begun = <T>(read: T): T => {
    if (read instanceof Promise) read.catch(() => {});
    return read;
  };
  const accessToken = profile.access && deps.readsAccess && !visitor ? access : "";
  const allows = (record: WindowRecord | null) => decide(rule, record ?? [], now).allowed;
  return {
    window: profile.window === "agent"
      ? null
      : begun(readCached<WindowRecord>(deps, KEYS.window(rule.name, sender), allows)),
    message: profile.trust && isAgentDid(recipient)
      ? {
        pair: begun(readPrecondition<PairRecord>(deps, KEYS.pair(sender, recipient), isPresent)),
        presence: begun(readCached<Presence>(deps, KEYS.presence(recipient), isPresent)),
      }
      : null,
    access: accessToken ? begun(checkAccess(deps, accessToken, requireSet(ait))) : null,
  };
}

/** Returns the preconditions of a valid access token, or `null` for an invalid one. */
async function checkAccess(
  deps: CheckDeps,
  accessToken: string,
  { claims }: VerifiedAit,
): Promise<readonly Update<PreconditionFailed>[] | null> {
  // A repeated header arrives as one value with a comma, which no token contains.
  if (accessToken.includes(",")) return null;
  return await deps.access({ accessToken, agentDid: claims.sub, aitJti: claims.jti });
}

function isPresent(value: unknown): boolean {
  return value !== null;
}

/** Returns the rules of the windows: how many requests of an agent each one lets through. */
export function windowRules(
  { agentRequests, agentWindowMs: windowMs }: Pick<ProxyConfig, "agentRequests" | "agentWindowMs">,
): CheckDeps["windows"] {
  const ruleOf = (name: WindowName) => ({ name, requests: agentRequests * factorOf(name), windowMs });
  return { agent: ruleOf("agent"), receipts: ruleOf("receipts"), connect: ruleOf("connect") };
}

/** Returns the factor of a window's limit: higher for receipts, because a message may have several. */
export function factorOf(window: WindowName): number {
  return window === "receipts" ? LIMITS.receiptRequestsFactor : 1;
}

/**
 * Returns the result of `verify`.
 *
 * @throws {ServiceError} `PROXY_AUTH_INVALID_AIT` for every `TokenError`
 */
async function asInvalidAit<T>(verify: () => T | Promise<T>): Promise<T> {
  try {
    return await verify();
  } catch (error) {
    throw error instanceof TokenError ? new ServiceError("PROXY_AUTH_INVALID_AIT", { message: error.message }) : error;
  }
}
