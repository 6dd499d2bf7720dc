/**
 * A row of the platform table (D-116). A push row describes an agent runtime: the request that it accepts, its health
 * check, its detection and its set-up. The pull row has no runtime, so the agent reads its messages itself. A row knows
 * nothing of the connector.
 */
import { toIso } from "../../shared/protocol/time.ts";
import type { Verified } from "../../shared/client/local_shapes.ts";
import type { FrameIdentity } from "../../shared/protocol/frames.ts";
import { withIdentityBlock, withoutIdentityBlock } from "../../shared/protocol/identity_block.ts";
import { memberText, topLevelMembers } from "../../shared/protocol/json_text.ts";

/** Platforms whose runtime gets the messages. */
export const PUSH_PLATFORM_IDS = ["openclaw", "hermes", "nanobot", "generic", "a2a"] as const;
export type PushPlatformId = (typeof PUSH_PLATFORM_IDS)[number];

export const PLATFORM_IDS = [...PUSH_PLATFORM_IDS, "inbox"] as const;
export type PlatformId = (typeof PLATFORM_IDS)[number];

export interface RuntimeMessage {
  fromDid: string;
  toDid: string;
  requestId: string;
  identity: FrameIdentity;
  conversationId: string | null;
  /**
   * The session of the runtime for this conversation; `null`: the sender's common session. It is also `null` when the
   * first message of the conversation had no conversation ID, because the second one's session would lack the first.
   */
  session: string | null;
  /** ID of the message that this one answers, as its sender states it. */
  inReplyTo: string | null;
  /** True when a program sent the message and no person or model decided to send it. */
  auto: boolean;
  /** How the key of its sender is known: from a ticket, or from registry and proxy. */
  verified: Verified;
  /** When its sender signed it, Unix seconds. */
  signedAt: number;
  /** JSON text. */
  payload: string;
  /** The same for each attempt at this message, and different for every other message. */
  idempotencyKey: string;
  /** ID of the runtime's task that asked for this message. */
  taskId?: string | undefined;
}

/** Source of a runtime's address. `agent` is the agent's own file, `install` the file for every agent. */
export const RUNTIME_SOURCES = ["option", "environment", "agent", "install", "default"] as const;
export type RuntimeSource = (typeof RUNTIME_SOURCES)[number];

export interface RuntimeTarget {
  platform: PushPlatformId;
  /** Origin, for example `http://127.0.0.1:18789`. */
  baseUrl: string;
  /** Path, with its leading slash. */
  hookPath: string;
  /** The runtime's own secret; `null` when it needs none. */
  hookToken: string | null;
  source?: RuntimeSource;
  /** True when its answers go back to the senders. */
  replies?: boolean;
}

/** Whether answers of a runtime go back to the senders. With `auto` the row of the runtime decides. */
export const REPLIES = ["auto", "on", "off"] as const;
export type Replies = (typeof REPLIES)[number];

/** What a runtime replies: a text, or a payload as JSON text. */
export type ReplyContent = { text: string } | { payload: string };

/** Codes of the error in the reply of a task that has no result. */
export const TASK_CODES = ["TASK_FAILED", "TASK_REJECTED", "TASK_CANCELED", "TASK_LOST"] as const;
export type TaskCode = (typeof TASK_CODES)[number];

/** The 2xx answer of a runtime that runs tasks. `text` may be blank. */
export type TaskAnswer =
  /** The task has ended. `code` says why it has no result; `null` when it has one. */
  | { kind: "ended"; text: string; code: TaskCode | null }
  /** The task waits for another message of the sender. */
  | { kind: "asks"; taskId: string; text: string }
  | { kind: "working"; taskId: string }
  /** The runtime has no task with the given ID. */
  | { kind: "unknown_task" }
  /** The runtime will never accept the request. `isEnded` is true when that may be because the given task has ended. */
  | { kind: "refused"; why: string; isEnded: boolean }
  /** The runtime may accept the request later. */
  | { kind: "unclear"; why: string };

export interface TaskProtocol {
  answerOf(text: string): TaskAnswer;
  /** The request for the present state of a task. */
  poll(taskId: string, target: RuntimeTarget): RuntimeRequest;
}

export interface RuntimeRequest {
  headers: Record<string, string>;
  body: string;
}

export interface FileChange {
  path: string;
  /** The text from which `text` was made; `null` without a file. */
  before: string | null;
  text: string;
}

/** The plan of a set-up, printed before it is applied. */
export interface SetupPlan {
  /** `null` when the file has what it needs already, or when there is no file. */
  change: FileChange | null;
  steps: string[];
  /** The token that the runtime will require; `null` for none. */
  hookToken: string | null;
}

export interface SetupOptions {
  target: RuntimeTarget;
  stateDir: string | null;
  makeToken(): string;
}

/** A platform with a runtime: the connector posts messages to it. */
export interface PushPlatform {
  id: PushPlatformId;
  name: string;
  defaults: { baseUrl: string; hookPath: string };
  timeoutMs: number;
  needsToken: boolean;
  /** With `null`, the only check is whether the port accepts connections. */
  health: { path: string; isHealthy(status: number, body: string): boolean } | null;
  /**
   * Text of a peer may become text for the runtime, but never a member that controls it, because some runtimes take
   * session, model or channel from the caller.
   */
  request(message: RuntimeMessage, target: RuntimeTarget, nowSeconds: number): Promise<RuntimeRequest>;
  /** Returns the reply in an answer; `null` when it has none. Absent when the runtime does not reply in its answer. */
  replyOf?(text: string): ReplyContent | null;
  /** Present when the answers are about tasks, which the connector follows. `replyOf` is absent then. */
  tasks?: TaskProtocol;
  /** Whether replies go back to the sender when neither option nor `runtime.json` says so. */
  repliesByDefault: boolean;
  /** `stateDir` is the state directory of the runtime, when it is not the default one. */
  detect(machine: Machine, stateDir: string | null): Promise<Finding>;
  /** Checks whether messages would be accepted, without sending one. Returns the problem, or `null`. */
  inspectHook?(machine: Machine, target: RuntimeTarget, stateDir: string | null): Promise<string | null>;
  plan(machine: Machine, wish: SetupOptions): Promise<SetupPlan>;
}

/** A platform without a runtime: the agent reads its messages from the connector. It is never detected. */
export interface PullPlatform {
  id: Exclude<PlatformId, PushPlatformId>;
  name: string;
}

export type Platform = PushPlatform | PullPlatform;

export function bearer(hookToken: string | null): Record<string, string> {
  return hookToken === null ? {} : { Authorization: `Bearer ${hookToken}` };
}

export function confidenceOf({ length }: readonly string[], isLive: boolean): Confidence {
  if (length === 0) return "none";
  return isLive || length > 1 ? "high" : "medium";
}

/** Headers that name the sender of a message and the message that it answers, with the token of the runtime. */
export function senderHeaders(message: RuntimeMessage, hookToken: string | null = null): Record<string, string> {
  return {
    ...bearer(hookToken),
    "Content-Type": "application/json",
    "x-request-id": message.requestId,
    "x-svc-agent-did": message.identity.agentDid,
    "x-svc-owner-did": message.identity.ownerDid,
    "x-svc-to-agent-did": message.toDid,
    "Idempotency-Key": message.idempotencyKey,
    "x-svc-verified": message.verified,
    "x-svc-signed-at": toIso(message.signedAt * 1000),
    ...(message.conversationId === null ? {} : { "x-svc-conversation-id": message.conversationId }),
    ...(message.inReplyTo === null ? {} : { "x-svc-in-reply-to": message.inReplyTo }),
    ...(message.auto ? { "x-svc-auto": "1" } : {}),
  };
}

/** Files, environment and programs of a machine. They are a parameter, so that a test has its own machine. */
export interface Machine {
  home: string | null;
  env(name: string): string | undefined;
  /** The response of a loopback address, up to 1 MiB; `null` without a response within 2 s. */
  ask(url: string): Promise<{ status: number; body: string } | null>;
  /** The output of a program, up to 1 MiB; `null` when it is not installed or fails. */
  run(command: string, args: readonly string[]): Promise<string | null>;
  /** Text of a file; `null` when it does not exist, is over `MAX_SETTINGS_BYTES`, or cannot be read. */
  read(path: string): Promise<string | null>;
  exists(path: string): Promise<boolean>;
}

export type Confidence = "none" | "medium" | "high";

export interface Finding {
  confidence: Confidence;
  reasons: string[];
  /** Path of the runtime's settings; `null` when unknown. */
  configPath: string | null;
  /** Address for messages, from the runtime's settings. */
  baseUrl?: string;
  hookPath?: string;
}

type Sent = Pick<RuntimeMessage, "payload" | "identity">;

/** The string `message` of the payload; `null` without one, or when it is blank. */
function ownText({ payload }: Sent): string | null {
  const message: unknown = JSON.parse(memberText(payload, "message") ?? "null");
  return typeof message === "string" && message.trim() !== "" ? message : null;
}

/**
 * Returns the message as text below the sender's identity block, or the whole payload if it has no text. The block is
 * made from the frame alone, because a block in the payload may come from the proxy, depending on its settings, or be
 * forged by the peer.
 */
export function textOf(sent: Sent): string {
  const text = ownText(sent) ?? sent.payload;
  return withIdentityBlock(withoutIdentityBlock(text, sent.identity), sent.identity);
}

/**
 * Returns the payload byte for byte, except that `message` contains no identity block but the sender's own at its
 * beginning. Every other line that equals the block's marker is quoted, because a peer could otherwise pass for another
 * sender.
 */
export function payloadOf(sent: Sent): string {
  const json = sent.payload;
  const parts: string[] = [];
  let copied = 0;
  for (const { key, start, end } of topLevelMembers(json)) {
    const value: unknown = key === "message" ? JSON.parse(json.slice(start, end)) : null;
    const safe = typeof value === "string" ? withoutForgedBlocks(value, sent) : value;
    if (safe === value) continue;
    parts.push(json.slice(copied, start), JSON.stringify(safe));
    copied = end;
  }
  return copied === 0 ? json : parts.join("") + json.slice(copied);
}

function withoutForgedBlocks(text: string, { identity }: Sent): string {
  const own = withoutIdentityBlock(text, identity), quoted = withIdentityBlock(own, identity);
  const isGenuine = own !== text;
  return isGenuine ? quoted : withoutIdentityBlock(quoted, identity);
}

/** What `inspectHook` says of a runtime that does not answer, which is not a problem of its settings. */
export const NO_ANSWER = "it does not answer";
