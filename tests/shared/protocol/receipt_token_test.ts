/** Shows that a signed receipt is that of the vectors, and that nothing else is one (D-154). */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import {
  parseReceipt,
  type ReceiptClaims,
  signReceipt,
  verifyReceipt,
} from "../../../shared/protocol/receipt_token.ts";
import { TokenError } from "../../../shared/protocol/signed/jws.ts";
import { fromBase64Url } from "../../../shared/protocol/base64url.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";

const CLAIMS: ReceiptClaims = {
  iss: "did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
  sub: "did:svc:registry.example.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB",
  jti: "01KHYQ5H00FFFFFFFFFFFFFFFF",
  iat: 1_771_632_010,
  requestId: "request-1",
  nonce: "A".repeat(24),
  bodySha256: "A".repeat(43),
  status: "processed_by_svc",
};

const read = async (token: string) => await verifyReceipt(parseReceipt(token));

Deno.test("a receipt is that of the vectors, byte for byte", async () => {
  const { agentKey, valid } = vectors("receipt");
  const key = await keyPairFromSeed(fromBase64Url(agentKey.seed) ?? new Uint8Array());
  for (const { name, token, claims } of valid) {
    assertEquals(await read(token), claims, name);
    assertEquals(await signReceipt(claims, key), token, name);
  }
});

Deno.test("each invalid vector is refused for its reason", async (t) => {
  await steps(t, vectors("receipt").invalid, async ({ token, reason }) => {
    const error = await assertRejects(() => read(token), TokenError);
    assertEquals(error.reason, reason);
  });
});

Deno.test("a receipt with a nonce or a conversation that no message has is none", async () => {
  const key = await keyPairFromSeed(new Uint8Array(32).fill(7));
  const rows: Partial<ReceiptClaims>[] = [
    { nonce: "A".repeat(15) },
    { nonce: `${"A".repeat(24)}\n` },
    { conversationId: "" },
    { conversationId: "c".repeat(129) },
  ];
  for (const row of rows) {
    const token = await signReceipt({ ...CLAIMS, ...row }, key);
    assertEquals((await assertRejects(() => read(token), TokenError)).reason, "claims", JSON.stringify(row));
  }
});

Deno.test("a receipt whose time is no date of the years 1970 to 9999 is none, because it is shown as a date", async () => {
  const key = await keyPairFromSeed(new Uint8Array(32).fill(7));
  for (const [iat, isTime] of [[0, true], [253_402_300_799, true], [-1, false], [253_402_300_800, false]] as const) {
    const reading = read(await signReceipt({ ...CLAIMS, iat }, key));
    if (isTime) assertEquals((await reading).iat, iat);
    else assertEquals((await assertRejects(() => reading, TokenError)).reason, "claims");
  }
});

Deno.test("every receipt reads as signed, and one changed character makes it another text or none", async () => {
  const key = await keyPairFromSeed(new Uint8Array(32).fill(7));
  const claims = fc.record({
    iat: fc.integer({ min: 0, max: 253_402_300_799 }),
    status: fc.constantFrom("processed_by_svc" as const, "dead_lettered" as const),
    requestId: fc.stringMatching(/^[A-Za-z0-9._:-]{8,128}$/),
    conversationId: fc.option(fc.string({ minLength: 1, maxLength: 128 }), { nil: undefined }),
    payloadSha256: fc.option(fc.constant("A".repeat(43)), { nil: undefined }),
    at: fc.nat(),
  });
  await fc.assert(
    fc.asyncProperty(claims, async ({ at, conversationId, payloadSha256, ...some }) => {
      const said = {
        ...CLAIMS,
        ...some,
        ...(conversationId === undefined ? {} : { conversationId }),
        ...(payloadSha256 === undefined ? {} : { payloadSha256 }),
      };
      const token = await signReceipt(said, key);
      assertEquals(await read(token), said);
      const i = at % token.length;
      const changed = token.slice(0, i) + (token[i] === "A" ? "B" : "A") + token.slice(i + 1);
      await assertRejects(() => read(changed), TokenError);
    }),
    { numRuns: 100 },
  );
});

Deno.test("a text over the limit is refused before it is decoded, and a nested one within it is", async () => {
  const key = await keyPairFromSeed(new Uint8Array(32).fill(7));
  const long = `${"A".repeat(50_000_000)}.A.A`;
  assertEquals((await assertRejects(() => read(long), TokenError)).reason, "malformed");
  const nested = await signReceipt(
    { ...CLAIMS, nested: JSON.parse(`${"[".repeat(900)}${"]".repeat(900)}`) } as never,
    key,
  );
  assert(nested.length < LIMITS.receiptTokenBytes);
  assertEquals((await assertRejects(() => read(nested), TokenError)).reason, "claims");
});
