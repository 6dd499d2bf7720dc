/** The seeds with even numbers. There are two files, so that two cores share them. */
import { runSeed, seedsOf } from "./seeds.ts";

Deno.test("every invariant holds for any faults of network, machines and clocks (even seeds)", async () => {
  for (const seed of seedsOf(0, 2)) await runSeed(seed);
});
