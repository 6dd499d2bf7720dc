/** Contents and messages as the program sees them: from and to the forms of the proxy and of the local API. Pure. */
import { utf8Bytes } from "../../protocol/base64url.ts";
import type { DeliverFrame } from "../../protocol/frames.ts";
import { withoutIdentityBlock } from "../../protocol/identity_block.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import type { LocalMessage } from "../local_shapes.ts";
import type { Content, IncomingMessage } from "./agent_api.ts";
import { SvcError } from "./svc_error.ts";

/**
 * The JSON text of a content.
 *
 * @throws {SvcError} `PAYLOAD_TOO_LARGE`, `CLI_USAGE` for a content that is not JSON
 */
export function payloadText(content: Content): string {
  const text: string | undefined = JSON.stringify(typeof content === "string" ? { message: content } : content);
  if (text === undefined) throw new SvcError("CLI_USAGE", "The content of a message must be a text or an object");
  const { length } = utf8Bytes(text);
  if (length <= CLIENT_LIMITS.payloadBytes) return text;
  const most = CLIENT_LIMITS.payloadBytes;
  throw new SvcError("PAYLOAD_TOO_LARGE", `The content has ${length} bytes as JSON, at most ${most} are sent`);
}

/** A message that the proxy delivered. @throws {SyntaxError} when its payload is not JSON */
export function messageOfFrame(
  frame: DeliverFrame,
  more: Pick<IncomingMessage, "isReply" | "receivedAt"> & { alias: string | null },
): IncomingMessage {
  const { identity, requestId, conversationId = null, inReplyTo = null, auto = false } = frame;
  const payload: unknown = JSON.parse(frame.payload);
  const message = typeof payload === "object" && payload !== null && "message" in payload ? payload.message : null;
  return {
    id: null,
    requestId,
    from: {
      agentDid: identity.agentDid,
      ownerDid: identity.ownerDid,
      name: identity.name,
      alias: more.alias,
      humanName: null,
    },
    verified: "by-proxy",
    conversationId,
    inReplyTo,
    isReply: more.isReply,
    auto,
    receivedAt: more.receivedAt,
    text: typeof message === "string" ? withoutIdentityBlock(message, identity) : null,
    payload,
  };
}

/** A message of the local API. */
export function messageOfLocal(message: LocalMessage): IncomingMessage {
  const { readAt: _readAt, ...rest } = message;
  return rest;
}

/** True for a body that only its recipient can open. This library has no key for it. */
export function isSealed(payload: unknown): boolean {
  return typeof payload === "object" && payload !== null && "svcSealed" in payload && payload.svcSealed === 1 &&
    "kid" in payload && "enc" in payload && "ct" in payload;
}
