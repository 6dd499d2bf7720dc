/**
 * Shows the proof of possession (D-24, D-25): the vectors, the headers, and that each canonical string belongs to one
 * request only. Ed25519 is deterministic, so the proofs are compared too.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { fromBase64Url, sha256, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey, keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import {
  canonicalProof,
  EMPTY_BODY_SHA256,
  HEADERS,
  isNonce,
  type ProofFields,
  proofHeaders,
  publicOrigin,
  verifyProof,
} from "../../../shared/protocol/proof.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";

const RUNS = { seed: 1, numRuns: 200 };
const { agentKey, claims, ait, valid, invalid } = vectors("proof");
const publicKey = await importPublicKey(claims.cnf.jwk.x);
const { privateKey } = await keyPairFromSeed(fromBase64Url(agentKey.seed) ?? new Uint8Array());

type RequestVector = (typeof valid)[number]["request"];

async function fieldsOf(request: RequestVector): Promise<ProofFields> {
  const { method, origin, path, timestamp, nonce, bodySha256, recipient } = request;
  const aitSha256 = await sha256(request.ait);
  return { method, origin, target: path, timestamp, nonce, bodySha256, recipient: recipient ?? "", aitSha256 };
}

Deno.test("the canonical string and proof verification agree with the valid vectors", async (t) => {
  await steps(t, valid, async ({ request, canonical, proof }) => {
    const fields = await fieldsOf(request);
    assertEquals(canonicalProof(fields), canonical);
    assertEquals(await sha256(utf8Bytes(request.body)), request.bodySha256);
    assert(await verifyProof(publicKey, proof, fields));
  });
});

Deno.test("proof headers are those of the valid vectors", async (t) => {
  await steps(t, valid, async ({ request, proof }) => {
    const { method, origin, path: target, body, recipient, nonce, timestamp } = request;
    const unsigned = {
      method,
      origin,
      target,
      ...(body ? { body: utf8Bytes(body) } : {}),
      ...(recipient ? { recipient } : {}),
    };
    assertEquals(await proofHeaders(unsigned, { ait: request.ait, privateKey }, Number(timestamp), nonce), {
      Authorization: `Svc ${request.ait}`,
      "X-Svc-Timestamp": timestamp,
      "X-Svc-Nonce": nonce,
      "X-Svc-Body-SHA256": request.bodySha256,
      "X-Svc-Proof": proof,
      ...(recipient ? { "X-Svc-Recipient-Agent-Did": recipient } : {}),
    });
  });
});

Deno.test("proof verification refuses the invalid vectors", async (t) => {
  await steps(t, invalid, async ({ request, proof }) => {
    assertEquals(await verifyProof(publicKey, proof, await fieldsOf(request)), false);
  });
});

Deno.test("proof headers carry the hash of zero bytes when there is no body", async () => {
  assertEquals(EMPTY_BODY_SHA256, await sha256(""));
  const request = { method: "GET", origin: "https://proxy.example.test", target: "/v1/relay/connect" };
  const signer = { ait, privateKey };
  const without = await proofHeaders(request, signer, 1, "n".repeat(16));
  assertEquals(without[HEADERS.bodySha256], EMPTY_BODY_SHA256);
  assertEquals(await proofHeaders({ ...request, body: new Uint8Array() }, signer, 1, "n".repeat(16)), without);
});

const part = fc.string({ unit: fc.constantFrom("a", "b", "\r", " ", "\u2028", "\u0085"), maxLength: 2 });
const proofFields: fc.Arbitrary<ProofFields> = fc.record({
  method: part,
  origin: part,
  target: part,
  timestamp: part,
  nonce: part,
  bodySha256: part,
  recipient: part,
  aitSha256: part,
});

Deno.test("the canonical string is the same for the same fields only", () => {
  const pair = fc.oneof(
    fc.tuple(proofFields, proofFields),
    fc.tuple(proofFields, part).map(([fields, text]): [ProofFields, ProofFields] => [
      fields,
      { ...fields, recipient: text },
    ]),
    proofFields.map((fields): [ProofFields, ProofFields] => [fields, moveAcross(fields)]),
  );
  fc.assert(
    fc.property(pair, ([a, b]) => {
      const same = Object.entries(a).every(([name, value]) => b[name as keyof ProofFields] === value);
      assertEquals(canonicalProof(a) === canonicalProof(b), same);
    }),
    { seed: 1, numRuns: 2000 },
  );
});

Deno.test("the canonical string is always nine lines", () => {
  fc.assert(
    fc.property(proofFields, (fields) => {
      const lines = canonicalProof(fields).split("\n");
      const { method, origin, target, timestamp, nonce, bodySha256, recipient, aitSha256 } = fields;
      assertEquals(lines, ["SVC-PROOF-V1", method, origin, target, timestamp, nonce, bodySha256, recipient, aitSha256]);
    }),
    RUNS,
  );
});

Deno.test("the canonical string refuses a line feed in any field", () => {
  const names = Object.keys(fc.sample(proofFields, { seed: 1, numRuns: 1 })[0] ?? {});
  assertEquals(names.length, 8);
  const bad = fc.constantFrom("\n", "a\n", "\na", "a\nb", "\r\n", "\n\n");
  fc.assert(
    fc.property(proofFields, fc.constantFrom(...names), bad, (fields, name, text) => {
      assertThrows(() => canonicalProof({ ...fields, [name]: text }), TypeError);
    }),
    RUNS,
  );
});

Deno.test("the nonce check returns the stated result for each text", async (t) => {
  const rows: [name: string, text: string, expected: boolean][] = [
    ["accepts 16 characters", "A".repeat(16), true],
    ["accepts 128 characters", "_-9z".repeat(32), true],
    ["accepts a text that decodes to nothing", "A".repeat(17), true],
    ["accepts trailing bits", `${"A".repeat(21)}B`, true],
    ["refuses 15 characters", "A".repeat(15), false],
    ["refuses 129 characters", "A".repeat(129), false],
    ["refuses nothing", "", false],
    ["refuses padding", `${"A".repeat(22)}==`, false],
    ["refuses the standard alphabet", `${"A".repeat(21)}+/`, false],
    ["refuses a point", `${"A".repeat(16)}.`, false],
    ["refuses a space", `${"A".repeat(16)} A`, false],
    ["refuses two nonces", `${"A".repeat(16)},${"B".repeat(16)}`, false],
    ["refuses a line feed at the end", `${"A".repeat(16)}\n`, false],
    ["refuses a letter beyond ASCII", `${"A".repeat(16)}é`, false],
    ["refuses 100 KiB", "A".repeat(102_400), false],
  ];
  for (const [name, text, expected] of rows) await t.step(name, () => assertEquals(isNonce(text), expected));
});

Deno.test("the public origin of a WebSocket address is written with http", async (t) => {
  const rows: [url: string, origin: string][] = [
    ["https://proxy.example.test", "https://proxy.example.test"],
    ["https://Proxy.Example.Test/", "https://proxy.example.test"],
    ["https://proxy.example.test:443/x?y#z", "https://proxy.example.test"],
    ["https://proxy.example.test:8443", "https://proxy.example.test:8443"],
    ["wss://proxy.example.test/v1/relay/connect", "https://proxy.example.test"],
    ["WSS://proxy.example.test", "https://proxy.example.test"],
    ["ws://127.0.0.1:8787/v1/relay/connect", "http://127.0.0.1:8787"],
    ["http://[::1]:8787", "http://[::1]:8787"],
    ["http://wss.example.test", "http://wss.example.test"],
  ];
  for (const [url, origin] of rows) await t.step(url, () => assertEquals(publicOrigin(url), origin));
});

/** Moves the last character of a field to the front of the next: the concatenation stays the same. */
function moveAcross(fields: ProofFields): ProofFields {
  return { ...fields, nonce: fields.nonce.slice(0, -1), bodySha256: fields.nonce.slice(-1) + fields.bodySha256 };
}
