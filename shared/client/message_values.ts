/** Contents and messages as the program sees them: from and to the forms of the local API. Pure. */
import { utf8Bytes } from "../protocol/base64url.ts";
import type { WaitedMessage } from "./local_client.ts";
import type { LocalMessage } from "./local_shapes.ts";
import type { Content, IncomingMessage, SendOptions } from "./agent_api.ts";
import { SvcError } from "./svc_error.ts";
import { LIMITS } from "../protocol/limits.ts";

/**
 * The JSON text of a content.
 *
 * @throws {SvcError} `PAYLOAD_TOO_LARGE`, `CLI_USAGE` for a content that is not JSON
 */
export function payloadText(content: Content): string {
  const text: string | undefined = JSON.stringify(typeof content === "string" ? { message: content } : content);
  if (text === undefined) throw new SvcError("CLI_USAGE", "The content of a message must be a text or an object");
  const { length } = utf8Bytes(text);
  if (length <= LIMITS.payloadBytes) return text;
  const most = LIMITS.payloadBytes;
  throw new SvcError("PAYLOAD_TOO_LARGE", `The content has ${length} bytes as JSON, at most ${most} are sent`);
}

/** The parts of a message that a content and its options decide. @throws as `payloadText` */
export function messageParts(
  content: Content,
  { conversationId, requestId, onlyOnline = false }: SendOptions & { requestId: string },
): Pick<WaitedMessage, "members" | "payload"> {
  const members: WaitedMessage["members"] = {
    requestId,
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(onlyOnline ? {} : { prefer: "respond-async", keep: true }),
  };
  return { members, payload: payloadText(content) };
}

export function messageOfLocal(message: LocalMessage): IncomingMessage {
  const { readAt: _readAt, mayBeRepeat: _mayBeRepeat, ...rest } = message;
  return rest;
}
