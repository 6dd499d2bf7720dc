/** Rows of the table `messages` as objects; times are milliseconds since the Unix epoch. */
import { sha256 } from "../../../shared/protocol/base64url.ts";
import type { FrameIdentity } from "../../../shared/protocol/frames.ts";
import type { Verified } from "../../../shared/client/local_shapes.ts";
import type { Row } from "./database.ts";

/** The attempts at a message so far. */
export interface Tries {
  attempts: number;
  /** Attempts with a response about the message. */
  refusals: number;
  firstTriedAt: number | null;
}

export interface InboxMessage {
  seq: number;
  fromDid: string;
  requestId: string;
  toDid: string;
  identity: FrameIdentity;
  conversationId: string | null;
  /**
   * The conversation for a session of the runtime; `null`: the sender's own one. It is also `null` in a conversation that a
   * message without one has opened, or the runtime would answer the next message in a session without the first one.
   */
  session: string | null;
  /** Request ID of the message that this one answers, as the sender gave it. */
  inReplyTo: string | null;
  /** True when the agent has sent that message to the sender of this one (D-112). */
  isReply: boolean;
  /** True when a program sent it without a decision of a person or a model. */
  auto: boolean;
  /** JSON text, unchanged byte for byte; empty when the content is blanked. */
  payload: string;
  receivedAt: number;
  /** How the key of its sender is known: from a ticket, or from registry and proxy. */
  verified: Verified;
  /** When its sender signed it, Unix seconds. */
  signedAt: number;
  /** When the agent took it (D-116); `null` when it is unread or goes to a runtime. */
  readAt: number | null;
  /** True for an unread message that a program held and may have shown before it ended (D-395). */
  mayBeRepeat: boolean;
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
  /** Until `nextAt` it is for a caller that waits for it, also after an outage of the runtime. */
  isHeld?: boolean;
}

/** The lane of a message: one per sender and conversation. Messages of a lane are delivered in order. */
export function laneOf(fromDid: string, conversationId: string | null): string {
  return conversationId === null ? fromDid : `${fromDid} ${conversationId}`;
}

/** A message that the connector gave up on. */
export interface DeadLetter {
  id: number;
  fromAgentDid: string;
  requestId: string;
  conversationId: string | null;
  identity: FrameIdentity;
  payload: string;
  receivedAt: number;
  verified: Verified;
  endedAt: number;
  attempts: number;
  problem: string;
}

/** Whether this agent has answered in the conversation, or opened it, with a message that named none before. */
const IS_OPENED = `EXISTS (
  SELECT 1 FROM sent WHERE sent.to_did = messages.from_did AND sent.in_reply_to = messages.conversation_id
    AND sent.conversation_id = messages.conversation_id
) OR EXISTS (
  SELECT 1 FROM sent WHERE sent.request_id = messages.conversation_id AND sent.to_did = messages.from_did
    AND sent.conversation_id IS NULL
)`;
export const SESSION = `CASE WHEN ${IS_OPENED} THEN NULL ELSE messages.conversation_id END AS session`;

export const MESSAGE_COLUMNS = `messages.*, ${SESSION}, EXISTS (
  SELECT 1 FROM sent WHERE sent.request_id = messages.in_reply_to AND sent.to_did = messages.from_did
) AS is_reply`;

/** Condition of a message that can be the result of a task (D-135): not one that its runtime has got. */
export const TASK_REPLY = "(messages.read_at IS NOT NULL OR messages.state <> 'done')";

export const QUEUE_COLUMNS = `seq, from_did, ${SESSION}, next_at, aside`;

export function toQueued(row: Row): QueuedMessage {
  return {
    seq: Number(row.seq),
    lane: laneOf(String(row.from_did), row.session as string | null),
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
    session: row.session as string | null,
    inReplyTo: row.in_reply_to as string | null,
    isReply: row.is_reply === 1,
    auto: row.auto === 1,
    payload: String(row.payload),
    receivedAt: Number(row.received_at),
    verified: row.verified as Verified,
    signedAt: Number(row.signed_at),
    readAt: row.read_at as number | null,
    mayBeRepeat: row.read_at === null && (row.may_repeat === 1 || row.lease_id !== null),
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
    identity: JSON.parse(String(row.identity)) as FrameIdentity,
    payload: String(row.payload),
    receivedAt: Number(row.received_at),
    verified: row.verified as Verified,
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

/** What names a sent message. */
export interface SentKey {
  toDid: string;
  requestId: string;
}

/** A change in the store, told after its commit. */
export type Change =
  /** A message is stored, or unread again. `waiting`: its place among the hand-overs; `null` when it has one already. */
  | { kind: "arrived"; message: StoredMessage; waiting: QueuedMessage | null }
  /** The agent has taken messages. */
  | { kind: "taken" }
  /** The state of a sent message has changed. */
  | { kind: "sent"; message: SentKey }
  /** A receipt waits to be sent. */
  | { kind: "receipt" }
  /** A message waits to be sent again. */
  | { kind: "kept" };

/** Is told of changes. */
export type OnChange = (change: Change) => void;

/** The first rows, at least one, whose `bytes` together stay within a bound. */
export function withinBytes(rows: readonly Row[], most: number): Row[] {
  let bytes = 0;
  return rows.filter((row, i) => (bytes += Number(row.bytes)) <= most || i === 0);
}
