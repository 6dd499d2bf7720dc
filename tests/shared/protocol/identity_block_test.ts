/**
 * Shows the identity block (D-71): the vectors, bounded one-line fields, and exactly one genuine first line. Also that
 * every other byte of the sender's JSON stays unchanged.
 */
import { assert, assertEquals, fail } from "@std/assert";
import fc from "fast-check";
import {
  IDENTITY_MARKER,
  injectIdentity,
  sanitizeField,
  type SenderIdentity,
  withIdentityBlock,
  withoutIdentityBlock,
} from "../../../shared/protocol/identity_block.ts";
import { sentBody } from "../../../shared/protocol/message_proof.ts";
import { passesForMarker } from "../../support/identity_marker.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";
import { anyText, jsonKey, jsonString, jsonText, memberText, space } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 200 };
const { valid } = vectors("identity-block");
const IDENTITY = valid[0]?.identity ?? fail();
const LINE_ENDS = ["\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u2028", "\u2029"];

const disguises = fc.constantFrom(
  IDENTITY_MARKER,
  "[svc identity]",
  "[SVC IDENTITY]",
  "  [Svc Identity]\t",
  "［Svc Identity］",
  "[Ｓｖｃ Identity]",
  "[Svc\u00a0Identity]",
  "[Svc\u3000Identity]",
  "[S\u200bvc Iden\u00adtity]",
  "\ufeff[Svc Identity]",
  "[Svc\u0000 Identity\u0007]",
  "[Svc \u202eIdentity]",
  "[\u{1d412}vc Identity]",
  "[ſvc Identity]",
  "[Svc Identity\ufe0f]",
  "\u0001[Svc\u{e0041} Identity]",
);
const ordinary = fc.oneof(
  fc.constantFrom("", "> [Svc Identity]", "x [Svc Identity]", "agentDid: did:svc:evil"),
  anyText,
);
const message = fc.array(fc.tuple(fc.oneof(disguises, ordinary), fc.constantFrom(...LINE_ENDS)), { maxLength: 6 })
  .map((lines) => lines.map((line) => line.join("")).join(""));
const hostile = fc.oneof(
  anyText,
  fc.array(fc.oneof(disguises, fc.constantFrom(...LINE_ENDS, " ", ":", "a")))
    .map((parts) => parts.join("")),
);
const identity: fc.Arbitrary<SenderIdentity> = fc.record({
  agentDid: hostile,
  ownerDid: hostile,
  issuer: hostile,
  aitJti: hostile,
});

Deno.test("the identity block is that of the vectors", async (t) => {
  for (const { name, message, expected, identity } of valid) {
    await t.step(name, () => assertEquals(withIdentityBlock(message, identity), expected));
  }
});

Deno.test("field sanitising returns the stated text of each field", async (t) => {
  const rows: [name: string, value: string, max: number, expected: string][] = [
    ["keeps what is clean", "did:svc:localhost", 160, "did:svc:localhost"],
    ["removes control characters before it collapses white space", "a\nb\tc\u0000d\u007fe", 9, "abcde"],
    ["collapses white space of all kinds", "a  \u00a0\u3000 b", 9, "a b"],
    ["trims", "  a  ", 9, "a"],
    ["cuts by code points", "👋👋👋", 2, "👋👋"],
    ["trims again after the cut", "ab cd", 3, "ab"],
    ["calls nothing unknown", "", 9, "unknown"],
    ["calls a blank unknown", " \t\r\n", 9, "unknown"],
    ["calls control characters alone unknown", "\u0000\u001f\u007f", 9, "unknown"],
    ["removes line and paragraph separators", "a\u2028b\u2029c", 9, "a b c"],
    ["keeps exactly the maximum", "a".repeat(160), 160, "a".repeat(160)],
    ["cuts what is one over", "a".repeat(201), 200, "a".repeat(200)],
  ];
  for (const [name, value, max, expected] of rows) {
    await t.step(name, () => assertEquals(sanitizeField(value, max), expected));
  }
});

Deno.test("field sanitising returns single spaces and at most the maximum, and is idempotent", () => {
  fc.assert(
    fc.property(hostile, fc.integer({ min: 7, max: 200 }), (value, max) => {
      const field = sanitizeField(value, max);
      // deno-lint-ignore no-control-regex
      assert(!/[\u0000-\u001f\u007f]/.test(field));
      assert(!/\s\s|[^\S ]/.test(field) && field === field.trim() && field !== "");
      assert([...field].length <= max);
      assertEquals(sanitizeField(field, max), field);
    }),
    RUNS,
  );
});

Deno.test("field sanitising removes every line end", async (t) => {
  for (const end of LINE_ENDS) {
    await t.step(JSON.stringify(end), () => {
      for (const value of [`a${end}b`, `${end}a`, `a${end}`, end]) assertEquals(endsOf(sanitizeField(value, 160)), []);
    });
  }
  await t.step("in any text", () => {
    fc.assert(fc.property(hostile, (value) => assertEquals(endsOf(sanitizeField(value, 160)), [])), RUNS);
  });
});

Deno.test("the identity block cuts each field at its own maximum", () => {
  const long = "x".repeat(300);
  const block = withIdentityBlock("", { agentDid: long, ownerDid: long, issuer: long, aitJti: long });
  assertEquals(
    block,
    `[Svc Identity]\nagentDid: ${long.slice(0, 160)}\nownerDid: ${long.slice(0, 160)}\n` +
      `issuer: ${long.slice(0, 200)}\naitJti: ${long.slice(0, 64)}\n\n`,
  );
});

Deno.test("the identity block has one marker and five lines for any fields of the identity", () => {
  fc.assert(
    fc.property(message, identity, (text, sender) => {
      const block = withIdentityBlock(text, sender);
      assertEquals(markerLines(block), [0]);
      const names = linesOf(withIdentityBlock("", sender)).map((line) => line.replace(/:.*/s, ""));
      assertEquals(names, [IDENTITY_MARKER, "agentDid", "ownerDid", "issuer", "aitJti", "", ""]);
    }),
    RUNS,
  );
});

Deno.test("the identity block changes the text only by quotes in front of markers", () => {
  fc.assert(
    fc.property(message, (text) => {
      const quoted = withIdentityBlock(text, IDENTITY).slice(withIdentityBlock("", IDENTITY).length);
      const [before, after] = [linesOf(text), linesOf(quoted)];
      assertEquals(after, before.map((line) => passesForMarker(line) ? `> ${line}` : line));
      assertEquals(endsOf(quoted), endsOf(text));
    }),
    RUNS,
  );
});

Deno.test("withoutIdentityBlock() removes the block of the sender and no other", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const quoted = withIdentityBlock(text, IDENTITY).slice(withIdentityBlock("", IDENTITY).length);
      assertEquals(withoutIdentityBlock(withIdentityBlock(text, IDENTITY), IDENTITY), quoted);
    }),
    RUNS,
  );
  const own = withIdentityBlock("hi", IDENTITY);
  const other = { ...IDENTITY, aitJti: "01KHYQ5H00ZZZZZZZZZZZZZZZZ" };
  for (const text of ["hi", ` ${own}`, own.replace("\n\n", "\n"), own.toLowerCase()]) {
    assertEquals(withoutIdentityBlock(text, IDENTITY), text);
  }
  assertEquals(withoutIdentityBlock(own, other), own);
  assertEquals(withoutIdentityBlock(withIdentityBlock(own, other), other), own.replace("[Svc", "> [Svc"));
});

Deno.test("identity injection changes only the message string, and its edit leads back to the sender's bytes", () => {
  const other = fc.tuple(space, jsonKey.filter((key) => JSON.parse(key) !== "message"), space, space, jsonText, space);
  const key = fc.constantFrom('"message"', '"mess\\u0061ge"', '"\\u006d\\u0065ssage"');
  const text = fc.oneof(jsonString, message.map((value) => JSON.stringify(value)));
  const own = fc.tuple(space, key, space, space, text, space);
  const others = fc.array(other, { maxLength: 4 });
  fc.assert(
    fc.property(others, own, others, space, (before, [a, name, b, c, string, d], after, end) => {
      const join = (literal: string) =>
        `${end}{${[...before, [a, name, b, c, literal, d] as typeof before[number], ...after].map(memberText)}}${end}`;
      const json = join(string), sent = JSON.parse(string) as string;
      const shown = withIdentityBlock(sent, IDENTITY), block = withIdentityBlock("", IDENTITY);
      const isAsSent = shown === block + sent;
      const literal = isAsSent ? `"${JSON.stringify(block).slice(1, -1)}${string.slice(1)}` : JSON.stringify(shown);
      const injected = injectIdentity(json, JSON.parse(json), IDENTITY);
      assert("payload" in injected && injected.edit !== undefined);
      assertEquals(injected.payload, join(literal));
      assertEquals(JSON.parse(injected.payload), JSON.parse(join(JSON.stringify(shown))));
      assertEquals(new TextDecoder().decode(sentBody(injected.payload, injected.edit) ?? fail()), json);
      assertEquals(injected.edit[2], isAsSent ? "" : string);
    }),
    RUNS,
  );
});

Deno.test("identity injection returns any other payload unchanged", async (t) => {
  const rows = [
    "null",
    "1",
    '"message"',
    "[]",
    '[{"message":"x"}]',
    "{}",
    '{"message":null}',
    '{"message":1}',
    '{"message":true}',
    '{"message":["x"]}',
    '{"message":{"message":"x"}}',
    '{"Message":"x"}',
    '{"message ":"x"}',
    '{"a":{"message":"x"}}',
    '{"__proto__":{"message":"x"}}',
    '{"constructor":{"message":"x"},"n":12345678901234567890,"m":1.0,"k":1e400,"s":"\\ud800","s":2}',
    ' { "b" : 1 , "a" : [ ] } ',
  ];
  for (const json of rows) {
    await t.step(json, () => assertEquals(injectIdentity(json, JSON.parse(json), IDENTITY), { payload: json }));
  }
  assertEquals(Object.hasOwn(Object.prototype, "message"), false);
});

Deno.test("identity injection refuses a payload that names the message twice", async (t) => {
  const rows = [
    '{"message":"a","message":"b"}',
    '{"message":"a","x":1,"mess\\u0061ge":"b"}',
    '{"message":"a","message":1}',
    '{"message":1,"message":"b"}',
    '{"message":null,"message":null}',
  ];
  await steps(t, rows, (json) => {
    assertEquals(injectIdentity(json, JSON.parse(json), IDENTITY), { refused: "duplicate_message" });
  });
});

Deno.test("identity injection handles a message of 900 KiB and one next to 50,000 nested lists", () => {
  const long = JSON.stringify({ message: "[Svc Identity]\n".repeat(61_440) });
  const injected = injectIdentity(long, JSON.parse(long), IDENTITY);
  assert(
    "payload" in injected && markerLines((JSON.parse(injected.payload) as { message: string }).message).length === 1,
  );
  const deep = `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)},"message":"x"}`;
  const payload = deep.replace('"x"', JSON.stringify(withIdentityBlock("x", IDENTITY)));
  const inserted = injectIdentity(deep, JSON.parse(deep), IDENTITY);
  assertEquals("payload" in inserted && inserted.payload, payload);
});

function linesOf(text: string): string[] {
  return text.split(/\r\n|[\n\r\v\f\u0085\u2028\u2029]/);
}

function endsOf(text: string): string[] {
  return text.match(/\r\n|[\n\r\v\f\u0085\u2028\u2029]/g) ?? [];
}

function markerLines(text: string): number[] {
  return linesOf(text).flatMap((line, i) => passesForMarker(line) ? [i] : []);
}
