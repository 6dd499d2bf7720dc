/** Shows that the proof of a key while pairing is that of the vectors, and proves one role, agent, key and profile only. */
import { assertEquals } from "@std/assert";
import { provePairKey, provesPairKey } from "../../../shared/protocol/pair_key.ts";
import { vectors } from "../../support/vectors.ts";

Deno.test("the proof of a key is that of the vectors", async () => {
  for (const { secret, side, publicKey, mac } of vectors("pairing").valid) {
    assertEquals(await provePairKey(secret, side, publicKey), { publicKey, mac });
    assertEquals(await provesPairKey(secret, side, { publicKey, mac }), true);
  }
  for (const { name, secret, side, publicKey, mac } of vectors("pairing").invalid) {
    assertEquals(await provesPairKey(secret, side, { publicKey, mac }), false, name);
  }
});
