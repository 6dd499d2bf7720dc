/** HTTP handlers of delivery receipts (D-72). */
import type * as z from "zod";
import type { Receipt, ReceiptBody, ReceiptList, ReceiptQuery } from "../../shared/protocol/api/receipts.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, type Input, json } from "../../shared/server/http/route.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { ReceiptRecord } from "../schema/receipt_record.ts";
import { listReceipts, type ReceiptDeps, recordReceipt } from "./store.ts";

export async function submitReceipt(
  deps: ReceiptDeps,
  { body, caller }: Input<undefined, undefined, z.output<typeof ReceiptBody>, AdmittedAgent>,
): Promise<Answer> {
  if (caller.agentDid !== body.recipientAgentDid) throw new ServiceError("PROXY_RELAY_RECEIPT_FORBIDDEN");
  return json({ receipt: receiptView(await recordReceipt(deps, body)) }, 201);
}

export async function queryReceipts(
  deps: ReceiptDeps,
  { query, caller }: Input<undefined, z.output<typeof ReceiptQuery>, undefined, AdmittedAgent>,
): Promise<Answer> {
  const response: ReceiptList = { receipts: (await listReceipts(deps, caller.agentDid, query)).map(receiptView) };
  return json(response);
}

function receiptView({ requestId, recipientAgentDid, status, receivedAt }: ReceiptRecord): Receipt {
  return { requestId, recipientAgentDid, status, receivedAt: toIso(receivedAt) };
}
