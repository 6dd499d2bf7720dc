/**
 * Keeps the credentials that the link and the calls to the proxy use. They are refreshed before they expire, one
 * refresh at a time, and read again when another process has changed them. The caller decides where they are stored.
 */
import type { Cancel } from "../../shared/clock.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { UnreachableError } from "../../shared/client/errors.ts";
import type { AgentAuth, VisitAnswer } from "../../shared/protocol/api/sessions.ts";
import { retryWait } from "../../shared/client/backoff.ts";
import { MinuteCounts } from "./minute_counts.ts";
import type { EmitLinkEvent } from "./link_events.ts";
import {
  describeError,
  isPermanent,
  needsOperator,
  OPERATOR_RETRY_MS,
  remedyOf,
} from "../../shared/client/refusals.ts";
import type { ServiceClock } from "./service_clock.ts";
import type { AgentIdentity } from "./signed_headers.ts";

export type AgentCredentials = Pick<
  StoredCredentials,
  "current" | "renew" | "accessExpiresAt" | "identityExpiresAt" | "stop"
>;

/** First words of why no visit token came, by which a list tells that the agent's own server is the one that is away. */
export const NO_VISIT = "Your server gives no token";

/** Credentials that also reach the servers of peers elsewhere. */
export type VisitCredentials = AgentCredentials & Pick<StoredCredentials, "visit" | "endVisit">;

/** Credentials that also tell why they may soon be over. */
export type WatchedCredentials = VisitCredentials & Pick<StoredCredentials, "problem">;

/** Time left at which a token is refreshed. With less, it could expire while a failed refresh is repeated. */
const AHEAD_MS = 70_000;
/**
 * Shortest wait before the next refresh, because tokens that live for less than `AHEAD_MS` would otherwise be refreshed
 * without a pause. A token with less time left is refreshed before it is used.
 */
const LEAST_MS = 5_000;

/** How long a kept visit token must still be valid. With less, it could expire before the request arrives. */
const VISIT_AHEAD_MS = 60_000;
/** How many visit tokens are kept. With more, those for servers that the agent no longer calls would take memory. */
const VISITS_KEPT = 1_000;

export interface StoredSession {
  identity: AgentIdentity;
  auth: AgentAuth;
  /** Milliseconds since the Unix epoch. */
  aitExpiresAt: number;
}

export interface SessionStore {
  /** @param isSettled waits for a process that is changing what is stored, such as a reissue */
  read(isSettled?: boolean): Promise<StoredSession>;
  refresh(): Promise<AgentAuth>;
  visit(agent: AgentIdentity, audience: string): Promise<VisitAnswer>;
}

interface CredentialsDeps {
  clock: ServiceClock;
  store: SessionStore;
  emit: EmitLinkEvent;
  /** Returns true when an error of `read` says that the agent is no longer stored there. */
  isGone?: (error: unknown) => boolean;
}

/**
 * Repairs the cause of a refusal if it can: by other credentials, or by the service's time. Returns true when the
 * caller may try again at once.
 */
export async function repair(
  error: unknown,
  { clock, session, emit }: { clock: ServiceClock; session: Pick<AgentCredentials, "renew">; emit: EmitLinkEvent },
  refused: AgentIdentity,
  renewAccess: () => Promise<boolean> = () => session.renew("access", refused),
): Promise<boolean> {
  switch (remedyOf(error)) {
    case "renew_access":
      return await renewAccess();
    case "renew_identity":
      return await session.renew("identity", refused);
    case "adjust_clock":
      if (!clock.adopt()) return false;
      emit("clock_offset", { offsetMs: clock.offsetMs });
      return true;
    default:
      return false;
  }
}

export class StoredCredentials {
  #refreshing: Promise<void> | null = null;
  readonly #visits = new BoundedMap<string, Promise<VisitAnswer>>(VISITS_KEPT);
  /** Refused visit tokens by server. */
  readonly #refusedVisits = new MinuteCounts();
  #failures = 0;
  /** Why the last refresh failed; `null` after one that succeeded. */
  problem: string | null = null;
  /** Whether the last refresh was refused for a reason that only the operator of the server can change. */
  #needsOperator = false;
  #cancel: Cancel = () => {};
  #stopped = false;
  onEnd: (error: unknown) => void = () => {};

  /** @param session as the store has it now */
  constructor(private readonly deps: CredentialsDeps, private session: StoredSession) {}

  /** Milliseconds since the Unix epoch. */
  get accessExpiresAt(): number {
    return Date.parse(this.session.auth.accessExpiresAt);
  }

  get identityExpiresAt(): number {
    return this.session.aitExpiresAt;
  }

  /** The identity to sign with. Refreshes it first when its access token is about to expire. */
  async current(): Promise<AgentIdentity> {
    const { clock } = this.deps;
    if (this.accessExpiresAt - clock.now() <= LEAST_MS) {
      // Other failures are ignored, because the token may still be valid, and the service decides that.
      await this.#refresh().catch((error) => {
        if (isPermanent(error)) throw error;
      });
    }
    return this.session.identity;
  }

  /**
   * Called after a refusal: reads the credentials again, and for `access` refreshes them if they are the refused ones
   * still. Returns true when there are others now.
   */
  async renew(what: "access" | "identity", refused: Pick<AgentIdentity, "ait" | "accessToken">): Promise<boolean> {
    const isOther = () => {
      const { ait, accessToken } = this.session.identity;
      return ait !== refused.ait || what === "access" && accessToken !== refused.accessToken;
    };
    // Another call may have renewed them already. Another refresh would end the token that its repetition carries, and
    // a link that was refused with the old identity would end permanently.
    if (isOther()) return true;
    // A reissue ends the old identity before it has stored the new one.
    await this.#reload(what === "identity");
    if (isOther()) {
      this.deps.emit("reloaded");
      return true;
    }
    if (what === "identity") return false;
    await this.#refresh();
    return isOther();
  }

  /**
   * Returns a token for the proxy of another server, kept in memory until shortly before it ends.
   *
   * @throws {ApiError} when a retry cannot help; {UnreachableError} for any other failure
   */
  async visit(audience: string): Promise<string> {
    let visit = this.#visits.get(audience);
    try {
      const kept = await visit, newest = this.#visits.get(audience);
      if (kept && Date.parse(kept.expiresAt) - this.deps.clock.now() > VISIT_AHEAD_MS) return kept.token;
      // Calls at the same time share one, because messages to a few servers would otherwise use up the tokens.
      if (newest !== undefined && newest !== visit) return (await newest).token;
      visit = this.current().then((agent) => this.#inTime(() => this.deps.store.visit(agent, audience)));
      this.#visits.set(audience, visit);
      return (await visit).token;
    } catch (cause) {
      if (this.#visits.get(audience) === visit) this.#visits.delete(audience);
      if (isPermanent(cause)) throw cause;
      // The cause `connection refused` tells the caller that the message was not sent.
      const why = `${NO_VISIT} for ${new URL(audience).host}: ${describeError(cause)}`;
      throw new UnreachableError(why, { cause: new Error("connection refused", { cause }) });
    }
  }

  /** Forgets a token that was refused, so that `visit` gets another. Returns false when another would not help. */
  endVisit(audience: string): boolean {
    // One a minute is replaced, because a server that refuses each one would use up the tokens of this agent for all
    // servers.
    const isFirst = this.#refusedVisits.add(audience, this.deps.clock.now()).count === 1;
    return isFirst && this.#visits.delete(audience);
  }

  /** Refreshes the access token before it expires, from now on. */
  watch(): void {
    this.#cancel();
    if (this.#stopped) return;
    const { clock } = this.deps;
    const left = this.accessExpiresAt - clock.now() - AHEAD_MS;
    const wait = this.#needsOperator
      ? OPERATOR_RETRY_MS
      : this.#failures > 0
      ? retryWait(this.#failures)
      : Math.max(left, LEAST_MS);
    this.#cancel = clock.after(wait, () => void this.#refreshAhead());
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  async #refreshAhead(): Promise<void> {
    try {
      const { refreshToken } = this.session.auth;
      await this.#reload();
      // Another process may just have refreshed the session.
      const isNew = this.session.auth.refreshToken !== refreshToken &&
        this.accessExpiresAt - this.deps.clock.now() > AHEAD_MS;
      if (!isNew) await this.#refresh();
      this.#failures = 0;
      this.problem = null;
    } catch (error) {
      this.#failures++;
      this.problem = describeError(error);
      this.deps.emit("refresh_failed", { why: this.problem });
      if (isPermanent(error)) return this.onEnd(error);
    }
    this.watch();
  }

  #refresh(): Promise<void> {
    this.#refreshing ??= this.#refreshNow().finally(() => this.#refreshing = null);
    return this.#refreshing;
  }

  async #refreshNow(): Promise<void> {
    const { store, emit } = this.deps;
    let auth: AgentAuth;
    try {
      auth = await this.#inTime(() => store.refresh());
    } catch (error) {
      this.problem = describeError(error);
      this.#needsOperator = needsOperator(error);
      throw error;
    }
    this.#needsOperator = false;
    this.problem = null;
    this.session = { ...this.session, auth, identity: { ...this.session.identity, accessToken: auth.accessToken } };
    emit("refreshed", { until: auth.accessExpiresAt });
    this.watch();
  }

  /** Asks the registry, and once more with its own time when it has refused that of this machine. */
  async #inTime<T>(ask: () => Promise<T>): Promise<T> {
    const { clock, emit } = this.deps;
    try {
      return await ask();
    } catch (error) {
      if (remedyOf(error) !== "adjust_clock" || !clock.adopt()) throw error;
      emit("clock_offset", { offsetMs: clock.offsetMs });
      return await ask();
    }
  }

  async #reload(isSettled = false): Promise<void> {
    const { store, isGone } = this.deps;
    this.session = await store.read(isSettled).catch((error) => {
      // The session ends when the agent was deleted, because this connector could otherwise take the messages of a
      // later agent of the same name, and store them in the deleted database.
      if (isGone?.(error)) this.onEnd(error);
      throw error;
    });
  }
}
