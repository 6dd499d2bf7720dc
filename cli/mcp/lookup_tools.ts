/** Tools that look and change nothing: the agent itself, its peers, and what happened to a sent message. */
import { unreadPages } from "./channel.ts";
import { sentMessage } from "../../shared/client/local_client.ts";
import { SENT_STATES } from "../../shared/client/local_shapes.ts";
import { connectorPeers } from "../connector/peers/peer_list.ts";
import { problemOf, statusOf } from "../connector/status.ts";
import { fitting, ModelPeer, modelPeer } from "./model_message.ts";
import { Peer, RequestId, tool, type ToolRow } from "./tool.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { localError, pairByHand, PROBLEM_CHARACTERS_MAX, shownText } from "./tool_result.ts";
import * as z from "zod";

const Text = z.string();

export const WHOAMI: ToolRow = tool({
  name: "whoami",
  description: "The agent that you are in this network, its connection, and how many messages are unread.",
  input: z.strictObject({}),
  output: z.object({
    agentDid: Text,
    name: Text,
    ownerDid: Text,
    registry: Text,
    proxy: Text,
    platform: Text.describe("inbox: read_inbox reads the messages; else they go to that runtime"),
    connection: Text,
    since: Text,
    unread: z.int(),
    problem: Text.nullable(),
  }),
  isLookup: true,
  async run(mcp) {
    const { connector, only, isPush } = mcp.options;
    const status = await statusOf(connector), { connection, inbox, proxy, runtime } = status;
    // Read once the connector has answered, because without the agent only the connector's error says that it is gone.
    const { identity } = mcp.options;
    const problem = problemOf(status);
    // Messages that go to the runtime are never unread here. Of the others those of the peers count that the server may
    // see.
    let unread = only === null && !isPush ? inbox.waiting : 0;
    if (only !== null && !isPush) {
      for await (const { messages } of unreadPages(mcp, 0, 0)) unread += messages.length;
    }
    return {
      agentDid: identity.did,
      name: identity.name,
      ownerDid: identity.ownerDid,
      registry: identity.registryUrl,
      proxy: proxy.origin,
      platform: runtime.platform,
      connection: connection.state,
      since: connection.since,
      unread,
      problem: problem === null ? null : shownText(problem, PROBLEM_CHARACTERS_MAX),
    };
  },
});

export const LIST_PEERS: ToolRow = tool({
  name: "list_peers",
  description: "The agents that you can send messages to. `alias` or `agentDid` is the `to` of send_message.",
  input: z.strictObject({
    after: Peer.optional().describe("The last peer of a result with more: shows those behind it"),
  }),
  output: z.object({
    peers: z.array(ModelPeer),
    more: z.boolean().describe("More peers than fit into a result: call again with after"),
    next: Text.describe("What to do now"),
  }),
  isLookup: true,
  hasPeerText: true,
  async run(mcp, { after }) {
    const all = await connectorPeers(mcp.options.connector);
    const allowed = all.filter(({ agentDid }) => mcp.allows(agentDid));
    const last = after === undefined ? null : mcp.peer(after);
    const begin = 1 + allowed.findIndex(({ agentDid }) => agentDid === last);
    // From the first peer again, a list whose last one has ended meanwhile would never end.
    if (last !== null && begin === 0) {
      throw localError("CONNECTOR_PEER_UNKNOWN", `The list has no "${after}"`, "Call the tool again without after.");
    }
    const shown = fitting(allowed.slice(begin).map(modelPeer));
    return {
      peers: shown,
      more: begin + shown.length < allowed.length,
      next: nextAfter(mcp, allowed.length, all.length),
    };
  },
});

function nextAfter({ options: { isReadOnly, only, pairingCommand } }: McpAgent, allowed: number, all: number): string {
  if (allowed > 0) return isReadOnly ? "This server only reads: read_inbox." : "send_message writes to one of them.";
  if (all > 0) return "This server may not see any of the agent's peers: its --peers names others.";
  if (!isReadOnly && only === null) {
    return "No peer yet. pair_start makes a ticket for another person, pair_confirm takes the one that your user was given.";
  }
  return `No peer yet. ${pairByHand(pairingCommand("start", {}))} It prints a ticket for the other person.`;
}

export const DELIVERY_STATUS: ToolRow = tool({
  name: "delivery_status",
  description: "What happened to a message that was sent: its state, and the IDs of its replies for read_inbox.",
  input: z.strictObject({ request_id: RequestId, to: Peer.optional() }),
  output: z.object({
    requestId: Text,
    to: Text,
    state: z.enum(SENT_STATES),
    stateAt: Text,
    problem: Text.nullable(),
    replies: z.array(z.int()),
  }),
  isLookup: true,
  hasPeerText: true,
  async run(mcp, { request_id, to }) {
    const { connector } = mcp.options;
    const recipient = to === undefined ? undefined : mcp.peer(to);
    const { result: sent } = await sentMessage(connector, { requestId: request_id, to: recipient });
    if (!mcp.allows(sent.to)) throw localError("CONNECTOR_MESSAGE_UNKNOWN");
    return {
      requestId: sent.requestId,
      to: mcp.nameOf(sent.to),
      state: sent.state,
      stateAt: sent.stateAt,
      problem: sent.problem === null ? null : shownText(sent.problem, PROBLEM_CHARACTERS_MAX),
      replies: sent.replies,
    };
  },
});
