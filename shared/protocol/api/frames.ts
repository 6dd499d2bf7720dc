/**
 * The shapes of the relay's WebSocket frames, for the API documents. The services read frames with the checks of FRAMES
 * instead, because those are faster than a schema and two frames are read for each message. A test compares both.
 */
import * as z from "zod";
import { AgentDid, HumanDid, IsoTime, RequestId, Ulid } from "./fields.ts";
import { DELIVERY_STATES, type FrameType } from "../frames.ts";

const Text = z.string().max(256);

const MEMBERS = {
  deliver: {
    requestId: RequestId,
    fromAgentDid: AgentDid,
    toAgentDid: AgentDid,
    identity: z.looseObject({
      agentDid: AgentDid,
      ownerDid: HumanDid,
      issuer: z.string().max(2048),
      aitJti: Ulid,
      name: z.string().max(64),
    }),
    contentType: z.string(),
    attempt: z.int().min(1),
    conversationId: z.string().max(128).optional(),
    inReplyTo: RequestId.optional(),
    auto: z.literal(true).optional(),
    proof: z.looseObject({}).optional(),
    payload: z.any(),
  },
  deliver_ack: { ackId: Ulid, accepted: z.boolean(), reason: Text.optional() },
  delivery: {
    requestId: RequestId,
    recipientAgentDid: AgentDid,
    state: z.enum(DELIVERY_STATES),
    at: IsoTime,
    receipt: z.looseObject({}).optional(),
  },
  heartbeat: {},
  heartbeat_ack: { ackId: Ulid },
  paired: {
    peerAgentDid: AgentDid,
    profile: z.looseObject({ agentName: Text, humanName: Text }),
    proxy: z.string().max(150).optional(),
  },
  revoked: { reason: Text },
} satisfies Record<FrameType, z.core.$ZodLooseShape>;

/** The shape of each frame, by its type. Unknown members are allowed, because a later version may add some. */
export const FRAME_SHAPES: readonly (readonly [type: FrameType, shape: z.ZodType])[] = Object.entries(MEMBERS).map(
  ([type, members]) => [
    type as FrameType,
    z.looseObject({ v: z.literal(1), id: Ulid, ts: IsoTime, type: z.literal(type), ...members }),
  ],
);
