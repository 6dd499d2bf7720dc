/**
 * Delivers messages to the agent's runtime, lane by lane (D-88): takes the next message, posts it, and stores the
 * result before the next message of the lane. Each hand-over, and a check at intervals, shows the runtime's health. The
 * rules are in delivery_rules.ts, the storage in ../store.
 */
import { type Cancel, settledWithin } from "../../../shared/clock.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { orReport } from "../events.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import type { Status } from "../status.ts";
import type { InboxMessage, QueuedMessage } from "../store/received_rows.ts";
import { classifyAnswer, Lanes, type NextAttempt, nextAttempt } from "./delivery_rules.ts";
import { describeAnswer } from "./runtime.ts";
import { type RuntimeDeps, RuntimeReplies } from "./automatic_replies.ts";
import { type AttemptMeaning, TaskFollower } from "./task_follower.ts";

/** Concurrent requests to the runtime: with more, a burst overloads a runtime that runs a model for each. */
export const HANDOVERS_AT_ONCE = 16;
/**
 * Longest answer that is read, because a message holds less. An A2A answer may have `taskAnswerBytes`, because its text
 * is cut to fit.
 */
export const ANSWER_BYTES = 256 * 1024;
/** Time between two health checks. With more, `svc status` shows an old result for longer. */
const PROBE_EVERY_MS = 30_000;

interface Result {
  message: InboxMessage;
  next: NextAttempt;
  /** Time of the response, milliseconds since the Unix epoch. */
  at: number;
  ms: number;
  /** What the answer means, with what else changes when the message is accepted. */
  outcome: AttemptMeaning;
}

export class RuntimeRoom {
  /**
   * A sender gets another request only while it has fewer than are still free. Without that, a peer whose messages the
   * runtime is slow to answer would take every request.
   */
  readonly #lanes = new Lanes((sender, taken) =>
    taken < HANDOVERS_AT_ONCE - this.#underWay.size && !this.#crowding.has(sender)
  );
  /** Senders whose tasks leave too little room for those of others. */
  #crowding: ReadonlySet<string> = new Set();
  readonly #stop = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  /**
   * Attempts whose result could not be stored. Nothing is sent to the runtime until they are, because it would get the
   * same message at each attempt.
   */
  readonly #unstored: Result[] = [];
  #cancel: Cancel = () => {};
  #cancelCheck: Cancel = () => {};
  #isOut = false;
  /** `null` when the answers of the runtime do not go back to the senders. */
  readonly #replies: RuntimeReplies | null;
  /** Absent when the runtime answers with its result, not with a task. */
  readonly #tasks: TaskFollower | undefined;
  #health: Pick<Status["runtime"], "reachable" | "problem" | "checkedAt"> = {
    reachable: null,
    problem: null,
    checkedAt: null,
  };

  constructor(private readonly deps: RuntimeDeps) {
    const { platform: { tasks: protocol }, target } = deps.runtime;
    const replies = this.#replies = target.replies ? new RuntimeReplies(deps) : null;
    const [hasHandover, onRoom] = [() => this.#hasHandover(), () => this.#pump()];
    this.#tasks = protocol && new TaskFollower({ ...deps, protocol, replies, hasHandover, onRoom });
  }

  /** Queues the messages that an earlier run left, and checks the runtime. */
  start(): void {
    this.add(this.deps.store.received.waiting());
    this.#tasks?.wake();
    void this.#check();
  }

  add(messages: readonly QueuedMessage[]): void {
    for (const message of messages) this.#lanes.add(message);
    this.#pump();
  }

  /** Waits up to `ms` for attempts in progress, then aborts them. Aborted ones are repeated after the next start. */
  async stop(ms: number): Promise<void> {
    this.#cancel();
    this.#closing = true;
    await settledWithin(this.deps.clock, Promise.all(this.#underWay), ms);
    this.#stop.abort();
    await Promise.all([...this.#underWay, this.#tasks?.stop()]);
    this.#storeHeld();
    this.#cancelCheck();
  }
  #closing = false;

  #pump(): void {
    this.#cancel();
    if (this.#closing) return;
    if (!this.#storeHeld()) return this.#pumpAfter(CONNECTOR_LIMITS.slowFirstMs);
    this.#crowding = orReport(this.deps.emit, () => this.#tasks?.crowding, undefined) ?? new Set();
    const now = this.deps.clock.now();
    while (this.#underWay.size < HANDOVERS_AT_ONCE) {
      // Asks for the bound of tasks only when a message is due, because each such look reads the store.
      const wait = this.#hasDue(now) ? this.#waitForTasks() : 0;
      if (wait === null) return;
      if (wait > 0) return this.#pumpAfter(wait);
      const message = this.#lanes.take(now);
      if (message === null) break;
      this.#tasks?.countHandover();
      const attempt = this.#handOver(message).catch((error) => {
        // The store could not be read, so the message waits unchanged.
        this.deps.emit("store_failed", { why: describeError(error) });
        const nextAt = this.deps.clock.now() + CONNECTOR_LIMITS.slowFirstMs;
        this.#lanes.release(message.seq, { nextAt, aside: false });
      }).finally(() => {
        this.#underWay.delete(attempt);
        this.#pump();
      });
      this.#underWay.add(attempt);
    }
    const next = this.#lanes.nextAt(now);
    if (next === null || this.#underWay.size >= HANDOVERS_AT_ONCE) return;
    this.#pumpAfter(Math.max(0, next - now));
  }

  #pumpAfter(ms: number): void {
    this.#cancel = this.deps.clock.after(ms, () => this.#pump());
  }

  /** Milliseconds until the bounds of tasks allow another message; `null` until a task ends. */
  #waitForTasks(): number | null {
    const tasks = this.#tasks, wait = () => tasks === undefined ? 0 : tasks.handoverWait(this.#underWay.size);
    return orReport(this.deps.emit, wait, CONNECTOR_LIMITS.slowFirstMs);
  }

  #hasDue(now: number): boolean {
    const next = this.#lanes.nextAt(now);
    return next !== null && next <= now;
  }

  #hasHandover(): boolean {
    const isFree = !this.#closing && this.#underWay.size < HANDOVERS_AT_ONCE;
    return isFree && this.#hasDue(this.deps.clock.now()) && this.#waitForTasks() === 0;
  }

  async #handOver({ seq, nextAt: dueAt }: QueuedMessage): Promise<void> {
    const message = this.deps.store.received.read(seq);
    if (message === null) return this.#lanes.release(seq, null);
    const began = this.deps.clock.now();
    const answered = await this.#ask(message);
    // An attempt that this connector aborted has no result.
    if (answered === null) return this.#lanes.release(seq, { nextAt: began, aside: false });
    const { outcome, reachable } = answered;
    const { result, why } = outcome;
    const now = this.deps.clock.now();
    // A busy runtime works, so its answer is not reported as an outage.
    const isOutage = result !== "accepted" && result.isOutage && !result.isBusy;
    this.#seen(reachable, isOutage ? why : null);
    // The runtime works again, so every waiting message is due.
    if (this.#isOut && !isOutage) this.#lanes.wake(now, true);
    this.#isOut = isOutage;
    const next = nextAttempt(message.tries, result, now, now - dueAt);
    const attempt = { message, next, at: now, ms: now - began, outcome };
    try {
      this.#store(attempt);
    } catch (error) {
      this.#unstored.push(attempt);
      const { fromDid: from, requestId } = message;
      this.deps.emit("store_failed", { from, requestId, why: describeError(error) });
    }
  }

  /** Posts a message. Returns what the answer means; `null` when this connector aborted the request. */
  async #ask(message: InboxMessage): Promise<{ outcome: AttemptMeaning; reachable: boolean } | null> {
    const { runtime } = this.deps, { signal } = this.#stop, tasks = this.#tasks;
    const replies = message.auto ? null : this.#replies;
    const context = await tasks?.contextOf(message);
    const maxBytes = tasks !== undefined ? CONNECTOR_LIMITS.taskAnswerBytes : replies !== null ? ANSWER_BYTES : 0;
    const response = await runtime.post(message, signal, maxBytes, context?.asking?.taskId);
    if (signal.aborted && response.kind !== "status") return null;
    const result = classifyAnswer(response), why = describeAnswer(response);
    if (result !== "accepted" || response.kind !== "status") {
      return { outcome: { result, why, reply: null }, reachable: response.kind !== "unreachable" };
    }
    const outcome = tasks && context
      ? await tasks.outcome(message, context, response)
      : { result, why, reply: replies && await replies.from(message, response) };
    return { outcome, reachable: true };
  }

  #store({ message, next, at, ms, outcome }: Result): void {
    const { seq, fromDid, requestId } = message, { why } = outcome;
    const about = { from: fromDid, requestId };
    if (next.state === "waiting") {
      this.deps.store.received.retry(seq, next.tries, next, why);
      this.#lanes.release(seq, next);
      this.deps.emit("handover_failed", { ...about, attempt: next.tries.attempts, why, nextInMs: next.nextAt - at });
      return;
    }
    if (next.state === "done") this.deps.store.received.finish(message, at, outcome.reply, outcome.also);
    else this.deps.store.received.moveToDeadLetters(message, why, at);
    this.#lanes.release(seq, null);
    const attempts = message.tries.attempts + 1;
    if (next.state === "done") this.deps.emit("handed_over", { ...about, attempts, ms });
    else this.deps.emit("dead_letter", { ...about, attempts, why });
    this.#tasks?.wake();
  }

  /** Tries again to store the results that could not be stored. Returns true when none is left. */
  #storeHeld(): boolean {
    for (let result = this.#unstored[0]; result !== undefined; result = this.#unstored[0]) {
      try {
        this.#store(result);
      } catch {
        return false;
      }
      this.#unstored.shift();
    }
    return true;
  }

  status(): Status["runtime"] {
    const { platform: { id: platform }, url, target: { source = null, replies = false } } = this.deps.runtime;
    return { platform, url, source, replies, ...this.#health };
  }

  /** Records what a request showed: whether the runtime answers, and why it accepts no message at all. */
  #seen(reachable: boolean, problem: string | null): void {
    const { clock, runtime: { url }, emit } = this.deps;
    const before = this.#health.reachable;
    this.#health = { reachable, problem, checkedAt: toIso(clock.now()) };
    if (before === reachable || (before === null && reachable)) return;
    if (reachable) emit("runtime_up", { url });
    else emit("runtime_down", { url, why: problem });
  }

  async #check(): Promise<void> {
    const { signal } = this.#stop;
    const problem = await this.deps.runtime.problem(signal), reachable = problem === null;
    if (signal.aborted) return;
    const wasAway = this.#health.reachable === false;
    // A health check cannot show that messages are accepted, so the result of the last attempt stays.
    this.#seen(reachable, reachable && !wasAway ? this.#health.problem : problem);
    if (reachable && wasAway && this.#isOut) {
      this.#isOut = false;
      this.#lanes.wake(this.deps.clock.now());
      this.#pump();
    }
    this.#cancelCheck = this.deps.clock.after(PROBE_EVERY_MS, () => void this.#check());
  }
}
