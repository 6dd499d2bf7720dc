/** Arguments that several tools take (D-128). */
import * as z from "zod";
import { ConversationId } from "../../shared/protocol/api/relay.ts";
import { isRequestId } from "../../shared/protocol/ids.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";

export const Peer = z.string().min(1).max(LIMIT.toCharacters).describe("Alias or DID of a peer, from list_peers");

export const Conversation = z.string().min(1).max(128).refine((id) => ConversationId.safeParse(id).success, {
  error: "must be 1 to 128 visible ASCII characters without a comma",
}).describe("ID of a conversation");

export const RequestId = z.string().min(8).max(128).refine(isRequestId, {
  error: "must be 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'",
});

export const MessageId = z.int().min(1).max(Number.MAX_SAFE_INTEGER).describe("id of a message, from read_inbox");
