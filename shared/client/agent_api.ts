/** The values that a program exchanges with `LocalAgent`. This file has only types. */

/** A message's content: a text, which is sent as the member `message`, or an object, which is sent unchanged. */
export type Content = string | object;

/** Where a sent message is. */
export type MessageState =
  /** The request is on its way. */
  | "sending"
  /** The proxy has not taken it. The connector has it on its disk and sends it again for 24 h, with the same request ID. */
  | "kept"
  /** The proxy has it on its disk until `expiresAt`, and sends it when the recipient connects. */
  | "queued"
  /** It is on the disk of the recipient's connector; its agent has not taken it. */
  | "delivered"
  /** The recipient's agent has taken it: it has read it, or its runtime has accepted it. */
  | "processed"
  /** It was given up, and is not processed unless its recipient replays it. */
  | "dead_lettered"
  /** The recipient does not have it, because it or a server did not accept it, and no program tries again. */
  | "refused"
  /** The request was interrupted, so the message may have arrived. Repeating it with the same request ID is safe. */
  | "unknown";

export interface SendOptions {
  /** 1 to 128 characters of visible ASCII without a comma. A reply has the conversation of its question by default. */
  conversationId?: string | undefined;
  /** 8 to 128 of `A-Z a-z 0-9 . _ : -` (default: a ULID). A repeated message with the same ID is delivered once. */
  requestId?: string | undefined;
  /** True to send it only if the recipient is connected now. By default, connector or proxy keep it until then. */
  onlyOnline?: boolean | undefined;
}

export interface AskOptions extends SendOptions {
  /** Milliseconds to wait for the reply (default 60,000). */
  timeoutMs?: number | undefined;
}

/** A message that was sent, and where it is now. */
export interface Sent {
  requestId: string;
  state: MessageState;
  /** When the proxy deletes the message if it is still queued, ISO 8601; `null` when it is not queued. */
  expiresAt: string | null;
  /** Why the message was refused, given up, or not taken yet; `null` without a problem. */
  problem: string | null;
}

/** The sender of a message. Decide by `agentDid` or `ownerDid`, because any agent can choose `name` and `humanName`. */
export interface Sender {
  agentDid: string;
  ownerDid: string;
  name: string;
  /** The agent's own name for the sender; `null` if it has none. */
  alias: string | null;
  humanName: string | null;
}

/** A message of a peer, as a handler gets it. */
export interface IncomingMessage {
  /** Number of the message in the connector's inbox. */
  id: number;
  requestId: string;
  from: Sender;
  /** Whether it was sealed and signed with a key that no server chose, or signed with a key that servers named. */
  verified: "end-to-end" | "by-registry";
  conversationId: string | null;
  /** Request ID of the message that this one answers. */
  inReplyTo: string | null;
  /** True when it answers a message that this agent sent to its sender. */
  isReply: boolean;
  /** True when a program sent it without a decision of a person or a model. */
  auto: boolean;
  /** ISO 8601. */
  receivedAt: string;
  /** The member `message` without the identity block; `null` when there is none. */
  text: string | null;
  /** Why a reply has no answer. It is `null` for an answer, and for a message that is not a reply. */
  error: { code: string; message: string } | null;
  /** The whole content. */
  payload: unknown;
}

/** How a message ended, as its recipient reported. */
export interface Receipt {
  requestId: string;
  recipientAgentDid: string;
  status: "processed_by_svc" | "dead_lettered";
  /** ISO 8601. */
  receivedAt: string;
  /** `signed`: the recipient signed it for this message. `by-proxy`: only the proxy says it. */
  verified: "signed" | "by-proxy";
  /** What is wrong with the receipt. With a problem, a server between the two agents lies, or the recipient does. */
  problem?: string | undefined;
  /** The signed receipt and the identity token of its recipient, which `svc receipt verify` checks. */
  signed?: string | undefined;
  ait?: string | undefined;
  /** Present for a sealed message, because the payload can be compared with the receipt only with it. */
  salt?: string | undefined;
}

/** An agent in a confirmed pair. */
export interface Peer {
  agentDid: string;
  /** What the peer calls itself. */
  name: string;
  humanName: string;
  /** This agent's own name for the peer, which stays with its DID; `null` when it has none. */
  alias: string | null;
  /** ISO 8601. */
  pairedAt: string;
}

/** A pairing ticket; a secret that one person gives to the other. */
export interface Ticket {
  ticket: string;
  /** ISO 8601. */
  expiresAt: string;
}

export type AgentEventName = "connected" | "disconnected" | "problem";

export interface AgentEvent {
  event: AgentEventName;
  /** One sentence without secrets. */
  message: string;
  /** Error code; `null` without one. */
  code: string | null;
}

/** Handles a message. The returned value is sent as the reply. If it throws, the message counts as not processed. */
export type MessageHandler = (message: IncomingMessage) => Promise<Content | void> | Content | void;

export interface LocalAgentOptions {
  /** Name of the agent (default: `SVC_AGENT`, else the only agent). */
  name?: string | undefined;
  /** Configuration directory of `svc`, or the folder of a profile (default: as `svc` finds it, with `SVC_PROFILE`). */
  configDir?: string | undefined;
}
