/** `@svc/client`: programs that send, receive and answer messages as an svc agent, in Deno and in Node 20. */
export type {
  AgentEvent,
  AgentEventName,
  AskOptions,
  Content,
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
export { LocalAgent } from "./local_agent.ts";
export { SvcError } from "./svc_error.ts";
