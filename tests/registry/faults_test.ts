/**
 * Shows that whatever call of the store fails, and however, the registry does a thing whole or not at all (O09, O13).
 * That commits meet others, or the store is gone for everybody: `store_test.ts`.
 */
import { assertEquals } from "@std/assert";
import { failEach, GONE, TOO_LARGE } from "../support/each_fault.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { openRegistry } from "../support/registry_world.ts";
import { STEPS } from "./steps.ts";

/** What a caller's credential and limits leave behind. */
const BESIDE = ["window", "nonce", "api_key"];

const trialOf = ([, record, wanted, prepare]: (typeof STEPS)[number]) => ({
  open: (kv: Deno.Kv) => openRegistry({ kv }),
  prepare,
  wanted,
  beside: BESIDE.filter((kind) => kind !== record),
});

for (const step of STEPS) {
  Deno.test(`O09: ${step[0]}: a store that fails at any call of it is 503, and leaves all of it or nothing`, () =>
    failEach(trialOf(step), GONE));

  Deno.test(`O09: ${step[0]}: a commit that throws a TypeError is 500 or 503, and leaves all of it or nothing`, () =>
    failEach(trialOf(step), TOO_LARGE));
}

Deno.test("O13: no commit of the services uses sum, min, max or mutate", async () => {
  const found: string[] = [];
  async function look(path: string): Promise<void> {
    for await (const { name, isDirectory } of Deno.readDir(path)) {
      if (isDirectory) await look(`${path}/${name}`);
      else if (/(?<!Math)\.(?:sum|min|max|mutate)\(/.test(await Deno.readTextFile(`${path}/${name}`))) {
        found.push(`${path}/${name}`);
      }
    }
  }
  for (const folder of ["registry", "proxy", "shared/server"]) await look(folder);
  assertEquals(found, []);
});

Deno.test("O13: the store of these tests refuses arithmetic beside other mutations, and takes it alone", async () => {
  using faulty = await FaultyKv.open();
  const refused = await faulty.kv.atomic().set(["a"], 1).sum(["b"], 1n).commit().catch((error) => error);
  assertEquals(refused.cause instanceof TypeError, true);
  assertEquals((await faulty.kv.atomic().sum(["b"], 1n).commit()).ok, true);
});
