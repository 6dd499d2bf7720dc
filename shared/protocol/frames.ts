/**
 * Relay frames: the messages on the WebSocket at `/v1/relay/connect` (docs/protocol.md#relay-frames).
 *
 *   proxy                          connector
 *     │ ── deliver ───────────────▶ │   a message; the connector stores it, then
 *     │ ◀────────────── deliver_ack │   reports whether it did
 *     │ ── heartbeat ─────────────▶ │   every 30 s; 60 s of silence close the socket (4408).
 *     │ ◀──────────── heartbeat_ack │   The connector sends its own, and waits 10 s for an answer
 *     │ ── delivery ──────────────▶ │   a message of this agent has a new state
 *     │ ── paired, revoked ───────▶ │   need no answer
 *
 * Text messages, one JSON object each: at most 1 MiB from a proxy, at most 8 KiB from a connector. Unknown members are
 * ignored, so that a later version can add some; unknown types and malformed frames count as misuse. `payload` is the
 * last member of `deliver`: the sender's JSON text, inserted and extracted without parsing, so its bytes stay the same.
 */
import { utf8Bytes } from "./base64url.ts";
import { isAgentDid, isHumanDid } from "./did.ts";
import { isRequestId, isUlid } from "./ids.ts";
import { isRecord, parseOrThrow, topLevelMembers } from "./json_text.ts";
import { LIMITS } from "./limits.ts";
import { parseIso } from "./time.ts";

export const CLOSE = {
  shuttingDown: 1001,
  misuse: 1008,
  tooLarge: 1009,
  tooSlow: 1013,
  notAuthorised: 4401,
  silent: 4408,
  replaced: 4409,
} as const;

/** Returns the reason of the close code 1001: within how many milliseconds the connector should connect again. */
export function shutdownReason(returnMs: number): string {
  return `shutting down; connect again within ${returnMs} ms`;
}

/** Returns the milliseconds that such a reason names, or `null` for any other text. */
export function returnWindow(reason: string): number | null {
  const [, ms] = /^shutting down; connect again within (\d{1,6}) ms$/.exec(reason) ?? [];
  return ms === undefined ? null : Number(ms);
}

/**
 * Reasons with which a connector says that it cannot store a message now. If the message may wait, the proxy queues it,
 * because the sender would otherwise be told that it was refused.
 */
export const TEMPORARY_REASONS: ReadonlySet<string> = new Set(["inbox_full", "store_failed"]);

/** States of a message that the proxy reports to its sender. */
export const DELIVERY_STATES = ["queued", "delivered", "processed", "dead_lettered", "refused"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** The sender, as the proxy has verified it. A recipient that checks `proof` uses the values of the AIT instead. */
export interface FrameIdentity {
  agentDid: string;
  ownerDid: string;
  issuer: string;
  aitJti: string;
  name: string;
}

/** Tells whether a member of a frame is valid; `undefined` is an absent member. `T` is the type of a valid one. */
type Check<T = unknown> = (value: unknown) => value is T;

const isText = (max: number): Check<string> => (value): value is string =>
  typeof value === "string" && value.length <= max;
const optional = <T>(check: Check<T>): Check<T | undefined> => (value): value is T | undefined =>
  value === undefined || check(value);
const oneOf = <T>(...values: readonly T[]): Check<T> => (value): value is T => values.some((one) => one === value);
const isTime = (value: unknown): value is string => typeof value === "string" && parseIso(value) !== null;
const isProfile = (value: unknown): value is { agentName: string; humanName: string } =>
  isRecord(value) && isText(256)(value.agentName) && isText(256)(value.humanName);
const isIdentity = (value: unknown): value is FrameIdentity =>
  isRecord(value) && isAgentDid(value.agentDid) && isHumanDid(value.ownerDid) && isText(2048)(value.issuer) &&
  isUlid(value.aitJti) && isText(64)(value.name);
const isAttempt = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1;
const isObject = (value: unknown): value is object => isRecord(value);
/** Accepts any object, because the code that uses a receipt checks its members. They are those of the receipt route. */
const isReceipt = (
  value: unknown,
): value is { requestId: string; recipientAgentDid: string; status: string; receivedAt: string; signed?: string } =>
  isRecord(value);

const HEAD = { v: oneOf(1), id: isUlid, ts: isTime };

/** One row per frame: which side sends it, and its members. */
export const FRAMES = {
  /** A message for the agent. `fromAgentDid` and `requestId` stay the same when it is sent again. */
  deliver: {
    from: "proxy",
    members: {
      requestId: isRequestId,
      fromAgentDid: isAgentDid,
      toAgentDid: isAgentDid,
      identity: isIdentity,
      contentType: isText(LIMITS.frameBytes),
      /** The first attempt has the number 1. */
      attempt: isAttempt,
      conversationId: optional(isText(128)),
      /** Request ID of the message that this one answers. The sender states it, so it may be wrong. */
      inReplyTo: optional(isRequestId),
      /** A program sent the message, without a decision of a person or a model. */
      auto: optional(oneOf<true>(true)),
      /**
       * What proves the sender. Only `readMessageProof` checks its members, because a malformed proof should be refused
       * with a reason, not as a malformed frame.
       */
      proof: optional(isObject),
    },
  },
  /** The connector has stored the message whose frame has the ID `ackId`, or says why it cannot. */
  deliver_ack: {
    from: "connector",
    members: { ackId: isUlid, accepted: oneOf<boolean>(true, false), reason: optional(isText(256)) },
  },
  /** A message of this agent has a new state. Not repeated: `POST /v1/relay/deliveries` returns what was missed. */
  delivery: {
    from: "proxy",
    members: {
      requestId: isRequestId,
      recipientAgentDid: isAgentDid,
      state: oneOf(...DELIVERY_STATES),
      at: isTime,
      /** The receipt, if a receipt has caused this state. */
      receipt: optional(isReceipt),
    },
  },
  heartbeat: { from: "both", members: {} },
  heartbeat_ack: { from: "both", members: { ackId: isUlid } },
  /** The agent has a new peer. `proxy` is the peer's home proxy, absent when that is the sender of the frame. */
  paired: { from: "proxy", members: { peerAgentDid: isAgentDid, profile: isProfile, proxy: optional(isText(150)) } },
  /** The agent is no longer authorised. The proxy then closes the socket with 4401. */
  revoked: { from: "proxy", members: { reason: isText(256) } },
} as const satisfies Record<string, { from: "proxy" | "connector" | "both"; members: Record<string, Check> }>;

type Checked<C> = C extends Check<infer T> ? T : never;
type Members<M> =
  & { [K in keyof M as undefined extends Checked<M[K]> ? never : K]: Checked<M[K]> }
  & { [K in keyof M as undefined extends Checked<M[K]> ? K : never]?: Exclude<Checked<M[K]>, undefined> };
type FrameOf<T extends FrameType> = FrameHead & { type: T } & Members<(typeof FRAMES)[T]["members"]>;
/** The frames of the table that one side may send. */
type SentBy<S extends "proxy" | "connector"> = {
  [T in FrameType]: (typeof FRAMES)[T]["from"] extends S | "both" ? T extends "deliver" ? DeliverFrame : FrameOf<T>
    : never;
}[FrameType];

export type FrameType = keyof typeof FRAMES;
/** Members that every frame has: version of the protocol, ULID of the frame, and time. */
export type FrameHead = Members<typeof HEAD>;
/** A message. `payload` is its JSON text. */
export type DeliverFrame = FrameOf<"deliver"> & { payload: string };
export type DeliverAckFrame = FrameOf<"deliver_ack">;
export type DeliveryFrame = FrameOf<"delivery">;
export type PairedFrame = FrameOf<"paired">;
export type RevokedFrame = FrameOf<"revoked">;
export type ConnectorFrame = SentBy<"connector">;
export type ProxyFrame = SentBy<"proxy">;
export type Frame = ConnectorFrame | ProxyFrame;

/** The checks of each frame, those of its head first. Made once, because two frames are read for every message. */
const MEMBERS = new Map<string, { name: string; check: Check }[]>(
  Object.entries(FRAMES).map(([type, { members }]) => [
    type,
    [...Object.entries<Check>(HEAD), ...Object.entries<Check>(members)].map(([name, check]) => ({ name, check })),
  ]),
);

/** A text is not a frame, or not one that its sender may send. */
export class FrameError extends Error {
  override name = "FrameError";
}

/** Returns the text of a frame. The payload of `deliver` is inserted unchanged. */
export function encodeFrame(frame: Frame): string {
  if (frame.type !== "deliver") return JSON.stringify(frame);
  return `${JSON.stringify({ ...frame, payload: undefined }).slice(0, -1)},"payload":${frame.payload}}`;
}

/** Largest frame that each side may send, bytes of UTF-8. */
const MAX_BYTES = { proxy: LIMITS.frameBytes, connector: LIMITS.connectorFrameBytes } as const;

/**
 * Tells whether a text, as UTF-8, exceeds the largest frame of its sender. It encodes the text only if its length does
 * not decide that already.
 */
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
export function decodeFrame(text: string, from: "proxy"): ProxyFrame;
export function decodeFrame(text: string, from: "proxy" | "connector"): Frame {
  if (isOversize(text, from)) throw new FrameError(`The frame is over ${MAX_BYTES[from]} bytes`);
  const value = parseOrThrow(text, () => new FrameError("The frame is not JSON"));
  if (!isRecord(value)) throw new FrameError("The frame is not a JSON object");
  const { type } = value;
  const row = typeof type === "string" && Object.hasOwn(FRAMES, type) ? FRAMES[type as FrameType] : undefined;
  if (!row || (row.from !== from && row.from !== "both")) throw new FrameError("The frame has an unknown type");
  for (const { name, check } of MEMBERS.get(type as FrameType) ?? []) {
    if (!check(Object.hasOwn(value, name) ? value[name] : undefined)) {
      throw new FrameError(`The frame's ${name} is missing or malformed`);
    }
  }
  return (type === "deliver" ? { ...value, payload: cutPayload(text) } : value) as unknown as Frame;
}

function cutPayload(text: string): string {
  const last = topLevelMembers(text).at(-1);
  if (last?.key !== "payload") throw new FrameError("The frame's payload is not its last member");
  // White space around the sender's JSON belongs to the payload, because its bytes must stay the same.
  return text.slice(last.after, text.lastIndexOf("}"));
}
