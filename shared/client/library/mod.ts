/** `@svc/client`: agents that send, receive and answer messages, in Deno and in Node 20 (D-125). */
export type {
  AgentApi,
  AgentAuth,
  AgentEvent,
  AgentEventName,
  AgentOptions,
  AskOptions,
  Content,
  Credentials,
  IncomingMessage,
  LocalAgentOptions,
  MessageHandler,
  MessageState,
  Peer,
  Receipt,
  Sender,
  SendOptions,
  Sent,
  Ticket,
} from "./agent_api.ts";
export { Agent } from "./agent.ts";
export { LocalAgent } from "./local_agent.ts";
export { SvcError } from "./svc_error.ts";
