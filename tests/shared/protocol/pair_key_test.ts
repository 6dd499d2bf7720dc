/** Shows that the proof of a key while pairing is that of the vectors, and proves one role, agent, key and profile only. */
import { assertEquals } from "@std/assert";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { type PairSide, provePairKey, provesPairKey } from "../../../shared/protocol/pair_key.ts";
import { vectors } from "../../support/vectors.ts";

const SECRET = toBase64Url(new Uint8Array(16).fill(7));

Deno.test("the proof of a key is that of the vectors", async () => {
  for (const { secret, side, publicKey, mac } of vectors("pairing").valid) {
    assertEquals(await provePairKey(secret, side, publicKey), { publicKey, mac });
    assertEquals(await provesPairKey(secret, side, { publicKey, mac }), true);
  }
  for (const { name, secret, side, publicKey, mac } of vectors("pairing").invalid) {
    assertEquals(await provesPairKey(secret, side, { publicKey, mac }), false, name);
  }
});

Deno.test("a proof of a key is of no use for another role, agent, name, key or ticket", async () => {
  const { publicKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
  const other = await keyPairFromSeed(new Uint8Array(32).fill(2));
  const profile = { agentName: "alpha", humanName: "Ann" };
  const did = "did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
  const side: PairSide = { role: "initiator", did, profile };
  const proof = await provePairKey(SECRET, side, publicKey);
  const wrong: [string, PairSide, typeof proof][] = [
    [SECRET, { ...side, role: "responder" }, proof],
    [SECRET, { ...side, did: did.replace("AAAA", "AAAB") }, proof],
    [SECRET, { ...side, profile: { ...profile, agentName: "beta" } }, proof],
    [SECRET, { ...side, profile: { ...profile, humanName: "Bob" } }, proof],
    [SECRET, side, { ...proof, publicKey: other.publicKey }],
    [SECRET, side, { ...proof, mac: toBase64Url(new Uint8Array(32)) }],
    [SECRET, side, { ...proof, mac: "=" }],
    [toBase64Url(new Uint8Array(16).fill(8)), side, proof],
  ];
  assertEquals(await provesPairKey(SECRET, side, proof), true);
  for (const [secret, of, shown] of wrong) assertEquals(await provesPairKey(secret, of, shown), false);
});
