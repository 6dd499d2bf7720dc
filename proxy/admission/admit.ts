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
import { type Count, LOOK_AGAIN, type Senders } from "./senders.ts";
import type { Admission, AdmittedAgent, Beginning } from "../caller.ts";
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
  senders: Senders;
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
    if (state.reservation) await commitRefused(deps, state);
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
    signedAt: requireSet(state.timestamp),
    admittedAt: state.now,
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
    async commitWith<R>(updates: readonly Update<R>[], beginning?: Beginning<R>) {
      const commit = state.isCommitted ? commitLater : commitFirst;
      let isCommitted = false;
      try {
        const result = await commit(deps, state, updates, beginning);
        isCommitted = result.committed;
        return result;
      } finally {
        if (!isCommitted) beginning?.cancel();
      }
    },
  };
}

/** Commits `updates` together with nonce and count. When `updates` refuse, it commits nonce and count without them. */
async function commitFirst<R>(
  deps: AdmissionDeps,
  state: AdmissionState,
  updates: readonly Update<R>[],
  beginning?: Beginning<R>,
): Promise<CommitResult<R>> {
  const count: Count<typeof LIMIT_EXCEEDED> = {
    rule: requireSet(state.rule),
    now: () => deps.clock.now(),
    seen: (decision) => recordDecision(state, decision),
    whenFull: { refuse: LIMIT_EXCEEDED },
  };
  const refused = await commitNonce<R | typeof LIMIT_EXCEEDED | PreconditionFailed>(deps, state, count, {
    before: preconditionsOf(state),
    beginning,
    after: updates,
  });
  state.isCommitted = true;
  if (refused === null) return { committed: true };
  if (refused === LIMIT_EXCEEDED || refused instanceof PreconditionFailed) {
    await commitRefused(deps, state);
    throw refused instanceof PreconditionFailed ? changedRecord(state, refused) : limitExceeded(state);
  }
  const again = await commitNonce<typeof LIMIT_EXCEEDED>(deps, state, count);
  if (again === LIMIT_EXCEEDED) throw limitExceeded(state);
  return { committed: false, refused };
}

/** Commits `updates` of a request whose nonce and count are durable. */
async function commitLater<R>(
  { commits, senders }: AdmissionDeps,
  state: AdmissionState,
  updates: readonly Update<R>[],
  beginning?: Beginning<R>,
): Promise<CommitResult<R>> {
  const begun = beginning ? [beginning.check, senders.begin(requireSet(state.ait).claims.sub, beginning)] : [];
  const result = await commits.claim<R | PreconditionFailed>([...preconditionsOf(state), ...begun, ...updates]);
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
 * Commits the nonce of a refused request. Its window is written only when it has future times because the clock stepped
 * back.
 */
async function commitRefused(deps: AdmissionDeps, state: AdmissionState): Promise<void> {
  const mend: Count<never> | undefined = state.decision?.mended
    ? { rule: requireSet(state.rule), now: () => deps.clock.now(), seen: () => {}, whenFull: "keep" }
    : undefined;
  await commitNonce(deps, state, mend);
}

/** What is committed with the nonce of a request. */
interface Others<R> {
  before?: readonly Update<R>[];
  beginning?: Beginning<R> | undefined;
  after?: readonly Update<R>[];
}

/**
 * Commits the nonce and the count, if any, with other updates. Those in `before` refuse first; a replay is detected
 * nevertheless, because the nonce of a refused request is committed alone. Returns the refusal of an update other than that
 * of the nonce, or `null` after the commit.
 *
 * @throws {ServiceError} `PROXY_AUTH_REPLAY` or `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
 */
async function commitNonce<R>(
  deps: AdmissionDeps,
  state: AdmissionState,
  count?: Count<R>,
  { before = [], beginning, after = [] }: Others<R> = {},
): Promise<R | null> {
  const reservation = requireSet(state.reservation);
  let outcome: "used" | "replayed" | "unused" = "unused";
  try {
    for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
      const checked = beginning ? [beginning.check] : [];
      const used = await usedUp(deps, state, { count, beginning }, tries > 1);
      const updates = [...before, ...checked, ...used, ...after];
      const refused = await claim<R | "replay" | typeof LOOK_AGAIN>(deps.commits, updates).catch((error) => {
        throw state.doubt = error;
      });
      if (refused === LOOK_AGAIN) continue;
      if (refused === null) outcome = "used";
      if (refused !== "replay") return refused;
      outcome = "replayed";
      // The nonce may be from this request's own commit.
      if (state.doubt !== undefined) throw state.doubt;
      state.exchange.check = 5;
      throw new ServiceError("PROXY_AUTH_REPLAY");
    }
    throw asDependencyFailure(new StoreUnavailable(new Error("The record of the sender did not come to rest")));
  } finally {
    reservation.release(outcome);
  }
}

/** Returns the updates of what a request uses up: its nonce and its place in a window. */
async function usedUp<R>(
  { senders, reads }: AdmissionDeps,
  state: AdmissionState,
  { count, beginning }: { count: Count<R> | undefined; beginning: Beginning<R> | undefined },
  isAgain: boolean,
): Promise<Update<R | "replay" | typeof LOOK_AGAIN>[]> {
  const did = requireSet(state.ait).claims.sub;
  const { sender, window } = requireSet(state.prefetched);
  try {
    const seen = await (isAgain ? reads.get(KEYS.sender(did)) : sender);
    await senders.look(did, seen);
    const inRecord = { count: window ? undefined : count, beginning };
    const updates = [senders.update(did, seen, requireSet(state.reservation), inRecord)];
    if (window && count) {
      const key = KEYS.window(count.rule.name, did);
      updates.push(windowUpdate(key, count.rule, count.now, count.seen, count.whenFull, await window));
    }
    return state.profile.uncached ? updates.map((update) => ({ ...update, uncached: true })) : updates;
  } catch (error) {
    throw asDependencyFailure(error);
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
