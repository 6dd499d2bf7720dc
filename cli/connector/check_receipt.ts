/**
 * Decides what a receipt of the proxy proves (D-154): whether the recipient signed it, for the message that this agent has sent.
 * Message and pin are handed in.
 */
import type { Receipt } from "../../shared/protocol/api/receipts.ts";
import { parseReceipt, type ReceiptClaims, verifyReceipt } from "../../shared/protocol/receipt_token.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import type { CheckedReceipt } from "../../shared/client/local_shapes.ts";
import type { Pin } from "./check_proof.ts";
import type { SentProof } from "./store/sent_messages.ts";

export interface KnownOfReceipt {
  did: string;
  /** `null` for a recipient whose key is not known. */
  pin: Pin | null;
  /** The message; `null` without a record of it: then its body and conversation are not compared. */
  sent: SentProof | null;
}

/** After a day a request ID may name another message, and the proxy still lists the receipt of the first one. Nothing is wrong with it. */
const EARLIER = "it is of an earlier message";

/** Returns the receipt with what it proves. `problem` says that a server between the two agents lies, or that its recipient does. */
export async function checkReceipt(receipt: Receipt, known: KnownOfReceipt): Promise<CheckedReceipt> {
  const { pin, sent } = known;
  const shown = { ...receipt, ...(sent?.salt === undefined ? {} : { salt: sent.salt }) };
  if (receipt.signed === undefined) {
    const isMissing = pin?.how === "ticket" && receipt.status === "processed_by_svc";
    return { ...shown, verified: "by-proxy", ...(isMissing ? { problem: "its recipient signs each receipt" } : {}) };
  }
  // Without a key nothing can be checked, and nothing is wrong either.
  if (pin === null) return { ...shown, verified: "by-proxy" };
  const problem = await problemOf(receipt.signed, receipt, { ...known, pin });
  if (problem === EARLIER) return { ...receipt, verified: "by-proxy" };
  return problem === null ? { ...shown, verified: "signed" } : { ...shown, verified: "by-proxy", problem };
}

async function problemOf(
  signed: string,
  { requestId, recipientAgentDid, status }: Receipt,
  { did, pin, sent }: KnownOfReceipt & { pin: Pin },
): Promise<string | null> {
  let claims: ReceiptClaims;
  try {
    const jws = parseReceipt(signed);
    if (jws.kid !== pin.key) return "it is signed with another key than the recipient's";
    claims = await verifyReceipt(jws);
  } catch (error) {
    if (error instanceof TokenError) return error.message;
    throw error;
  }
  const of = firstOther([
    ["recipient", claims.iss, recipientAgentDid],
    ["sender", claims.sub, did],
    ["request ID", claims.requestId, requestId],
    ["status", claims.status, status],
  ]);
  if (of !== null || sent === null) return of;
  const ofMessage = firstOther([
    ["body", claims.bodySha256, sent.bodySha256],
    ["payload", claims.payloadSha256, sent.payloadSha256],
    ["conversation", claims.conversationId, sent.conversationId ?? undefined],
  ]);
  return ofMessage !== null && claims.iat < unixSeconds(sent.sentAt) ? EARLIER : ofMessage;
}

type Compared = [what: string, said: string | null | undefined, known: string | null | undefined];

/** Says what is not as known; `null` for nothing. */
function firstOther(expected: readonly Compared[]): string | null {
  const [what] = expected.find(([, said, known]) => said !== known) ?? [];
  return what === undefined ? null : `its ${what} is not that of the message`;
}
