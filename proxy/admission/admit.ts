/**
 * Admission (D-198). Runs the checks and commits the nonce and the rate-limit count, together with the route's own records.
 */
import {
  type AdmissionProfile,
  type AdmissionState,
  type CheckDeps,
  CHECKS,
  PreconditionFailed,
  recordDecision,
  requireSet,
} from "./checks.ts";
import type { BadProofLimiter } from "./bad_proof_limiter.ts";
import type { Admission, AdmittedAgent } from "../caller.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { Clock } from "../../shared/clock.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Authenticator, RequestContext } from "../../shared/server/http/route.ts";
import { windowUpdate } from "../../shared/server/rate_limit.ts";
import type { GroupCommit, Update } from "../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";

/** What admission uses. */
export interface AdmissionDeps extends CheckDeps {
  clock: Clock;
  guard: BadProofLimiter;
}

type CommitResult<R> = { committed: true } | { committed: false; refused: R };

/** The refusal of the rate-limit window. It is distinct from every refusal of a route's own updates. */
const LIMIT_EXCEEDED = Symbol("full");

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
  const state: AdmissionState = { exchange, profile, now: deps.clock.now(), preconditions: [] };
  let number = 0;
  try {
    for (const check of CHECKS) {
      number++;
      await check.run(deps, state);
    }
  } catch (error) {
    exchange.check = number;
    const refusal = asDependencyFailure(error);
    if (error instanceof ServiceError && isCostlyRefusal(state, error)) deps.guard.recordFailure(exchange);
    if (state.reservation) await commitNonce(deps.commits, state, mendedWindow(deps, state));
    throw refusal;
  }
  const { claims } = requireSet(state.ait);
  return {
    agentDid: claims.sub,
    ownerDid: claims.ownerDid,
    issuer: claims.iss,
    aitJti: claims.jti,
    name: claims.name,
    aitExpiresAt: claims.exp,
    prefetched: state.prefetched?.message ?? null,
    admission: admissionOf(deps, state),
  };
}

/**
 * True for a refusal that costs a signature check, or after check 5 also the write of a nonce. No rate-limit window counts
 * such a request, so the bad-proof limiter does (D-94).
 */
function isCostlyRefusal({ reservation }: AdmissionState, { code }: ServiceError): boolean {
  return code === "PROXY_AUTH_INVALID_PROOF" || (reservation !== undefined && code !== "PROXY_AUTH_REPLAY");
}

function admissionOf(deps: AdmissionDeps, state: AdmissionState): Admission {
  return {
    async commitAlone() {
      if (!state.isCommitted) await commitFirst(deps, state, []);
    },
    commitWith: (updates) => state.isCommitted ? commitLater(deps, state, updates) : commitFirst(deps, state, updates),
  };
}

/** Commits `updates` together with nonce and count. When `updates` refuse, it commits nonce and count without them. */
async function commitFirst<R>(
  deps: AdmissionDeps,
  state: AdmissionState,
  updates: readonly Update<R>[],
): Promise<CommitResult<R>> {
  const { commits, clock } = deps;
  const counted = windowUpdate<typeof LIMIT_EXCEEDED>(
    windowKey(state),
    requireSet(state.rule),
    () => clock.now(),
    (decision) => recordDecision(state, decision),
    { refuse: LIMIT_EXCEEDED },
    await state.prefetched?.window,
  );
  if (state.profile.uncached) counted.uncached = true;
  const refused = await commitNonce<R | typeof LIMIT_EXCEEDED | PreconditionFailed>(commits, state, [
    ...preconditionsOf(state),
    counted,
    ...updates,
  ]);
  state.isCommitted = true;
  if (refused === null) return { committed: true };
  if (refused === LIMIT_EXCEEDED || refused instanceof PreconditionFailed) {
    await commitNonce(commits, state, mendedWindow(deps, state));
    throw refused instanceof PreconditionFailed ? changedRecord(state, refused) : limitExceeded(state);
  }
  const again = await commitNonce<typeof LIMIT_EXCEEDED>(commits, state, [counted]);
  if (again === LIMIT_EXCEEDED) throw limitExceeded(state);
  return { committed: false, refused };
}

/** Commits `updates` of a request whose nonce and count are durable. */
async function commitLater<R>(
  { commits }: AdmissionDeps,
  state: AdmissionState,
  updates: readonly Update<R>[],
): Promise<CommitResult<R>> {
  const result = await commits.claim<R | PreconditionFailed>([...preconditionsOf(state), ...updates]);
  if (result.taken) return { committed: true };
  if (result.refused instanceof PreconditionFailed) throw changedRecord(state, result.refused);
  return { committed: false, refused: result.refused };
}

/** Returns the refusal of check 7 or 8, whose record changed after the check. */
function changedRecord({ exchange }: AdmissionState, { code }: PreconditionFailed): ServiceError {
  exchange.check = code === "PROXY_AUTH_FORBIDDEN" ? 7 : 8;
  return new ServiceError(code);
}

/** Returns the refusal of check 9, for a window that filled after the check. */
function limitExceeded({ exchange }: AdmissionState): ServiceError {
  exchange.check = 9;
  return new ServiceError("PROXY_RATE_LIMIT_EXCEEDED");
}

function preconditionsOf({ profile, preconditions }: AdmissionState): readonly Update<PreconditionFailed>[] {
  return profile.uncached ? preconditions.map((update) => ({ ...update, uncached: true })) : preconditions;
}

/**
 * Commits the nonce together with `more`. Returns the refusal of an update in `more`, or `null` after the commit.
 *
 * @throws {ServiceError} `PROXY_AUTH_REPLAY` or `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
 */
async function commitNonce<R>(
  commits: GroupCommit,
  state: AdmissionState,
  more: readonly Update<R>[],
): Promise<R | null> {
  const reservation = requireSet(state.reservation);
  let outcome: "used" | "replayed" | "unused" = "unused";
  try {
    const refused = await claim<R | "replay">(commits, [reservation.update, ...more]).catch((error) => {
      throw state.doubt = error;
    });
    if (refused === null) outcome = "used";
    if (refused !== "replay") return refused;
    outcome = "replayed";
    // The nonce may be from this request's own commit.
    if (state.doubt !== undefined) throw state.doubt;
    state.exchange.check = 5;
    throw new ServiceError("PROXY_AUTH_REPLAY");
  } finally {
    reservation.release(outcome);
  }
}

async function claim<R>(commits: GroupCommit, updates: readonly Update<R>[]): Promise<R | null> {
  try {
    const result = await commits.claim(updates);
    return result.taken ? null : result.refused;
  } catch (error) {
    throw asDependencyFailure(error);
  }
}

/**
 * Returns the window update of a refused request. It is empty unless the record has future times because the clock stepped
 * back.
 */
function mendedWindow({ clock }: AdmissionDeps, state: AdmissionState): Update<never>[] {
  if (!state.decision?.mended) return [];
  return [windowUpdate(windowKey(state), requireSet(state.rule), () => clock.now(), () => {})];
}

function windowKey(state: AdmissionState): Deno.KvKey {
  return KEYS.window(requireSet(state.rule).name, requireSet(state.ait).claims.sub);
}

/** Returns the error of a failed registry or store as `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`, and any other unchanged. */
export function asDependencyFailure(error: unknown): unknown {
  if (!(error instanceof StoreUnavailable || error instanceof RegistryUnavailable)) return error;
  return new ServiceError("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", { headers: { "Retry-After": "1" }, cause: error });
}

/** The checks of each kind of route (D-60). */
export const PROFILES = {
  message: { trust: true, access: true, window: "agent" },
  receipt: { trust: false, access: true, window: "receipts" },
  connect: { trust: false, access: true, window: "connect", uncached: true },
  pairing: { trust: false, access: false, window: "agent", uncached: true },
} as const satisfies Record<string, AdmissionProfile>;

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
      if (profile !== "message") await admitted.admission.commitAlone();
      return admitted;
    },
    ...(profile === "message" ? { conclude: (_deps, caller) => caller.admission.commitAlone() } : {}),
  };
}

/** Returns the default limit of a window as text for the API documents. */
function limitText(window: AdmissionProfile["window"]): string {
  const requests = LIMITS.agentRequests * (window === "receipts" ? LIMITS.receiptRequestsFactor : 1);
  return `${requests} in ${LIMITS.agentWindowMs / 1000} s per agent by default (window "${window}")`;
}

function errorsOf(profile: AdmissionProfile): readonly ErrorCode[] {
  return ERRORS_OF_CHECKS.filter((code) =>
    (profile.trust || code !== "PROXY_AUTH_FORBIDDEN") && (profile.access || !code.startsWith("PROXY_AGENT_ACCESS"))
  );
}
