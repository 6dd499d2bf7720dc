/// <reference lib="esnext.disposable" />
/** What a program uses of the client library: the members of both agent classes, and their values (D-125). No code. */

/** A message's content: a text, which becomes the member `message`, or an object, which is sent as it is. */
export type Content = string | object;

/** Where a sent message is. */
export type MessageState =
  /** The request is on its way, or is tried again. */
  | "sending"
  /** The proxy keeps it until the recipient connects. */
  | "queued"
  /** The recipient has it. */
  | "delivered"
  /** The recipient has processed it. */
  | "processed"
  /** The recipient gave up on it. */
  | "dead_lettered"
  /** The recipient did not accept it. */
  | "refused"
  /** The request was interrupted. Sending it again with the same request ID is safe. */
  | "unknown";

export interface SendOptions {
  /** 1 to 128 characters of visible ASCII without a comma. A reply has the conversation of its question by default. */
  conversationId?: string | undefined;
  /** 8 to 128 characters of `A-Z a-z 0-9 . _ : -`; a repeated message with the same ID is delivered once. Default: a ULID. */
  requestId?: string | undefined;
  /** Send it only if the recipient is connected now (default false: the proxy keeps it). */
  onlyOnline?: boolean | undefined;
}

export interface AskOptions extends SendOptions {
  /** Milliseconds to wait for the reply (default 60,000). */
  timeoutMs?: number | undefined;
}

/** A message that was sent. */
export interface Sent {
  requestId: string;
  state: MessageState;
  /** When the proxy deletes the message if it is still queued, ISO 8601; `null` when it is not queued. */
  expiresAt: string | null;
  /** Why it was refused; `null` when it was not. */
  problem: string | null;
}

/** The sender of a message. Decide by `agentDid` or `ownerDid`; the other members are what the sender calls itself. */
export interface Sender {
  agentDid: string;
  ownerDid: string;
  name: string;
  /** The agent's own name for the sender; `null` when it has none. */
  alias: string | null;
  humanName: string | null;
}

/** A message of a peer. */
export interface IncomingMessage {
  /** Number in the connector's inbox; `null` when no connector has it. */
  id: number | null;
  requestId: string;
  from: Sender;
  /** How far the sender is proven. `by-proxy`: the proxy verified the request. */
  verified: "end-to-end" | "body-only" | "by-proxy";
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

/** Handles a message. What it returns is sent as the reply; an error means that the message was not processed. */
export type MessageHandler = (message: IncomingMessage) => Promise<Content | void> | Content | void;

/** Tokens of an agent's session, as in `registry-auth.json`. */
export interface AgentAuth {
  tokenType: "Bearer";
  accessToken: string;
  accessExpiresAt: string;
  refreshToken: string;
  refreshExpiresAt: string;
}

/** Which agent `LocalAgent` opens. */
export interface LocalAgentOptions {
  /** Name of the agent (default: `SVC_AGENT`, else the only agent). */
  name?: string | undefined;
  /** Configuration directory of `svc` (default: as `svc` finds it). */
  configDir?: string | undefined;
}

/** How an `Agent` is opened. */
export interface AgentOptions {
  /** Address of the proxy (default: `SVC_PROXY_URL`, else that of `config.json`). */
  proxyUrl?: string | undefined;
  /** Name of the agent's owner, which peers see when they pair. */
  humanName?: string | undefined;
  /** Permit plain http to another machine (default false): others on the network can read the secrets. */
  allowInsecure?: boolean | undefined;
}

/** An agent that has no folder on this machine. */
export interface Credentials {
  did: string;
  name: string;
  ownerDid: string;
  /** The identity token. */
  ait: string;
  /** The private key: base64url of 32 bytes, as in `secret.key`. */
  secretKey: string;
  agentAuth: AgentAuth;
  registryUrl: string;
  proxyUrl: string;
}

/**
 * The members that both agent classes have. Every method rejects with a `SvcError`. A recipient is a DID, or an alias when the
 * agent has a folder on this machine.
 */
export interface AgentApi extends AsyncDisposable {
  readonly did: string;
  readonly name: string;
  /** Sends a message. Its state is `refused` when the recipient did not accept it. */
  send(to: string, content: Content, options?: SendOptions): Promise<Sent>;
  /** Sends a message and returns the first reply. Rejects with `NO_REPLY` when none comes in time. */
  ask(to: string, content: Content, options?: AskOptions): Promise<IncomingMessage>;
  /** Answers a message. */
  reply(to: IncomingMessage, content: Content, options?: SendOptions): Promise<Sent>;
  /**
   * Handles the messages that no `ask` waits for, at most four at once and one per conversation. There is one handler at a
   * time.
   *
   * @returns a function that ends it
   */
  onMessage(handler: MessageHandler): () => void;
  /** The receipts of a message that this agent sent. */
  receipts(requestId: string, to: string): Promise<Receipt[]>;
  peers(): Promise<Peer[]>;
  readonly pair: {
    /** Makes a ticket for another agent (default: valid for 5 min). */
    start(ttlSeconds?: number): Promise<Ticket>;
    /** Pairs with the agent that made the ticket. */
    confirm(ticket: string): Promise<Peer>;
    /** Ends a pair in both directions. */
    remove(peer: string): Promise<void>;
  };
  /** @returns a function that ends it */
  on(event: AgentEventName, handler: (event: AgentEvent) => void): () => void;
  /** Stops receiving, gives handlers that run 4 s to end, and releases everything. Idempotent. */
  close(): Promise<void>;
}
