/** Tools that look and change nothing: the agent itself, its peers, and what happened to a sent message (D-128). */
import * as z from "zod";
import { OutboundResult, SENT_STATES } from "../../shared/client/local_shapes.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { bodyOf, checkedBody } from "../connector/local_api/client.ts";
import { connectorPeers } from "../connector/peer_list.ts";
import { Status } from "../connector/status.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { fitting, ModelPeer, modelPeer } from "./model_message.ts";
import { Peer, RequestId } from "./arguments.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { never, tool, type ToolRow } from "./tool.ts";
import { localError, shownText } from "./tool_result.ts";

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
  hasPeerText: false,
  absent: never,
  async run(mcp) {
    const { identity, connector } = mcp.options;
    const body = await connector.call("GET", "/v1/status", undefined, CONNECTOR_LIMITS.statusTimeoutMs);
    const { connection, inbox, proxy, runtime } = checkedBody(connector.agentName, Status, body);
    const problem = connection.problem ?? runtime.problem;
    return {
      agentDid: identity.did,
      name: identity.name,
      ownerDid: identity.ownerDid,
      registry: identity.registryUrl,
      proxy: proxy.origin,
      platform: runtime.platform,
      connection: connection.state,
      since: connection.since,
      unread: mcp.options.only === null ? inbox.waiting : await unreadOf(mcp),
      problem: problem === null ? null : shownText(problem, LIMIT.problemCharacters),
    };
  },
});

/** The number of unread messages of the only peers, at most that of some pages. */
async function unreadOf(mcp: McpAgent): Promise<number> {
  // The messages go to the runtime, which this server does not limit.
  if (mcp.options.isPush) return 0;
  let count = 0;
  for (let pages = 0, after = 0; pages < LIMIT.countedPages; pages++) {
    const { messages, more } = await mcp.page({ unread: true, after, limit: CONNECTOR_LIMITS.pageMessagesMax });
    count += messages.length;
    after = messages.at(-1)?.message.id ?? after;
    if (!more) break;
  }
  return count;
}

export const LIST_PEERS: ToolRow = tool({
  name: "list_peers",
  description: "The agents that you can send messages to. `alias` or `agentDid` is the `to` of send_message.",
  input: z.strictObject({}),
  output: z.object({ peers: z.array(ModelPeer), more: z.boolean().describe("More peers than fit into a result") }),
  isLookup: true,
  hasPeerText: true,
  absent: never,
  async run(mcp) {
    const { connector, peers } = mcp.options;
    const all = await connectorPeers(connector, connector.agentName, peers);
    const allowed = all.filter(({ agentDid }) => mcp.allows(agentDid));
    const shown = fitting(allowed.map(modelPeer));
    return { peers: shown, more: shown.length < allowed.length };
  },
});

export const DELIVERY_STATUS: ToolRow = tool({
  name: "delivery_status",
  description: "What happened to a message that was sent: its state, and the IDs of its replies for read_inbox.",
  input: z.strictObject({ request_id: RequestId, to: Peer.optional() }),
  output: z.object({
    requestId: Text,
    to: Text,
    state: z.enum(SENT_STATES),
    stateAt: Text.nullable(),
    problem: Text.nullable(),
    replies: z.array(z.int()),
  }),
  isLookup: true,
  hasPeerText: true,
  absent: never,
  async run(mcp, { request_id, to }) {
    const { connector } = mcp.options;
    const query = new URLSearchParams({ wait: "0", ...to === undefined ? {} : { to: mcp.peer(to) } });
    const response = await connector.send("GET", `/v1/outbound/${encodeURIComponent(request_id)}?${query}`);
    const sent = checkedBody(connector.agentName, OutboundResult, bodyOf(connector.agentName, response));
    if (!mcp.allows(sent.to)) throw localError("CONNECTOR_MESSAGE_UNKNOWN");
    return {
      requestId: sent.requestId,
      to: mcp.nameOf(sent.to),
      state: sent.state,
      stateAt: sent.stateAt ?? null,
      problem: sent.problem === null ? null : shownText(sent.problem, LIMIT.problemCharacters),
      replies: sent.replies ?? (sent.reply === null ? [] : [sent.reply.id]),
    };
  },
});
