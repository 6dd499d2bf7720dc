/** Shows the bound of a map: the oldest key is removed and all others stay. */
import { assertEquals } from "@std/assert";
import { BoundedMap } from "../../shared/bounded_map.ts";

Deno.test("a bounded map removes the oldest key alone when it is full", () => {
  const map = new BoundedMap<string, number>(3);
  for (const [i, key] of ["a", "b", "c"].entries()) map.set(key, i);
  map.set("a", 9);
  map.set("d", 4);
  assertEquals([...map], [["c", 2], ["a", 9], ["d", 4]]);
  map.delete("a");
  map.set("e", 5);
  assertEquals([...map.keys()], ["c", "d", "e"]);
});

Deno.test("a bounded map keeps the last entries when a flood of keys passes", () => {
  const map = new BoundedMap<number, number>(1_000);
  for (let i = 0; i < 20_000; i++) map.set(i, i);
  assertEquals([map.size, map.keys().next().value, map.get(19_999)], [1_000, 19_000, 19_999]);
});
