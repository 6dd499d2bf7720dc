/** Request and response bodies of pairing (D-73 to D-75). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { LIMITS } from "../limits.ts";
import { AgentDid, DisplayName, IsoTime } from "./fields.ts";

/** How the two sides introduce themselves. */
export interface PairingProfile {
  /** Name of the agent. */
  agentName: string;
  /** Name of the agent's owner. */
  humanName: string;
}
/** Schema of `PairingProfile`. */
export const PairingProfile: Shape<PairingProfile> = z.object({ agentName: DisplayName, humanName: DisplayName });

/** A pasted ticket; surrounding white space and backticks are removed and are not a ticket alone. */
const PastedTicket = z.string().trim().regex(/[^\s`]/);

/** Body of `POST /pair/start`. */
export interface PairStartBody {
  /** Lifetime of the ticket, seconds. */
  ttlSeconds: number;
  /** Profile of the caller. */
  initiatorProfile: PairingProfile;
  /** The only agent that may confirm the ticket (default: any). */
  allowResponderAgentDid?: string | undefined;
}
/** Schema of `PairStartBody`. */
export const PairStartBody: Shape<PairStartBody> = z.object({
  ttlSeconds: z.int().min(1).max(LIMITS.ticketTtlMaxSeconds).default(LIMITS.ticketTtlSeconds),
  initiatorProfile: PairingProfile,
  allowResponderAgentDid: AgentDid.optional(),
});

/** Response of `POST /pair/start`. */
export interface PairStartAnswer {
  /** The pairing ticket. */
  ticket: string;
  /** Time of expiry, ISO 8601. */
  expiresAt: string;
  /** DID of the agent that created the ticket. */
  initiatorAgentDid: string;
  /** Profile of the agent that created the ticket. */
  initiatorProfile: PairingProfile;
}
/** Schema of `PairStartAnswer`. */
export const PairStartAnswer: Shape<PairStartAnswer> = z.object({
  ticket: z.string(),
  expiresAt: IsoTime,
  initiatorAgentDid: AgentDid,
  initiatorProfile: PairingProfile,
});

/** Body of `POST /pair/confirm`. */
export interface PairConfirmBody {
  /** The pairing ticket. */
  ticket: string;
  /** Profile of the caller. */
  responderProfile: PairingProfile;
}
/** Schema of `PairConfirmBody`. */
export const PairConfirmBody: Shape<PairConfirmBody> = z.object({
  ticket: PastedTicket,
  responderProfile: PairingProfile,
});

/** Response of `POST /pair/confirm`. */
export interface PairConfirmAnswer {
  /** Always true. */
  paired: true;
  /** DID of the agent that created the ticket. */
  initiatorAgentDid: string;
  /** Profile of the agent that created the ticket. */
  initiatorProfile: PairingProfile;
  /** DID of the agent that confirmed the ticket. */
  responderAgentDid: string;
  /** Profile of the agent that confirmed the ticket. */
  responderProfile: PairingProfile;
}
/** Schema of `PairConfirmAnswer`. */
export const PairConfirmAnswer: Shape<PairConfirmAnswer> = z.object({
  paired: z.literal(true),
  initiatorAgentDid: AgentDid,
  initiatorProfile: PairingProfile,
  responderAgentDid: AgentDid,
  responderProfile: PairingProfile,
});

/** Body of `POST /pair/status`. */
export interface PairStatusBody {
  /** The pairing ticket. */
  ticket: string;
}
/** Schema of `PairStatusBody`. */
export const PairStatusBody: Shape<PairStatusBody> = z.object({ ticket: PastedTicket });

/** Response of `POST /pair/status`; the last three once confirmed. */
export interface PairStatusAnswer {
  /** Present status. */
  status: "pending" | "confirmed";
  /** DID of the agent that created the ticket. */
  initiatorAgentDid: string;
  /** Profile of the agent that created the ticket. */
  initiatorProfile: PairingProfile;
  /** Time of expiry, ISO 8601. */
  expiresAt: string;
  /** DID of the agent that confirmed the ticket, once confirmed. */
  responderAgentDid?: string | undefined;
  /** Profile of the agent that confirmed the ticket, once confirmed. */
  responderProfile?: PairingProfile | undefined;
  /** Time of confirmation, ISO 8601, once confirmed. */
  confirmedAt?: string | undefined;
}
/** Schema of `PairStatusAnswer`. */
export const PairStatusAnswer: Shape<PairStatusAnswer> = z.object({
  status: z.enum(["pending", "confirmed"]),
  initiatorAgentDid: AgentDid,
  initiatorProfile: PairingProfile,
  expiresAt: IsoTime,
  responderAgentDid: AgentDid.optional(),
  responderProfile: PairingProfile.optional(),
  confirmedAt: IsoTime.optional(),
});

/** Query of `GET /pair/peers` (D-215); `cursor` is the `nextCursor` of the previous page. */
export interface PeerListQuery {
  /** Peers per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `PeerListQuery`. */
export const PeerListQuery: Shape<PeerListQuery> = z.object({
  limit: z.string().regex(/^[1-9]\d{0,2}$/).transform(Number).pipe(z.int().max(LIMITS.peerListMax)).default(
    LIMITS.peerListDefault,
  ),
  cursor: AgentDid.optional(),
});

/** Response of `GET /pair/peers` (D-76): one page, by DID. */
export interface PeerList {
  /** One page of peers. */
  peers: {
    agentDid: string;
    profile: PairingProfile;
    pairedAt: string;
  }[];
  /** Position in the list. */
  pagination: {
    limit: number;
    nextCursor: string | null;
  };
}
/** Schema of `PeerList`. */
export const PeerList: Shape<PeerList> = z.object({
  peers: z.array(z.object({ agentDid: AgentDid, profile: PairingProfile, pairedAt: IsoTime })),
  pagination: z.object({ limit: z.int(), nextCursor: AgentDid.nullable() }),
});

/** Body of `POST /pair/remove` (D-76). */
export interface PairRemoveBody {
  /** DID of the peer. */
  peerAgentDid: string;
}
/** Schema of `PairRemoveBody`. */
export const PairRemoveBody: Shape<PairRemoveBody> = z.object({ peerAgentDid: AgentDid });
