/** Handler of `POST /v1/outbound` (D-87): sends a message to a peer. */
import * as z from "zod";
import { isRequestId } from "../../../shared/protocol/ids.ts";
import { topLevelMembers } from "../../../shared/protocol/json_text.ts";
import { SendRefusedError } from "../delivery/message_sender.ts";
import { LocalError, type LocalInput, passed } from "./local_route.ts";

/** Body of `POST /v1/outbound`; `to` is an alias or a DID. */
export const Outbound = z.strictObject({
  to: z.string().min(1).max(256),
  payload: z.unknown(),
  conversationId: z.string().regex(/^[!-+\--~]{1,128}$/).optional(),
  requestId: z.string().refine(isRequestId).optional(),
  prefer: z.literal("respond-async").optional(),
});

export async function outbound(
  { connector, body, text }: LocalInput<undefined, undefined, z.output<typeof Outbound>>,
): Promise<Response> {
  const { to, conversationId, requestId, prefer } = body;
  const member = topLevelMembers(text).findLast(({ key }) => key === "payload");
  if (!member) throw new LocalError("CONNECTOR_INVALID_BODY", "payload: it is missing");
  const recipient = await connector.findPeer(to);
  if (recipient === null) throw new LocalError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${to}"`);
  // Unchanged: numbers that JavaScript would round keep their digits.
  const payload = text.slice(member.start, member.end);
  const mayWait = prefer !== undefined;
  try {
    const message = { toDid: recipient, payload, origin: "program", requestId, conversationId, mayWait } as const;
    const { response } = await connector.sender.send(message);
    return passed(response);
  } catch (error) {
    throw error instanceof SendRefusedError ? new LocalError(error.code, error.message) : error;
  }
}
