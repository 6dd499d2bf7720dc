/**
 * Shows that a step of the registry takes effect completely or not at all when any call of the store fails.
 * `store_test.ts` shows conflicting commits and a store that fails for every caller.
 */
import { assertEquals } from "@std/assert";
import { failEach, GONE, TOO_LARGE } from "../support/each_fault.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { openRegistry } from "../support/registry_world.ts";
import { STEPS } from "./steps.ts";

/** Records that a caller's credential and limits leave. */
const BESIDE = ["window", "nonce", "api_key"];

const trialOf = ([, record, wanted, prepare]: (typeof STEPS)[number]) => ({
  open: (kv: Deno.Kv) => openRegistry({ kv }),
  prepare,
  wanted,
  beside: BESIDE.filter((kind) => kind !== record),
});

for (const step of STEPS) {
  Deno.test(`${step[0]} takes effect completely or not at all when the store fails or throws a TypeError at any call`, () =>
    failEach(trialOf(step), GONE, TOO_LARGE));
}

Deno.test("commits of the services never use sum, min, max or mutate", async () => {
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

Deno.test("the store of these tests refuses arithmetic next to other mutations and accepts it alone", async () => {
  using faulty = await FaultyKv.open();
  const refused = await faulty.kv.atomic().set(["a"], 1).sum(["b"], 1n).commit().catch((error) => error);
  assertEquals(refused.cause instanceof TypeError, true);
  assertEquals((await faulty.kv.atomic().sum(["b"], 1n).commit()).ok, true);
});
