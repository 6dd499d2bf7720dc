/** Moving a store: an export has every record that must stay valid, and only a complete export is read. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { KEYS as PROXY_KEYS } from "../../../../proxy/schema/kv_keys.ts";
import { STORED as PROXY_STORED } from "../../../../proxy/schema/retention.ts";
import { KEYS as REGISTRY_KEYS } from "../../../../registry/schema/kv_keys.ts";
import { STORED as REGISTRY_STORED } from "../../../../registry/schema/retention.ts";
import { StoreRefused } from "../../../../shared/server/store/open_store.ts";
import { readWithFormatCheck } from "../../../../shared/server/store/store_format.ts";
import { exportLines, importLines, TransferError } from "../../../../shared/server/store/transfer.ts";
import { get, openProxy } from "../../../proxy/proxy_world.ts";
import { anyText } from "../../protocol/arbitraries.ts";
import { CallGate, countingKv, noCounts } from "../../../support/counting_kv.ts";
import { steps } from "../../../support/steps.ts";
import { TABLES } from "../../../support/store_story.ts";
import { openTestKv } from "../../../support/test_store.ts";

async function* linesOf(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

async function records(kv: Deno.Kv): Promise<[unknown, unknown][]> {
  const entries = await Array.fromAsync(kv.list({ prefix: [] }));
  const moved = entries.filter(({ key: [service, kind] }) =>
    TABLES[service as keyof typeof TABLES]?.[String(kind)] !== "never" && service !== "bell" && service !== "store"
  );
  return moved.map(({ key, value }) => [key, value]);
}

Deno.test("every kind of key states how long an export keeps it", () => {
  for (const [keys, stored] of [[REGISTRY_KEYS, REGISTRY_STORED], [PROXY_KEYS, PROXY_STORED]] as const) {
    const kinds = Object.values(keys).map((make) => {
      const made = (make as (...args: unknown[]) => Deno.KvKey | { start: Deno.KvKey })(..."abcd");
      return String(("start" in made ? made.start : made)[1]);
    });
    assertEquals([...new Set(kinds)].sort(), Object.keys(stored).sort());
  }
});

Deno.test("an export that is imported into an empty store has the same records", async () => {
  await using w = await openProxy();
  const { a, b } = await w.story();
  for (let i = 0; i < 3; i++) await w.message(a, b);
  const c = await w.agent();
  await w.pair(a, c);
  const body = JSON.stringify({ text: "€".repeat(50_000) });
  await w.message(a, c, { body, headers: { Prefer: "respond-async" } });
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  for (let i = 0; i < 25; i++) assertEquals((await get(w, a, "/pair/peers")).status, 200);
  assertEquals((await Array.fromAsync(w.kv.list({ prefix: PROXY_KEYS.allSenderParts() }))).length, 1);
  const lines = await Array.fromAsync(exportLines(w.kv, TABLES, w.clock.now()));
  const target = await openTestKv();
  const count = await importLines(target, TABLES, linesOf(lines), w.clock.now());
  assertEquals(count, lines.length - 2);
  assertEquals(await records(target), await records(w.kv));
  target.close();
});

Deno.test("an import keeps receipts that the longest RECEIPT_RETENTION_SECONDS still keeps", async () => {
  const kv = await openTestKv(), now = 1_771_632_060_000, key = ["proxy", "receipt", "r", "b", "a", "processed_by_svc"];
  const receivedAt = now - 29 * 86_400_000;
  const lines = [
    JSON.stringify({ svcStore: 5, exportedAt: "2026-02-21T00:01:00.000Z" }),
    JSON.stringify({ key, json: { receivedAt } }),
    JSON.stringify({ records: 1 }),
  ];
  await importLines(kv, TABLES, linesOf(lines), now);
  assertEquals((await kv.get(key)).value, { receivedAt });
  kv.close();
});

Deno.test("an export with any change is refused with a TransferError, or imported as a store of the same number of records", async () => {
  const now = 1_771_632_060_000, source = await openTestKv();
  await source.set(["registry", "issuer"], "https://registry.example.test");
  await source.set(["registry", "human", "x"], { id: "x", displayName: 'A"\\ü', n: 1.5, list: [null, true] });
  await source.set(["registry", "challenge", "x"], { expiresAt: now + 1_000, usedAt: null });
  await source.set(["proxy", "mailbox_part", "x", 1, 0], Uint8Array.of(0, 255, 10, 13));
  const lines = await Array.fromAsync(exportLines(source, TABLES, now));
  source.close();
  assertEquals(lines.length, 6);
  const text = lines.join("\n");
  const edit = fc.tuple(
    fc.nat(text.length),
    fc.nat(6),
    fc.oneof(anyText, fc.constantFrom("", "\n", "9", '"', "}", "null", "[")),
  );
  await fc.assert(
    fc.asyncProperty(edit, async ([at, length, by]) => {
      const kv = await openTestKv();
      const changed = (text.slice(0, at) + by + text.slice(at + length)).split("\n");
      try {
        const count = await importLines(kv, TABLES, linesOf(changed), now);
        assertEquals(count, lines.length - 2);
        assert((await records(kv)).length <= count);
      } catch (error) {
        if (!(error instanceof TransferError)) throw error;
      } finally {
        kv.close();
      }
    }),
    { numRuns: 300 },
  );
});

Deno.test("of two imports at once, the one that begins second is refused and adds no record", async (t) => {
  const now = 1_771_632_060_000;
  const linesFor = (name: string) => [
    JSON.stringify({ svcStore: 5, exportedAt: "2026-02-21T00:01:00.000Z" }),
    ...Array.from({ length: 300 }, (_, i) => JSON.stringify({ key: ["registry", "human", `${name}-${i}`], json: i })),
    '{"records":300}',
  ];
  /** Yields the lines, and ends `before(n)` before the nth of them. */
  async function* gated(lines: readonly string[], before: (n: number) => Promise<unknown> | void) {
    for (const [n, line] of lines.entries()) {
      await before(n);
      yield line;
    }
  }
  await steps(
    t,
    [["before the first has begun", 0], ["when the first has begun", 1], ["when it has written", 201]],
    async ([, at]) => {
      const kv = await openTestKv(), open = Promise.withResolvers<void>(), other = Promise.withResolvers<void>();
      await readWithFormatCheck({ kv, place: "of the test" }, []);
      // Each sees an empty store before either has a line, and the second goes on when the first is at `at`.
      const waiting = importLines(
        kv,
        TABLES,
        gated(linesFor("b"), (n) => {
          if (n === 0) open.resolve();
          return n === 0 ? other.promise : undefined;
        }),
        now,
      ).catch((error) => error);
      await open.promise;
      const first = importLines(
        kv,
        TABLES,
        gated(linesFor("a"), async (n) => {
          if (n !== at) return;
          other.resolve();
          if (at > 0) await waiting;
        }),
        now,
      ).catch((error) => error);
      const results = [await first, await waiting];
      const [taken, ...more] = results.filter((result) => result === 300);
      assertEquals([taken, more.length], [300, 0], String(results));
      const refusal = results.find((result) => result !== 300);
      assert(refusal instanceof TransferError && refusal.message === "another import has begun at this store");
      const name = results[0] === 300 ? "a" : "b";
      assertEquals((await records(kv)).length, 300);
      assert((await records(kv)).every(([key]) => String((key as string[])[2]).startsWith(name)));
      kv.close();
    },
  );
  await t.step("after the first has ended", async () => {
    const kv = await openTestKv();
    await readWithFormatCheck({ kv, place: "of the test" }, []);
    const lines = gated(linesFor("b"), async (n) => {
      if (n === 0) assertEquals(await importLines(kv, TABLES, linesOf(linesFor("a")), now), 300);
    });
    await assertRejects(() => importLines(kv, TABLES, lines, now), TransferError, "another import has begun");
    assertEquals((await records(kv)).length, 300);
    kv.close();
  });
});

Deno.test("an import of 5,000 records makes a commit for each 200 of them", async () => {
  const counts = noCounts(), kv = countingKv(await openTestKv(), new CallGate(), counts), now = 1_771_632_060_000;
  const record = (i: number) => JSON.stringify({ key: ["registry", "human", `h-${i}`], json: { id: i } });
  const head = JSON.stringify({ svcStore: 5, exportedAt: "2026-02-21T00:01:00.000Z" });
  const lines = [head, ...Array.from({ length: 5_000 }, (_, i) => record(i)), '{"records":5000}'];
  assertEquals(await importLines(kv, TABLES, linesOf(lines), now), 5_000);
  // The mark of the import is set when it begins, and when it is whole.
  assert(counts.commits <= 25 + 2, `${counts.commits} commits`);
  kv.close();
});

Deno.test("an incomplete or malformed export is refused with its line, and the store does not start", async (t) => {
  const head = JSON.stringify({ svcStore: 5, exportedAt: "2026-02-21T00:01:00.000Z" });
  const record = JSON.stringify({ key: ["registry", "issuer"], json: "https://registry.example.test" });
  const end = JSON.stringify({ records: 1 });
  const cases: [string, string[], string][] = [
    ["empty", [], "the export is empty"],
    ["cut", [head, record], "Line 2: the export is incomplete"],
    ["cut within a line", [head, record.slice(0, 40)], "Line 2: not a JSON object"],
    ["a record lost", [head, end], "Line 2: 1 records were exported, 0 are here"],
    ["more after the end", [head, record, end, record], "Line 4: the export continues after its last line"],
    [
      "format 4",
      [head.replace(":5,", ":4,"), record, end],
      "Line 1: the export has format 4; this svc reads only format 5.",
    ],
    [
      "format 6",
      [head.replace(":5,", ":6,"), record, end],
      "Line 1: the export has format 6; this svc reads only format 5.",
    ],
    ["a delivery that is none", [head, '{"key":["proxy","delivery","x","y","z"],"json":{}}', end], "no valid end"],
    ["a delivery that is cut", [head, '{"key":["proxy","delivery","x","y","z"],"bytes":"AQID"}', end], "no valid end"],
    ["no head", [record, end], "Line 1: not an export of a store"],
    ["not JSON", [head, record, "{", end], "Line 3: not a JSON object"],
    ["an unknown kind", [head, record.replace("issuer", "constructor"), end], "not imported"],
    ["an unknown service", [head, record.replace('"registry"', '"__proto__"'), end], "not imported"],
    ["where an agent was", [head, '{"key":["proxy","presence","x"],"json":{}}', end], "not imported"],
    ["no value", [head, '{"key":["registry","issuer"]}', end], "value is missing"],
    ["bad bytes", [head, '{"key":["proxy","mailbox_part","x",1,0],"bytes":"=="}', end], "value is missing"],
    ["a sender that is none", [head, '{"key":["proxy","sender","x"],"bytes":"AQID"}', end], "no valid end"],
    ["a part that is none", [head, '{"key":["proxy","sender_part","x",0],"json":{}}', end], "no valid end"],
    ["no lifetime", [head, '{"key":["registry","challenge","x"],"json":{}}', end], "no valid end"],
    ["an index that is none", [head, '{"key":["registry","api_key_of","x","y"],"json":{}}', end], "no valid end"],
    ["an index of bytes", [head, '{"key":["registry","invite_code","x"],"bytes":"AQID"}', end], "no valid end"],
    ["bad key", [head, '{"key":"registry","json":1}', end], "key is missing"],
    [
      "a key over the bound of a store",
      [head, `{"key":["registry","human","${"x".repeat(3_000)}"],"json":1}`, end],
      "Line 3",
    ],
    [
      "a value over it",
      [head, `{"key":["registry","human","x"],"json":"${"x".repeat(70_000)}"}`, end],
      "Line 3: no store",
    ],
    [
      "a value of 100,000 levels",
      [head, `{"key":["registry","human","x"],"json":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, end],
      "Line 2: no store takes",
    ],
  ];
  await steps(t, cases, async ([, lines, message]) => {
    const kv = await openTestKv();
    const error = await assertRejects(
      () => importLines(kv, TABLES, linesOf(lines), 1_771_632_060_000),
      TransferError,
    );
    assertStringIncludes(error.message, message);
    const start = readWithFormatCheck({ kv, place: "of the test" }, []);
    // A file that is no export changes nothing, so the right one can be imported then.
    if (lines[0] !== head) await start;
    else assertStringIncludes((await assertRejects(() => start, StoreRefused)).message, "import again");
    kv.close();
  });
});
