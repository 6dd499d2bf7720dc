/** Rows of the table `messages` as objects; times are milliseconds since the Unix epoch. */
import type { FrameIdentity } from "../../../shared/protocol/frames.ts";
import type { Row } from "./database.ts";
import { laneOf, type QueuedMessage, type Tries } from "./delivery_rules.ts";

/** A stored message. */
export interface InboxMessage {
  seq: number;
  fromDid: string;
  requestId: string;
  toDid: string;
  identity: FrameIdentity;
  conversationId: string | null;
  /** Request ID of the message that this one answers, as the sender gave it. */
  inReplyTo: string | null;
  /** True when the agent has sent that message to the sender of this one (D-112). */
  isReply: boolean;
  /** True when a program sent it without a decision of a person or a model. */
  auto: boolean;
  /** JSON text, unchanged byte for byte; empty when the content is blanked. */
  payload: string;
  receivedAt: number;
  /** When the agent took it (D-116); `null` when it is unread or goes to a runtime. */
  readAt: number | null;
  tries: Tries;
}

/** A message that the connector gave up on. */
export interface DeadLetter {
  id: number;
  fromAgentDid: string;
  requestId: string;
  conversationId: string | null;
  payload: string;
  receivedAt: number;
  endedAt: number;
  attempts: number;
  problem: string;
}

/** Columns of an `InboxMessage`. */
export const MESSAGE_COLUMNS = `messages.*, EXISTS (
  SELECT 1 FROM sent WHERE sent.request_id = messages.in_reply_to AND sent.to_did = messages.from_did
) AS is_reply`;

/** Columns of a `QueuedMessage`. */
export const QUEUE_COLUMNS = "seq, from_did, conversation_id, next_at, aside";

export function toQueued(row: Row): QueuedMessage {
  return {
    seq: Number(row.seq),
    lane: laneOf(String(row.from_did), row.conversation_id as string | null),
    nextAt: Number(row.next_at),
    aside: row.aside === 1,
  };
}

export function toMessage(row: Row): InboxMessage {
  return {
    seq: Number(row.seq),
    fromDid: String(row.from_did),
    requestId: String(row.request_id),
    toDid: String(row.to_did),
    identity: JSON.parse(String(row.identity)) as FrameIdentity,
    conversationId: row.conversation_id as string | null,
    inReplyTo: row.in_reply_to as string | null,
    isReply: row.is_reply === 1,
    auto: row.auto === 1,
    payload: String(row.payload),
    receivedAt: Number(row.received_at),
    readAt: row.read_at as number | null,
    tries: {
      attempts: Number(row.attempts),
      refusals: Number(row.refusals),
      firstTriedAt: row.first_tried_at === null ? null : Number(row.first_tried_at),
    },
  };
}

export function toDeadLetter(row: Row): DeadLetter {
  return {
    id: Number(row.seq),
    fromAgentDid: String(row.from_did),
    requestId: String(row.request_id),
    conversationId: row.conversation_id as string | null,
    payload: String(row.payload),
    receivedAt: Number(row.received_at),
    endedAt: Number(row.ended_at),
    attempts: Number(row.attempts),
    problem: String(row.problem),
  };
}

/** A message that has just been stored. */
export type StoredMessage = Pick<InboxMessage, "seq" | "fromDid" | "conversationId" | "inReplyTo">;

/** Turns a row into what is announced of it. */
export function toStored(row: Row): StoredMessage {
  const { seq, from_did, conversation_id, in_reply_to } = row;
  return {
    seq: Number(seq),
    fromDid: String(from_did),
    conversationId: conversation_id as string | null,
    inReplyTo: in_reply_to as string | null,
  };
}

/** The first rows, at least one, whose `bytes` together stay within a bound. */
export function withinBytes(rows: readonly Row[], most: number): Row[] {
  let bytes = 0;
  return rows.filter((row, i) => (bytes += Number(row.bytes)) <= most || i === 0);
}
