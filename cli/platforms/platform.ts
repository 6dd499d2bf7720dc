/**
 * What a row of the platform table says about an agent runtime (D-90): the request it really accepts, how to see that it
 * runs, how it is found on a machine, and how it is set up. Rows know their runtime and nothing of the connector.
 */
import type { FrameIdentity } from "../../shared/protocol/frames.ts";
import type { Finding, Machine } from "./machine.ts";
import type { SetupPlan } from "./setup.ts";

export const PLATFORM_IDS = ["openclaw", "hermes", "nanobot", "generic"] as const;
export type PlatformId = (typeof PLATFORM_IDS)[number];

/** A message as a runtime is to have it. */
export interface RuntimeMessage {
  fromDid: string;
  toDid: string;
  requestId: string;
  identity: FrameIdentity;
  conversationId: string | null;
  /** JSON text. */
  payload: string;
  /** The same for each attempt at this message, and for no other message (D-88). */
  idempotencyKey: string;
}

/** Where a runtime's address comes from: the file of the agent, or that of `install` for every agent. */
export const RUNTIME_SOURCES = ["option", "environment", "agent", "install", "default"] as const;
export type RuntimeSource = (typeof RUNTIME_SOURCES)[number];

/** Where a runtime takes messages. */
export interface RuntimeTarget {
  platform: PlatformId;
  /** Origin. */
  baseUrl: string;
  /** Path, from the slash on. */
  hookPath: string;
  /** The runtime's own secret; `null` where it wants none. */
  hookToken: string | null;
  /** Where `baseUrl` comes from. */
  source?: RuntimeSource;
}

export interface RuntimeRequest {
  headers: Record<string, string>;
  body: string;
}

/** Whether a runtime is there and well. */
export interface Health {
  path: string;
  isHealthy(status: number, body: string): boolean;
}

/** What is to be written where. */
export interface SetupOptions {
  target: RuntimeTarget;
  stateDir: string | null;
  makeToken(): string;
}

export interface Platform {
  id: PlatformId;
  /** As people write it. */
  name: string;
  defaults: { baseUrl: string; hookPath: string };
  /** Milliseconds until an answer. */
  timeoutMs: number;
  /** Whether the runtime refuses requests without its token. */
  needsToken: boolean;
  /** `null`: only whether somebody listens can be seen. */
  health: Health | null;
  /** What a peer wrote may become text that the runtime reads, never a member that steers it (D-100). */
  request(message: RuntimeMessage, target: RuntimeTarget, nowSeconds: number): Promise<RuntimeRequest>;
  /** `stateDir`: where it keeps its state, where that is not the usual place. */
  detect(machine: Machine, stateDir: string | null): Promise<Finding>;
  /** Whether messages would be taken, seen without giving any: what is wrong, or `null`. */
  inspectHook?(machine: Machine, target: RuntimeTarget, stateDir: string | null): Promise<string | null>;
  plan(machine: Machine, wish: SetupOptions): Promise<SetupPlan>;
}

/** The headers of D-88 that tell a runtime who sent the message. */
export function senderHeaders(message: RuntimeMessage): Record<string, string> {
  return {
    "Content-Type": "application/json",
    "x-request-id": message.requestId,
    "x-svc-agent-did": message.identity.agentDid,
    "x-svc-owner-did": message.identity.ownerDid,
    "x-svc-to-agent-did": message.toDid,
    "Idempotency-Key": message.idempotencyKey,
    ...(message.conversationId === null ? {} : { "x-svc-conversation-id": message.conversationId }),
  };
}
