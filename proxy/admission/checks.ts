/**
 * The nine checks of a request in their fixed order (R-160, D-60). Each row lists its error codes. The first check that
 * fails decides the response. Before check 5 only the bad-proof limiter records a failure.
 */
import type { AccessTokenCheck } from "../../shared/server/store/access_check.ts";
import type { Update } from "../../shared/server/store/group_commit.ts";
import {
  readCached,
  readPrecondition,
  type RecordReader,
  requireUnchanged,
} from "../../shared/server/store/preconditions.ts";
import {
  decide,
  type Decision,
  type Entries,
  rateLimitHeaders,
  type WindowRecord,
  type WindowRule,
} from "../../shared/server/rate_limit.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import { checkAitTimes } from "../../shared/protocol/signed/ait.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS, isNonce } from "../../shared/protocol/proof.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { Nonces, Reservation } from "../../shared/server/nonces.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import { authorizationToken, holdsProof, requestTimestamp } from "../../shared/server/http/signed_request.ts";
import type { AdmittedAgent, Prefetched } from "../caller.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { PairRecord, Presence } from "../schema/records.ts";
import { hasAnyPair } from "../trust/store.ts";
import type { VerifiedAit } from "./ait_cache.ts";
import { windowOf } from "./senders.ts";

/** The checks of a route in addition to checks 1 to 6, which every route has (D-60). */
export interface AdmissionProfile {
  /** Check 7: the sender is in a confirmed pair. */
  trust: boolean;
  /** Check 8: a valid access token. */
  access: boolean;
  /** Check 9: the rate-limit window that counts the request. */
  window: "agent" | "receipts" | "connect";
  /** The records of such rare requests are not cached. */
  uncached?: true;
}

/** A request during admission. Each check adds its result. */
export interface AdmissionState {
  exchange: RequestContext;
  profile: AdmissionProfile;
  /** The time for all checks, milliseconds since the Unix epoch. */
  now: number;
  ait?: VerifiedAit;
  timestamp?: number;
  reservation?: Reservation;
  prefetched?: PrefetchedRecords;
  /** Records of checks 7 and 8 that must be unchanged when the request commits. */
  preconditions: Update<PreconditionFailed>[];
  rule?: WindowRule;
  decision?: Decision;
  /** Nonce and rate-limit count are durable. */
  isCommitted?: true;
  /** The error of a commit of the nonce, which may have taken effect. */
  doubt?: unknown;
}

/** A record that admission depends on changed before the request committed. */
export class PreconditionFailed {
  constructor(readonly code: "PROXY_AUTH_FORBIDDEN" | "PROXY_AGENT_ACCESS_INVALID") {}
}

const PAIR_LOST = new PreconditionFailed("PROXY_AUTH_FORBIDDEN");
/** The access token is no longer valid. */
export const ACCESS_TOKEN_ENDED = new PreconditionFailed("PROXY_AGENT_ACCESS_INVALID");

/** Records that later checks and the delivery need. They are read together at check 5 and awaited where they are used. */
export interface PrefetchedRecords {
  /** The record of the sender, with its window "agent" (D-261). */
  sender: Prefetched<Uint8Array>;
  /** The window of a route that has a window of its own; otherwise `null`. */
  window: Prefetched<WindowRecord> | null;
  /** Records of a message to an agent; otherwise `null`. */
  message: AdmittedAgent["prefetched"];
  /** Result of `CheckDeps.access()`, when it only reads records and the request has a token; otherwise `null`. */
  access: ReturnType<CheckDeps["access"]> | null;
}

export interface CheckDeps extends RecordReader {
  kv: Deno.Kv;
  /** Origins that a proof may name. The first one is the public origin. */
  origins: readonly string[];
  config: { agentRequests: number; agentWindowMs: number };
  aits: { verify(token: string): Promise<VerifiedAit> };
  nonces: Nonces;
  crl: { isRevoked(jti: string): Promise<boolean>; isDeleted(agentDid: string): Promise<boolean> };
  /** The preconditions of a valid access token, or `null` for an invalid one (D-63). */
  access(check: AccessTokenCheck): Promise<readonly Update<PreconditionFailed>[] | null>;
  /** True when `access()` only reads records, so that it may begin before its check. */
  readsAccess: boolean;
}

export interface AdmissionCheck {
  name: string;
  failsWith: readonly ErrorCode[];
  run(deps: CheckDeps, state: AdmissionState): Promise<void> | void;
}

export const CHECKS: readonly AdmissionCheck[] = [
  {
    name: "AIT signature",
    failsWith: [
      "PROXY_AUTH_MISSING_TOKEN",
      "PROXY_AUTH_INVALID_SCHEME",
      "PROXY_AUTH_INVALID_AIT",
      "PROXY_AUTH_DEPENDENCY_UNAVAILABLE",
    ],
    async run(deps, state) {
      const token = authorizationToken(state.exchange.request.headers, "Svc");
      if (token === null) throw new ServiceError("PROXY_AUTH_MISSING_TOKEN");
      if (token === "") throw new ServiceError("PROXY_AUTH_INVALID_SCHEME");
      state.ait = await asInvalidAit(() => deps.aits.verify(token));
      state.exchange.agentDid = state.ait.claims.sub;
    },
  },
  {
    name: "AIT expiry",
    failsWith: ["PROXY_AUTH_INVALID_AIT"],
    run: (_deps, { ait, now }) => asInvalidAit(() => checkAitTimes(requireSet(ait).claims, unixSeconds(now))),
  },
  {
    name: "timestamp",
    failsWith: ["PROXY_AUTH_INVALID_TIMESTAMP", "PROXY_AUTH_TIMESTAMP_SKEW"],
    run(_deps, state) {
      const timestamp = requestTimestamp(state.exchange.request.headers, state.now);
      if (timestamp === "invalid") throw new ServiceError("PROXY_AUTH_INVALID_TIMESTAMP");
      if (timestamp === "skew") throw new ServiceError("PROXY_AUTH_TIMESTAMP_SKEW");
      state.timestamp = timestamp;
    },
  },
  {
    name: "proof of possession",
    failsWith: ["PROXY_AUTH_INVALID_NONCE", "PROXY_AUTH_INVALID_PROOF"],
    run(deps, { exchange, ait }) {
      if (!isNonce(exchange.request.headers.get(HEADERS.nonce) ?? "")) {
        throw new ServiceError("PROXY_AUTH_INVALID_NONCE");
      }
      const { publicKey, sha256 } = requireSet(ait);
      if (!holdsProof(exchange, publicKey, sha256, deps.origins)) {
        throw new ServiceError("PROXY_AUTH_INVALID_PROOF", {
          message: `The proof of possession does not verify for the origin ${deps.origins[0]}`,
        });
      }
    },
  },
  {
    name: "nonce",
    failsWith: ["PROXY_AUTH_REPLAY", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    run(deps, state) {
      const { exchange, ait, timestamp } = state;
      const nonce = exchange.request.headers.get(HEADERS.nonce) ?? "";
      state.prefetched = readAhead(deps, state);
      const reservation = deps.nonces.reserve(requireSet(ait).claims.sub, nonce, requireSet(timestamp));
      if (!reservation) throw new ServiceError("PROXY_AUTH_REPLAY");
      state.reservation = reservation;
    },
  },
  {
    name: "revocation",
    failsWith: ["PROXY_AUTH_REVOKED", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run(deps, { ait }) {
      if (await deps.crl.isRevoked(requireSet(ait).claims.jti)) throw new ServiceError("PROXY_AUTH_REVOKED");
    },
  },
  {
    name: "trust",
    failsWith: ["PROXY_AUTH_FORBIDDEN", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run(deps, { exchange, profile, ait, now, prefetched, preconditions }) {
      if (!profile.trust) return;
      const pair = await prefetched?.message?.pair;
      // A pair with a deleted agent ends when the revocation list names the agent (D-241).
      if (pair?.value && await deps.crl.isDeleted(exchange.request.headers.get(HEADERS.recipient) ?? "")) {
        throw new ServiceError("PROXY_AUTH_FORBIDDEN");
      }
      if (pair?.value) preconditions.push(requireUnchanged(pair, now, isPresent, PAIR_LOST));
      else if (!(await hasAnyPair(deps.kv, requireSet(ait).claims.sub))) {
        throw new ServiceError("PROXY_AUTH_FORBIDDEN", { message: "The agent is in no confirmed pair" });
      }
    },
  },
  {
    name: "access token",
    failsWith: ["PROXY_AGENT_ACCESS_REQUIRED", "PROXY_AGENT_ACCESS_INVALID", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run(deps, { profile, exchange, ait, prefetched, preconditions }) {
      if (!profile.access) return;
      const accessToken = exchange.request.headers.get(HEADERS.access);
      if (!accessToken) throw new ServiceError("PROXY_AGENT_ACCESS_REQUIRED");
      const unchanged = await (prefetched?.access ?? checkAccess(deps, accessToken, requireSet(ait)));
      if (!unchanged) throw new ServiceError("PROXY_AGENT_ACCESS_INVALID");
      preconditions.push(...unchanged);
    },
  },
  {
    name: "rate limit",
    failsWith: ["PROXY_RATE_LIMIT_EXCEEDED", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE"],
    async run(deps, state) {
      const { sender, window } = requireSet(state.prefetched);
      state.rule = windowRule(deps, state.profile);
      const record = window ? (await window).value ?? [] : windowOf((await sender).value);
      state.decision = decide(state.rule, record, state.now);
      if (state.decision.allowed) return;
      recordDecision(state, state.decision);
      throw new ServiceError("PROXY_RATE_LIMIT_EXCEEDED");
    },
  },
];

/** Stores the decision of the rate-limit window and sets its response headers. */
export function recordDecision(state: AdmissionState, decision: Decision): void {
  state.decision = decision;
  const headers = rateLimitHeaders(requireSet(state.rule), decision);
  for (const [name, value] of Object.entries(headers)) state.exchange.responseHeaders.set(name, value);
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

function readAhead(deps: CheckDeps, { exchange, profile, ait, now }: AdmissionState): PrefetchedRecords {
  const sender = requireSet(ait).claims.sub;
  const recipient = exchange.request.headers.get(HEADERS.recipient);
  // An earlier check may end the request before a read is awaited. Its failure must not become unhandled.
  const begun = <T>(read: T): T => {
    if (read instanceof Promise) read.catch(() => {});
    return read;
  };
  const accessToken = profile.access && deps.readsAccess ? exchange.request.headers.get(HEADERS.access) : null;
  const rule = windowRule(deps, profile);
  const allows = (record: WindowRecord | Entries) => decide(rule, record, now).allowed;
  const isOwn = profile.window !== "agent";
  return {
    sender: begun(readCached<Uint8Array>(deps, KEYS.sender(sender), (record) => isOwn || allows(windowOf(record)))),
    window: isOwn
      ? begun(readCached<WindowRecord>(deps, KEYS.window(rule.name, sender), (record) => allows(record ?? [])))
      : null,
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
  // A repeated header arrives as one value with a comma. No token contains a comma.
  if (accessToken.includes(",")) return null;
  return await deps.access({ accessToken, agentDid: claims.sub, aitJti: claims.jti });
}

function isPresent(value: unknown): boolean {
  return value !== null;
}

function windowRule({ config }: CheckDeps, { window }: AdmissionProfile): WindowRule {
  const { agentRequests: requests, agentWindowMs: windowMs } = config;
  const factor = window === "receipts" ? LIMITS.receiptRequestsFactor : 1;
  return { name: window, requests: requests * factor, windowMs };
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
