/** Shows that a sealed body opens for its recipient and its message only, and that a reader without this project opens it too. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { type Bytes, fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import {
  isSealed,
  openingKey,
  openPayload,
  paddedLength,
  payloadHash,
  SALT_BYTES,
  SEAL_SUITE,
  sealPayload,
  x25519PrivateKey,
  x25519PublicKey,
} from "../../../shared/protocol/sealed_body.ts";
import { hpkeOpen } from "../../support/open_sealed.ts";
import { vectors } from "../../support/vectors.ts";

const { keys, padded, recipient, binding, valid, invalid, rfc9180 } = vectors("seal");
const bytes = (text: string): Bytes => fromBase64Url(text) ?? new Uint8Array();
const hex = (text: string): Bytes => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const FIRST_LINE = "SVC-SEALED-V1";
const SALT = new Uint8Array(SALT_BYTES).fill(5);

Deno.test("the X25519 keys of an agent are those of the vectors", async () => {
  assertEquals(keys.length, 3);
  for (const { seed, publicKey, x25519Private, x25519Public } of keys) {
    assertEquals(toBase64Url(await x25519PrivateKey(bytes(seed))), x25519Private);
    assertEquals(toBase64Url(x25519PublicKey(publicKey)), x25519Public);
  }
  const [first, second] = keys;
  assertEquals([first?.x25519Public, second?.x25519Public], [
    "Zsd_omFURkQMIcS69fmH4lhcV4O7yvcBLHFyHp3ICDw",
    "RwHQhIhFH1RaQJ-1iuPlhYHKQKw_fxFGmM1x3qxzygE",
  ]);
});

Deno.test("the suite is that of RFC 9180 A.1.1", async () => {
  const key = {
    privateKey: await SEAL_SUITE.DeserializePrivateKey(hex(rfc9180.privateKey)),
    publicKey: await SEAL_SUITE.DeserializePublicKey(hex(rfc9180.publicKey)),
  };
  const { info, aad, enc, ct, plain } = rfc9180;
  const opened = await SEAL_SUITE.Open(key, hex(enc), hex(ct), { info: hex(info), aad: hex(aad) });
  assertEquals(opened, hex(plain));
});

Deno.test("the lengths of plaintexts are those of the vectors, and grow by at most 12 %", () => {
  for (const [length, expected] of padded) assertEquals(paddedLength(length), expected, `${length}`);
  for (let n = 257, last = 0; n <= 196_480; n += 61) {
    const length = paddedLength(n);
    assert(length >= n && length >= last && length <= n * 1.12, `${n} → ${length}`);
    last = length;
  }
});

Deno.test("the sealed body of the vectors opens, and none of the others does", async (t) => {
  const key = await openingKey(recipient);
  for (const { name, body, payload, salt, payloadSha256 } of valid) {
    const opened = await openPayload(body, key, binding);
    assert(opened, name);
    assertEquals([opened.payload, toBase64Url(opened.salt), await payloadHash(opened)], [payload, salt, payloadSha256]);
  }
  assert(invalid.length >= 12);
  for (const { name, body } of invalid) {
    await t.step(name, async () => assertEquals(await openPayload(body, key, binding), null));
  }
});

Deno.test("what only looks like a seal does not open, also when its sender made it on purpose", async () => {
  const key = await openingKey(recipient), info = [FIRST_LINE, binding.from, binding.to].join("\n");
  const bound = { info: utf8Bytes(info), aad: utf8Bytes(binding.context) };
  const sealed = async (text: string, length = utf8Bytes(text).length) => {
    const plain = new Uint8Array(256);
    plain.set(utf8Bytes(text), SALT_BYTES + 4);
    new DataView(plain.buffer).setUint32(SALT_BYTES, length);
    const { encapsulatedSecret, ciphertext } = await SEAL_SUITE.Seal(key.publicKey, plain, bound);
    return `{"svcSealed":1,"enc":"${toBase64Url(encapsulatedSecret)}","ct":"${toBase64Url(ciphertext)}"}`;
  };
  const whole = JSON.stringify("x".repeat(218)), good = await sealed("{}");
  const rows: [name: string, body: string, payload: string | null][] = [
    ["as it should be", good, "{}"],
    ["to the end", await sealed(whole), whole],
    ["a length beyond the end", await sealed(whole, 221), null],
    ["a byte order mark", await sealed("\ufeff{}"), null],
    ["another separator", good.replace('","ct":"', '","xt":"'), null],
  ];
  for (const [name, body, payload] of rows) {
    assertEquals((await openPayload(body, key, binding))?.payload ?? null, payload, name);
  }
  const short = { payload: "{}", salt: SALT.slice(1) };
  await assertRejects(() => sealPayload(short, recipient.publicKey, binding), RangeError);
});

Deno.test("a reader with WebCrypto alone opens what is sealed here, and RFC 9180 A.1.1", async () => {
  const { privateKey, publicKey, info, aad, enc, ct, plain } = rfc9180;
  const published = { privateKey, publicKey, info, aad, enc, ct };
  const asBytes = Object.fromEntries(Object.entries(published).map(([name, text]) => [name, hex(text)]));
  assertEquals(await hpkeOpen(asBytes as Parameters<typeof hpkeOpen>[0]), hex(plain));
  const own = keys.find(({ seed }) => seed === recipient.seed);
  assert(own);
  const agent = {
    privateKey: bytes(own.x25519Private),
    publicKey: bytes(own.x25519Public),
    info: utf8Bytes(["SVC-SEALED-V1", binding.from, binding.to].join("\n")),
    aad: utf8Bytes(binding.context),
  };
  const open = async (body: string) => {
    const { enc, ct } = JSON.parse(body) as { enc: string; ct: string };
    const text = await hpkeOpen({ ...agent, enc: bytes(enc), ct: bytes(ct) });
    return new TextDecoder().decode(text.slice(36, 36 + new DataView(text.buffer).getUint32(32)));
  };
  for (const { body, payload } of valid) assertEquals(await open(body), payload);
  const payload = '{"message":"new"}';
  assertEquals(await open(await sealPayload({ payload, salt: SALT }, recipient.publicKey, binding)), payload);
  const [changed] = invalid;
  assert(changed);
  await assertRejects(() => open(changed.body));
});

Deno.test("any payload comes back byte for byte, of any agent, in a length that says little", async () => {
  const payloads = fc.oneof(
    fc.json(),
    fc.jsonValue().map((value) => JSON.stringify(value, null, 2)),
    fc.constant(" 1 "),
  );
  const seeds = fc.uint8Array({ minLength: 32, maxLength: 32 });
  await fc.assert(
    fc.asyncProperty(payloads, seeds, fc.string(), async (payload, seed, context) => {
      const pair = await keyPairFromSeed(seed);
      const bound = { ...binding, context };
      const body = await sealPayload({ payload, salt: SALT }, pair.publicKey, bound);
      assert(isSealed(body));
      const key = await openingKey(pair);
      assertEquals(await openPayload(body, key, bound), { payload, salt: SALT });
      assertEquals(await openPayload(body, key, { ...bound, context: `${context}x` }), null);
      const { ct } = JSON.parse(body) as { ct: string };
      assertEquals(bytes(ct).length, 16 + paddedLength(36 + utf8Bytes(payload).length));
    }),
    { numRuns: 60 },
  );
});

Deno.test("two seals of one payload have nothing in common", async () => {
  const seal = () => sealPayload({ payload: "1", salt: SALT }, recipient.publicKey, binding);
  const [a, b] = [JSON.parse(await seal()), JSON.parse(await seal())];
  assert(a.enc !== b.enc && a.ct.slice(0, 40) !== b.ct.slice(0, 40));
});

Deno.test("the largest payload fits into a body, and one byte more is refused", async () => {
  const payload = JSON.stringify("x".repeat(LIMITS.payloadBytes - 2));
  const body = await sealPayload({ payload, salt: SALT }, recipient.publicKey, binding);
  assertEquals([body.length, LIMITS.hookBodyBytes >= body.length], [262_070, true]);
  assertEquals((await openPayload(body, await openingKey(recipient), binding))?.payload, payload);
  await assertRejects(
    () => sealPayload({ payload: `${payload} `, salt: SALT }, recipient.publicKey, binding),
    RangeError,
  );
});

Deno.test("a text of the largest body that is not sealed costs no more than its reading", async () => {
  const key = await openingKey(recipient);
  const head = '{"svcSealed":1,"enc":"', enc = "A".repeat(43);
  const rest = LIMITS.hookBodyBytes - 75;
  const worst = [
    head + "A".repeat(LIMITS.hookBodyBytes - head.length),
    `${head}${enc}","ct":"${"A".repeat(rest)}"}`,
    `${head}${enc}","ct":"${"=".repeat(rest)}"}`,
    `${head}${enc}","ct":"${'","ct":"'.repeat(rest / 8)}"}`,
    "[".repeat(LIMITS.hookBodyBytes),
    `{"svcSealed":${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
    "x".repeat(4 * LIMITS.hookBodyBytes),
  ];
  for (const body of worst) assertEquals(await openPayload(body, key, binding), null);
  assertEquals(worst.map(isSealed), [false, true, true, true, false, true, false]);
});

Deno.test("only an object that says so is sealed", () => {
  const rows: [text: string, expected: boolean][] = [
    ['{"svcSealed":1}', true],
    ['{ "svcSealed": 2, "message": "hi" }', true],
    ['{"svcSeale\\u0064":1}', true],
    ['{"message":"svcSealed"}', false],
    ['["svcSealed"]', false],
    ['"svcSealed"', false],
    ["null", false],
    ["", false],
    ['{"a":{"svcSealed":1}}', false],
  ];
  for (const [text, expected] of rows) assertEquals(isSealed(text), expected, text);
});
