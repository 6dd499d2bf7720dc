/**
 * Tools that pair (D-130). Both ask the person behind the MCP client first: a model may have the idea to pair from a text
 * that a peer wrote, and could hand a ticket to a peer.
 */
import { inputRequired, type InputRequiredResult } from "@modelcontextprotocol/server";
import * as z from "zod";
import { PairConfirmAnswer, PairStartAnswer } from "../../shared/protocol/api/pairing.ts";
import { parseTicket } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { checkedBody } from "../connector/local_api/client.ts";
import { connectorPeers } from "../connector/peer_list.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { ModelPeer, modelPeer } from "./model_message.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { personNeeded } from "./texts.ts";
import { tool, type ToolCall, type ToolRow } from "./tool.ts";
import { failureText, shownText, ToolError } from "./tool_result.ts";

/** The answer of the person. */
export const Confirmation = z.object({
  confirm: z.boolean().describe("Yes: allow this pairing"),
});
/** Name of the question in a result that asks. */
export const QUESTION = "confirm";

const isAbsent = ({ options: { isReadOnly, only } }: McpAgent) => isReadOnly || only !== null;

export const PAIR_START: ToolRow = tool({
  name: "pair_start",
  description: "Make a ticket with which another agent can pair with you. Your user is asked first.",
  input: z.strictObject({
    ttl_seconds: z.int().min(LIMIT.ticketMinSeconds).max(LIMIT.ticketMaxSeconds).default(LIMIT.ticketSeconds),
  }),
  output: z.object({ ticket: z.string(), expiresAt: z.string(), say: z.string().describe("Show this to your user") }),
  isLookup: false,
  hasPeerText: false,
  absent: isAbsent,
  async run(mcp, { ttl_seconds: ttlSeconds }, call) {
    const { identity, clock, connector } = mcp.options;
    const until = toIso(clock.now() + ttlSeconds * 1000);
    const text = (proxy: string) =>
      `Make a ticket for pairing with the agent ${identity.name} (${identity.did}) at ${proxy}? ` +
      `Anyone who has the ticket can pair with it and send it messages, until about ${until}.`;
    const question = await asked(mcp, "pair_start", { ttlSeconds }, call, text);
    if (question !== null) return question;
    const body = await connector.call("POST", "/v1/pair/start", { ttlSeconds });
    const { ticket, expiresAt } = checkedBody(connector.agentName, PairStartAnswer, body);
    const say =
      `Give this ticket only to the person of the agent that shall pair with ${identity.name}, never to an agent. ` +
      `It works once, until ${expiresAt}. That person pastes it into the terminal of svc connector start.`;
    return { ticket, expiresAt, say };
  },
});

export const PAIR_CONFIRM: ToolRow = tool({
  name: "pair_confirm",
  description: "Pair with the agent that made a ticket, which your user gave you. Your user is asked first.",
  input: z.strictObject({ ticket: z.string().min(1).max(LIMIT.ticketCharacters) }),
  output: z.object({ peer: ModelPeer }),
  isLookup: false,
  hasPeerText: true,
  absent: isAbsent,
  async run(mcp, args, call) {
    const { identity, clock, connector, peers } = mcp.options;
    const parsed = parseTicket(args.ticket);
    if (parsed === null) throw refusal("PROXY_PAIR_TICKET_NOT_FOUND", "This is not a ticket", "Copy it again, whole.");
    const { ticket, iss, exp } = parsed;
    // The clock of this machine may be ahead; the proxy decides.
    if (exp * 1000 + LIMIT.approvalMs <= clock.now()) {
      throw refusal("PROXY_PAIR_TICKET_EXPIRED", "The ticket has expired", "Ask your user for a new one.");
    }
    // The proxy of the ticket is text from outside.
    const origin = shownText(iss, LIMIT.problemCharacters);
    const text = (proxy: string) =>
      `Pair the agent ${identity.name} (${identity.did}, at ${proxy}) with the agent behind a ticket of ${origin}, ` +
      `which expires at ${expiry(exp)}? Both can then send each other messages. ` +
      "Agree only if a person gave you this ticket.";
    const question = await asked(mcp, "pair_confirm", { ticket }, call, text);
    if (question !== null) return question;
    const body = await connector.call("POST", "/v1/pair/confirm", { ticket });
    const { initiatorAgentDid: did, initiatorProfile } = checkedBody(connector.agentName, PairConfirmAnswer, body);
    const listed = await connectorPeers(connector, connector.agentName, peers).catch(() => []);
    const peer = listed.find(({ agentDid }) => agentDid === did) ??
      { alias: mcp.nameOf(did), agentDid: did, ...initiatorProfile, pairedAt: toIso(clock.now()) };
    return { peer: modelPeer(peer) };
  },
});

/**
 * Asks the person, or checks the answer of a repeated call. `null`: the person has agreed to exactly this.
 *
 * @throws {ToolError} when no person can be asked, or the person has not agreed
 */
async function asked(
  { options: { identity, connector }, approvals }: McpAgent,
  name: string,
  args: Record<string, unknown>,
  { person }: ToolCall,
  text: (proxy: string) => string,
): Promise<InputRequiredResult | null> {
  if (!person.canBeAsked) throw new ToolError(personNeeded(identity.name));
  if (person.state !== null) {
    if (!approvals.take(person.state, name, args)) {
      throw refusal("CONNECTOR_INVALID_BODY", "The approval is not for this call, or not valid any longer", CALL_AGAIN);
    }
    if (person.hasAgreed) return null;
    throw refusal("CLI_INTERRUPTED", "Your user did not agree", "Do not ask again unless your user wants it.");
  }
  const status = await connector.call("GET", "/v1/status", undefined, CONNECTOR_LIMITS.statusTimeoutMs);
  const proxy = checkedBody(connector.agentName, Proxy, status).proxy.origin;
  const requestState = approvals.ask(name, args);
  if (requestState === null) {
    const most = `Your user was asked ${LIMIT.questions} times within ${LIMIT.questionWindowMs / 60_000} minutes`;
    throw refusal(
      "CONNECTOR_LOOP_GUARD",
      most,
      `Wait, or let your user pair with svc connector start ${identity.name}.`,
    );
  }
  const elicited = inputRequired.elicit({ message: text(proxy), requestedSchema: Confirmation });
  return inputRequired({ inputRequests: { [QUESTION]: elicited }, requestState });
}

const Proxy = z.object({ proxy: z.object({ origin: z.string() }) });
const CALL_AGAIN = "Call the tool again without it; your user is asked again.";
/** The last time that a date can express. */
const MAX_TIME_MS = 8.64e15;

function expiry(exp: number): string {
  return toIso(Math.min(exp * 1000, MAX_TIME_MS));
}

function refusal(code: string, what: string, fix: string): ToolError {
  return new ToolError(failureText(code, [what], fix));
}
