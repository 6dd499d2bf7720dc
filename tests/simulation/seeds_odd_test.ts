/** The seeds with odd numbers. There are two files, so that two cores share them. */
import { runSeed, seedsOf } from "./seeds.ts";

Deno.test("every invariant holds for any faults of network, machines and clocks (odd seeds)", async () => {
  for (const seed of seedsOf(1, 2)) await runSeed(seed);
});
