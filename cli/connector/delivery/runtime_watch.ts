/** Checks every `probeEveryMs` whether the agent runtime answers, and keeps the result for the status. */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { EmitEvent } from "../events.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Status } from "../status.ts";
import type { Runtime } from "./runtime.ts";

export class RuntimeWatch {
  readonly #clock: Clock;
  readonly #runtime: Runtime;
  readonly #tell: EmitEvent;
  readonly #stopped = new AbortController();
  #cancel: Cancel = () => {};
  #is: { reachable: boolean | null; problem: string | null; checkedAt: number | null } = {
    reachable: null,
    problem: null,
    checkedAt: null,
  };
  /** Called when the runtime answers a check again. */
  onBack: () => void = () => {};

  constructor({ clock, runtime, tell }: { clock: Clock; runtime: Runtime; tell: EmitEvent }) {
    this.#clock = clock;
    this.#runtime = runtime;
    this.#tell = tell;
  }

  start(): void {
    void this.#check();
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancel();
  }

  /** Records what a request showed: whether the runtime answers, and why it accepts no message at all. */
  seen(reachable: boolean, problem: string | null): void {
    const before = this.#is.reachable;
    this.#is = { reachable, problem, checkedAt: this.#clock.now() };
    if (before === reachable || (before === null && reachable)) return;
    const { url } = this.#runtime;
    if (reachable) this.#tell("runtime_up", { url });
    else this.#tell("runtime_down", { url, why: problem });
  }

  get status(): Status["runtime"] {
    const { platform, url, target: { source, replies = false } } = this.#runtime;
    const { reachable, problem, checkedAt } = this.#is;
    return {
      platform: platform.id,
      url,
      ...(source === undefined ? {} : { source }),
      replies,
      reachable,
      checkedAt: checkedAt === null ? null : toIso(checkedAt),
      problem,
    };
  }

  async #check(): Promise<void> {
    const { reachable, problem } = await this.#runtime.probe(this.#stopped.signal);
    if (this.#stopped.signal.aborted) return;
    const wasAway = this.#is.reachable === false;
    // A health check cannot show that messages are accepted, so the result of the last attempt stays.
    this.seen(reachable, reachable && !wasAway ? this.#is.problem : problem);
    if (reachable && wasAway) this.onBack();
    this.#cancel = this.#clock.after(LIMIT.probeEveryMs, () => void this.#check());
  }
}
