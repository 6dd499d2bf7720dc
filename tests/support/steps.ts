type Named = string | { readonly name: string } | readonly [name: string, ...unknown[]];

function nameOf(row: Named): string {
  if (typeof row === "string") return row;
  return "name" in row ? row.name : row[0];
}

/** Checks each row of a table, or each vector, in a step of its own, which has the name of the row. */
export async function steps<Row extends Named>(
  t: Deno.TestContext,
  rows: Iterable<Row>,
  check: (row: Row) => void | Promise<void>,
): Promise<void> {
  for (const row of rows) await t.step(nameOf(row), () => check(row));
}
