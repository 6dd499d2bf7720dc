/** Checks that stored and sent names do not change, so that two versions can share a store and a socket (D-99). */
import { assertEquals } from "@std/assert";
import { FROZEN_NAMES } from "../support/frozen_names.ts";
import { namesInProduct } from "./frozen_names.ts";

Deno.test("every stored or sent name is in the list, and every name of the list is in the product", async () => {
  const present = await namesInProduct();
  assertEquals(Object.keys(present), Object.keys(FROZEN_NAMES));
  for (const [group, names] of Object.entries(present)) assertEquals(names, FROZEN_NAMES[group] ?? [], group);
});

Deno.test("the reader of names finds some of every group", () => {
  assertEquals(Object.entries(FROZEN_NAMES).filter(([, names]) => names.length === 0), []);
});
