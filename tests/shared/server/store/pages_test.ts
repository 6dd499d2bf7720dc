/** Pages of a list: for any records, filter, limit and bound on reads, the pages together are the list, each record once. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { aboveCursor, belowCursor, readPage } from "../../../../shared/server/store/pages.ts";
import { anyText } from "../../protocol/arbitraries.ts";
import { openTestKv } from "../../../support/test_store.ts";

const PREFIX = ["registry", "human"];

/** Writes records whose values are their places in the list. */
async function listOf(names: readonly string[]): Promise<Deno.Kv> {
  const kv = await openTestKv();
  for (let at = 0; at < names.length; at += 100) {
    const operation = kv.atomic();
    names.slice(at, at + 100).forEach((name, i) => operation.set([...PREFIX, name], at + i));
    await operation.commit();
  }
  // A neighbour on each side, which no page may show.
  await kv.set(["registry", "huma"], -1);
  await kv.set(["registry", "humao", "x"], -1);
  return kv;
}

const names = fc.uniqueArray(fc.oneof(fc.stringMatching(/^[a-c]{1,4}$/), anyText), { maxLength: 260 })
  .map((all) => [...new Set(all.map((name) => name.toWellFormed()))]);

Deno.test("the pages of a list are all its records, once and in order", async () => {
  const row = fc.record({
    names,
    limit: fc.integer({ min: 1, max: 30 }),
    most: fc.integer({ min: 1, max: 120 }),
    every: fc.integer({ min: 1, max: 40 }),
    reverse: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(row, async ({ names, limit, most, every, reverse }) => {
      const kv = await listOf(names);
      const stored = await Array.fromAsync(kv.list<number>({ prefix: PREFIX }, { reverse }), ({ value }) => value);
      const shown: number[] = [];
      let cursor: string | undefined, last = false, reads = 0;
      while (!last) {
        const selector = reverse ? belowCursor(PREFIX, cursor) : aboveCursor(PREFIX, cursor);
        reads = 0;
        const page = await readPage<number>(kv, selector, { limit, reverse, most }, (entries) => {
          reads += entries.length;
          return entries.map(({ value }) => value % every === 0 ? value : null);
        });
        assert(page.items.length <= limit && reads <= most, `${page.items.length} items, ${reads} reads`);
        shown.push(...page.items);
        last = page.nextCursor === null;
        assert(last || page.nextCursor !== cursor, "a cursor that does not move");
        cursor = page.nextCursor ?? undefined;
      }
      assertEquals(shown, stored.filter((value) => value % every === 0));
      kv.close();
    }),
    { numRuns: 60 },
  );
});

Deno.test("any text is a cursor, and shows only records on its far side", async () => {
  const kv = await listOf(["a", "b", "b\0", "ba", "c", "\u{1f600}"]);
  await fc.assert(fc.asyncProperty(fc.oneof(anyText, fc.constantFrom("", "b", "b\0", "bb")), async (cursor) => {
    const below = await readPage<number>(kv, belowCursor(PREFIX, cursor), { limit: 10 });
    const above = await readPage<number>(kv, aboveCursor(PREFIX, cursor), { limit: 10, reverse: false });
    const at = (await kv.get<number>([...PREFIX, cursor])).value;
    const found = [...below.items.toReversed(), ...at === null ? [] : [at], ...above.items];
    assertEquals(found, (await Array.fromAsync(kv.list<number>({ prefix: PREFIX }))).map(({ value }) => value));
  }));
  kv.close();
});
