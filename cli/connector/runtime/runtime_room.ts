/**
 * The side of the agent's runtime: hand-over, the tasks that it works on, its replies, and its health, which is checked every
 * `probeEveryMs` and seen in each hand-over.
 */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { LoopGuard } from "../../link/loop_guard.ts";
import type { EmitEvent } from "../events.ts";
import type { Status } from "../status.ts";
import type { QueuedMessage } from "../store/received_rows.ts";
import type { ConnectorStore } from "../store/store.ts";
import type { Runtime } from "./runtime.ts";
import { RuntimeDelivery } from "./runtime_delivery.ts";
import { RuntimeReplies } from "./runtime_replies.ts";
import { TaskFollower } from "./task_follower.ts";

/** Between two health checks: for as long `svc status` may say what is over. */
const PROBE_EVERY_MS = 30_000;

export interface RuntimeDeps {
  clock: Clock;
  store: ConnectorStore;
  runtime: Runtime;
  guard: LoopGuard;
  emit: EmitEvent;
}

export class RuntimeRoom {
  readonly #deps: RuntimeDeps;
  readonly #delivery: RuntimeDelivery;
  readonly #stopped = new AbortController();
  #cancel: Cancel = () => {};
  #health: { reachable: boolean | null; problem: string | null; checkedAt: number | null } = {
    reachable: null,
    problem: null,
    checkedAt: null,
  };

  constructor(deps: RuntimeDeps) {
    const { clock, store, runtime, guard, emit } = this.#deps = deps;
    const { platform: { replyOf, tasks: protocol }, target } = runtime;
    const replies = target.replies && (replyOf || protocol)
      ? new RuntimeReplies({ clock, guard, store, replyOf, emit })
      : null;
    const tasks = protocol && new TaskFollower({ clock, store, runtime, protocol, replies, emit });
    const onRuntime = (reachable: boolean, problem: string | null) => this.#seen(reachable, problem);
    this.#delivery = new RuntimeDelivery({ clock, inbox: store.received, runtime, replies, tasks, emit, onRuntime });
  }

  /** Hands over the messages that an earlier run left, and checks the runtime. */
  start(): void {
    this.#delivery.start();
    void this.#check();
  }

  add(waiting: readonly QueuedMessage[]): void {
    this.#delivery.add(waiting);
  }

  /** Waits up to `ms` for attempts in progress, then aborts them. Aborted ones are repeated after the next start. */
  async stop(ms: number): Promise<void> {
    await this.#delivery.stop(ms);
    this.#stopped.abort();
    this.#cancel();
  }

  status(): Status["runtime"] {
    const { platform, url, target: { source = null, replies = false } } = this.#deps.runtime;
    const { reachable, problem, checkedAt } = this.#health;
    return {
      platform: platform.id,
      url,
      source,
      replies,
      reachable,
      checkedAt: checkedAt === null ? null : toIso(checkedAt),
      problem,
    };
  }

  /** Records what a request showed: whether the runtime answers, and why it accepts no message at all. */
  #seen(reachable: boolean, problem: string | null): void {
    const { clock, runtime: { url }, emit } = this.#deps;
    const before = this.#health.reachable;
    this.#health = { reachable, problem, checkedAt: clock.now() };
    if (before === reachable || (before === null && reachable)) return;
    if (reachable) emit("runtime_up", { url });
    else emit("runtime_down", { url, why: problem });
  }

  async #check(): Promise<void> {
    const { signal } = this.#stopped;
    const { reachable, problem } = await this.#deps.runtime.probe(signal);
    if (signal.aborted) return;
    const wasAway = this.#health.reachable === false;
    // A health check cannot show that messages are accepted, so the result of the last attempt stays.
    this.#seen(reachable, reachable && !wasAway ? this.#health.problem : problem);
    if (reachable && wasAway) this.#delivery.wake();
    this.#cancel = this.#deps.clock.after(PROBE_EVERY_MS, () => void this.#check());
  }
}
