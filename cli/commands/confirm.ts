/** The question before a change. A script answers it with `--yes`, because no person is there to read it. */
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { printable } from "../terminal/escapes.ts";

export const YES = { summary: "Do not ask; scripts need it" } as const;

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
  // The question may hold a name that another person chose, which could otherwise rewrite it on the terminal.
  if (await ctx.confirm(printable(question))) return true;
  ctx.out.note("Cancelled. Nothing was changed.");
  return false;
}
