/**
 * The join link of an invite has the form `https://<registry origin>/join#<invite code>`. A link that also pairs adds
 * the first two fields of a pairing ticket: `…#<invite code>.<first field>.<second field>`. All of it is in the
 * fragment, because clients send no fragment to a server. An error never repeats a link, because it would show its
 * secrets.
 */
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isSecret } from "../../shared/protocol/secrets.ts";
import { parseTicket, type Ticket, TICKET_PREFIX } from "../../shared/protocol/ticket.ts";
import { CliError } from "../errors.ts";
import { isPlain } from "../files/profile.ts";

export interface JoinLink {
  registryUrl: string;
  /** The invite code; a secret. */
  code: string;
  /** The first two fields of a ticket, with a dot between them; a secret. `null` when the link pairs with no agent. */
  ticketFields: string | null;
}

const FORM = "https://<registry>/join#svc_inv_…";
/** With less, a link with the longest host name (253 characters) is refused. With more, any long text is parsed. */
const MAX_LENGTH = 512;
/** The groups of a link: scheme, authority, path, query and fragment. */
const PARTS = /^(https?):\/\/([^/?#\\\s]+)([^?#]*)(\?[^#]*)?(?:#(.*))?$/is;
const CODE = /^svc_inv_[A-Za-z0-9_-]+$/;
/** What a sentence or a mail program puts before and behind a link. A link neither begins nor ends with any of it. */
const QUOTES = "\"'*`\u201c\u201d\u2018\u2019\u00ab\u00bb",
  BEFORE = `<([${QUOTES}`,
  BEHIND = `.,;:!?)>]${QUOTES}\u200b`;

export function joinLink({ registryUrl, code, ticketFields }: JoinLink): string {
  return `${registryUrl}/join#${code}${ticketFields === null ? "" : `.${ticketFields}`}`;
}

/** Returns the first two fields of a ticket. A link needs no third, because the registry names its proxy. */
export function fieldsOf({ ticket, authority }: Pick<Ticket, "ticket" | "authority">): string {
  return ticket.slice(TICKET_PREFIX.length, -authority.length - 1);
}

/** Rebuilds the ticket of a link, with the proxy that the registry names. `null` for a link without a ticket. */
export function ticketOf({ ticketFields }: Pick<JoinLink, "ticketFields">, proxyUrl: string): string | null {
  return ticketFields === null ? null : `${TICKET_PREFIX}${ticketFields}.${new URL(proxyUrl).host}`;
}

export function joinWords(link: JoinLink): string[] {
  return ["join", joinLink(link), ...isPlain(link.registryUrl) ? ["--allow-insecure"] : []];
}

/** A loop and not a regular expression, which would take quadratic time for many of these characters in a row. */
function withoutPunctuation(text: string): string {
  let start = 0, end = text.length;
  while (start < end && BEFORE.includes(text.charAt(start))) start++;
  while (end > start && BEHIND.includes(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}

/**
 * Returns the parts of a join link. White space is dropped, because a mail program may break a long line, and so are
 * punctuation around the link and words behind it, because a person may copy them along with it.
 *
 * @throws {CliError} `CLI_USAGE` with the reason
 */
export function parseJoinLink(given: string): JoinLink {
  if (given.length > 2 * MAX_LENGTH) throw refused(`it has more than ${MAX_LENGTH} characters`);
  const words = given.split(/\s+/);
  // Without the last words only if those behind it cannot be its pairing part, which would else be lost unnoticed.
  for (let count = words.length; count > 0 && !words[count]?.startsWith("."); count--) {
    try {
      const link = parseWhole(words.slice(0, count).join(""));
      if (isSecret("invite", link.code)) return link;
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
    }
  }
  return parseWhole(words.join(""));
}

function parseWhole(joined: string): JoinLink {
  const text = withoutPunctuation(joined);
  if (text.length > MAX_LENGTH) throw refused(`it has more than ${MAX_LENGTH} characters`);
  // Some chat programs encode the number sign when they make a link of the text.
  const [, scheme, authority = "", path, query, fragment] = PARTS.exec(text.replace("/join%23", "/join#")) ?? [];
  if (text.startsWith(TICKET_PREFIX)) {
    throw refused("it is a pairing ticket", "To pair: run svc connector start <name>, then paste the ticket there.");
  }
  if (text.startsWith("svc_inv_")) {
    throw refused("it is an invite code alone", `Give the whole link, which has the form ${FORM}.`);
  }
  if (scheme === undefined) throw refused("it is not an http or https address");
  if (authority.includes("@")) throw refused("it has a user name");
  const registryUrl = parseServiceUrl(`${scheme}://${authority}`);
  if (registryUrl === null) throw refused("its host is not valid");
  if (path !== "/join") throw refused("its path is not /join");
  if (query !== undefined) throw refused("it has a query");
  if (fragment === undefined) throw refused("the part after # is missing; copy the whole link, and quote it");
  const [code = "", ...fields] = fragment.split(".");
  if (code.length > LIMITS.inviteCodeLength || !CODE.test(code)) {
    throw refused("the part after # is not an invite code");
  }
  const ticketFields = fields.length === 0 ? null : fields.join(".");
  if (
    ticketFields !== null && (fields.length !== 2 || parseTicket(`${TICKET_PREFIX}${ticketFields}.localhost`) === null)
  ) {
    throw refused("its pairing part is not whole; copy the whole link");
  }
  return { registryUrl, code, ticketFields };
}

function refused(why: string, fix = `A join link has the form ${FORM}.`): CliError {
  return new CliError("CLI_USAGE", `The join link cannot be used: ${why}`, { fix });
}
