/**
 * A row of the platform table (D-116). A push row: the request that an agent runtime accepts, its health check, its
 * detection and its set-up. The pull row has no runtime: the agent reads its messages. Rows know nothing of the
 * connector.
 */
import { toIso } from "../../shared/protocol/time.ts";
import type { Verified } from "../../shared/client/local_shapes.ts";
import type { FrameIdentity } from "../../shared/protocol/frames.ts";
import type { Finding, Machine } from "./machine.ts";
import type { SetupPlan } from "./setup.ts";

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
  /** The conversation that a session of the runtime is for; `null`: the sender's own session. */
  session: string | null;
  /** ID of the message that this one answers, as its sender states it. */
  inReplyTo: string | null;
  /** True when a program sent the message and no person or model decided to send it. */
  auto: boolean;
  /** How the key is known that signed the message. */
  verified: Verified;
  /** When its sender signed it, Unix seconds. */
  signedAt: number;
  /** JSON text. */
  payload: string;
  /** The same for each attempt at this message, and different for every other message (D-88). */
  idempotencyKey: string;
  /** ID of the runtime's task that asked for this message (D-134). */
  taskId?: string | undefined;
}

/** Source of a runtime's address; `agent`: the agent's file, `install`: the file for every agent. */
export const RUNTIME_SOURCES = ["option", "environment", "agent", "install", "default"] as const;
export type RuntimeSource = (typeof RUNTIME_SOURCES)[number];

/** The address of a runtime for messages. */
export interface RuntimeTarget {
  platform: PushPlatformId;
  /** Origin. */
  baseUrl: string;
  /** Path, with its leading slash. */
  hookPath: string;
  /** The runtime's own secret; `null` when it needs none. */
  hookToken: string | null;
  /** Source of `baseUrl`. */
  source?: RuntimeSource;
  /** True when its answers go back to the senders. */
  replies?: boolean;
}

/** Whether answers of a runtime go back to the senders; `auto`: as its row says. */
export const REPLIES = ["auto", "on", "off"] as const;
export type Replies = (typeof REPLIES)[number];

/** The 2xx answer of a runtime to a message. */
export interface RuntimeReply {
  status: number;
  contentType: string | null;
  /** The whole body, at most 256 KiB; of a runtime that runs tasks at most 1 MiB. */
  text: string;
}

/** What a runtime replies: a text, or a payload as JSON text. */
export type ReplyContent = { text: string } | { payload: string };

/** Codes of the error in the reply of a task that has no result (D-134). */
export const TASK_CODES = ["TASK_FAILED", "TASK_REJECTED", "TASK_CANCELED", "TASK_LOST"] as const;
export type TaskCode = (typeof TASK_CODES)[number];

/** The 2xx answer of a runtime that runs tasks. `text` may be blank. */
export type TaskAnswer =
  /** The result is there. `code`: why there is none. */
  | { kind: "ended"; text: string; code: TaskCode | null }
  /** The task waits for another message of the sender. */
  | { kind: "asks"; taskId: string; text: string }
  | { kind: "working"; taskId: string }
  /** The runtime has no task with the given ID. */
  | { kind: "unknown_task" }
  /** It will never accept the request. `isEnded`: the reason may be that the given task has ended. */
  | { kind: "refused"; why: string; isEnded: boolean }
  /** It may accept the request later. */
  | { kind: "unclear"; why: string };

/** How a runtime answers that runs tasks (D-134). */
export interface TaskProtocol {
  answerOf(answer: RuntimeReply): TaskAnswer;
  /** The request for the present state of a task. */
  poll(taskId: string, target: RuntimeTarget): RuntimeRequest;
}

export interface RuntimeRequest {
  headers: Record<string, string>;
  body: string;
}

/** Health check of a runtime. */
export interface Health {
  path: string;
  isHealthy(status: number, body: string): boolean;
}

/** Input of a set-up. */
export interface SetupOptions {
  target: RuntimeTarget;
  stateDir: string | null;
  makeToken(): string;
}

/** A platform with a runtime: the connector posts messages to it. */
export interface PushPlatform {
  delivery: "push";
  id: PushPlatformId;
  /** Display name. */
  name: string;
  defaults: { baseUrl: string; hookPath: string };
  /** Milliseconds to wait for a response. */
  timeoutMs: number;
  /** Whether the runtime refuses requests without its token. */
  needsToken: boolean;
  /** `null`: the only check is whether the port accepts connections. */
  health: Health | null;
  /**
   * Text of a peer may become text for the runtime, never a member that controls it, because some runtimes take
   * session, model or channel from the caller.
   */
  request(message: RuntimeMessage, target: RuntimeTarget, nowSeconds: number): Promise<RuntimeRequest>;
  /**
   * The reply in an answer; `null` when it has none. Absent: the runtime does not reply in its answer. Off by default
   * for a generic webhook, because an internal service must not begin to leak its answers.
   */
  replyOf?(answer: RuntimeReply): ReplyContent | null;
  /** Present: the answers are about tasks, which the connector follows; `replyOf` is absent then (D-134). */
  tasks?: TaskProtocol;
  /** Whether replies go back to the sender when neither option nor `runtime.json` says so. */
  repliesByDefault: boolean;
  /** `stateDir`: its state directory, when it is not the default. */
  detect(machine: Machine, stateDir: string | null): Promise<Finding>;
  /** Checks whether messages would be accepted, without sending one. Returns the problem, or `null`. */
  inspectHook?(machine: Machine, target: RuntimeTarget, stateDir: string | null): Promise<string | null>;
  plan(machine: Machine, wish: SetupOptions): Promise<SetupPlan>;
}

/** A platform without a runtime: the agent reads its messages from the connector. It is never detected. */
export interface PullPlatform {
  delivery: "pull";
  id: Exclude<PlatformId, PushPlatformId>;
  /** Display name. */
  name: string;
}

export type Platform = PushPlatform | PullPlatform;

/** Headers that name the sender of a message (D-88) and the message that it answers. */
export function senderHeaders(message: RuntimeMessage): Record<string, string> {
  return {
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
