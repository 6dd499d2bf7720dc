/** Shows that the hashes of a program give what WebCrypto gives, and that both open what the other one has sealed. */
import { assert, assertEquals } from "@std/assert";
import { createHmac, hash } from "node:crypto";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { type Hashes, useHashes } from "../../../shared/protocol/hashes.ts";
import { openingKey, openPayload, SALT_BYTES, SEAL_SUITE, sealPayload } from "../../../shared/protocol/sealed_body.ts";
import { vectors } from "../../support/vectors.ts";

const BINDING = { from: "did:svc:a", to: "did:svc:b", context: "SVC-CONTEXT-V1" };
const SALT = new Uint8Array(SALT_BYTES).fill(5);

/** Hashes that count their calls, in use until they are disposed. */
function counted(): Hashes & Disposable & { calls: number } {
  const own = {
    calls: 0,
    sha256(data: Uint8Array) {
      own.calls++;
      return hash("sha256", data, "base64url");
    },
    hmacSha256(key: Uint8Array, data: Uint8Array) {
      own.calls++;
      return createHmac("sha256", key).update(data).digest();
    },
    [Symbol.dispose]: () => useHashes(null),
  };
  useHashes(own);
  return own;
}

Deno.test("the hash of a text is the same with the hashes of the program", async () => {
  const texts = ["", "agent", "é".repeat(1_000)];
  const byWebCrypto = await Promise.all(texts.map(sha256));
  using own = counted();
  assertEquals(await Promise.all(texts.map(sha256)), byWebCrypto);
  assertEquals(own.calls, texts.length);
});

Deno.test("what is sealed with the hashes of the program opens without them, and the other way round", async () => {
  const pair = await keyPairFromSeed(new Uint8Array(32).fill(7)), key = await openingKey(pair);
  const payload = '{"message":"Which port?"}', opened = { payload, salt: SALT };
  const sealed = await sealPayload({ payload, salt: SALT }, pair.publicKey, BINDING);
  let sealedHere = "";
  {
    using own = counted();
    assertEquals(await openPayload(sealed, key, BINDING), opened);
    sealedHere = await sealPayload({ payload, salt: SALT }, pair.publicKey, BINDING);
    // Two calls for the key that both sides agree on, and six for what follows from it, each time.
    assertEquals(own.calls, 16);
    assertEquals(await openPayload(sealed, key, { ...BINDING, to: "did:svc:c" }), null);
  }
  assertEquals(await openPayload(sealedHere, key, BINDING), opened);
});

Deno.test("the suite is that of RFC 9180 with the hashes of the program, also for more than one block", async () => {
  const { rfc9180: { privateKey, publicKey, enc, ct, info, aad, plain } } = vectors("seal");
  const hex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const key = {
    privateKey: await SEAL_SUITE.DeserializePrivateKey(hex(privateKey)),
    publicKey: await SEAL_SUITE.DeserializePublicKey(hex(publicKey)),
  };
  const recipient = () => SEAL_SUITE.SetupRecipient(key, hex(enc), { info: hex(info) });
  const exported = await (await recipient()).Export(hex("00"), 100);
  using own = counted();
  assertEquals(await SEAL_SUITE.Open(key, hex(enc), hex(ct), { info: hex(info), aad: hex(aad) }), hex(plain));
  assert(own.calls > 0);
  assertEquals(await (await recipient()).Export(hex("00"), 100), exported);
});
