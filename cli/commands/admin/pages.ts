/** What the lists of an admin share: options of pages, and names and IDs in arguments. */
import type { Query } from "../../../shared/client/http.ts";
import { parseDid } from "../../../shared/protocol/did.ts";
import { isUlid } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { parseDisplayName } from "../../../shared/protocol/names.ts";
import { type ConnectionOptions, registryWords } from "../../account/registry_access.ts";
import type { AdminClient } from "../../client/admin_client.ts";
import { pagesOf } from "../../client/registry_client.ts";
import { parseCount } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { didYouMean } from "../../../shared/did_you_mean.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { type Cell, idCell, idEnd } from "../../terminal/tables.ts";

const PAGE_MAX = 100;
/** The end of an ID has only these. With others too, each name of six characters would read every page. */
const ID_CHARACTERS = /^[0-9A-HJKMNP-TV-Z]+$/;

export const PAGE_OPTIONS = {
  limit: {
    value: "count",
    summary: `Records per page, 1 to ${PAGE_MAX} (default ${LIMITS.adminListDefault}; ${PAGE_MAX} with --all)`,
  },
  cursor: { value: "cursor", summary: "Begin after this record: nextCursor of the previous page" },
  all: { summary: "List every page" },
} as const;

interface PageOptions {
  limit?: string | undefined;
  cursor?: string | undefined;
  all: boolean;
}

interface PageAnswer {
  pagination: { limit: number; nextCursor: string | null };
}

/**
 * Reads one page, or every page with `--all`. An empty page need not be the last one. Returns the rows, and where the
 * next page begins.
 *
 * @throws {CliError} `CLI_USAGE`
 */
export async function readPages<P extends PageAnswer, R>(
  { limit, cursor, all }: PageOptions,
  read: (query: Query) => Promise<P>,
  rowsOf: (page: P) => readonly R[],
) {
  const size = limit === undefined ? (all ? PAGE_MAX : undefined) : parseCount(limit, "--limit", PAGE_MAX);
  const pages = all
    ? await Array.fromAsync(pagesOf((next) => read({ limit: size, cursor: next }), cursor))
    : [await read({ limit: size, cursor })];
  return { rows: pages.flatMap(rowsOf), pagination: pages.at(-1)?.pagination };
}

/** Returns the words that give these options again on a command line. A value may begin with a hyphen. */
export function optionWords(options: Record<string, string | undefined>): string[] {
  return Object.entries(options).flatMap(([name, value]) => value === undefined ? [] : [`--${name}=${value}`]);
}

export function hintNextPage(
  ctx: Context,
  words: readonly string[],
  options: ConnectionOptions & PageOptions,
  pagination?: PageAnswer["pagination"],
): void {
  const nextCursor = pagination?.nextCursor ?? null;
  if (nextCursor === null) return;
  const size = optionWords({ limit: options.limit });
  const next = [...words, ...size, ...registryWords(ctx, options), "--cursor", nextCursor];
  ctx.out.next(next, { when: "for the next page" });
}

/**
 * Returns the ID of the person in an argument: an ID or its end, a DID, or a name of only one person.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_AMBIGUOUS`, `CLI_NAME_UNKNOWN`
 */
export async function personIdOf(admin: AdminClient, text: string): Promise<string> {
  return idIn("human", text) ?? await idOfName(text, text, {
    read: admin.people,
    rowsOf: ({ people }) => people,
    nameOf: ({ displayName }) => displayName,
    shown: ({ id, createdAt }) => `${id} (${createdAt})`,
  });
}

/**
 * Returns the ID of the agent in an argument: an ID or its end, a DID, a name, or `name@person`. If several agents have
 * the name, only the active ones count.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_AMBIGUOUS`, `CLI_NAME_UNKNOWN`
 */
export async function agentIdOf(admin: AdminClient, text: string): Promise<string> {
  const id = idIn("agent", text);
  if (id !== null) return id;
  const [name = "", ...owner] = text.split("@");
  const ownerId = owner.length === 0 ? undefined : await personIdOf(admin, owner.join("@"));
  return await idOfName(text, name, {
    read: (query) => admin.agents({ ...query, ownerId }),
    rowsOf: ({ agents }) => agents,
    nameOf: ({ name }) => name,
    shown: (agent) => `${agent.name}@${agent.ownerName} (${agent.id})`,
    isPreferred: ({ status }) => status === "active",
  });
}

/** Returns the DID in an argument: a DID, also of another registry, else that of the agent or person that it names. */
export async function didOf(admin: AdminClient, text: string, kind: "agent" | "human"): Promise<string> {
  if (parseDid(text) !== null) return text;
  if (kind === "agent") return (await admin.agent(await agentIdOf(admin, text))).agent.did;
  return (await admin.person(await personIdOf(admin, text))).person.did;
}

/** Agents and people of a list whose names are asked for. With more, a list would cost as many requests. */
const NAMED_MAX = 20;

/**
 * Returns the names of agents, with those of their owners, and of people, by DID. An agent of another registry has
 * none, nor one whose record is deleted.
 */
export async function namesOf(admin: AdminClient, dids: readonly (string | null)[]) {
  const some = [...new Set(dids)].filter((did) => did !== null && parseDid(did) !== null).slice(0, NAMED_MAX);
  const found = await Promise.all(some.map(async (did) => {
    const { kind = "agent", id = "" } = parseDid(did ?? "") ?? {};
    const asked = kind === "agent"
      ? admin.agent(id).then(({ agent, ownerName }) => ({ did: agent.did, agent: agent.name, owner: ownerName }))
      : admin.person(id).then(({ person }) => ({ did: person.did, agent: null, owner: person.displayName }));
    const known = await asked.catch((error) => {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    });
    // Another registry may choose any ID, so its agent could otherwise be shown with the name of one here.
    return known?.did === did ? [[known.did, known] as const] : [];
  }));
  return new Map(found.flat());
}

/** The cell of an agent or a person: on a terminal the name, else the DID. */
export function nameCell(names: Awaited<ReturnType<typeof namesOf>>, did: string | null): Cell {
  const known = names.get(did ?? "");
  if (known === undefined) return idCell(did);
  return { short: known.agent === null ? known.owner : `${known.agent} of ${known.owner}`, whole: known.did };
}

/** Returns the ID in an ID or a DID; `null` for a name. @throws {CliError} `CLI_USAGE` for what is neither */
function idIn(kind: "human" | "agent", text: string): string | null {
  const did = parseDid(text), isId: boolean = isUlid(text);
  if (isId) return text;
  if (did?.kind === kind) return did.id;
  if (did === null && text.split("@").every((part) => parseDisplayName(part) !== null)) return null;
  throw new CliError("CLI_USAGE", `this is no name, ID or DID of ${kind === "human" ? "a person" : "an agent"}`);
}

interface Named<P, R> {
  read(query: Query): Promise<P>;
  rowsOf(page: P): readonly R[];
  nameOf(row: R): string;
  /** The text by which an error tells this record from others with the same name. */
  shown(row: R): string;
  /** If several records have the name and some of them are preferred, the others do not count. */
  isPreferred?(row: R): boolean;
}

/** Returns the ID of the only record that has the name, in any case, or whose ID ends in the text. */
async function idOfName<P extends PageAnswer, R extends { id: string }>(
  text: string,
  name: string,
  { read, rowsOf, nameOf, shown, isPreferred = () => false }: Named<P, R>,
): Promise<string> {
  const list = async (query: { name?: string }) =>
    (await readPages({ all: true }, (page) => read({ ...query, ...page }), rowsOf)).rows;
  const beginning = await list({ name }), end = idEnd(text);
  let found = beginning.filter((row) => nameOf(row).toLowerCase() === name.trim().toLowerCase());
  // The text may be the end of an ID, because tables show only that. A name counts too, because a person could take the
  // end of another's ID as a name, and would then be taken for the other.
  if (end !== null && ID_CHARACTERS.test(end)) {
    const named = new Set(found.map(({ id }) => id));
    found = [...found, ...(await list({})).filter(({ id }) => id.endsWith(end) && !named.has(id))];
  }
  if (found.some(isPreferred)) found = found.filter(isPreferred);
  const [first] = found;
  if (first !== undefined && found.length === 1) return first.id;
  if (first !== undefined) {
    throw new CliError(
      "CLI_AMBIGUOUS",
      `Several have the name or ID ${text}: ${found.slice(0, 10).map(shown).join(", ")}`,
    );
  }
  // Without a match, the suggestions come from names with the same first letter, because the rest may be mistyped.
  const near = beginning.length > 0
    ? beginning
    : rowsOf(await read({ name: [...name.trim()][0] ?? "", limit: PAGE_MAX }));
  const names = near.map(nameOf);
  const longer = names.find((name) => name.toLowerCase().startsWith(text.toLowerCase()));
  const hint = longer === undefined ? didYouMean(text, names) : ` Did you mean ${longer}?`;
  throw new CliError("CLI_NAME_UNKNOWN", `There is no ${text}.${hint}`);
}
