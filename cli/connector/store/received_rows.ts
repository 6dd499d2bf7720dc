/** Rows of the table `messages` as objects; times are milliseconds since the Unix epoch. */
import { sha256 } from "../../../shared/protocol/base64url.ts";
import type { RuntimeMessage } from "../../platforms/platform.ts";

export interface Tries {
  attempts: number;
  /** Attempts with a response about the message. */
  refusals: number;
  firstTriedAt: number | null;
}

/** A stored message. `payload` is unchanged byte for byte, and empty when the content is blanked. */
export interface InboxMessage extends Omit<RuntimeMessage, "idempotencyKey" | "taskId"> {
  seq: number;
  /** True when the message that `inReplyTo` names went from this agent to this sender (D-112). */
  isReply: boolean;
  receivedAt: number;
  /** When the agent took it (D-116); `null` when it is unread or goes to a runtime. */
  readAt: number | null;
  /** True for an unread message that a program held and may have shown before it ended (D-395). */
  mayBeRepeat: boolean;
  /** True while it waits for its reader, or for the runtime. */
  isWaiting: boolean;
  /** Until when a program holds it, so that no other reader may take it (D-395). */
  leaseUntil: number;
  tries: Tries;
}

/** The same for every attempt at a message, and different for every other message (D-88). */
export function idempotencyKey({ fromDid, requestId }: Pick<InboxMessage, "fromDid" | "requestId">): Promise<string> {
  return sha256(`${fromDid}\n${requestId}`);
}

/** A waiting message, with what its order depends on. */
export interface QueuedMessage {
  seq: number;
  lane: string;
  nextAt: number;
  /** Out of its lane: it does not block other messages and does not wait for them. */
  aside: boolean;
  /**
   * True when the message waits until `nextAt` also after an outage of the runtime: a caller waits for it, and its answer
   * would go to the runtime; or the runtime has seen it, and did not take it.
   */
  isHeld?: boolean;
}

/** Whether the first message of this conversation had no conversation ID, and this agent has answered or sent it. */
const IS_OPENED = `EXISTS (
  SELECT 1 FROM sent WHERE sent.toDid = messages.fromDid AND sent.inReplyTo = messages.conversationId
    AND sent.conversationId = messages.conversationId
) OR EXISTS (
  SELECT 1 FROM sent WHERE sent.requestId = messages.conversationId AND sent.toDid = messages.fromDid
    AND sent.conversationId IS NULL
)`;
const SESSION = `CASE WHEN ${IS_OPENED} THEN NULL ELSE messages.conversationId END AS session`;

export const MESSAGE_COLUMNS = `seq, fromDid, requestId, toDid, identity, conversationId, ${SESSION}, inReplyTo, auto,
  payload, receivedAt, verified, signedAt, readAt, readAt IS NULL AND (mayRepeat OR leaseId IS NOT NULL) AS mayBeRepeat,
  state = 'waiting' AS isWaiting, leaseUntil, attempts, refusals, firstTriedAt, EXISTS (
    SELECT 1 FROM sent WHERE sent.requestId = messages.inReplyTo AND sent.toDid = messages.fromDid
  ) AS isReply`;

export const QUEUE_COLUMNS = `seq, fromDid, ${SESSION}, nextAt, aside`;

/** Request IDs of tasks: `a-` and a SHA-256 as base64url, a form that no other request ID of this agent has. */
export function isTaskId(requestId: string | null): requestId is string {
  return requestId !== null && /^a-[A-Za-z0-9_-]{43}$/.test(requestId);
}

/** Condition of a message that can be the result of a task (D-135): any but a dead letter that was deleted. */
export const TASK_REPLY = "(messages.readAt IS NOT NULL OR messages.state <> 'done')";

export type QueueRow = Pick<InboxMessage, "seq" | "fromDid" | "session"> & Record<"nextAt" | "aside", number>;

/** A lane for each sender and conversation: its messages are delivered in order. */
export function toQueued({ seq, fromDid, session, nextAt, aside }: QueueRow): QueuedMessage {
  return { seq, lane: session === null ? fromDid : `${fromDid} ${session}`, nextAt, aside: aside === 1 };
}

type Flags = "isReply" | "auto" | "mayBeRepeat" | "isWaiting";
export type MessageRow =
  & Omit<InboxMessage, "identity" | Flags | "tries">
  & Tries
  & Record<Flags, number>
  & { identity: string };

export function toMessage({ attempts, refusals, firstTriedAt, ...row }: MessageRow): InboxMessage {
  return {
    ...row,
    identity: JSON.parse(row.identity),
    isReply: row.isReply === 1,
    auto: row.auto === 1,
    mayBeRepeat: row.mayBeRepeat === 1,
    isWaiting: row.isWaiting === 1,
    tries: { attempts, refusals, firstTriedAt },
  };
}

export type StoredMessage = Pick<InboxMessage, "seq" | "fromDid" | "conversationId" | "inReplyTo">;

export interface SentKey {
  toDid: string;
  requestId: string;
}

/** The key of a sent message as one text, for a map. */
export function keyOf({ toDid, requestId }: SentKey): string {
  return `${toDid} ${requestId}`;
}

/** A change in the store, told after its commit. */
export type Change =
  /**
   * A message is stored, or unread again. `waiting`: its new place in the queue of the runtime; `null`: it needs none.
   */
  | { kind: "arrived"; message: StoredMessage; waiting: QueuedMessage | null }
  | { kind: "taken" }
  | { kind: "sent"; message: SentKey }
  | { kind: "reply_refused"; message: SentKey; why: string }
  /** A receipt, or a kept message, waits to be sent. */
  | { kind: "receipt" | "kept" };

export type OnChange = (change: Change) => void;

/** Whether a change is of the state of a sent message, or a reply to it. */
export function isAbout(change: Change, { toDid, requestId }: SentKey): boolean {
  if (change.kind === "sent") return change.message.toDid === toDid && change.message.requestId === requestId;
  return change.kind === "arrived" && change.message.fromDid === toDid && change.message.inReplyTo === requestId;
}

/** The first rows, at least one, whose `bytes` together stay within a bound. */
export function withinBytes<R extends { bytes: number }>(rows: readonly R[], most: number): R[] {
  let bytes = 0;
  return rows.filter((row, i) => (bytes += row.bytes) <= most || i === 0);
}
