/**
 * Runs the connectors of several agents in one process. A failure ends the connector of its agent only, because each
 * has its own resources. Decides when an agent is started again; agent_connector.ts starts it.
 */
import { type Clock, sleep, timeLeft } from "../../shared/clock.ts";
import { nameAgentIn } from "../errors.ts";
import type { EventFields } from "../link/link_events.ts";
import type { RunningConnector } from "./agent_connector.ts";
import { ConnectorLockedError } from "./connector_lock.ts";
import type { EventName } from "./events.ts";
import { doubled } from "../../shared/client/backoff.ts";
import { describeError, isPermanent } from "../../shared/client/refusals.ts";

/** Time between two looks for new agents and for changed files. With more, a new agent is unreachable for longer. */
const LOOK_MS = 10_000;
/**
 * Time between two tries while another process runs the agent's connector. With more, the agent is unreachable longer
 * after that process has ended.
 */
const BUSY_MS = 30_000;
/**
 * First and longest wait before a failed connector is started again. It doubles with each failure; a run as long as the
 * longest wait resets it.
 */
const RESTART_FIRST_MS = 5_000, RESTART_MAX_MS = 5 * 60_000;
/**
 * Wait after a permanent failure, unless the agent's files change before. With less, retries only repeat the refusal.
 */
const PERMANENT_MS = 10 * 60_000;
/** Concurrent starts. With more, hundreds of agents would refresh their sessions at the same moment. */
const STARTS_AT_ONCE = 10;

export type FleetMember = Pick<RunningConnector, "ended" | "stop">;

interface FleetDeps {
  clock: Clock;
  /** The agents to run. Called every 10 s, and when a connector has ended. */
  names(): Promise<readonly string[]>;
  start(name: string): Promise<FleetMember>;
  /** A text that changes when the agent's identity files change. Never rejects. */
  filesOf(name: string): Promise<string>;
  /** Reports an event of an agent, or of the whole fleet (`null`). */
  emit(name: string | null, event: EventName, fields?: EventFields): void;
  /** True: once all agents have failed, the fleet ends with the first error. False: it goes on trying. */
  endsWithAgents: boolean;
}

interface Agent {
  name: string;
  /** `busy`: another process runs its connector. `failed`: its connector has ended and will be started again. */
  state: "starting" | "running" | "busy" | "failed";
  /** Aborted when the fleet stops, or when the agent no longer exists. */
  stop: AbortController;
  failures: number;
  ended: Promise<void>;
}

export class Fleet {
  readonly #agents = new Map<string, Agent>();
  readonly #stop = new AbortController();
  readonly #end = Promise.withResolvers<unknown>();
  readonly #starting = new Set<Promise<void>>();
  #firstFailure: { error: unknown } | null = null;

  constructor(private readonly deps: FleetDeps) {}

  /** Runs the agents. Resolves with `null` after `stop()`, or with the first failure when every agent has failed. */
  async run(): Promise<unknown> {
    const following = this.#follow();
    const end = await this.#end.promise;
    this.#stop.abort();
    const agents = [...this.#agents.values()];
    for (const { stop } of agents) stop.abort();
    await Promise.all([following, ...agents.map(({ ended }) => ended)]);
    return end;
  }

  /** Stops all connectors together. `run()` resolves when they have ended. */
  stop(): void {
    this.#end.resolve(null);
  }

  async #follow(): Promise<void> {
    const { clock, names, emit } = this.deps;
    while (!this.#stop.signal.aborted) {
      try {
        this.#update(new Set(await names()));
      } catch (error) {
        emit(null, "defect", { why: describeError(error) });
      }
      await sleep(clock, LOOK_MS, this.#stop.signal);
    }
  }

  #update(names: ReadonlySet<string>): void {
    if (this.#stop.signal.aborted) return;
    for (const { name, stop } of this.#agents.values()) {
      if (!names.has(name)) stop.abort();
    }
    for (const name of names) {
      // An agent that is still stopping is started at a later look.
      if (this.#agents.has(name)) continue;
      const stop = new AbortController();
      const agent: Agent = { name, state: "starting", stop, failures: 0, ended: Promise.resolve() };
      this.#agents.set(name, agent);
      agent.ended = this.#keepRunning(agent).finally(() => {
        this.#agents.delete(name);
        // All were deleted. The process would otherwise run on without an agent.
        if (this.deps.endsWithAgents && this.#agents.size === 0) this.stop();
      });
    }
  }

  /** Runs the connector of an agent, and starts it again after a failure, until it is stopped. */
  async #keepRunning(agent: Agent): Promise<void> {
    const { clock, filesOf, emit } = this.deps;
    const { signal } = agent.stop;
    while (!signal.aborted) {
      const files = await filesOf(agent.name);
      const began = clock.now();
      const error = await this.#runOnce(agent);
      if (signal.aborted) return;
      if (error instanceof ConnectorLockedError) {
        if (agent.state !== "busy") emit(agent.name, "busy", { pid: Number(error.pid) || null });
        agent.state = "busy";
        await sleep(clock, BUSY_MS, signal);
        continue;
      }
      // The connector of a deleted agent has told its end, and is not started again, as the event below would say.
      const present = await this.deps.names().catch(() => [agent.name]);
      if (signal.aborted || !present.includes(agent.name)) return;
      const hasSettled = clock.now() - began >= RESTART_MAX_MS;
      agent.failures = hasSettled ? 1 : agent.failures + 1;
      const isFinal = isPermanent(error);
      const wait = isFinal ? PERMANENT_MS : doubled(RESTART_FIRST_MS, agent.failures - 1, RESTART_MAX_MS);
      agent.state = "failed";
      this.#firstFailure ??= { error };
      // The line of the agent then says what to do, because a command with `<name>` would fail when it is pasted.
      if (isFinal) nameAgentIn(error, agent.name);
      emit(agent.name, "agent_stopped", { why: describeError(error), nextInMs: wait });
      const allFailed = [...this.#agents.values()].every(({ state }) => state === "failed");
      if (this.deps.endsWithAgents && allFailed) this.#end.resolve(this.#firstFailure.error);
      if (isFinal) await this.#untilFilesChange(agent, files, wait);
      else await sleep(clock, wait, signal);
    }
  }

  /** Runs the connector of an agent until it ends. Returns why it ended or did not start. */
  async #runOnce(agent: Agent): Promise<unknown> {
    const { signal } = agent.stop;
    if (agent.state === "failed") agent.state = "starting";
    try {
      const connector = await this.#start(agent);
      if (connector === null) return null;
      agent.state = "running";
      const stop = () => void connector.stop();
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
      return await connector.ended.finally(() => signal.removeEventListener("abort", stop));
    } catch (error) {
      return error;
    }
  }

  /** Starts the connector of an agent once there is room; `null` for one that is stopped meanwhile. */
  async #start({ name, stop: { signal } }: Agent): Promise<FleetMember | null> {
    while (this.#starting.size >= STARTS_AT_ONCE) await Promise.race(this.#starting);
    if (signal.aborted) return null;
    const start = this.deps.start(name);
    const settled = start.then(() => {}, () => {}).finally(() => this.#starting.delete(settled));
    this.#starting.add(settled);
    return await start;
  }

  /** Waits until the agent's files have changed, because a start with the same files would fail again. */
  async #untilFilesChange({ name, stop: { signal } }: Agent, files: string, atMostMs: number): Promise<void> {
    const { clock, filesOf } = this.deps;
    const left = timeLeft(clock, atMostMs);
    do await sleep(clock, LOOK_MS, signal); while (!signal.aborted && left() > 0 && await filesOf(name) === files);
  }
}
