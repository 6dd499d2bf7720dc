/**
 * Admission: runs the checks and makes what they used up durable. Whoever is admitted still has to `settle`: nonce and
 * window go into one commit with what the route itself must record.
 */
import {
  type AdmissionProfile,
  type AdmissionState,
  CHECKS,
  PreconditionFailed,
  recordDecision,
  requireSet,
} from "./checks.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { ProxyDeps } from "../deps.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Authenticator, RequestContext } from "../../shared/server/http/route.ts";
import { windowUpdate } from "../../shared/server/rate_limit.ts";
import type { GroupCommit, Update } from "../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";

/** Marks a window's refusal apart from those of the route's own records. */
const LIMIT_EXCEEDED = Symbol("full");

/** Runs the nine checks. A nonce whose request fails after check 5 is used up. */
export async function admit(
  deps: ProxyDeps,
  exchange: RequestContext,
  profile: AdmissionProfile,
): Promise<AdmittedAgent> {
  const candidate: AdmissionState = { exchange, profile, now: deps.clock.now(), preconditions: [] };
  try {
    for (const check of CHECKS) await check.run(deps, candidate);
  } catch (error) {
    const refusal = asDependencyFailure(error);
    if (error instanceof ServiceError && isCostlyRefusal(candidate, error)) deps.guard.recordFailure(exchange);
    if (candidate.reservation) await commitNonce(deps.commits, candidate, mendedWindow(deps, candidate));
    throw refusal;
  }
  const { claims } = requireSet(candidate.ait);
  return {
    agentDid: claims.sub,
    ownerDid: claims.ownerDid,
    issuer: claims.iss,
    aitJti: claims.jti,
    name: claims.name,
    aitExpiresAt: claims.exp,
    ahead: candidate.prefetched?.message ?? null,
    settle: (more = []) => settleClaim(deps, candidate, more),
  };
}

/** A signature was checked, and after check 5 a nonce is written too, but the request counts in no window (D-94). */
function isCostlyRefusal({ reservation }: AdmissionState, { code }: ServiceError): boolean {
  return code === "PROXY_AUTH_INVALID_PROOF" || (reservation !== undefined && code !== "PROXY_AUTH_REPLAY");
}

async function settleClaim<R>(
  deps: ProxyDeps,
  candidate: AdmissionState,
  more: readonly Update<R>[],
): Promise<R | null> {
  const { commits, clock } = deps;
  const { once } = candidate.profile;
  const grounds = once ? candidate.preconditions.map((ground) => ({ ...ground, once })) : candidate.preconditions;
  if (candidate.settled) {
    if (more.length === 0) return null;
    const fate = await commits.claim<R | PreconditionFailed>([...grounds, ...more]);
    if (fate.taken) return null;
    if (fate.refused instanceof PreconditionFailed) throw new ServiceError(fate.refused.code);
    return fate.refused;
  }
  const counted = windowUpdate<typeof LIMIT_EXCEEDED>(
    windowKey(candidate),
    requireSet(candidate.rule),
    () => clock.now(),
    (decision) => recordDecision(candidate, decision),
    { refuse: LIMIT_EXCEEDED },
    await candidate.prefetched?.window,
  );
  if (once) counted.uncached = once;
  const refused = await commitNonce<R | typeof LIMIT_EXCEEDED | PreconditionFailed>(commits, candidate, [
    ...grounds,
    counted,
    ...more,
  ]);
  candidate.settled = true;
  if (refused === null) return null;
  if (refused === LIMIT_EXCEEDED || refused instanceof PreconditionFailed) {
    await commitNonce(commits, candidate, mendedWindow(deps, candidate));
    throw new ServiceError(refused instanceof PreconditionFailed ? refused.code : "PROXY_RATE_LIMIT_EXCEEDED");
  }
  const again = await commitNonce<typeof LIMIT_EXCEEDED>(commits, candidate, [counted]);
  if (again === LIMIT_EXCEEDED) throw new ServiceError("PROXY_RATE_LIMIT_EXCEEDED");
  return refused;
}

/** Claims the nonce with other updates; `null` when all took effect. */
async function commitNonce<R>(
  commits: GroupCommit,
  candidate: AdmissionState,
  more: readonly Update<R>[],
): Promise<R | null> {
  const reservation = requireSet(candidate.reservation);
  let fate: "used" | "replayed" | "unused" = "unused";
  try {
    const refused = await claim<R | "replay">(commits, [reservation.update, ...more]);
    if (refused === null) fate = "used";
    if (refused !== "replay") return refused;
    fate = "replayed";
    throw new ServiceError("PROXY_AUTH_REPLAY");
  } finally {
    reservation.release(fate);
  }
}

async function claim<R>(commits: GroupCommit, updates: readonly Update<R>[]): Promise<R | null> {
  try {
    const fate = await commits.claim(updates);
    return fate.taken ? null : fate.refused;
  } catch (error) {
    throw asDependencyFailure(error);
  }
}

/** The window of a refused request, which is written only to mend it after the clock stepped back. */
function mendedWindow({ clock }: ProxyDeps, candidate: AdmissionState): Update<never>[] {
  if (!candidate.decision?.mended) return [];
  return [windowUpdate(windowKey(candidate), requireSet(candidate.rule), () => clock.now(), () => {})];
}

function windowKey(candidate: AdmissionState): Deno.KvKey {
  return KEYS.window(requireSet(candidate.rule).name, requireSet(candidate.ait).claims.sub);
}

function asDependencyFailure(error: unknown): unknown {
  if (!(error instanceof StoreUnavailable || error instanceof RegistryUnavailable)) return error;
  return new ServiceError("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", { headers: { "Retry-After": "1" }, cause: error });
}

/** Which checks each kind of route asks for (D-60). */
export const PROFILES = {
  message: { trust: true, access: true, window: "agent" },
  receipt: { trust: false, access: true, window: "receipts" },
  connect: { trust: false, access: true, window: "connect", once: true },
  pairing: { trust: false, access: false, window: "agent", once: true },
} as const satisfies Record<string, AdmissionProfile>;

const ERRORS_OF_CHECKS: readonly ErrorCode[] = [...new Set(CHECKS.flatMap((check) => check.failsWith))];

/** The authenticator of a profile. Only a message settles later, with its delivery. */
export function admission(profile: keyof typeof PROFILES): Authenticator<ProxyDeps, AdmittedAgent> {
  return {
    stage: "after_body",
    credential: PROFILES[profile].access ? "agent_session" : "agent_proof",
    scheme: "Svc",
    errors: errorsOf(PROFILES[profile]),
    limit: limitText(PROFILES[profile].window),
    precheck: (deps, exchange) => deps.guard.rejectIfOver(exchange),
    async run(deps, exchange) {
      const admitted = await admit(deps, exchange, PROFILES[profile]);
      if (profile !== "message") await admitted.settle();
      return admitted;
    },
  };
}

/** The limit of a window unless it is configured otherwise, for the documents. */
function limitText(window: AdmissionProfile["window"]): string {
  const requests = LIMITS.agentRequests * (window === "receipts" ? LIMITS.receiptRequestsFactor : 1);
  return `${requests} in ${LIMITS.agentWindowMs / 1000} s per agent by default (window "${window}")`;
}

function errorsOf(profile: AdmissionProfile): readonly ErrorCode[] {
  return ERRORS_OF_CHECKS.filter((code) =>
    (profile.trust || code !== "PROXY_AUTH_FORBIDDEN") && (profile.access || !code.startsWith("PROXY_AGENT_ACCESS"))
  );
}
