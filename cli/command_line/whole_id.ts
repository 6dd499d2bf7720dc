/** An ID in an argument: whole, or its last 6 characters as tables show it. */
import { CliError } from "../errors.ts";
import { idEnd } from "../terminal/tables.ts";

/**
 * Returns the ID that an argument names.
 *
 * @param isWhole whether the text is an ID
 * @param known the IDs that the list command shows; asked only for the end of an ID
 * @param what what the ID is, with an article: `an invite ID`
 * @throws {CliError} `CLI_USAGE` for another text, `CLI_AMBIGUOUS` when several end so
 */
export async function wholeId(
  text: string,
  { isWhole, known, what }: { isWhole(text: string): boolean; known(): Promise<readonly string[]>; what: string },
): Promise<string> {
  if (isWhole(text)) return text;
  const end = idEnd(text);
  const fitting = end === null ? [] : [...new Set(await known())].filter((id) => id.endsWith(end));
  const [first, second] = fitting;
  if (first !== undefined && second === undefined) return first;
  if (first !== undefined) throw new CliError("CLI_AMBIGUOUS", `Several IDs end in ${end}: ${fitting.join(", ")}`);
  throw new CliError("CLI_USAGE", `"${text}" is not ${what}, and no listed ID ends in it`);
}
