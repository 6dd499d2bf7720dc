/**
 * Delivers messages to the runtime, lane by lane (D-88): takes the next message, posts it, and stores the result before
 * the next message of the lane. The rules are in delivery_rules.ts, the storage in inbox.ts.
 */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { classifyAnswer, Lanes, type NextAttempt, nextAttempt, type QueuedMessage } from "./delivery_rules.ts";
import type { Inbox } from "./inbox.ts";
import type { InboxMessage } from "./inbox_rows.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { describeAnswer, type Runtime } from "./runtime.ts";
import type { RuntimeReplies } from "./runtime_replies.ts";
import type { AttemptMeaning, TaskFollower } from "./task_follower.ts";
import type { EmitEvent } from "../events.ts";
import { describeError } from "../../../shared/client/refusals.ts";

/** The result of an attempt. */
interface Result {
  message: InboxMessage;
  fate: NextAttempt;
  why: string;
  /** Time of the response, milliseconds since the Unix epoch. */
  at: number;
  /** Duration in milliseconds. */
  ms: number;
  /** What an accepted message changes beside its own row. */
  outcome: AttemptMeaning;
}

interface DeliveryDeps {
  clock: Clock;
  inbox: Inbox;
  runtime: Runtime;
  /** `null` when its answers do not go back. */
  replies: RuntimeReplies | null;
  /** Absent when the runtime answers with its result. */
  tasks?: TaskFollower | undefined;
  tell: EmitEvent;
}

export class RuntimeDelivery {
  readonly #clock: Clock;
  readonly #inbox: Inbox;
  readonly #runtime: Runtime;
  readonly #replies: RuntimeReplies | null;
  readonly #tasks: TaskFollower | undefined;
  readonly #tell: EmitEvent;
  readonly #lanes = new Lanes();
  readonly #stop = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  /** Attempts whose result could not be stored. Until it is, the runtime is not called (D-247). */
  readonly #unstored: Result[] = [];
  #cancel: Cancel = () => {};
  #isOut = false;
  /** Called when a receipt, or a reply of the runtime, is due. */
  onEnded: () => void = () => {};
  /** Called after each attempt: whether the runtime answers, and why it accepts no message at all. */
  onRuntime: (reachable: boolean, problem: string | null) => void = () => {};

  constructor(deps: DeliveryDeps) {
    this.#clock = deps.clock;
    this.#inbox = deps.inbox;
    this.#runtime = deps.runtime;
    this.#replies = deps.replies;
    this.#tasks = deps.tasks;
    this.#tell = deps.tell;
    if (this.#tasks === undefined) return;
    this.#tasks.hasHandover = () => this.#hasHandover();
    this.#tasks.onRoom = () => this.#pump();
  }

  /** Queues the messages that an earlier run left. */
  start(): void {
    this.add(this.#inbox.waiting());
    this.#tasks?.start();
  }

  add(messages: readonly QueuedMessage[]): void {
    for (const message of messages) this.#lanes.add(message);
    this.#pump();
  }

  /** Waits up to `ms` for attempts in progress, then aborts them. Aborted ones are repeated after the next start. */
  async stop(ms: number): Promise<void> {
    this.#cancel();
    const patience = Promise.withResolvers<void>();
    const cancel = this.#clock.after(ms, patience.resolve);
    this.#closing = true;
    await Promise.race([Promise.all(this.#underWay), patience.promise]);
    cancel();
    this.#stop.abort();
    await Promise.all([...this.#underWay, this.#tasks?.stop()]);
    this.#storeHeld();
  }
  #closing = false;

  #pump(): void {
    this.#cancel();
    if (this.#closing) return;
    if (!this.#storeHeld()) {
      this.#cancel = this.#clock.after(CONNECTOR_LIMITS.slowFirstMs, () => this.#pump());
      return;
    }
    const now = this.#clock.now();
    while (this.#underWay.size < CONNECTOR_LIMITS.handoversAtOnce) {
      // Asks for the bound of tasks only when there is a message: that reads the store.
      const wait = this.#hasDue(now) ? this.#waitForTasks() : 0;
      if (wait === null) return;
      if (wait > 0) {
        this.#cancel = this.#clock.after(wait, () => this.#pump());
        return;
      }
      const message = this.#lanes.take(now);
      if (message === null) break;
      this.#tasks?.countHandover();
      const attempt = this.#attempt(message.seq).finally(() => {
        this.#underWay.delete(attempt);
        this.#pump();
      });
      this.#underWay.add(attempt);
    }
    const next = this.#lanes.nextAt(now);
    if (next === null || this.#underWay.size >= CONNECTOR_LIMITS.handoversAtOnce) return;
    this.#cancel = this.#clock.after(Math.max(0, next - now), () => this.#pump());
  }

  /** Milliseconds until the bounds of tasks allow another message; `null` until one ends. */
  #waitForTasks(): number | null {
    try {
      return this.#tasks === undefined ? 0 : this.#tasks.handoverWait(this.#underWay.size);
    } catch (error) {
      this.#tell("store_failed", { why: describeError(error) });
      return CONNECTOR_LIMITS.slowFirstMs;
    }
  }

  #hasDue(now: number): boolean {
    const next = this.#lanes.nextAt(now);
    return next !== null && next <= now;
  }

  #hasHandover(): boolean {
    const isFree = !this.#closing && this.#underWay.size < CONNECTOR_LIMITS.handoversAtOnce;
    return isFree && this.#hasDue(this.#clock.now()) && this.#waitForTasks() !== null;
  }

  async #attempt(seq: number): Promise<void> {
    try {
      await this.#handOver(seq);
    } catch (error) {
      // The store cannot be read: the message stays unchanged, and waits.
      this.#tell("store_failed", { why: describeError(error) });
      const nextAt = this.#clock.now() + CONNECTOR_LIMITS.slowFirstMs;
      this.#lanes.release(seq, { nextAt, aside: false });
    }
  }

  async #handOver(seq: number): Promise<void> {
    const message = this.#inbox.read(seq);
    if (message === null) return this.#lanes.release(seq, null);
    const began = this.#clock.now();
    const answered = await this.#ask(message);
    // An attempt that this connector aborted has no result.
    if (answered === null) return this.#lanes.release(seq, { nextAt: began, aside: false });
    const { outcome, reachable } = answered;
    const { verdict, why } = outcome;
    const now = this.#clock.now();
    // An answer that shows that the runtime works is not reported as an outage.
    this.#note(verdict !== "accepted" && verdict.isOutage && !verdict.isBusy, reachable, why);
    const result = { message, fate: nextAttempt(message.tries, verdict, now), why, at: now, ms: now - began, outcome };
    try {
      this.#store(result);
    } catch (error) {
      this.#unstored.push(result);
      this.#tell("store_failed", { from: message.fromDid, requestId: message.requestId, why: describeError(error) });
    }
  }

  /** Posts a message. Returns what the answer means; `null` when this connector aborted the request. */
  async #ask(message: InboxMessage): Promise<{ outcome: AttemptMeaning; reachable: boolean } | null> {
    const runtime = this.#runtime, { signal } = this.#stop;
    const replies = this.#replies?.wants(message) ? this.#replies : null;
    const context = await this.#tasks?.contextOf(message);
    const { answerBytes, taskAnswerBytes } = CONNECTOR_LIMITS;
    const maxBytes = this.#tasks !== undefined ? taskAnswerBytes : replies !== null ? answerBytes : 0;
    const response = await runtime.post(message, signal, maxBytes, context?.asking?.taskId);
    if (signal.aborted && response.kind !== "status") return null;
    const reachable = response.kind !== "unreachable";
    if (this.#tasks !== undefined && context !== undefined) {
      return { outcome: await this.#tasks.outcome(message, context, response), reachable };
    }
    const verdict = classifyAnswer(response);
    const reply = replies !== null && verdict === "accepted" ? await replies.from(message, response) : null;
    return { outcome: { verdict, why: describeAnswer(response), reply }, reachable };
  }

  /** Stores the result of an attempt and releases the message. */
  #store({ message, fate, why, at, ms, outcome }: Result): void {
    const { seq, fromDid, requestId } = message;
    const about = { from: fromDid, requestId };
    if (fate.state === "waiting") {
      this.#inbox.retry(seq, fate.tries, fate, why);
      this.#lanes.release(seq, fate);
      this.#tell("handover_failed", { ...about, attempt: fate.tries.attempts, why, nextInMs: fate.nextAt - at });
      return;
    }
    if (fate.state === "done") this.#inbox.finish(message, at, outcome.reply, outcome.also);
    else this.#inbox.moveToDeadLetters(message, why, at);
    this.#lanes.release(seq, null);
    const attempts = message.tries.attempts + 1;
    if (fate.state === "done") this.#tell("handed_over", { ...about, attempts, ms });
    else this.#tell("dead_letter", { ...about, attempts, why });
    this.#tasks?.wake();
    this.onEnded();
  }

  /** Stores results again that could not be stored. Returns true when none is left. */
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

  /** Records whether the runtime is out; when it comes back, every waiting message is due. */
  #note(isOutage: boolean, reachable: boolean, why: string): void {
    this.onRuntime(reachable, isOutage ? why : null);
    if (this.#isOut && !isOutage) this.#lanes.wake(this.#clock.now());
    this.#isOut = isOutage;
  }

  /** Makes every waiting message due after an outage; for a health check that succeeded. */
  wake(): void {
    if (!this.#isOut) return;
    this.#isOut = false;
    this.#lanes.wake(this.#clock.now());
    this.#pump();
  }
}
