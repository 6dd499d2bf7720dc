/** The agent card of a peer's local A2A address (D-135). Readable without a token, so it names no DID. */
import { A2A_VERSION } from "../../../a2a/protocol.ts";

const TEXT_MODES = ["text/plain", "application/json"];

export interface CardFacts {
  /** The alias of the peer. */
  alias: string;
  /** The agent that sends the messages. */
  agentName: string;
  /** Address for the requests. */
  url: string;
  /** Version of svc. */
  version: string;
}

export function agentCard({ alias, agentName, url, version }: CardFacts) {
  return {
    name: alias,
    description: `The agent ${alias}, a peer of ${agentName}. Messages go through svc.`,
    supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: A2A_VERSION }],
    version,
    capabilities: { streaming: false, pushNotifications: false, extendedAgentCard: false },
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: "Bearer" } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    defaultInputModes: TEXT_MODES,
    defaultOutputModes: TEXT_MODES,
    skills: [{
      id: "message",
      name: "Message",
      description: `Send a message to ${alias} and get its reply.`,
      tags: ["message"],
    }],
  };
}
