/** The table of a sender's used nonces against a map, and the memory that it gives back. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { UsedNonces } from "../../../proxy/message/used_nonces.ts";
import { type NonceName, nonceName } from "../../../proxy/schema/sender_record.ts";
import type { Random } from "../../../shared/random.ts";
import { hexDigest } from "../../../shared/server/crypto.ts";

/** Names that collide in one or two of their numbers, beside names of real nonces. */
const NAMES: readonly NonceName[] = [
  ...Array.from({ length: 40 }, (_, i) => nonceName(hexDigest(String(i)))),
  ...Array.from({ length: 20 }, (_, i) => ({ a: 0, b: 0, c: i })),
  ...Array.from({ length: 20 }, (_, i) => ({ a: -1, b: i << 25, c: 0 })),
];

function tableOf(seed: number): UsedNonces {
  const random: Random = {
    bytes(n) {
      const bytes = new Uint8Array(n);
      new DataView(bytes.buffer).setInt32(0, seed);
      return bytes;
    },
  };
  return new UsedNonces(random);
}

Deno.test("the name of a nonce is the first twelve bytes of its hash, as signed numbers", () => {
  const hash = "7fffffff80000000fffffffe" + "0".repeat(40);
  assertEquals(nonceName(hash), { a: 0x7fffffff, b: -0x80000000, c: -2 });
});

Deno.test("a table knows what a map knows, through every order of changes", () => {
  const which = fc.nat(NAMES.length - 1), end = fc.integer({ min: 1, max: 1_000 });
  const change = fc.oneof(
    { weight: 8, arbitrary: fc.record({ set: which, end }) },
    { weight: 3, arbitrary: fc.record({ gone: which }) },
    { weight: 1, arbitrary: fc.record({ by: end }) },
  );
  fc.assert(fc.property(fc.integer(), fc.array(change, { maxLength: 300, size: "max" }), (seed, changes) => {
    const table = tableOf(seed), known = new Map<NonceName, number>();
    for (const one of changes) {
      if ("set" in one) {
        table.set(NAMES[one.set] as NonceName, one.end);
        known.set(NAMES[one.set] as NonceName, one.end);
      } else if ("gone" in one) {
        table.delete(NAMES[one.gone] as NonceName);
        known.delete(NAMES[one.gone] as NonceName);
      } else {
        table.forgetEnded(one.by);
        for (const [name, end] of known) if (end <= one.by) known.delete(name);
      }
      assertEquals(table.size, known.size);
    }
    for (const name of NAMES) assertEquals(table.endOf(name), known.get(name) ?? 0);
  }));
});

Deno.test("a table becomes small again when its nonces have ended, and forgets all at once", () => {
  const table = tableOf(1);
  for (let i = 0; i < 50_000; i++) table.set({ a: i, b: i * 7, c: i }, 1_000 + i);
  table.forgetEnded(50_990);
  assertEquals(table.size, 9);
  assertEquals(table.endOf({ a: 49_999, b: 49_999 * 7, c: 49_999 }), 50_999);
  assertEquals(table.endOf({ a: 1, b: 7, c: 1 }), 0);
  table.clear();
  assertEquals(table.size, 0);
  assertEquals(table.endOf({ a: 49_999, b: 49_999 * 7, c: 49_999 }), 0);
});
