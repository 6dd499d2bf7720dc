/**
 * Aliases: what a person may give, and what a peer gets. Apart from peers.ts, which would load the schema library into
 * each command.
 */
import { parseDid } from "../../../shared/protocol/did.ts";

/** For aliases that a person gives or a model sees: a longer one could hold a sentence, and hides what follows it. */
export const ALIAS_CHARACTERS_MAX = 32;

export const ALIAS = new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${ALIAS_CHARACTERS_MAX - 1}}$`);

export const ALIAS_FORM = `1 to ${ALIAS_CHARACTERS_MAX} of A-Z, a-z, 0-9, ., _ and -, with a letter or a digit first`;

/** The alias of a peer that did not prove a ticket begins with this. */
export const CONTACT = "contact-";

/** Words that a reader could take for something else than a peer; they get the prefix `peer-`. */
export const RESERVED: ReadonlySet<string> = new Set(
  ["user", "system", "assistant", "human", "admin", "svc"].map(folded),
);

/** An alias without case, l and I as 1, and O as 0, because a reader could otherwise take a peer for another one. */
export function folded(alias: string): string {
  return alias.toLowerCase().replaceAll(/[il]/g, "1").replaceAll("o", "0");
}

export function foldedNames(
  [alias, { former = [] }]: readonly [string, { former?: readonly string[] | undefined }],
): string[] {
  return [alias, ...former].map(folded);
}

/**
 * The name of a peer as one word, with its authority when it is of another server, because it must not pass for an
 * agent of this one.
 */
export function wordOf(agentName: string, did: string, { proxy }: { proxy?: string | undefined }): string {
  const word = /[A-Za-z0-9](?:.*[A-Za-z0-9])?/.exec(agentName.replace(/[^A-Za-z0-9._-]+/g, "-"))?.[0] ?? "peer";
  return proxy === undefined ? word : `${word}@${parseDid(did)?.authority ?? ""}`;
}

/** An alias with more at the end of its name. */
export function extended(alias: string, more: string): string {
  const at = alias.indexOf("@");
  return at === -1 ? alias + more : alias.slice(0, at) + more + alias.slice(at);
}

/**
 * A word as an alias, with a number when another peer has the word, or one that looks like it.
 *
 * @param taken the folded aliases of the others
 * @param prefix `CONTACT` for a contact
 * @param numbers the number to try next for each folded word, so that many peers with one name stay linear
 */
export function freeAlias(name: string, taken: ReadonlySet<string>, numbers: Map<string, number>, prefix = ""): string {
  const word = prefix === "" && RESERVED.has(folded(name)) ? `peer-${name}` : prefix + name;
  for (let n = numbers.get(folded(word)) ?? 1;; n++) {
    const alias = n === 1 ? word : extended(word, `-${n}`);
    if (taken.has(folded(alias))) continue;
    numbers.set(folded(word), n + 1);
    return alias;
  }
}
