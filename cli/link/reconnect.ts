/**
 * Keeps a link to the proxy open. After a failure it repairs the cause if it can, waits, and connects again with a new
 * signature. It ends when it is stopped, or after a refusal that a retry cannot change.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { CLOSE, returnWindow } from "../../shared/protocol/frames.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { fraction, type Random } from "../../shared/random.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { AgentIdentity } from "./signed_headers.ts";
import { doubled } from "../../shared/client/backoff.ts";
import type { EmitLinkEvent } from "./link_events.ts";
import { type Link, type LinkEvents, RefusedError } from "./link.ts";
import {
  describeError,
  isPermanent,
  needsOperator,
  OPERATOR_RETRY_MS,
  TAKEN_OVER,
} from "../../shared/client/refusals.ts";
import type { ServiceClock } from "./service_clock.ts";
import { type AgentCredentials, repair } from "./agent_credentials.ts";

/** Longest first wait. With less, connectors that lost a proxy return together. With more, messages wait longer. */
export const RECONNECT_FIRST_MAX_MS = 5_000;
/** The second wait; each later one doubles. With less, a proxy that refuses gets the next tries at once. */
const RECONNECT_START_MS = 2_000;
/** Longest wait, plus up to 20 %. With more, agents are away for longer after the proxy is back. */
const RECONNECT_MAX_MS = 28_000;
/** Share by which a wait varies at random. Without it, all agents of a server would return at the same moment. */
const JITTER = 0.2;
/** Wait of a connector that was replaced. With less, two connectors of one agent replace each other all the time. */
const REPLACED_MS = 30_000;
/**
 * How long a link must last to count as a success. With less, a proxy that closes each new link would see all agents
 * again after their first wait.
 */
export const SETTLED_MS = 10_000;
/** Least time to come back. With less, all agents of a proxy that names 0 ms would be back at the same moment. */
const RETURN_LEAST_MS = 1_000;
/** Longest wait that a service can ask for. With more, one wrong header would keep an agent away for hours. */
const RETRY_AFTER_MAX_MS = 60_000;

/** How long a machine without a network tries often, because a person may be waiting and the tries burden no server. */
const WITHOUT_NETWORK_MS = 600_000;
/** The shortest wait without a network. Up to the same time again is added at random. */
const NETWORK_WAIT_MS = 1_000;

/**
 * Returns the milliseconds before the next connection. The first wait is random, because connectors that lost a proxy
 * together would otherwise reconnect together. Later waits double with each failure.
 *
 * @param failures consecutive attempts without a link
 * @param chance 0 up to 1
 * @param firstMaxMs longest first wait, milliseconds
 */
export function reconnectWait(failures: number, chance: number, firstMaxMs = RECONNECT_FIRST_MAX_MS): number {
  if (failures <= 0) return Math.round(chance * firstMaxMs);
  const wait = doubled(RECONNECT_START_MS, failures - 1, RECONNECT_MAX_MS);
  return Math.round(wait * (1 + JITTER * (2 * chance - 1)));
}

/** Thrown while it is unknown whether messages are genuine. There is no link then, so they stay at the proxy. */
export class Undecided extends Error {
  override name = "Undecided";
}

export type OpenLink = (agent: AgentIdentity, events: LinkEvents) => Promise<Link>;

export interface ConnectionDeps {
  clock: Clock;
  random: Random;
  serviceClock: ServiceClock;
  session: AgentCredentials;
  open: OpenLink;
  emit: EmitLinkEvent;
}

export interface ConnectionEvents extends Pick<LinkEvents, "deliver" | "paired" | "delivery"> {
  /** Resolves when messages can be taken. @throws {Undecided} why they cannot */
  ready?(): Promise<void>;
  connected(): void;
  /** The link ended without a word of the proxy, so other connections to it may be dead too. */
  lost(): void;
}

export type ConnectionState = "connecting" | "connected" | "waiting" | "stopped";

/** Status of the link; times are milliseconds since the Unix epoch. */
export interface ConnectionStatus {
  state: ConnectionState;
  since: number;
  nextTryAt: number | null;
  /** Why there is no link, or why the last attempt failed. */
  problem: string | null;
  heartbeatMs: number | null;
  heartbeatAt: number | null;
}

export class ReconnectingLink {
  readonly #stop = new AbortController();
  #status: ConnectionStatus;
  #link: Link | null = null;
  #failures = 0;
  /** Longest first wait, as the proxy named it when it shut down, or else the default. */
  #firstMaxMs: number = RECONNECT_FIRST_MAX_MS;
  /** With which identity the last link was opened. */
  #agent: AgentIdentity | null = null;
  /** Since when there is no link. */
  #awaySince: number;

  constructor(private readonly deps: ConnectionDeps, private readonly events: ConnectionEvents) {
    const since = this.#awaySince = deps.clock.now();
    this.#status = { state: "connecting", since, nextTryAt: null, problem: null, heartbeatMs: null, heartbeatAt: null };
  }

  get status(): ConnectionStatus {
    return { ...this.#status };
  }

  /** Runs until it is stopped (`null`) or refused permanently (the error). */
  async run(): Promise<unknown> {
    let repaired = false;
    while (!this.#stop.signal.aborted) {
      this.#become("connecting");
      let wait: number;
      try {
        const closed = silentWithoutPong(await this.#hold());
        repaired = false;
        if (this.#stop.signal.aborted) break;
        // Measured without the handshake, because a handshake of 10 s would make a link that ends at once look like a
        // good one.
        const lived = this.deps.clock.now() - this.#status.since;
        const isSettled = lived >= SETTLED_MS;
        if (isSettled) this.#failures = 0;
        if (LOST.has(closed.code)) this.events.lost();
        wait = this.#afterClose(closed, isSettled);
      } catch (error) {
        if (this.#stop.signal.aborted) break;
        this.#report(error);
        const failure: unknown = repaired ? null : await this.#repair(error);
        repaired = failure === "repaired";
        if (repaired) continue;
        const final = [failure, error].find(isPermanent);
        if (final !== undefined) {
          this.#become("stopped");
          return final;
        }
        wait = needsOperator(failure) ? OPERATOR_RETRY_MS : this.#afterRefusal(failure ?? error);
      }
      await this.#pause(wait);
    }
    this.#become("stopped");
    return null;
  }

  stop(): void {
    this.#stop.abort();
    this.#link?.close();
    this.#become("stopped");
  }

  /** Called when a request did not get through. Ends the link if the proxy does not answer on it either. */
  check(): void {
    this.#link?.check();
  }

  /** Closes the link for now. It is opened again when `ready` resolves. */
  drop(why: string): void {
    this.deps.emit("registry_unavailable", { why });
    this.#link?.close();
  }

  async #hold(): Promise<{ code: number; reason: string }> {
    const { promise: ended, resolve: end } = Promise.withResolvers<{ code: number; reason: string }>();
    const { clock, session, open, emit } = this.deps;
    const agent = this.#agent = await session.current();
    let isTold = false;
    await this.events.ready?.();
    const link = await open(agent, {
      ...this.events,
      revoked: ({ reason: why }) => {
        // Once for each link, because a relay that repeats it would fill the log.
        if (!isTold) emit("revoked", { why });
        isTold = true;
      },
      heartbeat: (roundTripMs) => {
        this.#status.heartbeatMs = roundTripMs;
        this.#status.heartbeatAt = clock.now();
      },
      closed: (code, reason) => end({ code, reason }),
    });
    this.#link = link;
    if (this.#stop.signal.aborted) link.close();
    else {
      this.#become("connected");
      this.#status.problem = null;
      emit("connected");
      this.events.connected();
    }
    try {
      return await ended;
    } finally {
      this.#link = null;
      this.#awaySince = clock.now();
      this.#status.heartbeatMs = null;
      this.#status.heartbeatAt = null;
    }
  }

  #afterClose({ code, reason }: { code: number; reason: string }, isSettled: boolean): number {
    const why = describeClose(code, reason);
    this.#status.problem = why;
    this.deps.emit("disconnected", { code, why });
    const within = code === CLOSE.shuttingDown ? returnWindow(reason) : null;
    const asked = Math.max(within ?? RECONNECT_FIRST_MAX_MS, RETURN_LEAST_MS);
    this.#firstMaxMs = Math.min(asked, RETRY_AFTER_MAX_MS);
    const wait = this.#nextWait();
    // A shutdown with a time to come back counts as a failure only of a link that has hardly lasted, because each
    // restart of the proxy would otherwise double the wait.
    if (within === null || !isSettled) this.#failures++;
    // All agents of the proxy would come back at once if a longer wait took the place of the time that it names.
    if (within !== null) return Math.max(wait, reconnectWait(0, fraction(this.deps.random), this.#firstMaxMs));
    // If it reconnected at once, it would evict the other connector, and the two would loop.
    return code === CLOSE.replaced ? REPLACED_MS + wait : wait;
  }

  #afterRefusal(error: unknown): number {
    const awayMs = this.deps.clock.now() - this.#awaySince;
    if (error instanceof UnreachableError && error.hasNoNetwork && awayMs < WITHOUT_NETWORK_MS) {
      return Math.round(NETWORK_WAIT_MS * (1 + fraction(this.deps.random)));
    }
    const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0;
    const wait = this.#nextWait();
    this.#failures++;
    return Math.max(wait, Math.min(asked, RETRY_AFTER_MAX_MS));
  }

  #nextWait(): number {
    return reconnectWait(this.#failures, fraction(this.deps.random), this.#firstMaxMs);
  }

  #report(error: unknown): void {
    const why = describeError(error);
    this.#status.problem = why;
    if (error instanceof Undecided) this.deps.emit("registry_unavailable", { why });
    else if (error instanceof ApiError) this.deps.emit("refused", { status: error.status, code: error.code, why });
    else this.deps.emit("unreachable", { why });
  }

  /**
   * Repairs the cause of a refusal if it can. Returns "repaired" when the next attempt may follow at once, else why the
   * repair has failed; `null` when nothing can be repaired.
   */
  async #repair(error: unknown): Promise<unknown> {
    const { serviceClock: clock, session, emit } = this.deps;
    if (error instanceof RefusedError) clock.see(error.date);
    if (this.#agent === null) return null;
    try {
      return await repair(error, { clock, session, emit }, this.#agent) ? "repaired" : null;
    } catch (failure) {
      emit("refresh_failed", { why: describeError(failure) });
      this.#status.problem = describeError(failure);
      return failure;
    }
  }

  async #pause(ms: number): Promise<void> {
    const { clock, emit } = this.deps;
    this.#become("waiting");
    this.#status.nextTryAt = clock.now() + ms;
    emit("waiting", { ms, until: toIso(clock.now() + ms) });
    await sleep(clock, ms, this.#stop.signal);
  }

  #become(state: ConnectionState): void {
    this.#status.nextTryAt = null;
    if (this.#status.state === state) return;
    // After `stop()` the state stays `stopped`, although `run()` may still finish a step.
    if (this.#stop.signal.aborted && state !== "stopped") return;
    this.#status.state = state;
    // Between its tries the link is away without a break, so a person reads since when, and not when the last try was.
    const isAway = state === "connecting" || state === "waiting";
    this.#status.since = isAway ? this.#awaySince : this.deps.clock.now();
  }
}

const CLOSES: Readonly<Record<number, string>> = {
  1000: "the proxy closed the link",
  [CLOSE.shuttingDown]: "the proxy is shutting down",
  1006: "the connection was lost",
  [CLOSE.misuse]: "the proxy closed the connection: protocol violation",
  [CLOSE.tooLarge]: "a frame was too large",
  [CLOSE.tooSlow]: "this connector received too slowly",
  [CLOSE.notAuthorised]: "the agent is no longer authorised",
  [CLOSE.silent]: "the link was silent",
  [CLOSE.replaced]: TAKEN_OVER,
};

/** The reason with which the platform of the proxy closes a link whose pings got no answer. */
const NO_PONG = "No response from ping frame.";

/** Names a link without answers to pings silent. Its code says that the proxy shuts down, which a person would look for. */
function silentWithoutPong({ code, reason }: { code: number; reason: string }): { code: number; reason: string } {
  return { code: code === CLOSE.shuttingDown && reason === NO_PONG ? CLOSE.silent : code, reason };
}

const LOST: ReadonlySet<number> = new Set([1006, CLOSE.silent]);

function describeClose(code: number, reason: string): string {
  const known = CLOSES[code] ?? "the link ended";
  return reason === "" ? `${known} (${code})` : `${known} (${code}: ${reason})`;
}
