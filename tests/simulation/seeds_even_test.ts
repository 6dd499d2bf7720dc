/** The seeds with even numbers; two files, so that two cores share them. */
import { runSeed, seedsOf } from "./seeds.ts";

Deno.test("O10: whatever the network, the machines and the clocks do, no invariant breaks (even seeds)", async () => {
  for (const seed of seedsOf(0, 2)) await runSeed(seed);
});
