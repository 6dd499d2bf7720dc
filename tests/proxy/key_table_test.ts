/** Every key family of the proxy states how its records end and how they are moved. */
import { assert, assertEquals } from "@std/assert";
import { ENDS, KEYS } from "../../proxy/schema/kv_keys.ts";
import { STORED } from "../../proxy/schema/retention.ts";

/** The families of the key table: the second part of every key in it. */
function families(): string[] {
  const make = Object.values(KEYS) as ((...args: never[]) => unknown)[];
  const names = make.flatMap((one) => {
    const made = one(...["a", "b", "c", "d"] as never[]);
    return Array.isArray(made) ? [String(made[1])] : [];
  });
  return [...new Set(names)].toSorted();
}

Deno.test("every key family states how it ends and whether it is moved", () => {
  assertEquals(Object.keys(ENDS).toSorted(), families());
  assertEquals(Object.keys(STORED).toSorted(), families());
  for (const [family, end] of Object.entries(ENDS)) {
    const [[kind, text] = [], ...more] = Object.entries(end);
    assert(["expiry", "rule", "quota"].includes(kind ?? ""), family);
    assert(typeof text === "string" && text.length > 0 && more.length === 0, family);
  }
});
