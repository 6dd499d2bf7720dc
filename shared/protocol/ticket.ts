/**
 * Pairing tickets (D-26): how one is written, and how a pasted one is read.
 * Whether a ticket is known is the proxy's business: it keeps the digest of the whole text and matches nothing else.
 */
import * as z from "zod";
import { fromBase64Url, toBase64Url, utf8Bytes } from "./base64url.ts";
import { isUlid } from "./ids.ts";

const PREFIX = "svcpair1_";
const MAX_LENGTH = 2048;
/** From the first to the last character that is neither white space nor a backtick. */
const TEXT = /[^\s`](?:.*[^\s`])?/s;

const TicketBody = z.strictObject({
  v: z.literal(1),
  iss: z.string(),
  id: z.string().refine(isUlid),
  exp: z.int().min(0),
  s: z.string().refine((text) => fromBase64Url(text)?.length === 24),
});

/** A ticket and what it says. */
export interface Ticket {
  /** The whole text: the secret that is handed from one person to the other. */
  ticket: string;
  /** Origin of the proxy that made it. */
  iss: string;
  /** ULID. */
  id: string;
  /** Unix seconds. */
  exp: number;
}

/** Writes a ticket; `secret` is 24 random bytes. */
export function formatTicket(fields: { iss: string; id: string; exp: number }, secret: Uint8Array): string {
  const { iss, id, exp } = fields;
  const body: z.infer<typeof TicketBody> = { v: 1, iss, id, exp, s: toBase64Url(secret) };
  return PREFIX + toBase64Url(utf8Bytes(JSON.stringify(body)));
}

/** Reads a ticket, forgiving white space and backticks around it; `null` for anything else. */
export function parseTicket(pasted: string): Ticket | null {
  if (pasted.length > MAX_LENGTH) return null;
  const ticket = TEXT.exec(pasted)?.[0] ?? "";
  if (!ticket.startsWith(PREFIX)) return null;
  const bytes = fromBase64Url(ticket.slice(PREFIX.length));
  if (!bytes) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const body = TicketBody.safeParse(JSON.parse(text));
    if (!body.success) return null;
    const { iss, id, exp } = body.data;
    return { ticket, iss, id, exp };
  } catch {
    return null;
  }
}
