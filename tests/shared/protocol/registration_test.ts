/**
 * Shows the message that a new agent signs: the vectors, the template, and one message for one set of values. Ed25519
 * is deterministic, so the signatures are compared too.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { fromBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey, keyPairFromSeed, sign, verify } from "../../../shared/protocol/ed25519.ts";
import {
  REGISTRATION_TEMPLATE,
  type RegistrationFields,
  registrationMessage,
} from "../../../shared/protocol/registration.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";

const RUNS = { seed: 1, numRuns: 500 };
const { agentKey, valid, invalid } = vectors("registration");

Deno.test("the registration message and its signature are those of the valid vectors", async (t) => {
  const pair = await keyPairFromSeed(fromBase64Url(agentKey.seed) ?? new Uint8Array());
  assertEquals(pair.publicKey, agentKey.x);
  const publicKey = await importPublicKey(agentKey.x);
  await steps(t, valid, async ({ input, message, signature }) => {
    assertEquals(registrationMessage(input), message);
    assertEquals(await sign(pair.privateKey, utf8Bytes(message)), signature);
    assert(await verify(publicKey, signature, utf8Bytes(message)));
  });
});

Deno.test("the registration message of an invalid vector is not the signed one", async (t) => {
  const publicKey = await importPublicKey(agentKey.x);
  await steps(t, invalid, async ({ input, signature }) => {
    assertEquals(await verify(publicKey, signature, utf8Bytes(registrationMessage(input))), false);
  });
});

Deno.test("the registration template has eight lines with names in braces for values", () => {
  assertEquals(
    REGISTRATION_TEMPLATE,
    "svc.register.v1\nchallengeId:{challengeId}\nnonce:{nonce}\nownerDid:{ownerDid}\npublicKey:{publicKey}\n" +
      "name:{name}\nframework:{framework}\nttlDays:{ttlDays}",
  );
});

Deno.test("the registration template with values is the message", () => {
  for (const { input, message } of valid) {
    const values = new Map<string, string | number | undefined>(Object.entries(input));
    assertEquals(
      REGISTRATION_TEMPLATE.replace(/\{(\w+)\}/g, (_, name: string) => `${values.get(name) ?? ""}`),
      message,
    );
  }
});

const value = fc.string({ unit: fc.constantFrom("a", ":", "\r", "\u2028", "{", "name:"), minLength: 1, maxLength: 3 });
const fields: fc.Arbitrary<RegistrationFields> = fc.record({
  challengeId: value,
  nonce: value,
  ownerDid: value,
  publicKey: value,
  name: value,
  framework: fc.option(value, { nil: undefined }),
  ttlDays: fc.option(fc.integer({ min: 1, max: 90 }), { nil: undefined }),
});

Deno.test("the registration message is always eight lines that hold the values", () => {
  fc.assert(
    fc.property(fields, (given) => {
      const lines = registrationMessage(given).split("\n");
      assertEquals(lines.length, 8);
      const read = new Map(lines.slice(1).map((line) => [line.split(":", 1)[0], line.slice(line.indexOf(":") + 1)]));
      assertEquals(
        Object.fromEntries(read),
        { ...given, framework: given.framework ?? "", ttlDays: `${given.ttlDays ?? ""}` },
      );
    }),
    RUNS,
  );
});

Deno.test("the registration message refuses a line feed in any value", () => {
  const member = fc.constantFrom("challengeId", "nonce", "ownerDid", "publicKey", "name", "framework");
  fc.assert(
    fc.property(fields, member, fc.constantFrom("\n", "a\nb", "x\nname:y", "\r\n"), (given, name, bad) => {
      assertThrows(() => registrationMessage({ ...given, [name]: bad }), TypeError);
    }),
    RUNS,
  );
});
