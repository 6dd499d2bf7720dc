/** HTTP handlers of delivery receipts (D-72). */
import type * as z from "zod";
import {
  type DeliveriesAnswer,
  type DeliveriesBody,
  Receipt,
  type ReceiptBody,
  type ReceiptList,
  type ReceiptQuery,
} from "../../shared/protocol/api/receipts.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, type Input, json, pick } from "../../shared/server/http/route.ts";
import { signedHeaders } from "../../shared/server/http/signed_request.ts";
import { PROFILES } from "../admission/admit.ts";
import { type CheckDeps, factorOf } from "../admission/checks.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { ReceiptRecord } from "../schema/receipt_record.ts";
import { listReceipts, outcomesOf, type ReceiptDeps, recordReceipt } from "./store.ts";

export async function submitReceipt(
  deps: ReceiptDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof ReceiptBody>, AdmittedAgent>,
): Promise<Answer> {
  const { signed } = body;
  const ait = signedHeaders(exchange).token;
  const proof = signed === undefined || ait === null ? undefined : { signed, ait };
  return json({ receipt: receiptView(await recordReceipt(deps, caller, { ...body, proof })) }, 201);
}

export async function queryReceipts(
  deps: ReceiptDeps,
  { query, caller }: Input<undefined, z.output<typeof ReceiptQuery>, undefined, AdmittedAgent>,
): Promise<Answer> {
  const receipts = await listReceipts(deps, caller.agentDid, query);
  return json({ receipts: receipts.map(receiptView) } satisfies ReceiptList);
}

/** Messages in a question that cost as much as a request. With more, an owner's questions could hold a core. */
const MESSAGES_PER_REQUEST = 2;

export async function queryDeliveries(
  deps: ReceiptDeps & Pick<CheckDeps, "owners">,
  { body, caller }: Input<undefined, undefined, z.output<typeof DeliveriesBody>, AdmittedAgent>,
): Promise<Answer> {
  const cost = Math.floor(body.messages.length / MESSAGES_PER_REQUEST);
  const { window } = PROFILES.query;
  if (cost > 0) deps.owners.takeRequest(caller.payers, window, factorOf(window), cost);
  const found = await outcomesOf(deps, caller.agentDid, body.messages);
  const deliveries = found.map(({ outcome: { state, at }, ...about }) => ({ ...about, state, at: toIso(at) }));
  return json({ deliveries } satisfies DeliveriesAnswer);
}

function receiptView(record: ReceiptRecord): Receipt {
  return pick(Receipt, { ...record, receivedAt: toIso(record.receivedAt) });
}
