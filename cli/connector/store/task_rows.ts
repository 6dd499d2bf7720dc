/**
 * The tasks that the agent runtime works on (D-134): one row each, from the answer to the message until the reply is
 * stored, or until the question of the task is answered. Stores; sends nothing.
 */
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Cell, Database, Row } from "./database.ts";

/** A task; times are milliseconds since the Unix epoch. */
export interface OpenTask {
  fromDid: string;
  requestId: string;
  taskId: string;
  contextId: string;
  /** `asks`: it waits for the next message of the sender in this conversation. */
  state: "working" | "asks";
  nextAt: number;
  polls: number;
  /** When it began, or when it asked. */
  startedAt: number;
  /** That of the message; `null` when it has none, or when the message is forgotten. */
  conversationId: string | null;
}

export type TaskKey = Pick<OpenTask, "fromDid" | "requestId">;

const SELECT = `SELECT tasks.*, messages.conversation_id FROM tasks
 LEFT JOIN messages ON messages.from_did = tasks.from_did AND messages.request_id = tasks.request_id`;

export class TaskRows {
  constructor(private readonly db: Database) {}

  /** Stores a task, or its new state. Call it in the transaction that ends its message. */
  put(task: Omit<OpenTask, "conversationId">): void {
    const { fromDid, requestId, taskId, contextId, state, nextAt, polls, startedAt } = task;
    this.db.run(
      `INSERT OR REPLACE INTO tasks (from_did, request_id, task_id, context_id, state, next_at, polls, started_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[fromDid, requestId, taskId, contextId, state, nextAt, polls, startedAt] as Cell[],
    );
  }

  /** Removes a task. Call it in the transaction that stores its reply. */
  remove({ fromDid, requestId }: TaskKey): void {
    this.db.run("DELETE FROM tasks WHERE from_did = ? AND request_id = ?", fromDid, requestId);
  }

  /** Stores when the state is requested again. If a power failure loses it, there is one more request. */
  postpone({ fromDid, requestId }: TaskKey, polls: number, nextAt: number): void {
    this.db.transactionWithoutSync(() =>
      this.db.run(
        "UPDATE tasks SET polls = ?, next_at = ? WHERE from_did = ? AND request_id = ?",
        ...[polls, nextAt, fromDid, requestId] as Cell[],
      )
    );
  }

  get size(): number {
    return Number(this.db.get("SELECT count(*) AS n FROM tasks WHERE state = 'working'")?.n);
  }

  /** The tasks whose state is due, the longest due first. A time beyond the longest wait counts as due. */
  due(now: number): OpenTask[] {
    const sql = `${SELECT} WHERE tasks.state = 'working' AND (tasks.next_at <= ? OR tasks.next_at > ?)
     ORDER BY tasks.next_at LIMIT ?`;
    return this.db.all(sql, now, now + LIMIT.taskPollMaxMs, LIMIT.openTasks).map(toTask);
  }

  /** Time when the next task is due; `null` without tasks. */
  nextAt(): number | null {
    const at = this.db.get("SELECT min(next_at) AS at FROM tasks WHERE state = 'working'")?.at ?? null;
    return at === null ? null : Number(at);
  }

  /** The task that asked last in a conversation and whose question may still be answered; `null` without one. */
  asking(contextId: string, now: number): OpenTask | null {
    const sql = `${SELECT} WHERE tasks.state = 'asks' AND tasks.context_id = ? AND tasks.started_at > ?
     ORDER BY tasks.started_at DESC LIMIT 1`;
    const row = this.db.get(sql, contextId, now - LIMIT.taskPatienceMs);
    return row && toTask(row);
  }

  /** Deletes tasks that are not followed any longer: questions without an answer, and tasks of another platform. */
  forget(now: number): void {
    this.db.transactionWithoutSync(() => this.db.run("DELETE FROM tasks WHERE started_at < ?", now - LIMIT.seenKeptMs));
  }
}

function toTask(row: Row): OpenTask {
  return {
    fromDid: String(row.from_did),
    requestId: String(row.request_id),
    taskId: String(row.task_id),
    contextId: String(row.context_id),
    state: row.state === "asks" ? "asks" : "working",
    nextAt: Number(row.next_at),
    polls: Number(row.polls),
    startedAt: Number(row.started_at),
    conversationId: row.conversation_id as string | null,
  };
}
