/** Finds the pairing ticket in a pasted text, also one that a mail or a terminal has broken into lines. */
import { isTicketOf, parseTicket, type Ticket, TICKET_PREFIX as PREFIX } from "./ticket.ts";

/** The ticket of a paste, or what is wrong with it, for a person. */
export type PastedTicket = { ticket: Ticket } | { problem: string };

/** No ticket is longer, so a longer reading costs work for nothing. */
const READING_MAX = 330;
/** With more, a text made of prefixes would cost a parse for each. */
const STARTS_MAX = 50;

/** Returns the ticket of the reader's own proxy in a text, else the only one. */
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
  const whole = word.lastIndexOf(PREFIX);
  if (whole !== -1) return whole;
  for (let length = PREFIX.length - 1; length > 0; length--) {
    if (word.endsWith(PREFIX.slice(0, length)) && next.startsWith(PREFIX.slice(length))) return word.length - length;
  }
  return -1;
}

/** A word, without punctuation behind it too, and with the first words of the next lines while each ends its line. */
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
