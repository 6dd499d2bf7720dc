/** Records of the proxy in the store. kv_keys.ts lists their keys. */

import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";

/** A delivery. Times are milliseconds since the Unix epoch. */
export interface DeliveryRecord {
  bodySha256: string;
  startedAt: number;
  /** Instance that delivers it; `null` after the attempt has ended. */
  instance: string | null;
  /** Body of the 202 response; `null` before it. */
  answer: HookAnswer | null;
  answeredAt: number;
  /** Time of the first receipt; 0 without one. */
  receiptAt: number;
}

/** A pairing ticket, stored under the digest of its text. Times are milliseconds since the Unix epoch. */
export interface TicketRecord {
  id: string;
  initiatorAgentDid: string;
  initiatorOwnerDid: string;
  initiatorProfile: PairingProfile;
  allowResponderAgentDid: string | null;
  expiresAt: number;
  confirmed: { responderAgentDid: string; responderProfile: PairingProfile; at: number } | null;
}

/** An open ticket of an agent, for the limit on open tickets. `expiresAt` is milliseconds since the Unix epoch. */
export interface OpenTicket {
  id: string;
  expiresAt: number;
}

/** One direction of a pair: the peer of one agent. The time is milliseconds since the Unix epoch. */
export interface PairRecord {
  peerProfile: PairingProfile;
  pairedAt: number;
  /** ID of the ticket that created the pair. Absent in records of the previous version. */
  ticketId?: string;
}

/** Number of pairs of one agent; `null` when pairs were removed before they were counted. */
export interface PairCount {
  pairs: number | null;
}

/** A queued message. Times are milliseconds since the Unix epoch. */
export interface MailboxEntry {
  /** Position in the recipient's mailbox. */
  number: number;
  message: Omit<Message, "payload">;
  /** Number of chunks of the payload. */
  parts: number;
  expiresAt: number;
  /** Number of refusals by the connector. */
  nacks: number;
  /** Earliest time of the next attempt. */
  notBefore: number;
}

/** Totals of a recipient's mailbox. */
export interface MailboxState {
  /** Position of the next message. */
  next: number;
  total: number;
  bySender: Record<string, number>;
}

/**
 * The instance that holds an agent's sockets. `epoch` rises when presence moves. `signedAt`, unix seconds, is when the
 * agent signed the connect request that moved it here (D-273).
 */
export interface Presence {
  instance: string;
  epoch: number;
  signedAt?: number;
}

/**
 * When an agent was connected last (D-173). Times are milliseconds since the Unix epoch; `disconnectedAt` is `null` while it
 * is connected, and when its instance ended without recording the end.
 */
export interface Seen {
  instance: string;
  connectedAt: number;
  disconnectedAt: number | null;
}

/** Record that an instance is alive until a time, milliseconds since the Unix epoch; 0 when it stops. */
export interface InstanceLease {
  until: number;
  /** Process ID. */
  pid: number;
  /** The instance has stopped, and handles no further note (D-267). */
  hasLeft?: true;
}

/** A message between instances. Chunks that do not fit the value are stored under keys of their own. */
export interface StoredInstanceMessage {
  body: unknown;
  parts: number;
}

/** The newest revocation list that was installed. */
export interface CrlSeen {
  seq: number;
  /** Unix seconds. */
  iat: number;
}

/** A message without the members that only its frame has. */
export type Message = Omit<DeliverFrame, "v" | "id" | "ts" | "type" | "attempt">;
