/** Reads and writes rows of the tables of `docs/scaling.md`. A row is known by its first two cells. */

export const SCALING_DOC = new URL("../../docs/scaling.md", import.meta.url);

/** Returns the rows whose first cell is this. */
export function docRows(text: string, first: string): string[] {
  return text.split("\n").filter((line) => line.startsWith(`| ${first} |`));
}

/** Returns the cells of the row with these first two cells. */
export function docCells(text: string, first: string, second: string): string[] {
  const row = docRows(text, first).map(cellsOf).find((cells) => cells[1] === second);
  if (!row) throw new Error(`docs/scaling.md has no row "${first}", "${second}"`);
  return row;
}

/** Puts rows in the place of those with the same first two cells. */
export async function writeRows(rows: readonly string[]): Promise<void> {
  const nameOf = (row: string) => cellsOf(row).slice(0, 2).join("|");
  const fresh = new Map(rows.map((row) => [nameOf(row), row]));
  const text = await Deno.readTextFile(SCALING_DOC);
  const lines = text.split("\n").map((line) => line.startsWith("| ") ? fresh.get(nameOf(line)) ?? line : line);
  await Deno.writeTextFile(SCALING_DOC, lines.join("\n"));
}

function cellsOf(row: string): string[] {
  return row.split("|").slice(1, -1).map((cell) => cell.trim());
}
