/** Shows what a message proof must be, that its edit leads back or nowhere, and what its signed headers must state. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { anyText, jsonText } from "./arbitraries.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { messageTarget } from "../../../shared/protocol/message_context.ts";
import { contextVerdict, readMessageProof, sentBody } from "../../../shared/protocol/message_proof.ts";
import { PROOF } from "../../proxy/relay/far_end.ts";

const without = (name: keyof typeof PROOF) => ({ ...PROOF, [name]: undefined });

Deno.test("a message proof has its members in their sizes, and others are ignored", async (t) => {
  const full = { ...PROOF, context: { "x-svc-auto": "1" }, edit: [1, 2, "x"] as const };
  assertEquals(readMessageProof({ ...full, later: 1 }), full);
  const rows: [name: string, value: unknown][] = [
    ["null", null],
    ["a list", [PROOF]],
    ...(Object.keys(PROOF) as (keyof typeof PROOF)[]).map((name) =>
      [`without ${name}`, without(name)] as [string, unknown]
    ),
    ["an AIT over its limit", { ...PROOF, ait: "x".repeat(LIMITS.aitBytes + 1) }],
    ["a line feed in the origin", { ...PROOF, origin: "https://a.example\nx" }],
    ["a line feed in the target", { ...PROOF, target: "/hooks/agent\n" }],
    ["a timestamp with a fraction", { ...PROOF, timestamp: "1.5" }],
    ["a short nonce", { ...PROOF, nonce: "short" }],
    ["a signature of 85 characters", { ...PROOF, signature: "A".repeat(85) }],
    ["17 headers", {
      ...PROOF,
      context: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`x-svc-${i}`, "1"])),
    }],
    ["a long header", { ...PROOF, context: { "x-svc-a": "x".repeat(LIMITS.contextValueLength + 1) } }],
    ["a header that is no text", { ...PROOF, context: { "x-svc-a": 1 } }],
    ["a negative offset", { ...PROOF, edit: [-1, 1, ""] }],
    ["a fraction", { ...PROOF, edit: [0.5, 1, ""] }],
    ["an edit of two", { ...PROOF, edit: [0, 1] }],
    ["an edit with a long text", { ...PROOF, edit: [0, 1, "x".repeat(LIMITS.hookBodyBytes + 1)] }],
  ];
  for (const [name, value] of rows) await t.step(name, () => assertEquals(readMessageProof(value), null));
});

Deno.test("any JSON in place of a member makes a proof that is refused, or one within the bounds", () => {
  const name = fc.constantFrom(...Object.keys(PROOF) as (keyof typeof PROOF)[], "edit" as const);
  fc.assert(fc.property(name, jsonText, (name, text) => {
    const proof = readMessageProof({ ...PROOF, [name]: JSON.parse(text) });
    if (proof === null) return;
    assertEquals({ ...proof, [name]: undefined }, { ...PROOF, [name]: undefined });
    assert(JSON.stringify(proof).length < LIMITS.hookBodyBytes + 65_536);
  }));
});

Deno.test("an edit gives the bytes around it, for any payload and any numbers", () => {
  const number = fc.oneof(fc.nat(40), fc.maxSafeNat());
  fc.assert(fc.property(anyText, number, number, anyText, (payload, offset, length, text) => {
    const bytes = [...utf8Bytes(payload)], isWithin = offset + length <= bytes.length;
    if (isWithin) bytes.splice(offset, length, ...utf8Bytes(text));
    const body = sentBody(payload, [offset, length, text]);
    assertEquals(body && [...body], isWithin ? bytes : null);
  }));
});

Deno.test("an edit replaces bytes of the payload, and one beyond its end leads nowhere", () => {
  const body = (edit?: readonly [number, number, string]) => {
    const bytes = sentBody('{"a":"ü€"}', edit);
    return bytes && new TextDecoder().decode(bytes);
  };
  assertEquals(body(), '{"a":"ü€"}');
  assertEquals(body([6, 5, "x"]), '{"a":"x"}');
  assertEquals(body([13, 0, " "]), '{"a":"ü€"} ');
  assertEquals([body([13, 1, ""]), body([14, 0, ""]), body([2 ** 53 - 1, 1, ""])], [null, null, null]);
  assertEquals(sentBody("x", [0, 0, "€".repeat(LIMITS.hookBodyBytes / 2)]), null);
});

Deno.test("the signed headers are those of the frame, or the message is refused", async (t) => {
  const frame = { requestId: "request-0001", contentType: "application/json" };
  const context = { "content-type": "application/json", "x-request-id": "request-0001" };
  const reply = { ...context, "x-svc-conversation-id": "c-1", "x-svc-in-reply-to": "request-0000", "x-svc-auto": "1" };
  const replied = { ...frame, conversationId: "c-1", inReplyTo: "request-0000", auto: true } as const;
  const later = { ...context, "x-svc-new": "1" };
  const verdict = async (
    headers: Record<string, string>,
    said: Parameters<typeof contextVerdict>[1],
    target?: string,
  ) => await contextVerdict({ context: headers, target: target ?? await messageTarget(headers) }, said);
  assertEquals(await verdict(context, frame), "signed");
  assertEquals(await verdict(reply, replied), "signed");
  assertEquals(await verdict(later, frame), "signed");
  assertEquals(await verdict({}, replied, "/hooks/agent"), "unsigned");
  const lifted = { "content-type": "application/json", "x-request-id": "request-0001", "X-Svc-Auto": "1" };
  const rows: [string, Record<string, string>, Parameters<typeof contextVerdict>[1], string?][] = [
    ["another request ID", context, { ...frame, requestId: "request-0002" }],
    ["a conversation that was not signed", context, { ...frame, conversationId: "c-1" }],
    ["another conversation", reply, { ...replied, conversationId: "c-2" }],
    ["a reply that was not signed", context, { ...frame, inReplyTo: "request-0000" }],
    ["without its conversation", reply, { ...frame, inReplyTo: "request-0000", auto: true }],
    ["without auto", reply, { ...frame, conversationId: "c-1", inReplyTo: "request-0000" }],
    ["auto under a name that hides it", lifted, frame],
    ["another content type", context, { ...frame, contentType: "application/json; charset=utf-8" }],
    ["headers of another hash", later, frame, await messageTarget(context)],
    ["two hashes", context, frame, `${await messageTarget(context)}&ctx=a`],
    ["no request ID", {}, frame, "/hooks/agent?ctx=a"],
    ["another path", {}, frame, "/pair/start"],
    ["a longer path", {}, frame, "/hooks/agent/x"],
  ];
  for (const [name, headers, said, target] of rows) {
    await t.step(name, async () => assertEquals(await verdict(headers, said, target), "wrong"));
  }
});
