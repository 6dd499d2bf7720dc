/** What the lists of an admin share: options of pages, and names and IDs in arguments. */
import type { AdminAgentSummary } from "../../../shared/protocol/api/admin.ts";
import { parseDid } from "../../../shared/protocol/did.ts";
import { isUlid } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { parseDisplayName } from "../../../shared/protocol/names.ts";
import type { AdminClient } from "../../client/admin_client.ts";
import { pagesOf } from "../../client/registry_client.ts";
import { parseCount } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { didYouMean } from "../../../shared/did_you_mean.ts";
import { idEnd } from "../../terminal/tables.ts";

const PAGE_MAX = 100;

export const PAGE_OPTIONS = {
  limit: {
    value: "count",
    summary: `Records per page, 1 to ${PAGE_MAX} (default ${LIMITS.adminListDefault}; ${PAGE_MAX} with --all)`,
  },
  cursor: { value: "cursor", summary: "Begin after this record: nextCursor of the previous page" },
  all: { summary: "List every page" },
} as const;

export interface PageOptions {
  limit?: string | undefined;
  cursor?: string | undefined;
  all: boolean;
}

interface PageAnswer {
  pagination: { limit: number; nextCursor: string | null };
}

/**
 * Reads one page, or every page with `--all`. A page may be empty and not be the last.
 *
 * @throws {CliError} `CLI_USAGE`
 */
export async function readPages<P extends PageAnswer>(
  { limit, cursor, all }: PageOptions,
  read: (query: { limit: number | undefined; cursor: string | undefined }) => Promise<P>,
): Promise<P[]> {
  const size = limit === undefined ? (all ? PAGE_MAX : undefined) : parseCount(limit, "--limit", PAGE_MAX);
  if (!all) return [await read({ limit: size, cursor })];
  return await Array.fromAsync(pagesOf((next) => read({ limit: size, cursor: next }), cursor));
}

/** Returns the words that give these options again on a command line. */
export function optionWords(options: Record<string, string | undefined>): string[] {
  return Object.entries(options).flatMap(([name, value]) => value === undefined ? [] : [`--${name}`, value]);
}

export function hintNextPage(ctx: Context, words: readonly string[], pages: readonly PageAnswer[]): void {
  const nextCursor = pages.at(-1)?.pagination.nextCursor ?? null;
  if (nextCursor !== null) ctx.out.next([...words, "--cursor", nextCursor], { when: "for the next page" });
}

/**
 * Returns the ID of the person in an argument: an ID, a DID, or a name that one person has, in any case.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_AMBIGUOUS`, `CLI_NAME_UNKNOWN`
 */
export async function personIdOf(admin: AdminClient, text: string): Promise<string> {
  const id = idIn("human", text);
  if (id !== null) return id;
  const list = async (query: { name?: string }) =>
    (await readPages({ all: true }, (page) => admin.people({ ...query, ...page }))).flatMap((page) => page.people);
  const people = await list({ name: text });
  const named = people.filter(({ displayName }) => isSame(displayName, text));
  const same = named.length > 0 ? named : await endingIn(text, () => list({}));
  const near = same.length > 0 || people.length > 0 ? people : (await admin.people(likeness(text))).people;
  return onlyOne(
    text,
    same,
    near.map(({ displayName }) => displayName),
    ({ id, createdAt }) => `${id} (${createdAt})`,
  );
}

/**
 * Returns the ID of the agent in an argument: an ID, a DID, a name, or `name@person`. Of several agents with the name only
 * the active ones count.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_AMBIGUOUS`, `CLI_NAME_UNKNOWN`
 */
export async function agentIdOf(admin: AdminClient, text: string): Promise<string> {
  const id = idIn("agent", text);
  if (id !== null) return id;
  const [name = "", ...owner] = text.split("@");
  const ownerId = owner.length === 0 ? undefined : await personIdOf(admin, owner.join("@"));
  const list = async (query: { name?: string; ownerId?: string | undefined }) =>
    (await readPages({ all: true }, (page) => admin.agents({ ...query, ...page }))).flatMap((page) => page.agents);
  const agents = await list({ name, ownerId });
  const named = agents.filter((agent) => isSame(agent.name, name));
  const same = named.length > 0 ? named : await endingIn(text, () => list({}));
  const active = same.filter(({ status }) => status === "active");
  const shown = (agent: AdminAgentSummary) => `${agent.name}@${agent.ownerName} (${agent.id})`;
  const near = same.length > 0 || agents.length > 0
    ? agents
    : (await admin.agents({ ...likeness(name), ownerId })).agents;
  return onlyOne(text, same.length > 1 && active.length > 0 ? active : same, near.map(({ name }) => name), shown);
}

/** The query for names that a mistyped one may mean: one page of those with its first letter. */
const likeness = (text: string) => ({ name: [...text.trim()][0] ?? "", limit: PAGE_MAX });

/** The records whose ID ends in the text, as tables show it; none for a text that is no end of an ID. */
async function endingIn<T extends { id: string }>(text: string, list: () => Promise<T[]>): Promise<T[]> {
  const end = idEnd(text);
  return end === null ? [] : (await list()).filter(({ id }) => id.endsWith(end));
}

/** Returns the ID of an ID or DID; `null` for a name. @throws {CliError} `CLI_USAGE` for what is neither */
function idIn(kind: "human" | "agent", text: string): string | null {
  const did = parseDid(text), isId: boolean = isUlid(text);
  if (isId) return text;
  if (did?.kind === kind) return did.id;
  if (did === null && text.split("@").every((part) => parseDisplayName(part) !== null)) return null;
  throw new CliError("CLI_USAGE", `this is no name, ID or DID of ${kind === "human" ? "a person" : "an agent"}`);
}

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.trim().toLowerCase();

/** @param near names that begin like the wanted one */
function onlyOne<T extends { id: string }>(
  text: string,
  found: readonly T[],
  near: readonly string[],
  shown: (one: T) => string,
): string {
  const [first] = found;
  if (first !== undefined && found.length === 1) return first.id;
  if (first === undefined) {
    const [longer] = near.filter((name) => name.toLowerCase().startsWith(text.toLowerCase()));
    const hint = longer === undefined ? didYouMean(text, near) : ` Did you mean ${longer}?`;
    throw new CliError("CLI_NAME_UNKNOWN", `There is no ${text}.${hint}`);
  }
  throw new CliError("CLI_AMBIGUOUS", `Several have the name ${text}: ${found.slice(0, 10).map(shown).join(", ")}`);
}
