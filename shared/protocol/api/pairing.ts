/** Request and response bodies of pairing. */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { AgentDid, Chars43, DisplayName, ForeignOrigin, IsoTime, Origin, pageLimit, strictQuery } from "./fields.ts";

export type PairingProfile = z.output<typeof PairingProfile>;
export const PairingProfile = z.object({ agentName: DisplayName, humanName: DisplayName });

/**
 * The proof of a key with the pair secret of a ticket. The proxy only passes it on, because it does not know that
 * secret and so cannot check the proof.
 */
export type PairKey = z.output<typeof PairKey>;
export const PairKey = z.object({ publicKey: Chars43, mac: Chars43 });

/** A pasted ticket. It may have white space and backticks around it, but a text of nothing else is refused. */
const PastedTicket = z.string().trim().regex(/[^\s`]/, "must be the text of a ticket");

export type PairStartBody = z.output<typeof PairStartBody>;
export const PairStartBody = z.object({
  ttlSeconds: z.int().min(1).max(LIMITS.ticketTtlMaxSeconds).default(LIMITS.ticketTtlSeconds),
  initiatorProfile: PairingProfile,
  /** The only agent that may confirm the ticket (default: any agent). */
  allowResponderAgentDid: AgentDid.optional(),
  initiatorKey: PairKey.optional(),
});

export type PairStartAnswer = z.output<typeof PairStartAnswer>;
export const PairStartAnswer = z.object({
  ticket: z.string(),
  expiresAt: IsoTime,
  initiatorAgentDid: AgentDid,
  initiatorProfile: PairingProfile,
});

export type PairConfirmBody = z.output<typeof PairConfirmBody>;
export const PairConfirmBody = z.object({
  ticket: PastedTicket,
  responderProfile: PairingProfile,
  responderKey: PairKey.optional(),
});

export type PairConfirmAnswer = z.output<typeof PairConfirmAnswer>;
export const PairConfirmAnswer = z.object({
  paired: z.literal(true),
  initiatorAgentDid: AgentDid,
  initiatorProfile: PairingProfile,
  responderAgentDid: AgentDid,
  responderProfile: PairingProfile,
  initiatorKey: PairKey.optional(),
});

/** Body of a request that confirms a pair with an agent whose home is another server. */
export type PairAcceptBody = z.output<typeof PairAcceptBody>;
export const PairAcceptBody = z.object({
  peerAgentDid: AgentDid,
  peerProxy: ForeignOrigin,
  peerProfile: PairingProfile,
  peerKey: PairKey,
});

export type PairAcceptAnswer = z.output<typeof PairAcceptAnswer>;
export const PairAcceptAnswer = z.object({
  paired: z.literal(true),
  agentDid: AgentDid,
  peerAgentDid: AgentDid,
  peerProxy: Origin,
  peerProfile: PairingProfile,
});

export type PairStatusBody = z.output<typeof PairStatusBody>;
export const PairStatusBody = z.object({ ticket: PastedTicket });

/** Responder, keys and `confirmedAt` are absent before the confirmation, and so is a key that was not sent. */
export type PairStatusAnswer = z.output<typeof PairStatusAnswer>;
export const PairStatusAnswer = z.object({
  status: z.enum(["pending", "confirmed"]),
  initiatorAgentDid: AgentDid,
  initiatorProfile: PairingProfile,
  expiresAt: IsoTime,
  responderAgentDid: AgentDid.optional(),
  responderProfile: PairingProfile.optional(),
  confirmedAt: IsoTime.optional(),
  initiatorKey: PairKey.optional(),
  responderKey: PairKey.optional(),
});

export type PeerListQuery = z.output<typeof PeerListQuery>;
export const PeerListQuery = strictQuery({
  limit: pageLimit(LIMITS.peerListMax, "^(?:[1-9][0-9]?|[1-4][0-9]{2}|500)$").default(LIMITS.peerListDefault),
  cursor: AgentDid.optional(),
});

/** One page, sorted by DID. */
export type PeerList = z.output<typeof PeerList>;
export const PeerList = z.object({
  peers: z.array(z.object({
    agentDid: AgentDid,
    profile: PairingProfile,
    pairedAt: IsoTime,
    peerKey: PairKey.optional(),
    /** Whether the peer is connected. It is `null` if the peer hides this or is at home on another server. */
    online: z.boolean().nullable(),
    /** When the peer was last connected, to the minute; `null` if never, hidden, or at home on another server. */
    lastSeenAt: IsoTime.nullable(),
    /** Origin of the peer's home proxy, which gets messages for the peer. Absent when that is the answering proxy. */
    proxy: Origin.optional(),
  })),
  pagination: z.object({ limit: z.int(), nextCursor: AgentDid.nullable() }),
});

export type PairRemoveBody = z.output<typeof PairRemoveBody>;
export const PairRemoveBody = z.object({ peerAgentDid: AgentDid });
