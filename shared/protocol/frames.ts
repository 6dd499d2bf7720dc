/**
 * Relay frames: the messages on the WebSocket at `/v1/relay/connect` (docs/protocol.md#relay-frames).
 *
 *   proxy                          connector
 *     │ ── deliver ───────────────▶ │   a message; the connector stores it, then
 *     │ ◀────────────── deliver_ack │   reports whether it did
 *     │ ── heartbeat ─────────────▶ │   every 30 s, in both directions;
 *     │ ◀──────────── heartbeat_ack │   60 s of silence close the socket (4408)
 *     │ ── delivery ──────────────▶ │   a message of this agent has a new state
 *     │ ── paired, revoked ───────▶ │   need no answer
 *
 * Text messages, one JSON object each: at most 1 MiB from a proxy, at most 8 KiB from a connector. Unknown members are
 * ignored; unknown types and malformed frames count as misuse. `payload` is the last member of `deliver`: the sender's
 * JSON text, inserted and extracted without parsing.
 */
import { utf8Bytes } from "./base64url.ts";
import { isAgentDid, isHumanDid } from "./did.ts";
import { isRequestId, isUlid } from "./ids.ts";
import { topLevelMembers } from "./json_text.ts";
import { LIMITS } from "./limits.ts";
import { parseIso } from "./time.ts";

/** Close codes of a relay socket. */
export const CLOSE = {
  shuttingDown: 1001,
  misuse: 1008,
  tooLarge: 1009,
  tooSlow: 1013,
  notAuthorised: 4401,
  silent: 4408,
  replaced: 4409,
} as const;

/** Returns the reason of the close code 1001: within which time, in milliseconds, the connector is to connect again. */
export function shutdownReason(returnMs: number): string {
  return `shutting down; connect again within ${returnMs} ms`;
}

/** Returns the time that the reason of the close code 1001 names, milliseconds, or `null`. */
export function returnWindow(reason: string): number | null {
  const [, ms] = /^shutting down; connect again within (\d{1,6}) ms$/.exec(reason) ?? [];
  return ms === undefined ? null : Number(ms);
}

/** Members that every frame has. */
export interface FrameHead {
  /** Version of the protocol. */
  v: 1;
  /** ULID, new for each frame. */
  id: string;
  /** ISO-8601. */
  ts: string;
}

/** The sender, as verified by the proxy. A recipient that checks `proof` takes these values from the AIT instead. */
export interface FrameIdentity {
  /** DID of the sender. */
  agentDid: string;
  /** DID of the sender's owner. */
  ownerDid: string;
  /** Origin of the registry that issued the AIT. */
  issuer: string;
  /** `jti` of the sender's AIT. */
  aitJti: string;
  /** Name of the sender. */
  name: string;
}

/** A message for the agent; `payload` is JSON text. (`fromAgentDid`, `requestId`) is stable across attempts. */
export interface DeliverFrame extends FrameHead {
  /** Name of the frame. */
  type: "deliver";
  /** ID that the sender chose for the message. */
  requestId: string;
  /** DID of the sender. */
  fromAgentDid: string;
  /** DID of the recipient. */
  toAgentDid: string;
  /** The verified sender. */
  identity: FrameIdentity;
  contentType: string;
  /** 1 for the first attempt. */
  attempt: number;
  /** ID of the conversation, if the sender named one. */
  conversationId?: string;
  /** ID of the message that this one answers, as the sender states it; its shape is checked, nothing else. */
  inReplyTo?: string;
  /** True when a program sent the message and no person or model decided to send it. */
  auto?: true;
  /** What proves the sender to the recipient; `readMessageProof` checks its members, so a malformed one is refused with a reason. */
  proof?: object;
  /** JSON text of the message. */
  payload: string;
}

/** Acknowledges a message: the connector has stored it (`accepted`), or gives the reason why it cannot. */
export interface DeliverAckFrame extends FrameHead {
  /** Name of the frame. */
  type: "deliver_ack";
  /** `id` of the `deliver` frame. */
  ackId: string;
  /** True when the message is stored. */
  accepted: boolean;
  /** Why the message was not stored. */
  reason?: string;
}

/**
 * Reasons of a connector that pass by themselves: it has no space now. A message that may wait is queued then, because its
 * sender would otherwise be told that it was refused.
 */
export const TEMPORARY_REASONS: ReadonlySet<string> = new Set(["inbox_full", "store_failed"]);

/** Asks for a heartbeat acknowledgement. */
export interface HeartbeatFrame extends FrameHead {
  /** Name of the frame. */
  type: "heartbeat";
}

/** Acknowledges a heartbeat. */
export interface HeartbeatAckFrame extends FrameHead {
  /** Name of the frame. */
  type: "heartbeat_ack";
  /** `id` of the `heartbeat` frame. */
  ackId: string;
}

/** The agent has a new peer. */
export interface PairedFrame extends FrameHead {
  /** Name of the frame. */
  type: "paired";
  /** DID of the new peer. */
  peerAgentDid: string;
  /** Profile of the new peer. */
  profile: { agentName: string; humanName: string };
  /** Origin of the peer's home proxy; absent for the one that sends the frame. */
  proxy?: string;
}

/** States of a message that the proxy tells its sender. */
export const DELIVERY_STATES = ["queued", "delivered", "processed", "dead_lettered", "refused"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** A message of this agent has a new state. Sent once and not repeated: `POST /v1/relay/deliveries` gives what was missed. */
export interface DeliveryFrame extends FrameHead {
  /** Name of the frame. */
  type: "delivery";
  requestId: string;
  recipientAgentDid: string;
  state: DeliveryState;
  /** When it got the state, ISO-8601. */
  at: string;
  /** The receipt, when one gave it the state. */
  receipt?: { requestId: string; recipientAgentDid: string; status: string; receivedAt: string };
}

/** The agent is no longer authorised. The socket then closes with 4401. */
export interface RevokedFrame extends FrameHead {
  /** Name of the frame. */
  type: "revoked";
  /** Why the agent is not authorised. */
  reason: string;
}

/** A frame that a connector may send. */
export type ConnectorFrame = DeliverAckFrame | HeartbeatFrame | HeartbeatAckFrame;
/** A frame that a proxy may send. */
export type ProxyFrame = DeliverFrame | DeliveryFrame | HeartbeatFrame | HeartbeatAckFrame | PairedFrame | RevokedFrame;
/** Any frame. */
export type Frame = ConnectorFrame | ProxyFrame;
/** The name of a frame. */
export type FrameType = Frame["type"];

/** True when the member of a frame is valid; `undefined` stands for an absent member. */
export type FrameMemberCheck = (value: unknown) => boolean;

const isText = (max: number): FrameMemberCheck => (value) => typeof value === "string" && value.length <= max;
const optional = (check: FrameMemberCheck): FrameMemberCheck => (value) => value === undefined || check(value);
const isTime: FrameMemberCheck = (value) => typeof value === "string" && parseIso(value) !== null;
const isBoolean: FrameMemberCheck = (value) => typeof value === "boolean";
const isProfile: FrameMemberCheck = (value) =>
  isRecord(value) && isText(256)(value.agentName) && isText(256)(value.humanName);
const isIdentity: FrameMemberCheck = (value) =>
  isRecord(value) && isAgentDid(value.agentDid) && isHumanDid(value.ownerDid) && isText(2048)(value.issuer) &&
  isUlid(value.aitJti) && isText(64)(value.name);

/** One row per frame: its sender and the check of each member. */
export const FRAMES: Readonly<
  Record<FrameType, { from: "proxy" | "connector" | "both"; members: Record<string, FrameMemberCheck> }>
> = Object.freeze({
  deliver: {
    from: "proxy",
    members: {
      requestId: isRequestId,
      fromAgentDid: isAgentDid,
      toAgentDid: isAgentDid,
      identity: isIdentity,
      contentType: isText(LIMITS.frameBytes),
      attempt: (value) => Number.isSafeInteger(value) && (value as number) >= 1,
      conversationId: optional(isText(128)),
      inReplyTo: optional(isRequestId),
      auto: optional((value) => value === true),
      proof: optional(isRecord),
    },
  },
  deliver_ack: {
    from: "connector",
    members: { ackId: isUlid, accepted: isBoolean, reason: optional(isText(256)) },
  },
  delivery: {
    from: "proxy",
    members: {
      requestId: isRequestId,
      recipientAgentDid: isAgentDid,
      state: (value) => DELIVERY_STATES.some((state) => state === value),
      at: isTime,
      receipt: optional(isRecord),
    },
  },
  heartbeat: { from: "both", members: {} },
  heartbeat_ack: { from: "both", members: { ackId: isUlid } },
  paired: { from: "proxy", members: { peerAgentDid: isAgentDid, profile: isProfile, proxy: optional(isText(150)) } },
  revoked: { from: "proxy", members: { reason: isText(256) } },
});

const HEAD: Record<string, FrameMemberCheck> = {
  v: (value) => value === 1,
  id: isUlid,
  ts: isTime,
};

/** The checks of each frame, its head first. Made once, because every message has two frames that are read. */
const MEMBERS = new Map(
  Object.entries(FRAMES).map(([type, { members }]) => [type, [...Object.entries(HEAD), ...Object.entries(members)]]),
);

/** The text is not a frame that its sender may send. */
export class FrameError extends Error {
  override name = "FrameError";
}

/** Returns the text of a frame. The payload of `deliver` is inserted unchanged. */
export function encodeFrame(frame: Frame): string {
  if (frame.type !== "deliver") return JSON.stringify(frame);
  const { payload, ...head } = frame;
  return `${JSON.stringify(head).slice(0, -1)},"payload":${payload}}`;
}

/** Largest frame of each sender, bytes of UTF-8. */
const MAX_BYTES = { proxy: LIMITS.frameBytes, connector: LIMITS.connectorFrameBytes } as const;

/** Returns true for a text that exceeds, as UTF-8, the largest frame of its sender. Encodes the text only if needed. */
export function isOversize(text: string, from: "proxy" | "connector"): boolean {
  const maxBytes = MAX_BYTES[from];
  if (text.length * 3 <= maxBytes) return false;
  return text.length > maxBytes || utf8Bytes(text).length > maxBytes;
}

/**
 * Returns the frame in a received text.
 *
 * @throws {FrameError} when it is too large for its sender, is not a JSON object, is of an unknown type, or a member is
 * malformed
 */
export function decodeFrame(text: string, from: "connector"): ConnectorFrame;
/**
 * Returns the frame in a text received from a proxy.
 *
 * @throws {FrameError}
 */
export function decodeFrame(text: string, from: "proxy"): ProxyFrame;
export function decodeFrame(text: string, from: "proxy" | "connector"): Frame {
  if (isOversize(text, from)) throw new FrameError(`The frame is over ${MAX_BYTES[from]} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new FrameError("The frame is not JSON");
  }
  if (!isRecord(value)) throw new FrameError("The frame is not a JSON object");
  const { type } = value;
  const row = typeof type === "string" && Object.hasOwn(FRAMES, type) ? FRAMES[type as FrameType] : undefined;
  if (!row || (row.from !== from && row.from !== "both")) throw new FrameError("The frame has an unknown type");
  for (const [name, check] of MEMBERS.get(type as FrameType) ?? []) {
    if (!check(Object.hasOwn(value, name) ? value[name] : undefined)) {
      throw new FrameError(`The frame's ${name} is missing or malformed`);
    }
  }
  return (type === "deliver" ? { ...value, payload: cutPayload(text) } : value) as unknown as Frame;
}

function cutPayload(text: string): string {
  const last = topLevelMembers(text).at(-1);
  if (last?.key !== "payload") throw new FrameError("The frame's payload is not its last member");
  // White space around the sender's JSON belongs to the payload.
  return text.slice(last.after, text.lastIndexOf("}"));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
