/** The records of the proxy in the store, as kv_keys.ts lists them. */

import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";

/** A delivery on record; times are milliseconds since the Unix epoch. */
export interface DeliveryRecord {
  bodySha256: string;
  startedAt: number;
  /** Instance that delivers it; `null` once the attempt has ended. */
  instance: string | null;
  /** The 202, once there was one. */
  answer: HookAnswer | null;
  answeredAt: number;
  /** When the first receipt was recorded; 0 without one. */
  receiptAt: number;
}

/** A ticket as stored, under the digest of its text; times are milliseconds since the Unix epoch. */
export interface TicketRecord {
  id: string;
  initiatorAgentDid: string;
  initiatorOwnerDid: string;
  initiatorProfile: PairingProfile;
  allowResponderAgentDid: string | null;
  expiresAt: number;
  confirmed: { responderAgentDid: string; responderProfile: PairingProfile; at: number } | null;
}

/** An open ticket of an agent, for its limit. */
export interface OpenTicket {
  id: string;
  expiresAt: number;
}

/** One direction of a pair, as its owner sees the peer; time is milliseconds since the Unix epoch. */
export interface PairRecord {
  peerProfile: PairingProfile;
  pairedAt: number;
  /** ID of the ticket that made the pair. Absent in records of the previous version. */
  ticketId?: string;
}

/** The count of one agent; `null` when pairs were removed from a count that was never made. */
export interface PairCount {
  pairs: number | null;
}

/** A message that waits; times are milliseconds since the Unix epoch. */
export interface MailboxEntry {
  /** Its place in the recipient's line. */
  number: number;
  message: Omit<Message, "payload">;
  /** Parts into which the payload is cut. */
  parts: number;
  expiresAt: number;
  /** How often the connector refused it. */
  nacks: number;
  /** Not handed over before. */
  notBefore: number;
}

/** A recipient's line as a whole. */
export interface MailboxState {
  /** Place of the next message. */
  next: number;
  total: number;
  bySender: Record<string, number>;
}

/** Where an agent's session is. `epoch` rises with every move. */
export interface Presence {
  instance: string;
  epoch: number;
}

/** That an instance lives; time is milliseconds since the Unix epoch. */
export interface InstanceLease {
  until: number;
  /** Process that it is part of, perhaps with siblings. */
  pid: number;
}

/** A note in an inbox; bytes that do not fit a value lie beside it in parts. */
export interface StoredInstanceMessage {
  body: unknown;
  parts: number;
}

/** The newest list that was ever installed. */
export interface CrlSeen {
  seq: number;
  /** Unix seconds. */
  iat: number;
}

/** A message, before it is a frame. */
export type Message = Omit<DeliverFrame, "v" | "id" | "ts" | "type" | "attempt">;
