/**
 * The proof that travels with a message (D-143), with which a recipient can check the sender without trusting the
 * proxy. This file restores the signed body, and checks the signature and the signed headers. Which key is the sender's
 * is decided elsewhere.
 */
import * as z from "zod";
import { type Bytes, joinedBytes, sha256, utf8Bytes } from "./base64url.ts";
import type { CryptoKey } from "./ed25519.ts";
import type { DeliverFrame } from "./frames.ts";
import type { BodyEdit } from "./identity_block.ts";
import { LIMITS } from "./limits.ts";
import { boundHeaders, ContextError, contextOf, contextText } from "./message_context.ts";
import { HEADERS, isNonce, verifyProof } from "./proof.ts";
import { parseUnixSeconds } from "./time.ts";

/** Only visible ASCII, because a line feed would move a value into another line of the signed text. */
const visible = (max: number) => z.string().regex(/^[\x21-\x7e]+$/).max(max);

const Proof = z.object({
  ait: visible(LIMITS.aitBytes),
  timestamp: z.string().refine((text) => parseUnixSeconds(text) !== null),
  nonce: z.string().refine(isNonce),
  /** The proxy's origin, as the sender signed it. */
  origin: visible(2_048),
  /** The request target, as the proxy received it. */
  target: visible(LIMITS.queryLength + 256),
  signature: visible(86).length(86),
  /** The signed headers by lower-case name; empty if the target has no `ctx`. */
  context: z.record(z.string(), z.string().max(LIMITS.contextValueLength)).refine((headers) =>
    Object.keys(headers).length <= LIMITS.contextLines
  ),
  /** How to get back to the signed body; absent when the payload is that body. */
  edit: z.tuple([z.int().min(0), z.int().min(0), z.string().max(LIMITS.hookBodyBytes)]).readonly().optional(),
});

/** The values of a request that prove its sender. */
export type MessageProof = z.output<typeof Proof>;

/** Returns a proof whose members and sizes are valid, or `null` for any other value. */
export function readMessageProof(value: unknown): MessageProof | null {
  return Proof.safeParse(value).data ?? null;
}

/**
 * Returns the body that the sender signed, or `null` when `edit` reaches beyond the payload. With a wrong `edit` it
 * returns another body, for which the sender's signature does not verify.
 */
export function sentBody(payload: string, edit: BodyEdit | undefined): Bytes | null {
  const bytes = utf8Bytes(payload);
  if (edit === undefined) return bytes;
  const [offset, length, sent] = edit, text = utf8Bytes(sent);
  if (offset + length > bytes.length || text.length > LIMITS.hookBodyBytes) return null;
  return joinedBytes([bytes.subarray(0, offset), text, bytes.subarray(offset + length)]);
}

export async function verifiesMessage(
  publicKey: CryptoKey,
  { ait, timestamp, nonce, origin, target, signature }: MessageProof,
  { body, recipient }: { body: Bytes; recipient: string },
): Promise<boolean> {
  const [bodySha256, aitSha256] = await Promise.all([sha256(body), sha256(ait)]);
  const fields = { method: "POST", origin, target, timestamp, nonce, bodySha256, recipient, aitSha256 };
  return await verifyProof(publicKey, signature, fields);
}

/** The members of a frame that the signed headers also state. */
type SaidOfMessage = Pick<DeliverFrame, "requestId" | "conversationId" | "inReplyTo" | "auto" | "contentType">;

/**
 * Compares a frame with the headers that the sender signed. Returns `signed` when both are the same, `unsigned` for a
 * message without a context, and `wrong` when a header differs or the target is not that of a message.
 */
export async function contextVerdict(
  { target, context }: Pick<MessageProof, "target" | "context">,
  frame: SaidOfMessage,
): Promise<"signed" | "unsigned" | "wrong"> {
  if (target.split("?", 1)[0] !== "/hooks/agent") return "wrong";
  let signed: ReadonlyMap<string, string>;
  try {
    const hash = contextOf(target);
    if (hash === null) return "unsigned";
    if (hash !== await sha256(contextText(context))) return "wrong";
    // The names are put into lower case, because the hash ignores their case, and a verified header with a name in
    // another case would otherwise seem to be missing.
    signed = boundHeaders(context);
  } catch (error) {
    if (error instanceof ContextError) return "wrong";
    throw error;
  }
  const said: [name: string, value: string | undefined][] = [
    [HEADERS.requestId, frame.requestId],
    [HEADERS.conversationId, frame.conversationId],
    [HEADERS.inReplyTo, frame.inReplyTo],
    [HEADERS.auto, frame.auto && "1"],
    ["Content-Type", frame.contentType],
  ];
  const isSame = said.every(([name, value]) => signed.get(name.toLowerCase()) === value);
  return isSame ? "signed" : "wrong";
}
