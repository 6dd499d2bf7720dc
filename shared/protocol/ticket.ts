/**
 * Pairing tickets (D-26): `svcpair1_<secret>.<pair secret, or ->.<authority of the proxy>`. Does not check that a
 * ticket exists, because the proxy compares the digest of its plain form.
 */
import { fromBase64Url, toBase64Url } from "./base64url.ts";

export const TICKET_PREFIX = "svcpair1_";
const SECRET_BYTES = 16;
const MAX_LENGTH = 2048;
/** A pasted text from the first to the last character that is neither white space nor a backtick. */
const TEXT = /[^\s`](?:.*[^\s`])?/s;

/** The shape of an authority. People are shown it, so any other text could be a sentence that asks them to agree. */
const AUTHORITY = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::\d+)?$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/;

/** Whether a host, with or without port, is this machine by its name. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

export interface Ticket {
  /** The complete text; a secret that one person gives to the other. */
  ticket: string;
  /**
   * The form that goes to the proxy, which gets no pair secret, because with one it could sign in the place of either
   * agent.
   */
  plain: string;
  /** 16 bytes in base64url that only the two connectors know; `null` for a ticket without. */
  pairSecret: string | null;
  /** Host of the proxy, with its port unless that is the usual one. */
  authority: string;
  /** Origin of the proxy: `https`, or `http` for a loopback name. */
  origin: string;
}

/** Returns a ticket without pair secret; `secret` is 16 random bytes. */
export function formatTicket(proxyUrl: string, secret: Uint8Array): string {
  return `${TICKET_PREFIX}${toBase64Url(secret)}.-.${new URL(proxyUrl).host}`;
}

/** Returns a plain ticket with a pair secret in its second field. */
export function withPairSecret(plain: string, pairSecret: string): string {
  return plain.replace(".-.", `.${pairSecret}.`);
}

/** Returns a pasted ticket without surrounding white space and backticks; `null` for any other text. */
export function parseTicket(pasted: string): Ticket | null {
  if (pasted.length > MAX_LENGTH) return null;
  const ticket = TEXT.exec(pasted)?.[0] ?? "";
  if (!ticket.startsWith(TICKET_PREFIX)) return null;
  const [secret = "", second = "", ...rest] = ticket.slice(TICKET_PREFIX.length).split(".");
  if (!isSecret(secret) || !(second === "-" || isSecret(second))) return null;
  const authority = rest.join(".");
  const origin = originOf(authority);
  if (origin === null) return null;
  const pairSecret = second === "-" ? null : second;
  return { ticket, plain: `${TICKET_PREFIX}${secret}.-.${authority}`, pairSecret, authority, origin };
}

/** Whether a ticket is one of this proxy. Only the authority counts, because a ticket does not name a scheme. */
export function isTicketOf({ authority }: Pick<Ticket, "authority">, proxyUrl: string): boolean {
  return new URL(proxyUrl).host === authority;
}

function isSecret(text: string): boolean {
  return fromBase64Url(text)?.length === SECRET_BYTES;
}

/** The origin of an authority in its one spelling: lower case, without the port that is the usual one. */
function originOf(authority: string): string | null {
  if (!AUTHORITY.test(authority)) return null;
  const origin = `${isLoopback(authority) ? "http" : "https"}://${authority}`;
  return URL.canParse(origin) && new URL(origin).host === authority ? origin : null;
}

/** The ticket of a paste, or what is wrong with it, for a person. */
type PastedTicket = { ticket: Ticket } | { problem: string };

/** No ticket with a DNS name is longer, so a longer reading would cost work for nothing. */
const READING_MAX = 330;
/** With more, a text made of prefixes would cost a parse for each. */
const STARTS_MAX = 50;

/** Returns the ticket of the reader's own proxy in a text, else the only ticket, also when a mail has broken it. */
export function ticketInPaste(text: string, proxyUrl: string): PastedTicket {
  const lines = text.split(/[\r\n]+/).map((line) =>
    line.replace(/^[\s>]+/, "").split(/[\s`]+/).filter((word) => word !== "")
  );
  const found = new Map<string, Ticket>();
  let starts = 0;
  for (const [row, words] of lines.entries()) {
    for (const [place, word] of words.entries()) {
      const isLast = place === words.length - 1;
      const at = startOf(word, isLast ? lines[row + 1]?.[0] ?? "" : "");
      if (at === -1 || ++starts > STARTS_MAX) continue;
      for (const reading of readings(word.slice(at), isLast ? lines.slice(row + 1) : [])) {
        const ticket = parseTicket(reading);
        if (ticket !== null) found.set(ticket.ticket, ticket);
      }
    }
  }
  const all = [...found.values()];
  const own = all.filter((ticket) => isTicketOf(ticket, proxyUrl));
  const [ticket, second] = own.length > 0 ? own : all;
  if (second !== undefined) return { problem: "Copy the ticket alone, in one line." };
  if (ticket !== undefined) return { ticket };
  return {
    problem: starts > 0 ? "This ticket was cut off: copy it whole." : "No pairing ticket in the pasted text.",
  };
}

/** Where a ticket begins in a word, also when its prefix goes on in the first word of the next line; else -1. */
function startOf(word: string, next: string): number {
  const whole = word.lastIndexOf(TICKET_PREFIX);
  if (whole !== -1) return whole;
  for (let length = TICKET_PREFIX.length - 1; length > 0; length--) {
    if (word.endsWith(TICKET_PREFIX.slice(0, length)) && next.startsWith(TICKET_PREFIX.slice(length))) {
      return word.length - length;
    }
  }
  return -1;
}

/** A word, also without punctuation after it, continued by the next lines as long as each has one word. */
function* readings(word: string, next: readonly (readonly string[])[]): Generator<string> {
  let text = word;
  for (const words of [[""], ...next]) {
    text += words[0] ?? "";
    if (text.length > READING_MAX) return;
    yield text;
    let bare = text;
    while (bare !== "" && `.,;:!?)"'>`.includes(bare.at(-1) ?? "")) bare = bare.slice(0, -1);
    if (bare !== text) yield bare;
    if (words.length > 1) return;
  }
}
