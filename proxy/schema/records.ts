/** Records of the proxy in the store. kv_keys.ts lists their keys. */

import type { PairingProfile, PairKey } from "../../shared/protocol/api/pairing.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";
import type { MessageProof } from "../../shared/protocol/message_proof.ts";

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
  /** When the mailbox handed it over; absent before, and for a message that was not queued. */
  handedOverAt?: number;
}

/** A pairing ticket, stored under the digest of its text. Times are milliseconds since the Unix epoch. */
export interface TicketRecord {
  id: string;
  initiatorAgentDid: string;
  initiatorOwnerDid: string;
  initiatorProfile: PairingProfile;
  initiatorKey?: PairKey | undefined;
  allowResponderAgentDid: string | null;
  expiresAt: number;
  confirmed: {
    responderAgentDid: string;
    responderProfile: PairingProfile;
    responderKey?: PairKey | undefined;
    at: number;
  } | null;
}

/** An open ticket of an agent, for the limit on open tickets. `expiresAt` is milliseconds since the Unix epoch. */
export interface OpenTicket {
  id: string;
  expiresAt: number;
}

/** One direction of a pair: the peer of one agent. The time is milliseconds since the Unix epoch. */
export interface PairRecord {
  peerProfile: PairingProfile;
  /** What proves the peer's key to the agent. Only the connectors know the secret, so the proxy cannot check it. */
  peerKey?: PairKey | undefined;
  pairedAt: number;
  /** ID of the ticket that created the pair. */
  ticketId: string;
  /** Owner of the peer, whose budget a message to it uses. */
  peerOwnerDid: string;
  /** Origin of the peer's home proxy; absent for this one. */
  proxy?: string;
}

/** Number of pairs of one agent, which has a record while it is not 0. */
export interface PairCount {
  pairs: number;
}

/** A queued message. Times are milliseconds since the Unix epoch. */
export interface MailboxEntry {
  /** Position in the recipient's mailbox. */
  number: number;
  message: Envelope;
  /** Number of chunks of its content. */
  parts: number;
  /** Bytes that the message uses up in the budgets of both owners. */
  bytes: number;
  recipientOwnerDid: string;
  expiresAt: number;
  /** Number of refusals by the connector, each of which makes the next wait longer. */
  nacks: number;
  /** Number of refusals whose cause does not pass by itself. Too many of them make the message a dead letter. */
  finalNacks: number;
  /** Earliest time of the next attempt. */
  notBefore: number;
}

/** Bytes of queued messages to all agents of an owner, and from them. */
export interface MailboxBytes {
  received: number;
  sent: number;
}

/** Totals of a recipient's mailbox. */
export interface MailboxState {
  /** Position of the next message. */
  next: number;
  total: number;
  /** Messages by the digest of their sender, because 500 DIDs could be larger than a value of the store. */
  bySender: Record<string, number>;
  /** Messages by the digest of who pays for them: an owner, or another registry. */
  byPayer: Record<string, number>;
}

/**
 * The instance that holds an agent's sockets. `signedAt`, unix seconds, is when the agent signed the connect request
 * that moved it here.
 */
export interface Presence {
  instance: string;
  signedAt: number;
  /** Set when the agent's peers are not told whether it is connected. */
  hidden?: true;
}

/**
 * When an agent was connected last. Times are milliseconds since the Unix epoch. `disconnectedAt` is `null` while the
 * agent is connected, and also when its instance ended without recording the end.
 */
export interface Seen {
  instance: string;
  connectedAt: number;
  disconnectedAt: number | null;
  /** As in `Presence`. */
  hidden?: true;
}

/** Shows that an instance is alive while it changes. An end by the clock would be wrong where clocks differ. */
export interface InstanceLease {
  /** When it was written, by the clock of its instance, milliseconds since the Unix epoch. */
  at: number;
  pid: number;
  /** "leaving": it takes no new agents. "stopped": it holds none. "left": it handles no further notes. */
  state: "serving" | "leaving" | "stopped" | "left";
  /** When it began to leave, by the clock of its instance. Absent before, and after a kill. */
  leavingAt?: number;
  /** Where other instances open a link to it; absent for an instance that gets notes only. */
  link?: LinkAddress;
}

/** `host:port` of an instance, and 32 random bytes (base64url) that only instances on the same store can read. */
export interface LinkAddress {
  at: string;
  key: string;
}

/** A message between instances. Bytes that do not fit the value are stored under keys of their own. */
export interface StoredInstanceMessage {
  body: unknown;
  /** Absent when the bytes have keys of their own, and when there are none. */
  bytes?: Uint8Array;
  parts: number;
}

/** The newest revocation list that was installed. */
export interface CrlSeen {
  seq: number;
  /** Unix seconds. */
  iat: number;
}

/** A message without the members that only its frame has. */
export type Message = Omit<DeliverFrame, "v" | "id" | "ts" | "type" | "attempt" | "proof"> & { proof: MessageProof };

/** What a record holds of a message. The rest may exceed a value of the store, so message_content.ts packs it. */
export type Envelope = Omit<Message, "proof" | "payload">;
