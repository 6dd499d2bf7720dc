/**
 * Follows the tasks that a runtime works on (D-134). It says what the runtime's answer to a message means, asks for the
 * state of each open task, even after a restart, and stores the reply at the end. A task and its reply change in one
 * transaction, because a kill between the two would lose the reply.
 */
import { type Cancel, sleep } from "../../../shared/clock.ts";
import { doubled } from "../../../shared/client/backoff.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { contextOf } from "../../platforms/a2a.ts";
import type { TaskAnswer, TaskCode, TaskProtocol } from "../../platforms/platform.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { WindowBudget } from "../window_budget.ts";
import { classifyAnswer, type RuntimeResult, type StatusAnswer } from "./delivery_rules.ts";
import type { InboxMessage } from "../store/received_rows.ts";
import type { RuntimeDeps, RuntimeReplies } from "./automatic_replies.ts";
import type { NewSentMessage } from "../store/sent_messages.ts";
import type { OpenTask, TaskRows } from "../store/task_rows.ts";
import { errorPayload } from "../../../shared/client/local_shapes.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";

/** Requests to an A2A agent in a minute. OpenClaw refuses the 31st one, even if it is a hand-over. */
export const TASK_REQUESTS = 24;
const TASK_REQUEST_WINDOW_MS = 60_000;
/** Most hand-overs among them while tasks are open. With more, a peer that writes all the time would hide results. */
export const TASK_HANDOVERS = 18;
/** Wait after the early looks at a task; it doubles. With less, looks use up the requests that hand-overs need. */
const POLL_FIRST_MS = 1_000;
/** Concurrent looks: with more, slow tasks would take every connection of the runtime. */
const POLLS_AT_ONCE = 4;

export interface AttemptMeaning {
  result: RuntimeResult;
  why: string;
  reply: NewSentMessage | null;
  /** Further changes in the transaction that ends the message. */
  also?: () => void;
}

/** The A2A context of a message, and the task whose question the message answers. */
interface TaskContext {
  contextId: string;
  asking: OpenTask | null;
}

interface FollowerDeps extends RuntimeDeps {
  protocol: TaskProtocol;
  /** `null` when answers of the runtime do not go back: then no task is followed. */
  replies: RuntimeReplies | null;
  /** Called when a task has ended, so that another message may be handed over. */
  onRoom(): void;
  /** Whether a message can be handed over now. Hand-overs come before looks at tasks. */
  hasHandover(): boolean;
}

/** The result of an answer that counts like status 429: the message waits, and keeps its place. */
const LATER: RuntimeResult = { attempts: null, isOutage: true, isBusy: true, isHeld: true, retryAfterMs: 0 };
const NEVER: RuntimeResult = { attempts: 1, isOutage: false, retryAfterMs: 0 };

/**
 * Waits before the first looks at a task, milliseconds. Without them, the answer of a runtime that needs 50 ms takes a
 * second. They are left out while more than half of the requests of a minute are used, because they would delay
 * the next hand-over.
 */
const EARLY_LOOKS_MS = [50, 250];

/**
 * The clock is taken as set, or the machine as having slept, when the clock moves so much more or less than time passes.
 * With less, each small correction of the clock would be written.
 */
const CLOCK_SET_MS = 60_000;

export class TaskFollower {
  readonly #budget = new WindowBudget(TASK_REQUESTS, TASK_REQUEST_WINDOW_MS);
  readonly #handovers = new WindowBudget(TASK_HANDOVERS, TASK_REQUEST_WINDOW_MS);
  /** The number of the last look at a task of each sender, while tasks are due. */
  readonly #looks = new Map<string, number>();
  #look = 0;
  readonly #stop = new AbortController();
  /** Tasks whose state is being requested, by message. */
  readonly #polling = new Map<string, Promise<void>>();
  #cancel: Cancel = () => {};
  /** The difference between the clock and the time that has passed, as it is in the times of the tasks. */
  #clockOffset: number;

  constructor(private readonly deps: FollowerDeps) {
    this.#clockOffset = deps.clock.now() - deps.clock.uptime();
  }

  get #rows(): TaskRows {
    return this.deps.store.tasks;
  }

  /** Aborts requests for states. They are made again after the next start. */
  async stop(): Promise<void> {
    this.#cancel();
    this.#stop.abort();
    await Promise.all(this.#polling.values());
  }

  /** Milliseconds until a hand-over; `null` while there are too many tasks. `underWay`: hand-overs in progress. */
  handoverWait(underWay: number): number | null {
    const now = this.deps.clock.now(), { size } = this.#rows;
    if (size + underWay >= LIMIT.openTasks) return null;
    return Math.max(this.#budget.wait(now), size > 0 ? this.#handovers.wait(now) : 0);
  }

  /**
   * The senders that have as many open tasks as there are places left for tasks. Without that bound, a peer whose tasks
   * do not end would hold up the messages of every other for an hour.
   */
  get crowding(): ReadonlySet<string> {
    return this.#rows.sendersWith(LIMIT.openTasks - this.#rows.size);
  }

  countHandover(): void {
    const now = this.deps.clock.now();
    this.#budget.take(now);
    this.#handovers.take(now);
  }

  async contextOf({ fromDid, session }: InboxMessage): Promise<TaskContext> {
    const contextId = await contextOf(fromDid, session);
    this.#followClock();
    return { contextId, asking: this.#rows.asking(contextId, this.deps.clock.now()) };
  }

  /** Returns what the runtime's answer to a message means, after the runtime has accepted the message. */
  async outcome(
    message: InboxMessage,
    { contextId, asking }: TaskContext,
    response: StatusAnswer,
  ): Promise<AttemptMeaning> {
    const { emit } = this.deps, replies = message.auto ? null : this.deps.replies, result = "accepted";
    if (response.cut === "broken") {
      // The runtime has the message and is not asked again, because a second request could be a second run.
      emit("reply_lost", { to: message.fromDid, requestId: message.requestId });
      // The task's ID was in the answer, so no later look can tell its result, and the asker would wait in vain.
      return { result, why: "", reply: replies && await replies.row(message, taskPayload(BROKEN_OFF, "TASK_LOST")) };
    }
    const answer = this.#answerOf(response);
    const answered = () => asking && this.#rows.remove(asking);
    switch (answer.kind) {
      case "unclear":
        return { result: LATER, why: answer.why, reply: null };
      case "unknown_task":
      case "refused": {
        const isRefused = answer.kind === "refused";
        const why = isRefused ? answer.why : "A2A error: the task is unknown";
        if (isRefused && (asking === null || !answer.isEnded)) return { result: NEVER, why, reply: null };
        // The task that asked is gone, so the message begins another one.
        this.deps.store.database.transaction(answered);
        return { result: LATER, why, reply: null };
      }
      case "ended": {
        const reply = replies && await replies.row(message, taskPayload(answer.text, answer.code));
        return { result, why: "", reply, also: answered };
      }
      case "working":
      case "asks": {
        if (replies === null) return { result, why: "", reply: null, also: answered };
        const { fromDid, requestId } = message, { taskId } = answer;
        const now = this.deps.clock.now();
        const task = { fromDid, requestId, taskId, contextId, startedAt: now };
        const isWorking = answer.kind === "working";
        const payload = isWorking ? null : taskPayload(answer.text, null);
        return {
          result,
          why: "",
          reply: await replies.row(message, payload),
          also: () => {
            answered();
            const polls = this.#budget.isHalfFree(now) ? 0 : EARLY_LOOKS_MS.length;
            this.#rows.put({ ...task, polls, state: answer.kind, nextAt: isWorking ? now + lookWait(polls) : 0 });
          },
        };
      }
    }
  }

  /** Looks for tasks that are due, at the start and after one was added. */
  wake(): void {
    this.#cancel();
    if (this.#stop.signal.aborted) return;
    try {
      const ms = this.#pollDue();
      if (ms !== null) this.#cancel = this.deps.clock.after(ms, () => this.wake());
    } catch (error) {
      this.deps.emit("store_failed", { why: describeError(error) });
      this.#cancel = this.deps.clock.after(LIMIT.taskPollMaxMs, () => this.wake());
    }
  }

  /** Moves the times of tasks with a clock that was set, because tasks of which no hour has passed would count as lost. */
  #followClock(): void {
    const { clock } = this.deps, moved = clock.now() - clock.uptime() - this.#clockOffset;
    if (Math.abs(moved) < CLOCK_SET_MS) return;
    this.#rows.shift(moved);
    this.#clockOffset += moved;
  }

  /** Requests the states that are due. Returns the milliseconds until the next look; `null` when no timer is needed. */
  #pollDue(): number | null {
    this.#followClock();
    const now = this.deps.clock.now();
    const due = this.#rows.due(now), lastLook = ({ fromDid }: OpenTask) => this.#looks.get(fromDid) ?? 0;
    if (due.length === 0) this.#looks.clear();
    // Senders take turns, because the many tasks of one would otherwise hold up the result of another.
    for (const task of due.sort((a, b) => lastLook(a) - lastLook(b))) {
      if (this.#polling.has(keyOf(task))) continue;
      if (this.#polling.size >= POLLS_AT_ONCE) return null;
      // A look waits for hand-overs, unless those have to wait too, or the time of this task is over.
      const wait = !isOver(task, now) && this.deps.hasHandover() ? POLL_FIRST_MS : this.#budget.wait(now);
      if (wait > 0) return wait;
      this.#budget.take(now);
      this.#looks.set(task.fromDid, ++this.#look);
      const work = this.#poll(task).catch(async (error) => {
        this.deps.emit("store_failed", { why: describeError(error) });
        // The row is unchanged, so without this pause it would be due at once, again and again.
        await sleep(this.deps.clock, LIMIT.slowFirstMs, this.#stop.signal);
      }).then(() => {
        this.#polling.delete(keyOf(task));
        this.wake();
      });
      this.#polling.set(keyOf(task), work);
    }
    if (this.#polling.size > 0) return LIMIT.taskPollMaxMs;
    const next = this.#rows.nextAt();
    return next === null ? null : Math.min(Math.max(next - now, 0), LIMIT.taskPollMaxMs);
  }

  async #poll(task: OpenTask): Promise<void> {
    const { clock, runtime, protocol } = this.deps;
    // Given up only after this look, because the task may have ended while the connector was off.
    const isLast = isOver(task, clock.now());
    const response = await runtime.poll(protocol, task.taskId, this.#stop.signal);
    if (this.#stop.signal.aborted) return;
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
        if (isLast) return await this.#end(task, LOST_LATE, "TASK_LOST");
        const polls = task.polls + 1;
        this.#rows.postpone(task, polls, clock.now() + lookWait(polls));
      }
    }
  }

  /** Stores the reply of a task. `asks` is the task's row while it waits for an answer to that reply. */
  async #end(task: OpenTask, text: string, code: TaskCode | null, asks: OpenTask | null = null): Promise<void> {
    const { clock, store, replies, emit } = this.deps;
    const reply = replies && await replies.row(task, taskPayload(text, code));
    store.database.transaction(() => {
      if (asks === null) this.#rows.remove(task);
      else this.#rows.put(asks);
      if (reply !== null) store.sent.add(reply, clock.now());
    });
    const state = code ?? (asks === null ? "completed" : "asks");
    emit("task_ended", { from: task.fromDid, requestId: task.requestId, state });
    this.deps.onRoom();
  }

  #answerOf({ text, cut }: StatusAnswer): TaskAnswer {
    if (cut === "large") return { kind: "ended", text: TOO_LARGE, code: "TASK_FAILED" };
    if (cut === "broken") return { kind: "unclear", why: "the answer broke off" };
    return this.deps.protocol.answerOf(text);
  }
}

const LOST_LATE = `The agent had no result within ${LIMIT.taskPatienceMs / 60_000} minutes`;
const TOO_LARGE = `The agent's answer is over ${LIMIT.taskAnswerBytes / 1024} KiB`;

/** Milliseconds before the next look at a task, after `looks` of them. */
function lookWait(looks: number): number {
  const later = looks - EARLY_LOOKS_MS.length;
  return EARLY_LOOKS_MS[looks] ?? doubled(POLL_FIRST_MS, later, LIMIT.taskPollMaxMs);
}

function isOver({ startedAt }: OpenTask, now: number): boolean {
  return now - startedAt >= LIMIT.taskPatienceMs;
}

function keyOf({ fromDid, requestId }: OpenTask): string {
  return `${fromDid} ${requestId}`;
}

/** Texts for tasks whose runtime says nothing. */
const WITHOUT_RESULT: Readonly<Record<TaskCode, string>> = {
  TASK_FAILED: "The agent could not complete the task",
  TASK_REJECTED: "The agent did not accept the task",
  TASK_CANCELED: "The task was canceled",
  TASK_LOST: "The agent has lost the task",
};

const BROKEN_OFF = "The agent's answer broke off; it may still work on the task";

const CUT_MARK = "\n[cut: the answer is longer]";

/**
 * Returns the payload as JSON text; a text over the largest payload is cut, with a mark.
 *
 * @param code why there is no result; `null`: `text` is the result, or the question of the task
 * @returns `null` for a blank result
 */
function taskPayload(text: string, code: TaskCode | null): string | null {
  const isBlank = text.trim() === "";
  if (code === null) return isBlank ? null : fitting(text, (message) => ({ message }));
  const said = isBlank ? WITHOUT_RESULT[code] : text;
  return fitting(said, (message) => errorPayload(message, { code, message: said }));
}

/** The JSON text of an object with as much of the text as fits into a payload. */
function fitting(text: string, object: (text: string) => object): string {
  const json = (length: number) =>
    JSON.stringify(object(length === text.length ? text : text.slice(0, length).toWellFormed() + CUT_MARK));
  const fits = (length: number) => utf8Bytes(json(length)).length <= LIMITS.payloadBytes;
  if (fits(text.length)) return json(text.length);
  let low = 0, high = text.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return json(low);
}
