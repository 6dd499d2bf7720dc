/**
 * Admission runs the checks of a request, and commits its nonce and its rate-limit count once. A message commits them
 * with its records, or after its handler, even on an error. Any other request commits them before its handler. This is
 * done here, because a route could otherwise forget it.
 */
import {
  type AdmissionCheck,
  type AdmissionProfile,
  type AdmissionState,
  type CheckDeps,
  CHECKS,
  factorOf,
  payersOf,
  readsEnded,
  requireSet,
  type WindowName,
} from "./checks.ts";
import type { AdmittedAgent } from "../caller.ts";
import { asDependencyFailure, countCostly, RequestCommits } from "./commits.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { BodyLease } from "../../shared/server/http/body_budget.ts";
import type { Authenticator, RequestContext } from "../../shared/server/http/route.ts";
import { setPeerProxy } from "../trust/store.ts";
import { signedHeaders } from "../../shared/server/http/signed_request.ts";

/**
 * Returns the agent of a request that passes the nine checks. A request that fails after check 5 uses up its nonce too.
 *
 * @throws {ServiceError} with a code of the first check that fails
 */
export async function admit(
  deps: CheckDeps,
  exchange: RequestContext,
  profile: AdmissionProfile,
): Promise<AdmittedAgent> {
  const now = deps.clock.now(), standing = profile.trust ? deps.standings.of(exchange, now) : null;
  const rule = deps.windows[profile.window], preconditions = standing?.preconditions ?? [];
  const state: AdmissionState = { exchange, profile, now, rule, standing, preconditions };
  const commits = new RequestCommits(deps, state);
  if (standing) {
    state.ait = standing.ait;
    state.payer = standing.ait.claims.ownerDid;
    state.pair = standing.pair;
    exchange.agentDid = standing.ait.claims.sub;
  }
  let passed = 0;
  try {
    for (; passed < CHECKS.length; passed++) {
      const check = CHECKS[passed] as AdmissionCheck;
      if (standing && check.isStanding) continue;
      const done = check.run(deps, state);
      // A standing covers the checks that ask the registry. The check of the nonce is waited for, because nothing would
      // end a reservation that is made after the refusal.
      if (done) await (exchange.isVisit && check.isStanding ? unlessCrowded(exchange.room, done) : done);
    }
    const { homeProxy, ait } = state;
    if (homeProxy !== undefined && ait && profile.trust) {
      await setPeerProxy(deps, signedHeaders(exchange).recipient, ait.claims.sub, homeProxy);
    }
  } catch (error) {
    if (passed < CHECKS.length) exchange.check = passed + 1;
    const refusal = asDependencyFailure(error);
    if (error instanceof ServiceError && isCostlyRefusal(state, error)) countCostly(deps, state, error.code);
    if (state.prefetched) await readsEnded(state.prefetched);
    if (state.use) await commits.useNonce(standing?.preconditions).finally(() => state.endTurn?.());
    state.endTurn?.();
    throw refusal;
  }
  const ait = requireSet(state.ait), { claims } = ait, { pair } = state;
  // A registry that is asked over HTTP gives no records that a commit could check, so then there is no standing.
  const mayStand = deps.readsAccess && !standing && !state.visitor;
  if (mayStand && pair) deps.standings.add(exchange, { ait, pair, preconditions: state.preconditions }, now);
  return {
    identity: ait.identity,
    agentDid: claims.sub,
    ownerDid: claims.ownerDid,
    payers: payersOf(state),
    holder: state.host ?? claims.ownerDid,
    homeProxy: state.homeProxy ?? null,
    aitExpiresAt: claims.exp,
    signedAt: requireSet(state.timestamp),
    origin: requireSet(state.origin),
    admittedAt: state.now,
    pair: pair?.value ?? null,
    presence: state.prefetched?.message?.presence,
    endTurn: () => state.endTurn?.(),
    admission: commits,
  };
}

/**
 * Waits for a check that asks the registry of a visitor, but no longer once other bodies need the room of its body,
 * because a registry that answers slowly could otherwise keep the large messages of all others waiting.
 *
 * @throws {ServiceError} `PROXY_AUTH_DEPENDENCY_UNAVAILABLE` when the wait ends early
 */
async function unlessCrowded(room: BodyLease | undefined, check: Promise<void>): Promise<void> {
  if (!room) return await check;
  const { promise: crowded, reject } = Promise.withResolvers<never>();
  const message = "The registry of the caller answers slowly, and others need the room of the request's body";
  const options = { message, headers: { "Retry-After": "1" } };
  room.abort = () => reject(new ServiceError("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", options));
  await Promise.race([check, crowded]).finally(() => room.abort = null);
}

/**
 * Returns true for a refusal that cost the check of a proof, or after check 5 the write of a nonce. The bad-proof
 * limiter counts such a request, because no rate-limit window does. A replay counts too, because it needs no key, and
 * one recorded request could otherwise keep the server verifying it on many connections.
 */
function isCostlyRefusal({ use, ait, payer }: AdmissionState, { code }: ServiceError): boolean {
  // A visiting agent that may not call here has cost reads of the store, and perhaps a signature check.
  const isStranger = ait === undefined && payer !== undefined;
  return isStranger || code === "PROXY_AUTH_INVALID_PROOF" || code === "PROXY_AUTH_REPLAY" || use !== undefined;
}

export const PROFILES = {
  message: { trust: true, access: true, window: "agent", visits: true },
  receipt: { trust: false, access: true, window: "receipts" },
  connect: { trust: false, access: true, window: "connect", uncached: true },
  pairing: { trust: false, access: false, window: "agent", uncached: true },
  query: { trust: false, access: true, window: "receipts", visits: true },
  visit: { trust: false, access: false, window: "agent", uncached: true, visits: true },
} as const satisfies Record<string, AdmissionProfile>;

const ERRORS_OF_CHECKS: readonly ErrorCode[] = [...new Set(CHECKS.flatMap((check) => check.failsWith))];

/**
 * Returns the authenticator of a profile. A message commits with its delivery record, or after its handler. Every other
 * request commits before its handler.
 */
export function admission(profile: keyof typeof PROFILES): Authenticator<CheckDeps, AdmittedAgent> {
  return {
    stage: "after_body",
    credential: PROFILES[profile].access ? "agent_session" : "agent_proof",
    errors: errorsOf(PROFILES[profile]),
    limit: limitText(PROFILES[profile].window),
    bucket: ({ payers }) => payers[0],
    precheck: (deps, exchange) => deps.guard.rejectIfOver(exchange),
    run: profile === "message"
      ? (deps, exchange) => admit(deps, exchange, PROFILES[profile])
      : async (deps, exchange) => {
        const admitted = await admit(deps, exchange, PROFILES[profile]);
        try {
          await admitted.admission.commitAlone();
          return admitted;
        } catch (error) {
          admitted.endTurn();
          throw error;
        }
      },
    // Runs after the handler, on success and on error.
    conclude: (_deps, { admission, endTurn }) => profile === "message" ? admission.commitAlone() : endTurn(),
  };
}

/** Returns the default limit of a window as text for the API documents. */
function limitText(window: WindowName): string {
  const factor = factorOf(window), { agentRequests, agentWindowMs, ownerRequests } = LIMITS;
  return `${agentRequests * factor} in ${agentWindowMs / 1000} s per agent, ${ownerRequests * factor} per owner ` +
    `by default (window "${window}")`;
}

function errorsOf(profile: AdmissionProfile): readonly ErrorCode[] {
  return ERRORS_OF_CHECKS.filter((code) =>
    (profile.trust || code !== "PROXY_AUTH_FORBIDDEN") &&
    (profile.access || profile.visits || !code.startsWith("PROXY_AGENT_ACCESS"))
  );
}
