/** What the lists of an admin share: options of pages, IDs in arguments, and the question before a change (D-175). */
import { parseCount } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";

/** Most records of a page. */
const PAGE_MAX = 100;

/** Options of a list that comes in pages. */
export const PAGE_OPTIONS = {
  limit: { value: "count", summary: `Records per page, 1 to ${PAGE_MAX} (default 20; 100 with --all)` },
  cursor: { value: "cursor", summary: "Begin behind this record: nextCursor of the page before" },
  all: { summary: "List every page" },
} as const;

/** Values of `PAGE_OPTIONS`. */
export interface PageOptions {
  limit?: string | undefined;
  cursor?: string | undefined;
  all: boolean;
}

interface PageAnswer {
  pagination: { limit: number; nextCursor: string | null };
}

/**
 * Reads one page, or every page with `--all`. A page may be empty and not be the last (D-169).
 *
 * @throws {CliError} `CLI_USAGE`
 */
export async function readPages<P extends PageAnswer>(
  { limit, cursor, all }: PageOptions,
  read: (query: { limit: string | undefined; cursor: string | undefined }) => Promise<P>,
): Promise<P[]> {
  const size = limit === undefined ? (all ? PAGE_MAX : undefined) : parseCount(limit, "--limit", PAGE_MAX);
  const pages: P[] = [];
  const seen = new Set<string>();
  for (let next = cursor;;) {
    const page = await read({ limit: size === undefined ? undefined : String(size), cursor: next });
    pages.push(page);
    const { nextCursor } = page.pagination;
    if (!all || nextCursor === null || seen.has(nextCursor)) return pages;
    seen.add(nextCursor);
    next = nextCursor;
  }
}

/** Says how to get the next page. */
export function hintNextPage(ctx: Context, words: readonly string[], pages: readonly PageAnswer[]): void {
  const nextCursor = pages.at(-1)?.pagination.nextCursor ?? null;
  if (nextCursor !== null) ctx.out.next([...words, "--cursor", nextCursor], { when: "for the next page" });
}

/** Returns the ID in an argument: an ID, or a DID of this kind. @throws {CliError} `CLI_USAGE` */
export async function idOf(kind: "human" | "agent", text: string): Promise<string> {
  const [{ isUlid }, { parseDid }] = await Promise.all([
    import("../../../shared/protocol/ids.ts"),
    import("../../../shared/protocol/did.ts"),
  ]);
  if (isUlid(text)) return text;
  const did = parseDid(text);
  if (did?.kind === kind) return did.id;
  throw new CliError(
    "CLI_USAGE",
    `this is not the ID or DID of ${kind === "human" ? "a person" : "an agent"}: an ID has 26 upper-case characters`,
  );
}

/**
 * Asks before a change. Returns false when the user declines.
 *
 * @throws {CliError} `CLI_USAGE` without a terminal and without `--yes`
 */
export async function isConfirmed(ctx: Context, yes: boolean, question: string): Promise<boolean> {
  if (yes) return true;
  if (ctx.confirm === null || ctx.out.json) {
    throw new CliError("CLI_USAGE", "this command asks before it changes anything, and here it cannot; add --yes");
  }
  ctx.out.finish();
  if (await ctx.confirm(question)) return true;
  ctx.out.note("Cancelled. Nothing was changed.");
  return false;
}
