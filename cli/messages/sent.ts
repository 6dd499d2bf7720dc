/** Lists sent messages for `svc sent` (D-120), or shows one with its receipts and its reply. */
import { ReceiptList } from "../../shared/protocol/api/receipts.ts";
import { isRequestId } from "../../shared/protocol/ids.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { type OutboundResult, SentPage, type SentState } from "../../shared/client/local_shapes.ts";
import { chosenAgent } from "../agents/agent_choice.ts";
import type { AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { type Access, access } from "../connector/attach.ts";
import { directProxy } from "../connector/link/direct_proxy.ts";
import { checkedBody, ConnectorClient } from "../connector/local_api/client.ts";
import { findPeerEver, readPeers, shownAliases } from "../connector/peers.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { fields, table } from "../terminal/output.ts";
import { recipientOf } from "./recipient.ts";
import { memberOf, messageLines, parseResult } from "./received.ts";

/** Which messages. */
export interface SentQuery {
  agent: string | undefined;
  /** Alias or DID of the recipient. */
  to: string | undefined;
  allowInsecure: boolean;
}

type Receipts = ReceiptList["receipts"];

/** Lists the newest messages. @throws {CliError} `CLI_CONNECTOR_DOWN` */
export async function listSent(
  ctx: Context,
  { agent, to, limit, allowInsecure }: SentQuery & { limit: number },
): Promise<void> {
  const { folder } = await chosenAgent(ctx, agent);
  await using connector = await access(ctx, folder, { "allow-insecure": allowInsecure });
  const did = to === undefined ? undefined : findPeerEver(readPeers(folder), to) ?? to;
  const query = new URLSearchParams({ limit: String(limit), ...did === undefined ? {} : { to: did } });
  const { messages, more } = checkedBody(
    folder.name,
    SentPage,
    await connector.call("GET", `/v1/sent?${query}`),
  );
  const rows = messages.map(({ sentAt, to, state, requestId, inReplyTo, problem }) => [
    sentAt,
    to.alias ?? to.agentDid,
    state,
    requestId,
    inReplyTo,
    problem,
  ]);
  ctx.out.result(
    { agent: folder.name, messages, more },
    rows.length === 0 ? "No sent messages." : table(["SENT", "TO", "STATE", "REQUEST ID", "REPLY TO", "PROBLEM"], rows),
  );
}

/**
 * Shows one message. With a recipient and without a connector it asks the proxy, which knows the receipts only.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_CONNECTOR_DOWN`
 */
export async function showSent(
  ctx: Context,
  { agent, to, requestId, allowInsecure }: SentQuery & { requestId: string },
): Promise<void> {
  if (!isRequestId(requestId)) {
    throw new CliError(
      "CLI_USAGE",
      `"${requestId}" is not a request ID: 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'`,
    );
  }
  const chosen = await chosenAgent(ctx, agent);
  if (to !== undefined && await ConnectorClient.of(ctx, chosen.folder) === null) {
    return await showReceipts(ctx, chosen, { to, requestId, allowInsecure });
  }
  await using connector = await access(ctx, chosen.folder, { "allow-insecure": allowInsecure });
  const { json, result } = await stored(connector, requestId, to);
  show(ctx, chosen.folder, { json, result }, await receiptsOf(ctx, connector, result));
}

/** The receipts of a message; `null`, with a warning, when the proxy does not give them: the rest is stored locally. */
async function receiptsOf(
  ctx: Context,
  connector: Access,
  { to, requestId }: OutboundResult,
): Promise<Receipts | null> {
  try {
    const body = await connector.call("GET", `/v1/receipts?${new URLSearchParams({ to, requestId })}`);
    return checkedBody(connector.agentName, ReceiptList, body).receipts;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    ctx.out.warn(`The receipts could not be requested: ${describeError(error)}`);
    return null;
  }
}

async function stored(connector: Access, requestId: string, to: string | undefined) {
  const query = new URLSearchParams({ wait: "0", ...to === undefined ? {} : { to } });
  const response = await connector.send("GET", `/v1/outbound/${encodeURIComponent(requestId)}?${query}`);
  return parseResult(connector.agentName, response);
}

async function showReceipts(
  ctx: Context,
  agent: { store: AgentStore; folder: AgentFolder },
  { to: peer, requestId, allowInsecure }: { to: string; requestId: string; allowInsecure: boolean },
): Promise<void> {
  using direct = await directProxy(ctx, agent, allowInsecure);
  ctx.out.doing(`Calling ${direct.proxy.place.dialUrl}`);
  const to = await recipientOf(direct.proxy, agent.folder, peer);
  const query = new URLSearchParams({ requestId, recipientAgentDid: to });
  const target = `/v1/relay/delivery-receipts?${query}`;
  const { receipts } = ReceiptList.parse(await direct.proxy.ask({ method: "GET", target }));
  const result: OutboundResult = {
    requestId,
    to,
    state: stateOf(receipts),
    problem: null,
    expiresAt: null,
    reply: null,
  };
  show(ctx, agent.folder, { json: JSON.stringify(result), result }, receipts);
}

/** The state that receipts show; `unknown` without one. */
function stateOf(receipts: Receipts): SentState {
  const status = receipts.at(-1)?.status;
  return status === undefined ? "unknown" : status === "dead_lettered" ? "dead_lettered" : "processed";
}

function show(
  ctx: Context,
  folder: AgentFolder,
  { json, result }: ReturnType<typeof parseResult>,
  receipts: Receipts | null,
): void {
  if (ctx.out.json) {
    ctx.out.jsonLine(`${json.trimEnd().slice(0, -1)},"receipts":${JSON.stringify(receipts)}}`);
    return;
  }
  const { requestId, to, state, problem, expiresAt, reply } = result;
  ctx.out.peerLines([
    `${requestId} to ${shownAliases(folder).get(to) ?? to}`,
    ...fields([
      ["state", state],
      ["problem", problem ?? undefined],
      ["expires", expiresAt ?? undefined],
      ...(receipts ?? []).map(({ status, receivedAt }) => ["receipt", `${status}, ${receivedAt}`] as const),
    ]),
    ...reply === null ? [] : ["", ...messageLines({ message: reply, json: memberOf(json, "reply") }, ctx.out.columns)],
  ]);
}
