/** Handler of `POST /v1/outbound` (D-87): sends a message to a peer. */
import * as z from "zod";
import { HookAnswer } from "../../../shared/protocol/api/relay.ts";
import { isRequestId } from "../../../shared/protocol/ids.ts";
import { topLevelMembers } from "../../../shared/protocol/json_text.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import type { HttpResponse } from "../../../shared/client/http.ts";
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
  const response = await connector.proxy.call({
    method: "POST",
    target: "/hooks/agent",
    // Unchanged: numbers that JavaScript would round keep their digits.
    body: text.slice(member.start, member.end),
    recipient,
    headers: {
      ...(requestId === undefined ? {} : { [HEADERS.requestId]: requestId }),
      ...(conversationId === undefined ? {} : { [HEADERS.conversationId]: conversationId }),
      ...(prefer === undefined ? {} : { Prefer: prefer }),
    },
  });
  connector.deps.tell(sendingEvent(response), {
    to: recipient,
    status: response.status,
    requestId: response.headers.get(HEADERS.requestId),
  });
  return passed(response);
}

/** The event for a response to a message; an accepted message may still wait for its recipient (D-240). */
function sendingEvent({ status, text }: HttpResponse): "sent" | "queued" | "not_taken" | "not_sent" {
  if (status >= 300) return "not_sent";
  try {
    const { delivered, queued } = HookAnswer.parse(JSON.parse(text));
    return delivered ? "sent" : queued ? "queued" : "not_taken";
  } catch {
    // The response is passed on unchanged; only this event is less precise.
    return "sent";
  }
}
