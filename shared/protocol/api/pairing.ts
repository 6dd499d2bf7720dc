/** Wire bodies of pairing (D-73 to D-75). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { AgentDid, DisplayName, IsoTime } from "./fields.ts";

/** How the two sides introduce themselves. */
export const Profile = z.object({ agentName: DisplayName, humanName: DisplayName });
export type Profile = z.infer<typeof Profile>;

/** A ticket as it was pasted; white space and backticks around it are forgiven, and are no ticket by themselves. */
const PastedTicket = z.string().trim().regex(/[^\s`]/);

/** Body of `POST /pair/start`. */
export const PairStartBody = z.object({
  ttlSeconds: z.int().min(1).max(LIMITS.ticketTtlMaxSeconds).default(LIMITS.ticketTtlSeconds),
  initiatorProfile: Profile,
  allowResponderAgentDid: AgentDid.optional(),
});

/** Answer of `POST /pair/start`. */
export const PairStartAnswer = z.object({
  ticket: z.string(),
  expiresAt: IsoTime,
  initiatorAgentDid: AgentDid,
  initiatorProfile: Profile,
});
export type PairStartAnswer = z.infer<typeof PairStartAnswer>;

/** Body of `POST /pair/confirm`. */
export const PairConfirmBody = z.object({ ticket: PastedTicket, responderProfile: Profile });

/** Answer of `POST /pair/confirm`. */
export const PairConfirmAnswer = z.object({
  paired: z.literal(true),
  initiatorAgentDid: AgentDid,
  initiatorProfile: Profile,
  responderAgentDid: AgentDid,
  responderProfile: Profile,
});
export type PairConfirmAnswer = z.infer<typeof PairConfirmAnswer>;

/** Body of `POST /pair/status`. */
export const PairStatusBody = z.object({ ticket: PastedTicket });

/** Answer of `POST /pair/status`; the last three once confirmed. */
export const PairStatusAnswer = z.object({
  status: z.enum(["pending", "confirmed"]),
  initiatorAgentDid: AgentDid,
  initiatorProfile: Profile,
  expiresAt: IsoTime,
  responderAgentDid: AgentDid.optional(),
  responderProfile: Profile.optional(),
  confirmedAt: IsoTime.optional(),
});
export type PairStatusAnswer = z.infer<typeof PairStatusAnswer>;

/** Query of `GET /pair/peers` (D-215); `cursor` is the `nextCursor` of the page before. */
export const PeerListQuery = z.object({
  limit: z.string().regex(/^[1-9]\d{0,2}$/).transform(Number).pipe(z.int().max(LIMITS.peerListMax)).default(
    LIMITS.peerListDefault,
  ),
  cursor: AgentDid.optional(),
});

/** Answer of `GET /pair/peers` (D-76): one page, by DID. */
export const PeerList = z.object({
  peers: z.array(z.object({ agentDid: AgentDid, profile: Profile, pairedAt: IsoTime })),
  pagination: z.object({ limit: z.int(), nextCursor: AgentDid.nullable() }),
});
export type PeerList = z.infer<typeof PeerList>;

/** Body of `POST /pair/remove` (D-76). */
export const PairRemoveBody = z.object({ peerAgentDid: AgentDid });
