/**
 * Follows the tasks that a runtime works on (D-134): what its answer to a message means, the requests for the state of each
 * open task, also after a restart, and the reply at its end. A task and the reply that ends it change in one transaction.
 */
import { type Cancel, type Clock, sleep } from "../../../shared/clock.ts";
import { doubled } from "../../../shared/client/backoff.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { contextOf } from "../../platforms/a2a.ts";
import type { TaskAnswer, TaskCode, TaskProtocol } from "../../platforms/platform.ts";
import type { EmitEvent } from "../events.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Database } from "./database.ts";
import { classifyAnswer, type RuntimeAnswer, type RuntimeResult } from "./delivery_rules.ts";
import type { InboxMessage } from "./inbox_rows.ts";
import { RequestBudget } from "./request_budget.ts";
import { describeAnswer, type Runtime } from "./runtime.ts";
import type { Question, RuntimeReplies, RuntimeReplyRow } from "./runtime_replies.ts";
import type { SentMessages } from "./sent_messages.ts";
import { taskPayload } from "./task_replies.ts";
import { type OpenTask, TaskRows } from "./task_rows.ts";

/** What the answer to a message means. */
export interface AttemptMeaning {
  verdict: RuntimeResult;
  why: string;
  /** The reply to the accepted message. */
  reply: RuntimeReplyRow | null;
  /** Further changes in the transaction that ends the message. */
  also?: () => void;
}

/** The context of a message, and the task in it that asked for it. */
export interface TaskContext {
  contextId: string;
  asking: OpenTask | null;
}

interface FollowerDeps {
  clock: Clock;
  database: Database;
  sent: SentMessages;
  runtime: Runtime;
  protocol: TaskProtocol;
  /** `null` when answers of the runtime do not go back: then no task is followed. */
  replies: RuntimeReplies | null;
  tell: EmitEvent;
}

/** As for status 429: the message waits, and keeps its place. */
const LATER: RuntimeResult = { attempts: null, isOutage: true, isBusy: true, retryAfterMs: 0 };
const NEVER: RuntimeResult = { attempts: 1, isOutage: false, retryAfterMs: 0 };

export class TaskFollower {
  readonly #deps: FollowerDeps;
  readonly #rows: TaskRows;
  readonly #budget = new RequestBudget(LIMIT.taskRequests, LIMIT.taskRequestWindowMs);
  readonly #stop = new AbortController();
  /** Tasks whose state is being requested, by message. */
  readonly #polling = new Map<string, Promise<void>>();
  #cancel: Cancel = () => {};
  /** Called when a reply is due. */
  onReply: () => void = () => {};
  /** Called when a task has ended, so that another message may be handed over. */
  onRoom: () => void = () => {};
  /** Whether a message could be handed over now: those come first. */
  hasHandover: () => boolean = () => false;

  constructor(deps: FollowerDeps) {
    this.#deps = deps;
    this.#rows = new TaskRows(deps.database);
  }

  start(): void {
    this.#pump();
  }

  /** Aborts requests for states. They are made again after the next start. */
  async stop(): Promise<void> {
    this.#cancel();
    this.#stop.abort();
    await Promise.all(this.#polling.values());
  }

  /** Milliseconds until a message may be handed over; `null` while there are too many tasks. `underWay`: others meanwhile. */
  handoverWait(underWay: number): number | null {
    if (this.#rows.size + underWay >= LIMIT.openTasks) return null;
    return this.#budget.wait(this.#deps.clock.now());
  }

  /** Counts the request of a hand-over. */
  countHandover(): void {
    this.#budget.take(this.#deps.clock.now());
  }

  async contextOf({ fromDid, conversationId }: Question): Promise<TaskContext> {
    const contextId = await contextOf(fromDid, conversationId);
    return { contextId, asking: this.#rows.asking(contextId, this.#deps.clock.now()) };
  }

  /** What the answer to a message means. */
  async outcome(
    message: InboxMessage,
    { contextId, asking }: TaskContext,
    response: RuntimeAnswer,
  ): Promise<AttemptMeaning> {
    const verdict = classifyAnswer(response);
    if (verdict !== "accepted" || response.kind !== "status") {
      return { verdict, why: describeAnswer(response), reply: null };
    }
    const { tell, replies } = this.#deps;
    if (response.body.cut === "broken") {
      // The runtime has the message: a second request could be a second run.
      tell("reply_lost", { to: message.fromDid, requestId: message.requestId });
      return { verdict, why: "", reply: null };
    }
    const answer = this.#answerOf(response);
    const answered = () => asking && this.#rows.remove(asking);
    switch (answer.kind) {
      case "unclear":
        return { verdict: LATER, why: answer.why, reply: null };
      case "unknown_task":
      case "refused": {
        const why = answer.kind === "refused" ? answer.why : "A2A error: the task is unknown";
        if (asking === null) return { verdict: answer.kind === "refused" ? NEVER : LATER, why, reply: null };
        if (answer.kind === "refused" && !answer.isEnded) return { verdict: NEVER, why, reply: null };
        // The task that asked is gone: the message begins another one.
        this.#deps.database.transaction(() => this.#rows.remove(asking));
        return { verdict: LATER, why, reply: null };
      }
      case "ended": {
        const payload = replies?.wants(message) ? taskPayload(answer.text, answer.code) : null;
        const reply = payload === null || replies === null ? null : await replies.row(message, payload);
        return { verdict, why: "", reply, also: answered };
      }
      case "working":
      case "asks": {
        if (!replies?.wants(message)) return { verdict, why: "", reply: null, also: answered };
        const { fromDid, requestId } = message, { taskId } = answer;
        const now = this.#deps.clock.now();
        const task = { fromDid, requestId, taskId, contextId, polls: 0, startedAt: now };
        const isWorking = answer.kind === "working";
        const payload = isWorking ? null : taskPayload(answer.text, null);
        return {
          verdict,
          why: "",
          reply: payload === null ? null : await replies.row(message, payload),
          also: () => {
            answered();
            this.#rows.put({ ...task, state: answer.kind, nextAt: isWorking ? now + LIMIT.taskPollFirstMs : 0 });
          },
        };
      }
    }
  }

  /** Looks for tasks that are due, after one was added. */
  wake(): void {
    this.#pump();
  }

  #pump(): void {
    this.#cancel();
    if (this.#stop.signal.aborted) return;
    try {
      const ms = this.#pollDue();
      if (ms !== null) this.#cancel = this.#deps.clock.after(ms, () => this.#pump());
    } catch (error) {
      this.#deps.tell("store_failed", { why: describeError(error) });
      this.#cancel = this.#deps.clock.after(LIMIT.taskPollMaxMs, () => this.#pump());
    }
  }

  /** Requests the states that are due. Returns the milliseconds until others may be; `null` when an end wakes it. */
  #pollDue(): number | null {
    const now = this.#deps.clock.now();
    for (const task of this.#rows.due(now)) {
      if (this.#polling.has(keyOf(task))) continue;
      if (this.#polling.size >= LIMIT.taskPollsAtOnce) return null;
      const isOver = now - task.startedAt >= LIMIT.taskPatienceMs;
      // Hand-overs come first, unless they wait for the end of a task.
      const wait = isOver ? 0 : this.hasHandover() ? LIMIT.taskPollFirstMs : this.#budget.wait(now);
      if (wait > 0) return wait;
      if (!isOver) this.#budget.take(now);
      const work = (isOver ? this.#end(task, LOST_LATE, "TASK_LOST") : this.#poll(task)).catch((error) => {
        this.#deps.tell("store_failed", { why: describeError(error) });
        return false;
      }).then(async (isStored) => {
        // The row is unchanged: without a pause it would be due at once.
        if (!isStored) await sleep(this.#deps.clock, LIMIT.slowFirstMs, this.#stop.signal);
        this.#polling.delete(keyOf(task));
        this.#pump();
      });
      this.#polling.set(keyOf(task), work);
    }
    const next = this.#rows.nextAt();
    if (next === null || this.#polling.size > 0) return this.#polling.size > 0 ? LIMIT.taskPollMaxMs : null;
    return Math.min(Math.max(next - now, 0), LIMIT.taskPollMaxMs);
  }

  /** Requests the state of a task. Returns true when the result is stored. */
  async #poll(task: OpenTask): Promise<boolean> {
    const { clock, runtime, protocol } = this.#deps;
    const response = await runtime.poll(protocol, task.taskId, this.#stop.signal);
    if (this.#stop.signal.aborted) return true;
    const answer = classifyAnswer(response) === "accepted" && response.kind === "status"
      ? this.#answerOf(response)
      : { kind: "unclear" } as const;
    switch (answer.kind) {
      case "ended":
        return await this.#end(task, answer.text, answer.code);
      case "unknown_task":
        return await this.#end(task, "", "TASK_LOST");
      case "asks":
        return await this.#end(task, answer.text, null, { ...task, state: "asks", startedAt: clock.now() });
      default: {
        const polls = task.polls + 1;
        this.#rows.postpone(task, polls, clock.now() + doubled(LIMIT.taskPollFirstMs, polls, LIMIT.taskPollMaxMs));
        return true;
      }
    }
  }

  /** Stores the reply to a task. `asks`: its row while it waits for an answer to that reply. */
  async #end(task: OpenTask, text: string, code: TaskCode | null, asks: OpenTask | null = null): Promise<true> {
    const { clock, database, replies, sent, tell } = this.#deps;
    const payload = replies && taskPayload(text, code);
    const reply = payload === null || replies === null ? null : await replies.row(task, payload);
    database.transaction(() => {
      if (asks === null) this.#rows.remove(task);
      else this.#rows.put(asks);
      if (reply !== null) sent.add(reply.message, clock.now(), reply.problem);
    });
    const state = code ?? (asks === null ? "completed" : "asks");
    tell("task_ended", { from: task.fromDid, requestId: task.requestId, state });
    this.onReply();
    this.onRoom();
    return true;
  }

  #answerOf({ status, body: { contentType, text, cut } }: RuntimeAnswer & { kind: "status" }): TaskAnswer {
    if (cut === "large") return { kind: "ended", text: TOO_LARGE, code: "TASK_FAILED" };
    if (cut === "broken") return { kind: "unclear", why: "the answer broke off" };
    return this.#deps.protocol.answerOf({ status, contentType, text });
  }
}

const LOST_LATE = `The agent had no result within ${LIMIT.taskPatienceMs / 60_000} minutes`;
const TOO_LARGE = `The agent's answer is over ${LIMIT.taskAnswerBytes / 1024} KiB`;

function keyOf({ fromDid, requestId }: OpenTask): string {
  return `${fromDid} ${requestId}`;
}
