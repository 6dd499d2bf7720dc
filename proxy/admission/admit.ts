/**
 * Admission. Runs the checks and commits the nonce and the rate-limit count, together with the route's own records,
 * once. The request pipeline calls it after the handler, on success and on error, so that no route can forget it.
 */
import {
  type AdmissionCheck,
  type AdmissionProfile,
  type AdmissionState,
  type CheckDeps,
  CHECKS,
  readsEnded,
  recordDecision,
  requireSet,
} from "./checks.ts";
import type { BadProofLimiter } from "./bad_proof_limiter.ts";
import type { Admission, AdmittedAgent } from "../caller.ts";
import { type Beginning, REFUSE_FULL, SenderChange, WINDOW_FULL } from "../message/sender.ts";
import { PreconditionFailed, type Standings } from "./standing.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import type { Authenticator, RequestContext } from "../../shared/server/http/route.ts";
import { type Decision, type WindowRecord, windowUpdate } from "../../shared/server/rate_limit.ts";
import type { KvEntryMaybe } from "../../shared/server/kv.ts";
import type { Update } from "../../shared/server/store/group_commit.ts";
import { busyText, StoreUnavailable } from "../../shared/server/store/store_errors.ts";

/** What admission uses. */
export interface AdmissionDeps extends CheckDeps {
  guard: BadProofLimiter;
  standings: Standings;
}

type CommitResult<R> = { committed: true } | { committed: false; refused: R };

/** What of a request a claim commits, beside the updates of its route. */
interface Part {
  nonce: boolean;
  count: boolean;
}

const ALL: Part = { nonce: true, count: true };
const ONLY_NONCE: Part = { nonce: true, count: false };
const NOTHING_MORE: Part = { nonce: false, count: false };

/**
 * Returns the agent of a request that passes the nine checks. A request that fails after check 5 still uses up its nonce.
 *
 * @throws {ServiceError} with a code of the first check that fails
 */
export async function admit(
  deps: AdmissionDeps,
  exchange: RequestContext,
  profile: AdmissionProfile,
): Promise<AdmittedAgent> {
  const now = deps.clock.now(), standing = profile.trust ? deps.standings.of(exchange, now) : null;
  const state: AdmissionState = { exchange, profile, now, standing, preconditions: standing?.preconditions ?? [] };
  const commits = new RequestCommits(deps, state);
  if (standing) {
    state.ait = standing.ait;
    state.payer = standing.ait.claims.ownerDid;
    exchange.agentDid = standing.ait.claims.sub;
  }
  let passed = 0;
  try {
    for (; passed < CHECKS.length; passed++) {
      const check = CHECKS[passed] as AdmissionCheck;
      if (standing && check.isStanding) continue;
      const done = check.run(deps, state);
      if (done) await done;
    }
  } catch (error) {
    exchange.check = passed + 1;
    const refusal = asDependencyFailure(error);
    if (error instanceof ServiceError && isCostlyRefusal(state, error)) countCostly(deps, state, error.code);
    if (state.prefetched) await readsEnded(state.prefetched);
    if (state.use) await commits.useNonce().finally(() => state.endTurn?.());
    state.endTurn?.();
    throw refusal;
  }
  const ait = requireSet(state.ait), { claims } = ait, { visit } = state;
  if (visit && profile.trust) {
    await deps.visitors.follow(claims.sub, exchange.request.headers.get(HEADERS.recipient) ?? "", visit);
  }
  // Where the registry answers each request, nothing can be held.
  const pair = deps.readsAccess && !standing && !state.visitor ? await state.prefetched?.message?.pair : undefined;
  if (pair?.value) deps.standings.add(exchange, { ait, pair, preconditions: state.preconditions }, now);
  return {
    identity: ait.identity,
    agentDid: claims.sub,
    ownerDid: claims.ownerDid,
    payer: requireSet(state.payer),
    visit: state.visit ?? null,
    aitJti: claims.jti,
    aitExpiresAt: claims.exp,
    signedAt: requireSet(state.timestamp),
    origin: requireSet(state.origin),
    admittedAt: state.now,
    prefetched: state.prefetched?.message ?? null,
    endTurn: () => state.endTurn?.(),
    admission: commits,
  };
}

/**
 * True for a refusal that costs a signature check, or after check 5 also the write of a nonce. No rate-limit window
 * counts such a request, so the bad-proof limiter does. A replay costs as much as a bad proof and needs no key, so
 * without its count one recorded request could keep the server verifying it on many connections.
 */
function isCostlyRefusal({ use, ait, payer }: AdmissionState, { code }: ServiceError): boolean {
  // A visiting agent that has no business here cost reads of the store, and perhaps a signature check.
  const isStranger = ait === undefined && payer !== undefined;
  return isStranger || code === "PROXY_AUTH_INVALID_PROOF" || code === "PROXY_AUTH_REPLAY" || use !== undefined;
}

/**
 * Counts a costly refusal in the bad-proof limiter, once for a request, because its commit may find the same replay
 * again.
 */
function countCostly({ guard }: AdmissionDeps, state: AdmissionState, code: ErrorCode): void {
  const ownerDid = requireSet(state.payer);
  // A replay was signed by the agent, but any program that saw the original may send it.
  const isProven = state.use !== undefined && code !== "PROXY_AUTH_REPLAY";
  if (!state.isCounted) guard.recordFailure(state.exchange, { ownerDid, isProven });
  state.isCounted = true;
}

/** What a request uses up, with what its route writes. */
class RequestCommits implements Admission {
  readonly #deps: AdmissionDeps;
  readonly #state: AdmissionState;
  #isCommitted = false;
  /** The error of a commit of the nonce, which may have taken effect. */
  #doubt: unknown;

  constructor(deps: AdmissionDeps, state: AdmissionState) {
    this.#deps = deps;
    this.#state = state;
  }

  commitAlone(): Promise<unknown> | void {
    if (!this.#isCommitted) return this.commitWith([]);
  }

  async commitWith<R>(updates: readonly Update<R>[], beginning: Beginning<R> | null = null): Promise<CommitResult<R>> {
    const state = this.#state, isFirst = !this.#isCommitted;
    const { profile, preconditions } = state;
    const held = profile.uncached
      ? preconditions.map((update) => ({ ...update, uncached: true as const }))
      : preconditions;
    const all = beginning ? [...held, beginning.check, ...updates] : [...held, ...updates];
    let refused: R | PreconditionFailed | typeof WINDOW_FULL | null | undefined;
    try {
      refused = await this.#claim<R | PreconditionFailed>(all, beginning, isFirst ? ALL : NOTHING_MORE);
    } finally {
      if (refused !== null) beginning?.cancel();
    }
    this.#isCommitted = true;
    if (refused === null) return COMMITTED;
    if (refused === WINDOW_FULL || refused instanceof PreconditionFailed) {
      if (isFirst) await this.useNonce();
      throw refused instanceof PreconditionFailed ? changedRecord(this.#deps, state, refused) : limitExceeded(state);
    }
    // A refused request is counted nevertheless.
    const isFull = isFirst && await this.#claim([], null, ALL) === WINDOW_FULL;
    if (isFull) throw limitExceeded(state);
    return { committed: false, refused };
  }

  /** Commits the nonce of a refused request. */
  async useNonce(): Promise<void> {
    await this.#claim([], null, ONLY_NONCE);
  }

  /**
   * Commits updates with nonce, count and beginning. Those refuse first; a replay is detected nevertheless, because the nonce of
   * a refused request is committed alone. Returns the refusal, or `null` after the commit.
   *
   * @throws {ServiceError} `PROXY_AUTH_REPLAY`; with the nonce also `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
   * @throws {StoreUnavailable} without the nonce
   */
  async #claim<R>(
    updates: readonly Update<R>[],
    beginning: Beginning<R> | null,
    { nonce, count }: Part,
  ): Promise<R | typeof WINDOW_FULL | null> {
    const state = this.#state, { commits, clock } = this.#deps, use = requireSet(state.use), { sender } = use;
    const window = count ? requireSet(state.prefetched).window : null;
    let refused: R | "replay" | typeof WINDOW_FULL | null;
    try {
      const all = window ? [...updates, ownWindow<R>(this.#deps, state, await window)] : updates;
      const live = nonce || beginning
        ? new SenderChange(
          sender,
          clock,
          nonce ? use : null,
          count && !window ? requireSet(state.rule) : null,
          beginning,
        )
        : undefined;
      const result = await commits.claim<R | "replay" | typeof WINDOW_FULL>(all, { live });
      if (live?.decision) recordDecision(state, live.decision);
      refused = result.taken ? null : result.refused;
    } catch (error) {
      if (!nonce) throw error;
      sender.release(use);
      throw this.#doubt = asDependencyFailure(error);
    }
    if (refused !== "replay") return refused;
    sender.release(use);
    // The nonce may be from this request's own commit.
    if (this.#doubt !== undefined) throw this.#doubt;
    state.exchange.check = 5;
    countCostly(this.#deps, state, "PROXY_AUTH_REPLAY");
    throw new ServiceError("PROXY_AUTH_REPLAY");
  }
}

const COMMITTED = { committed: true } as const;

/** Returns the refusal of check 7 or 8, whose record changed after the check. Every check of the next message is made. */
function changedRecord(
  { standings }: AdmissionDeps,
  { exchange, standing }: AdmissionState,
  { code }: PreconditionFailed,
): ServiceError {
  if (standing) standings.end(standing);
  exchange.check = code === "PROXY_AUTH_FORBIDDEN" ? 7 : 8;
  return new ServiceError(code);
}

/** Returns the refusal of check 9, for a window that filled after the check. */
function limitExceeded({ exchange }: AdmissionState): ServiceError {
  exchange.check = 9;
  return new ServiceError("PROXY_RATE_LIMIT_EXCEEDED");
}

/** Returns the update of the window of a route that has one of its own, beside the one in the sender's record. */
function ownWindow<R>(
  { clock }: AdmissionDeps,
  state: AdmissionState,
  window: KvEntryMaybe<WindowRecord>,
): Update<R | typeof WINDOW_FULL> {
  const { ait, profile } = state, rule = requireSet(state.rule);
  const seen = (decision: Decision) => recordDecision(state, decision);
  const key = KEYS.window(rule.name, requireSet(ait).claims.sub);
  const update = windowUpdate(key, rule, () => clock.now(), seen, REFUSE_FULL, window);
  return profile.uncached ? { ...update, uncached: true } : update;
}

/** Returns the error of a failed registry or store as `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`, and any other unchanged. */
export function asDependencyFailure(error: unknown): unknown {
  if (!(error instanceof StoreUnavailable || error instanceof RegistryUnavailable)) return error;
  const options = { ...busyText(error), headers: { "Retry-After": "1" }, cause: error };
  return new ServiceError("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", options);
}

/** The checks of each kind of route. */
export const PROFILES = {
  message: { trust: true, access: true, window: "agent", visits: true },
  receipt: { trust: false, access: true, window: "receipts" },
  connect: { trust: false, access: true, window: "connect", uncached: true },
  pairing: { trust: false, access: false, window: "agent", uncached: true },
  query: { trust: false, access: true, window: "receipts", visits: true },
  visit: { trust: false, access: false, window: "agent", uncached: true, visits: true },
} as const satisfies Record<string, AdmissionProfile>;

/** What follows the handler, on success and on error. */
const CONCLUSIONS: Partial<
  Record<keyof typeof PROFILES, Pick<Authenticator<AdmissionDeps, AdmittedAgent>, "conclude">>
> = {
  message: { conclude: (_deps, caller) => caller.admission.commitAlone() },
  connect: { conclude: (_deps, caller) => caller.endTurn() },
};

const ERRORS_OF_CHECKS: readonly ErrorCode[] = [...new Set(CHECKS.flatMap((check) => check.failsWith))];

/**
 * Returns the authenticator of a profile. A message commits with its delivery record, or after its handler. Every other
 * request commits before its handler.
 */
export function admission(profile: keyof typeof PROFILES): Authenticator<AdmissionDeps, AdmittedAgent> {
  return {
    stage: "after_body",
    credential: PROFILES[profile].access ? "agent_session" : "agent_proof",
    scheme: "Svc",
    errors: errorsOf(PROFILES[profile]),
    limit: limitText(PROFILES[profile].window),
    precheck: (deps, exchange) => deps.guard.rejectIfOver(exchange),
    async run(deps, exchange) {
      const admitted = await admit(deps, exchange, PROFILES[profile]);
      try {
        if (profile !== "message") await admitted.admission.commitAlone();
        return admitted;
      } catch (error) {
        admitted.endTurn();
        throw error;
      }
    },
    ...CONCLUSIONS[profile],
  };
}

/** Returns the default limit of a window as text for the API documents. */
function limitText(window: AdmissionProfile["window"]): string {
  const requests = LIMITS.agentRequests * (window === "receipts" ? LIMITS.receiptRequestsFactor : 1);
  const times = requests / LIMITS.agentRequests;
  return `${requests} in ${LIMITS.agentWindowMs / 1000} s per agent and ${
    LIMITS.ownerRequests * times
  } in a minute per owner ` +
    `by default (window "${window}")`;
}

function errorsOf(profile: AdmissionProfile): readonly ErrorCode[] {
  return ERRORS_OF_CHECKS.filter((code) =>
    (profile.trust || code !== "PROXY_AUTH_FORBIDDEN") &&
    (profile.access || profile.visits || !code.startsWith("PROXY_AGENT_ACCESS"))
  );
}
