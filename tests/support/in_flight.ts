/** How many deliveries wait for their acknowledgement. */
import type { ConnectedAgents } from "../../proxy/relay/connected_agents.ts";

/** Returns the number of deliveries without an ack, over all agents that are connected. */
export function inFlight(connectedAgents: ConnectedAgents): number {
  return connectedAgents.links().reduce((sum, link) => sum + link.inFlight, 0);
}
