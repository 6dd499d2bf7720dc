/**
 * Pairing tickets (D-26): writing a ticket and reading a pasted one. Does not check that a ticket exists: the proxy compares
 * the digest of the complete text.
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

/** A ticket and its content. */
export interface Ticket {
  /** The complete text; a secret that one person gives to the other. */
  ticket: string;
  /** Origin of the proxy that created the ticket. */
  iss: string;
  /** ULID. */
  id: string;
  /** Unix seconds. */
  exp: number;
}

/** Returns a ticket; `secret` is 24 random bytes. */
export function formatTicket(fields: { iss: string; id: string; exp: number }, secret: Uint8Array): string {
  const { iss, id, exp } = fields;
  const body: z.infer<typeof TicketBody> = { v: 1, iss, id, exp, s: toBase64Url(secret) };
  return PREFIX + toBase64Url(utf8Bytes(JSON.stringify(body)));
}

/** Returns a pasted ticket without surrounding white space and backticks; `null` for any other text. */
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
