/**
 * Aliases: which ones a person may give, and which one a new peer gets. They are apart from peers.ts, because peers.ts
 * would load the schema library into each command.
 */
import { parseDid } from "../../../shared/protocol/did.ts";

/**
 * Longest alias that a person may give or a model sees. A longer one could hold a whole sentence, and push the text
 * after it out of a line.
 */
export const ALIAS_CHARACTERS_MAX = 32;

/**
 * Whether a program or a model may see an alias; for another one it gets the DID. A long alias is never cut, because two
 * peers could then look the same, and what is meant for one of them would go to the other.
 */
export function isShownAlias(alias: string | null): alias is string {
  return alias !== null && alias.length <= ALIAS_CHARACTERS_MAX;
}

export const ALIAS = new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${ALIAS_CHARACTERS_MAX - 1}}$`);

export const ALIAS_FORM = `1 to ${ALIAS_CHARACTERS_MAX} of A-Z, a-z, 0-9, ., _ and -, with a letter or a digit first`;

/** The alias of a peer that did not prove a ticket begins with this. */
export const CONTACT = "contact-";

/** Words that a reader could take for something else than a peer; they get the prefix `peer-`. */
export const RESERVED: ReadonlySet<string> = new Set(
  ["user", "system", "assistant", "human", "admin", "svc"].map(folded),
);

/** An alias for comparing: no case, i and l as 1, o as 0. A reader could otherwise take a peer for another one. */
export function folded(alias: string): string {
  return alias.toLowerCase().replaceAll(/[il]/g, "1").replaceAll("o", "0");
}

export function foldedNames(
  [alias, { former = [] }]: readonly [string, { former?: readonly string[] | undefined }],
): string[] {
  return [alias, ...former].map(folded);
}

/**
 * The name of a peer as one word. A peer of another server has its authority in it, because it would otherwise pass for
 * an agent of this server.
 */
export function wordOf(agentName: string, did: string, { proxy }: { proxy?: string | undefined }): string {
  const word = /[A-Za-z0-9](?:.*[A-Za-z0-9])?/.exec(agentName.replace(/[^A-Za-z0-9._-]+/g, "-"))?.[0] ?? "peer";
  return proxy === undefined ? word : `${word}@${parseDid(did)?.authority ?? ""}`;
}

/** Adds a text to the end of the name in an alias, before the authority. */
export function extended(alias: string, more: string): string {
  const at = alias.indexOf("@");
  return at === -1 ? alias + more : alias.slice(0, at) + more + alias.slice(at);
}

/**
 * A word as an alias, with a number when another peer has the word, or one that looks like it.
 *
 * @param taken the folded aliases of the others
 * @param prefix `CONTACT` for a contact
 * @param numbers the number to try next for each folded word; without it, each of many peers with one name would try
 * all numbers again
 */
export function freeAlias(name: string, taken: ReadonlySet<string>, numbers: Map<string, number>, prefix = ""): string {
  // A peer that proved a ticket would otherwise be called a contact, and could not be renamed.
  const isMistaken = RESERVED.has(folded(name)) || folded(name).startsWith(folded(CONTACT));
  const word = prefix === "" && isMistaken ? `peer-${name}` : prefix + name;
  for (let n = numbers.get(folded(word)) ?? 1;; n++) {
    const alias = n === 1 ? word : extended(word, `-${n}`);
    if (taken.has(folded(alias))) continue;
    numbers.set(folded(word), n + 1);
    return alias;
  }
}
