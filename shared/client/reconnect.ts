/**
 * Keeps a link to the proxy open (D-89): connects, reports a failure, repairs its cause if it can, waits, and connects again
 * with a new signature. Ends when it is stopped, or after a refusal that a retry cannot change.
 */
import { type Clock, sleep } from "../clock.ts";
import { CLOSE, type DeliverFrame, type PairedFrame, type RevokedFrame } from "../protocol/frames.ts";
import { toIso } from "../protocol/time.ts";
import { fraction, type Random } from "../random.ts";
import { ApiError } from "./errors.ts";
import type { AgentIdentity } from "./signed_headers.ts";
import { reconnectWait } from "./backoff.ts";
import { CLIENT_LIMITS } from "./limits.ts";
import type { EmitLinkEvent } from "./link_events.ts";
import { type Ack, type Link, type LinkEvents, RefusedError } from "./link.ts";
import { describeError, isPermanent, remedyOf } from "./refusals.ts";
import type { ServiceClock } from "./service_clock.ts";
import type { AgentCredentials } from "./agent_credentials.ts";

/** Another connector of the agent has taken over. */
export class ReplacedError extends Error {
  override name = "ReplacedError";

  constructor() {
    super("Another connector of this agent has taken over");
  }
}

/** Opens a link as an agent. */
export type OpenLink = (agent: AgentIdentity, events: LinkEvents) => Promise<Link>;

export interface ConnectionDeps {
  clock: Clock;
  random: Random;
  serviceClock: ServiceClock;
  session: AgentCredentials;
  open: OpenLink;
  tell: EmitLinkEvent;
  /** What to do after another connector of the agent has taken over (default: connect again after a wait). */
  whenReplaced?: "wait" | "stop";
}

/** Events of the link that the rest of the connector handles. */
export interface ConnectionEvents {
  deliver(frame: DeliverFrame): Promise<Ack>;
  paired(frame: PairedFrame): void;
  connected(): void;
}

export type ConnectionState = "connecting" | "connected" | "waiting" | "stopped";

/** Status of the link; times are milliseconds since the Unix epoch. */
export interface ConnectionStatus {
  state: ConnectionState;
  since: number;
  /** Time of the next attempt, while waiting. */
  nextTryAt: number | null;
  /** Why there is no link, or why the last attempt failed. */
  problem: string | null;
  /** Round trip of the last heartbeat on the open link. */
  heartbeatMs: number | null;
  heartbeatAt: number | null;
}

export class ReconnectingLink {
  readonly #deps: ConnectionDeps;
  readonly #events: ConnectionEvents;
  readonly #stop = new AbortController();
  #status: ConnectionStatus;
  #link: Link | null = null;
  #failures = 0;

  constructor(deps: ConnectionDeps, events: ConnectionEvents) {
    this.#deps = deps;
    this.#events = events;
    const since = deps.clock.now();
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
      const began = this.#deps.clock.now();
      let wait: number;
      try {
        const closed = await this.#hold();
        repaired = false;
        if (this.#stop.signal.aborted) break;
        const lived = this.#deps.clock.now() - began;
        if (lived >= CLIENT_LIMITS.settledMs) this.#failures = 0;
        wait = this.#afterClose(closed);
        if (closed.code === CLOSE.replaced && this.#deps.whenReplaced === "stop") return this.#end(new ReplacedError());
      } catch (error) {
        if (this.#stop.signal.aborted) break;
        this.#report(error);
        if (!repaired && await this.#repair(error)) {
          repaired = true;
          continue;
        }
        repaired = false;
        if (this.#fatal !== null || isPermanent(error)) return this.#end(this.#fatal ?? error);
        wait = this.#afterRefusal(error);
      }
      await this.#pause(wait);
    }
    return this.#end(null);
  }
  #fatal: unknown = null;

  /** Closes the link and ends the retries. */
  stop(): void {
    this.#stop.abort();
    this.#link?.close();
    this.#become("stopped");
  }

  /** Opens a link and waits until it ends. */
  async #hold(): Promise<{ code: number; reason: string }> {
    let end: (closed: { code: number; reason: string }) => void = () => {};
    const ended = new Promise<{ code: number; reason: string }>((resolve) => end = resolve);
    const { clock, session, open } = this.#deps;
    const agent = await session.current();
    const link = await open(agent, {
      deliver: (frame) => this.#events.deliver(frame),
      paired: (frame) => this.#events.paired(frame),
      revoked: (frame: RevokedFrame) => this.#deps.tell("revoked", { why: frame.reason }),
      heartbeat: (roundTripMs) => {
        this.#status.heartbeatMs = roundTripMs;
        this.#status.heartbeatAt = clock.now();
      },
      closed: (code, reason) => end({ code, reason }),
    });
    this.#link = link;
    if (this.#stop.signal.aborted) link.close();
    else this.#connected();
    try {
      return await ended;
    } finally {
      this.#link = null;
      this.#status.heartbeatMs = null;
      this.#status.heartbeatAt = null;
    }
  }

  #connected(): void {
    this.#become("connected");
    this.#status.problem = null;
    this.#deps.tell("connected");
    this.#events.connected();
  }

  #afterClose({ code, reason }: { code: number; reason: string }): number {
    const why = describeClose(code, reason);
    this.#status.problem = why;
    this.#deps.tell("disconnected", { code, why });
    const wait = reconnectWait(this.#failures++, fraction(this.#deps.random));
    // Reconnecting at once would evict the other connector, and the two would loop.
    return code === CLOSE.replaced ? CLIENT_LIMITS.replacedMs + wait : wait;
  }

  #afterRefusal(error: unknown): number {
    const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0;
    const wait = reconnectWait(this.#failures++, fraction(this.#deps.random));
    return Math.max(wait, Math.min(asked, CLIENT_LIMITS.retryAfterMaxMs));
  }

  #report(error: unknown): void {
    const why = describeError(error);
    this.#status.problem = why;
    if (error instanceof ApiError) this.#deps.tell("refused", { status: error.status, code: error.code, why });
    else this.#deps.tell("unreachable", { why });
  }

  /** Repairs the cause of a refusal if it can. Returns true when the next attempt may follow at once. */
  async #repair(error: unknown): Promise<boolean> {
    const { serviceClock, session, tell } = this.#deps;
    const remedy = remedyOf(error);
    try {
      switch (remedy) {
        case "adjust_clock":
          if (error instanceof RefusedError) serviceClock.see(error.date);
          if (!serviceClock.adopt()) return false;
          tell("clock_offset", { offsetMs: serviceClock.offsetMs });
          return true;
        case "renew_access":
          return await session.renew("access");
        case "renew_identity":
          return await session.renew("identity");
        default:
          return false;
      }
    } catch (failure) {
      tell("refresh_failed", { why: describeError(failure) });
      this.#status.problem = describeError(failure);
      if (isPermanent(failure)) this.#fatal = failure;
      return false;
    }
  }

  async #pause(ms: number): Promise<void> {
    const { clock, tell } = this.#deps;
    this.#become("waiting");
    this.#status.nextTryAt = clock.now() + ms;
    tell("waiting", { ms, until: toIso(clock.now() + ms) });
    await sleep(clock, ms, this.#stop.signal);
  }

  #end(why: unknown): unknown {
    this.#become("stopped");
    return why;
  }

  #become(state: ConnectionState): void {
    this.#status.nextTryAt = null;
    if (this.#status.state === state) return;
    // After `stop()` the state stays `stopped`.
    if (this.#stop.signal.aborted && state !== "stopped") return;
    this.#status.state = state;
    this.#status.since = this.#deps.clock.now();
  }
}

/** Close codes in words. */
const CLOSES: Readonly<Record<number, string>> = {
  1000: "the proxy closed the link",
  [CLOSE.shuttingDown]: "the proxy is shutting down",
  1006: "the connection was lost",
  [CLOSE.misuse]: "the proxy closed the connection: protocol violation",
  [CLOSE.tooLarge]: "a frame was too large",
  [CLOSE.tooSlow]: "this connector received too slowly",
  [CLOSE.notAuthorised]: "the agent is no longer authorised",
  [CLOSE.silent]: "the proxy received nothing for one minute",
  [CLOSE.replaced]: "another connector of this agent has taken over",
};

function describeClose(code: number, reason: string): string {
  const known = CLOSES[code] ?? "the link ended";
  return reason === "" ? `${known} (${code})` : `${known} (${code}: ${reason})`;
}
