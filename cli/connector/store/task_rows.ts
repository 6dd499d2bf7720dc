/**
 * The tasks that the agent runtime works on (D-134): one row each, from the answer to the message until the reply is
 * stored, or until the question of the task is answered. Stores; sends nothing.
 */
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Cell, Database } from "./database.ts";
import { DAY_MS } from "../../../shared/clock.ts";

/** How long a task in work is kept. With less, it gets no reply if the connector was off for longer. */
const WORKING_KEPT_MS = 30 * DAY_MS;

/** A task; times are milliseconds since the Unix epoch. */
export interface OpenTask {
  fromDid: string;
  requestId: string;
  taskId: string;
  contextId: string;
  /** With `asks` it waits for the next message of the sender in this conversation. */
  state: "working" | "asks";
  nextAt: number;
  polls: number;
  /** When it began, or when it asked. */
  startedAt: number;
  /** The conversation of the message; `null` when it has none, or when the message is forgotten. */
  conversationId: string | null;
}

export type TaskKey = Pick<OpenTask, "fromDid" | "requestId">;

const SELECT = `SELECT tasks.*, conversationId FROM tasks
 LEFT JOIN messages ON messages.fromDid = tasks.fromDid AND messages.requestId = tasks.requestId`;

export class TaskRows {
  constructor(private readonly db: Database) {}

  /** Stores a task, or its new state. Outside the transaction that ends its message, a kill would lose the task. */
  put(task: Omit<OpenTask, "conversationId">): void {
    const { fromDid, requestId, taskId, contextId, state, nextAt, polls, startedAt } = task;
    this.db.run(
      `INSERT OR REPLACE INTO tasks (fromDid, requestId, taskId, contextId, state, nextAt, polls, startedAt)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[fromDid, requestId, taskId, contextId, state, nextAt, polls, startedAt] as Cell[],
    );
  }

  /** Removes a task. Outside the transaction that stores its reply, a kill would lose the reply. */
  remove({ fromDid, requestId }: TaskKey): void {
    this.db.run("DELETE FROM tasks WHERE fromDid = ? AND requestId = ?", fromDid, requestId);
  }

  /** Stores when the state is requested again. If a power failure loses it, there is one more request. */
  postpone({ fromDid, requestId }: TaskKey, polls: number, nextAt: number): void {
    const sql = "UPDATE tasks SET polls = ?, nextAt = ? WHERE fromDid = ? AND requestId = ?";
    this.db.runWithoutSync(sql, polls, nextAt, fromDid, requestId);
  }

  /** Moves the times of all tasks. If a power failure loses it, tasks end as if someone had set the clock unnoticed. */
  shift(ms: number): void {
    this.db.runWithoutSync("UPDATE tasks SET nextAt = nextAt + ?, startedAt = startedAt + ?", ms, ms);
  }

  get size(): number {
    return this.db.number("SELECT count(*) FROM tasks WHERE state = 'working'") ?? 0;
  }

  /** The senders with at least `count` tasks in work. */
  sendersWith(count: number): Set<string> {
    const sql = "SELECT fromDid FROM tasks WHERE state = 'working' GROUP BY fromDid HAVING count(*) >= ?";
    return new Set(this.db.all<Pick<OpenTask, "fromDid">>(sql, count).map(({ fromDid }) => fromDid));
  }

  /**
   * The tasks whose state is due, the longest due first. A time beyond the longest wait counts as due, because it comes
   * from a wrong clock.
   */
  due(now: number): OpenTask[] {
    const sql = `${SELECT} WHERE tasks.state = 'working' AND (tasks.nextAt <= ? OR tasks.nextAt > ?)
     ORDER BY tasks.nextAt LIMIT ?`;
    return this.db.all<OpenTask>(sql, now, now + LIMIT.taskPollMaxMs, LIMIT.openTasks);
  }

  nextAt(): number | null {
    return this.db.number("SELECT min(nextAt) FROM tasks WHERE state = 'working'");
  }

  /** The task that asked last in a conversation and whose question may still be answered; `null` without one. */
  asking(contextId: string, now: number): OpenTask | null {
    const sql = `${SELECT} WHERE tasks.state = 'asks' AND tasks.contextId = ? AND tasks.startedAt > ?
     ORDER BY tasks.startedAt DESC LIMIT 1`;
    return this.db.get<OpenTask>(sql, contextId, now - LIMIT.taskPatienceMs);
  }

  /**
   * Deletes tasks that are not followed any longer: questions without an answer, and tasks of another platform. Others
   * stay until they have their reply, also when the connector was off meanwhile.
   */
  forget(now: number): void {
    this.db.runWithoutSync(
      "DELETE FROM tasks WHERE startedAt < iif(state = 'asks', ?, ?)",
      ...[now - LIMIT.seenKeptMs, now - WORKING_KEPT_MS],
    );
  }
}
