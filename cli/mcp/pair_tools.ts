/**
 * Tools that pair (D-130). Both ask the person behind the MCP client first, because the model may have the idea to pair
 * from a text of a peer, and could hand a ticket to a peer.
 */
import { inputRequired, type InputRequiredResult } from "@modelcontextprotocol/server";
import { PairConfirmAnswer, PairStartAnswer } from "../../shared/protocol/api/pairing.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { mayPair, PAIRING_SERVERS } from "../../shared/protocol/origins.ts";
import { isTicketOf, ticketInPaste } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { statusOf } from "../connector/status.ts";
import { call as callLocal, post } from "../../shared/client/local_client.ts";
import { connectorPeers } from "../connector/peers/peer_list.ts";
import { perhapsReplaced } from "../connector/peers/peers.ts";
import { ModelPeer, modelPeer } from "./model_message.ts";
import { QUESTIONS_MAX, QUESTIONS_WINDOW_MS } from "./approvals.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { failureText, pairByHand, PROBLEM_CHARACTERS_MAX, shownText, ToolError } from "./tool_result.ts";
import { tool, type ToolCall, type ToolRow } from "./tool.ts";
import * as z from "zod";

/** With less, a ticket ends before a person has passed it on. */
const TICKET_SECONDS_MIN = 60;
/** With more, a ticket that leaks is of use for longer; with less, few people pass it on in time. */
const TICKET_SECONDS_DEFAULT = 300;
/** Longer than any ticket. With more, a wrong text would come back at its full length. */
const TICKET_CHARACTERS_MAX = 2_048;

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
    ttl_seconds: z.int().min(TICKET_SECONDS_MIN).max(LIMITS.ticketTtlMaxSeconds).default(TICKET_SECONDS_DEFAULT),
  }),
  output: z.object({ ticket: z.string(), expiresAt: z.string(), say: z.string().describe("Show this to your user") }),
  absent: isAbsent,
  async run(mcp, { ttl_seconds: ttlSeconds }, call) {
    const { clock, connector } = mcp.options;
    const until = toIso(clock.now() + ttlSeconds * 1000);
    const text = (proxy: string) => {
      const { name, did } = mcp.options.identity;
      return `Make a ticket for pairing with the agent ${name} (${did}) at ${proxy}? ` +
        `Anyone who has the ticket can pair with it and send it messages, until about ${until}.`;
    };
    const question = await asked(mcp, "start", { ttlSeconds }, call, text);
    if (question !== null) return question;
    const request = post("/v1/pair/start", { ttlSeconds });
    const { ticket, expiresAt } = await callLocal(connector, PairStartAnswer, request);
    const say =
      `Give this ticket only to the person of the agent that shall pair with ${connector.agentName}, never to an agent. ` +
      `It works once, until ${expiresAt}. That person pastes it into the terminal of svc connector start.`;
    return { ticket, expiresAt, say };
  },
});

export const PAIR_CONFIRM: ToolRow = tool({
  name: "pair_confirm",
  description: "Pair with the agent that made a ticket, which your user gave you. Your user is asked first.",
  input: z.strictObject({ ticket: z.string().min(1).max(TICKET_CHARACTERS_MAX) }),
  output: z.object({ peer: ModelPeer, say: z.string().optional().describe("Show this to your user") }),
  hasPeerText: true,
  absent: isAbsent,
  async run(mcp, args, call) {
    const { clock, connector } = mcp.options;
    const { origin } = (await statusOf(connector)).proxy;
    const { identity } = mcp.options, found = ticketInPaste(args.ticket, origin);
    if ("problem" in found) throw refusal("PROXY_PAIR_TICKET_NOT_FOUND", found.problem, ASK_FOR_WHOLE);
    const parsed = found.ticket, { ticket } = parsed;
    // Cut, because a host name may be longer than what a person can take in.
    const authority = shownText(parsed.authority, PROBLEM_CHARACTERS_MAX);
    // Before the question, because a person would agree to a pairing that the connector then refuses.
    if (!isTicketOf(parsed, origin) && !mayPair(origin, parsed.origin)) {
      throw refusal("CONNECTOR_INVALID_BODY", `The ticket is from ${authority}. ${PAIRING_SERVERS}`, "");
    }
    const warning = (proxy: string) =>
      isTicketOf(parsed, proxy) ? "" : `This ticket is from another server: ${authority}. This agent uses ${proxy}. `;
    const text = (proxy: string) =>
      `Pair the agent ${identity.name} (${identity.did}, at ${proxy}) with the agent behind a ticket of ${authority}? ` +
      "Both can then send each other messages. " +
      "Agree only if a person gave you this ticket.";
    const question = await asked(mcp, "confirm", { ticket }, call, text, warning);
    if (question !== null) return question;
    const request = post("/v1/pair/confirm", { ticket });
    const { initiatorAgentDid: did, initiatorProfile } = await callLocal(connector, PairConfirmAnswer, request);
    const listed = await connectorPeers(connector).catch(() => []);
    const peer = listed.find(({ agentDid }) => agentDid === did) ??
      { alias: mcp.nameOf(did), agentDid: did, ...initiatorProfile, pairedAt: toIso(clock.now()) };
    const before = perhapsReplaced(mcp.options.peers(), did);
    if (before === null) return { peer: modelPeer(peer) };
    const command = mcp.options.named(
      `svc peers rename ${peer.alias} ${before} --replaces --agent ${identity.name}`,
    );
    const say = `If ${peer.alias} is the new agent of ${before}, whose machine is gone, run: ${command}`;
    return { peer: modelPeer(peer), say };
  },
});

/**
 * Asks the person, or checks the answer in a repeated call. Returns `null` when the person has agreed to exactly this.
 * `warning` comes before the question.
 *
 * @throws {ToolError} when no person can be asked, or the person has not agreed
 */
async function asked(
  { options: { connector, pairingCommand }, approvals }: McpAgent,
  action: "start" | "confirm",
  args: Record<string, unknown>,
  { person }: ToolCall,
  text: (proxy: string) => string,
  warning: (proxy: string) => string = () => "",
): Promise<InputRequiredResult | null> {
  const name = `pair_${action}`;
  const state = person.canBeAsked ? person.state : null;
  if (state !== null && !approvals.take(state, name, args)) {
    throw refusal("CONNECTOR_INVALID_BODY", "The approval is not for this call, or not valid any longer", CALL_AGAIN);
  }
  if (state !== null && person.hasAgreed) return null;
  // This call also starts a connector where none runs, because the command for the person works only with one.
  const proxy = (await statusOf(connector)).proxy.origin;
  const byHand = () => warning(proxy) + pairByHand(pairingCommand(action, args));
  if (state !== null) {
    // `codex exec`, Codex without approvals and `claude -p` answer by themselves, and would else leave no way to pair.
    const what = "Your user did not agree, or your program answered for them. Call it again only if your user wants it";
    throw new ToolError(`CLI_INTERRUPTED: ${what}. If your program does not ask: ${byHand()}`);
  }
  if (!person.canBeAsked) {
    throw new ToolError(`A person must approve this, and your program cannot ask them. ${byHand()}`);
  }
  const requestState = approvals.ask(name, args);
  if (requestState === null) {
    const most = `Your user was asked ${QUESTIONS_MAX} times within ${QUESTIONS_WINDOW_MS / 60_000} minutes`;
    throw new ToolError(`CONNECTOR_LOOP_GUARD: ${most}. Wait as long. ${byHand()}`);
  }
  const elicited = inputRequired.elicit({ message: warning(proxy) + text(proxy), requestedSchema: Confirmation });
  return inputRequired({ inputRequests: { [QUESTION]: elicited }, requestState });
}

const ASK_FOR_WHOLE = "Ask your user for the whole ticket.";
const CALL_AGAIN = "Call the tool again without it; your user is asked again.";
function refusal(code: string, what: string, fix: string): ToolError {
  return new ToolError(failureText(code, [what], fix));
}
