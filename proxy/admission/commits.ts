/**
 * The commit of a request: nonce, count, and what its route writes, on condition that nothing has changed that a check
 * relied on. All of them are one commit, because a crash between two would let a replay through, or lose a message that
 * was counted.
 */
import type { Admission } from "../caller.ts";
import { type AdmissionState, type CheckDeps, payersOf, requireSet, showDecision, windowFull } from "./checks.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { BeginningOfDelivery, DuplicateResult } from "../message/delivery.ts";
import { REFUSE_FULL, SenderChange, type SenderRefusal, WINDOW_FULL } from "../message/sender.ts";
import { PreconditionFailed, type Standing } from "./standing.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import type { KvEntryMaybe } from "../../shared/server/kv.ts";
import { type Decision, type WindowRecord, windowUpdate } from "../../shared/server/rate_limit.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import { reasonText, StoreLate, StoreUnavailable } from "../../shared/server/store/store_errors.ts";

/** What a claim commits beside the updates of its route. */
type Part = "nonce and count" | "nonce" | "nothing more";

/** Commits what a request uses up, together with what its route writes. */
export class RequestCommits implements Admission {
  #isCommitted = false;
  /** The error of a commit that may have stored the nonce. */
  #doubt: unknown;

  constructor(private readonly deps: CheckDeps, private readonly state: AdmissionState) {}

  get #isLate(): boolean {
    return this.#doubt instanceof ServiceError && this.#doubt.cause instanceof StoreLate;
  }

  commitAlone(): Promise<unknown> | void {
    if (this.#isCommitted) return;
    // A late commit may still take effect. Another one would be as late, so the client would give up before its answer.
    return this.#isLate ? Promise.reject(this.#doubt) : this.commitWith([]);
  }

  commitWith<R>(
    updates: readonly Update<R>[],
    beginning: BeginningOfDelivery | null = null,
  ): Promise<R | DuplicateResult | null> {
    const isFirst = !this.#isCommitted, { profile, preconditions } = this.state;
    const all: Update<R | DuplicateResult | PreconditionFailed>[] = profile.uncached
      ? preconditions.map(uncached)
      : preconditions.slice();
    if (beginning) all.push(beginning);
    for (const update of updates) all.push(update);
    return this.#claim(all, beginning, isFirst ? "nonce and count" : "nothing more").then((refused) => {
      this.#isCommitted = true;
      return refused === null ? null : this.#refused(refused, isFirst);
    });
  }

  /** Commits the nonce of a refused request, and its count unless a check refused. @throws {ServiceError} of a check */
  async #refused<R>(refused: R | PreconditionFailed | typeof WINDOW_FULL, isFirst: boolean): Promise<R> {
    const { state } = this;
    if (refused === WINDOW_FULL || refused instanceof PreconditionFailed) {
      if (isFirst) await this.useNonce();
      throw refused instanceof PreconditionFailed ? changedRecord(this.deps, state, refused) : windowFull(state);
    }
    // Counted too, because requests whose own updates are refused would otherwise pass the rate limit without an end.
    const isFull = isFirst && await this.#claim([], null, "nonce and count") === WINDOW_FULL;
    if (isFull) throw windowFull(state);
    return refused;
  }

  /**
   * Commits the nonce of a refused request, without its count. With a standing, a request that check 9 refuses has
   * skipped checks 7 and 8, so it is refused with their code if their records have changed.
   *
   * @throws {ServiceError} of check 7 or 8
   */
  async useNonce(unchanged: Standing["preconditions"] = []): Promise<void> {
    const refused = await this.#claim(unchanged, null, "nonce");
    if (!(refused instanceof PreconditionFailed)) return;
    await this.#claim([], null, "nonce");
    throw changedRecord(this.deps, this.state, refused);
  }

  /**
   * Commits updates with nonce, count and beginning. Returns the refusal, or `null` after the commit. If updates and
   * nonce both refuse, it returns the refusal of the updates. The replay is still detected, because the nonce of a
   * refused request is committed alone.
   *
   * @throws {ServiceError} `PROXY_AUTH_REPLAY`; with the nonce also `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`
   * @throws {StoreUnavailable} without the nonce
   */
  async #claim<R>(
    updates: readonly Update<R | typeof WINDOW_FULL>[],
    beginning: BeginningOfDelivery | null,
    part: Part,
  ): Promise<R | DuplicateResult | typeof WINDOW_FULL | null> {
    const nonce = part !== "nothing more", count = part === "nonce and count";
    const state = this.state, { commits, clock } = this.deps, use = requireSet(state.use), { sender } = use;
    const window = count ? requireSet(state.prefetched).window : null;
    let refused: R | SenderRefusal | null | undefined;
    try {
      const all = window ? updates.concat(ownWindow<R>(this.deps, state, await window)) : updates;
      const live = nonce || beginning
        ? new SenderChange(
          sender,
          clock,
          nonce ? use : null,
          count && !window ? state.rule : null,
          beginning,
        )
        : undefined;
      const result = await commits.claim<R | SenderRefusal>(all, { live });
      if (live?.decision) showDecision(state, live.decision);
      refused = result.taken ? null : result.refused;
    } catch (error) {
      if (!nonce) throw error;
      sender.release(use);
      throw this.#doubt = asDependencyFailure(error);
    } finally {
      if (refused !== null) beginning?.cancel();
    }
    if (refused !== "replay") return refused;
    sender.release(use);
    // The nonce may be from this request's own earlier commit, whose result was not known.
    if (this.#doubt !== undefined) throw this.#doubt;
    state.exchange.check = 5;
    countCostly(this.deps, state, "PROXY_AUTH_REPLAY");
    throw new ServiceError("PROXY_AUTH_REPLAY");
  }
}

/**
 * Returns the refusal of check 7 or 8, whose record has changed since. Ends the standing, so that the next message is
 * checked completely.
 */
function changedRecord(
  { standings }: CheckDeps,
  { exchange, standing }: AdmissionState,
  { code }: PreconditionFailed,
): ServiceError {
  if (standing) standings.end(standing);
  exchange.check = code === "PROXY_AUTH_FORBIDDEN" ? 7 : 8;
  return new ServiceError(code);
}

/** Returns the update of a rate-limit window that is not in the sender's record. */
function ownWindow<R>(
  { clock }: CheckDeps,
  state: AdmissionState,
  window: KvEntryMaybe<WindowRecord>,
): Update<R | typeof WINDOW_FULL> {
  const { ait, profile, rule } = state;
  const seen = (decision: Decision) => showDecision(state, decision);
  const key = KEYS.window(rule.name, requireSet(ait).claims.sub);
  const update = windowUpdate(key, rule, () => clock.now(), seen, REFUSE_FULL, window);
  return profile.uncached ? uncached(update) : update;
}

/** Returns an update whose record the next claim reads again. */
function uncached<R>(update: Update<R>): Update<R> {
  return Object.assign({}, update, { uncached: true as const });
}

/**
 * Counts a costly refusal in the bad-proof limiter, at most once for a request, because the commit of its nonce may
 * find a replay after a check has already refused it.
 */
export function countCostly({ guard }: CheckDeps, state: AdmissionState, code: ErrorCode): void {
  const [ownerDid] = payersOf(state);
  // A replay does not prove that the agent sent it, because any program that saw the original can send it again.
  const isProven = state.use !== undefined && code !== "PROXY_AUTH_REPLAY";
  if (!state.isCounted) guard.recordFailure(state.exchange, { ownerDid, isProven });
  state.isCounted = true;
}

/** Returns the error of a failed registry or store as `PROXY_AUTH_DEPENDENCY_UNAVAILABLE`, and any other unchanged. */
export function asDependencyFailure(error: unknown): unknown {
  if (!(error instanceof StoreUnavailable || error instanceof RegistryUnavailable)) return error;
  const options = Object.assign(reasonText(error), { headers: { "Retry-After": "1" }, cause: error });
  return new ServiceError("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", options);
}
