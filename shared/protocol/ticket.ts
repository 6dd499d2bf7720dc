/**
 * Pairing tickets (D-26): `svcpair1_<secret>.<pair secret, or ->.<authority of the proxy>`. This file checks only their
 * form; whether a ticket exists is known to the proxy that made it.
 */
import { fromBase64Url, toBase64Url } from "./base64url.ts";

export const TICKET_PREFIX = "svcpair1_";
const SECRET_BYTES = 16;
const MAX_LENGTH = 2048;
/** A pasted text, from the first to the last character that is neither white space nor a backtick. */
const TEXT = /[^\s`](?:.*[^\s`])?/s;

/**
 * The form of an authority. Other text is refused, because people are shown the authority, and it could otherwise be a
 * sentence that asks them to agree.
 */
const AUTHORITY = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::\d+)?$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/;

/** Tells whether a host, with or without port, means this machine by its name. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

export interface Ticket {
  /** The complete text; a secret that one person gives to the other. */
  ticket: string;
  /**
   * The form that goes to the proxy. It lacks the pair secret, because the proxy could otherwise use that to pass off a
   * key of its own as the key of an agent.
   */
  plain: string;
  /** 16 bytes in base64url that only the two connectors know; `null` for a ticket without a pair secret. */
  pairSecret: string | null;
  /** Host of the proxy, with its port unless that is the default of the scheme. */
  authority: string;
  /** Origin of the proxy: `https`, or `http` for a loopback name. */
  origin: string;
}

/** Returns a ticket without a pair secret. `secret` is 16 random bytes. */
export function formatTicket(proxyUrl: string, secret: Uint8Array): string {
  return `${TICKET_PREFIX}${toBase64Url(secret)}.-.${new URL(proxyUrl).host}`;
}

/** Returns a plain ticket with a pair secret in its second field. */
export function withPairSecret(plain: string, pairSecret: string): string {
  return plain.replace(".-.", `.${pairSecret}.`);
}

/** Returns a pasted ticket without surrounding white space and backticks, or `null` for any other text. */
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

/** Tells whether a ticket belongs to this proxy. Only the authority counts, because a ticket names no scheme. */
export function isTicketOf({ authority }: Pick<Ticket, "authority">, proxyUrl: string): boolean {
  return new URL(proxyUrl).host === authority;
}

function isSecret(text: string): boolean {
  return fromBase64Url(text)?.length === SECRET_BYTES;
}

/**
 * Returns the origin of an authority, or `null` unless the authority is spelled as in an origin: in lower case, and
 * without the default port.
 */
function originOf(authority: string): string | null {
  if (!AUTHORITY.test(authority)) return null;
  const origin = `${isLoopback(authority) ? "http" : "https"}://${authority}`;
  return URL.canParse(origin) && new URL(origin).host === authority ? origin : null;
}

/** What a person reads who pastes a ticket of the own agent. */
export const OWN_TICKET = "This is your own ticket. Give it to the other person.";

/** The ticket in a pasted text, or what is wrong with the text, in words for a person. */
type PastedTicket = { ticket: Ticket } | { problem: string };

/** Longest text that is tried as a ticket. No ticket with a DNS name is longer, so more would only cost work. */
const READING_MAX = 330;
/** Most beginnings of tickets that are tried. With more, a text made of prefixes would cost a parse for each. */
const STARTS_MAX = 50;

/**
 * Finds a ticket in a text, even if a mail program has broken it into lines: the one of the reader's own proxy, or else
 * the only ticket.
 */
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

/** Returns where a ticket begins in a word, or -1. Its prefix may continue in the first word of the next line. */
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

/**
 * Yields the texts that may be the ticket that begins in this word: the word alone, and the word joined with the first
 * word of each next line, up to the first line with several words. Each also comes without punctuation at its end, which
 * editors and chats add: quotes of any form, asterisks, a space without width.
 */
function* readings(word: string, next: readonly (readonly string[])[]): Generator<string> {
  let text = word;
  for (const words of [[""], ...next]) {
    text += words[0] ?? "";
    if (text.length > READING_MAX) return;
    yield text;
    let bare = text;
    while (bare !== "" && `.,;:!?)"'>*\u201c\u201d\u2018\u2019\u00ab\u00bb\u200b`.includes(bare.at(-1) ?? "")) {
      bare = bare.slice(0, -1);
    }
    if (bare !== text) yield bare;
    if (words.length > 1) return;
  }
}
