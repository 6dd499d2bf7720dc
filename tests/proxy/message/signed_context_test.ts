/**
 * Shows that the proxy accepts a message only with the headers that its sender signed (D-140), where the check stands
 * among the others (D-60), and that a message without a signed context is accepted as before.
 */
import { assertEquals } from "@std/assert";
import { messageTarget } from "../../../shared/protocol/message_context.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { outcome } from "../../support/registry_world.ts";
import type { RequestParts } from "../../support/world.ts";
import { type Cast, type CastTest, inWorld, openCast } from "../cast.ts";

const BOUND: Readonly<Record<string, string>> = {
  "Content-Type": "application/json",
  "x-request-id": "request-0001",
  [HEADERS.conversationId]: "c-1",
  [HEADERS.inReplyTo]: "request-0000",
  [HEADERS.auto]: "1",
  "X-Svc-New": "new",
};
const INVALID = "400 PROXY_HOOK_CONTEXT_INVALID";

/** Sends a message that is signed with the headers `signed` and sent with the headers `sent`; `null` removes one. */
async function send(
  { w, a, b }: Cast,
  sent: Record<string, string | null> = {},
  signed: Record<string, string> = BOUND,
  parts: RequestParts = {},
): Promise<string> {
  const target = await messageTarget(signed);
  return await outcome(await w.message(a, b, { target, ...parts, headers: { ...signed, ...sent } }));
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("a message with its signed headers is delivered in any case and order", async (cast) => {
  assertEquals(await send(cast), "202");
  const names = Object.entries(BOUND).map(([name, value]) => [name.toUpperCase(), value]).reverse();
  assertEquals(await send(cast, { "x-request-id": "request-0002" }, Object.fromEntries(names)), INVALID);
  assertEquals(await send(cast, {}, { ...Object.fromEntries(names), "X-REQUEST-ID": "request-0002" }), "202");
  const [first] = cast.socket.delivered;
  assertEquals(
    [first?.requestId, first?.conversationId, first?.inReplyTo, first?.auto],
    ["request-0001", "c-1", "request-0000", true],
  );
  assertEquals(cast.socket.delivered.length, 2);
});

test("a message whose signed header was changed, removed or added on the way is refused", async (cast, t) => {
  const other: Record<string, string> = {
    "Content-Type": "application/json; charset=utf-8",
    "x-request-id": "request-0002",
    [HEADERS.conversationId]: "c-2",
    [HEADERS.inReplyTo]: "request-0002",
    "X-Svc-New": "newer",
  };
  for (const [name, value] of Object.entries(other)) {
    await t.step(`${name} changed`, async () => assertEquals(await send(cast, { [name]: value }), INVALID));
  }
  for (const name of Object.keys(BOUND).filter((name) => name !== "Content-Type")) {
    const { [name]: removed = "", ...without } = BOUND;
    await t.step(`${name} removed`, async () => assertEquals(await send(cast, { [name]: null }), INVALID));
    if (name === "x-request-id") continue;
    await t.step(`${name} added`, async () => assertEquals(await send(cast, { [name]: removed }, without), INVALID));
  }
  await t.step("a header of a later version added", async () => {
    assertEquals(await send(cast, { "X-Svc-Later": "1" }), INVALID);
  });
  await t.step("a header that is not bound changed", async () => {
    assertEquals(await send(cast, { Prefer: "respond-async", "X-Other": "1" }), "202");
  });
  assertEquals(cast.socket.delivered.length, 1);
});

test("a message that is refused for its context uses its nonce", async (cast) => {
  const nonce = "n".repeat(22);
  assertEquals(await send(cast, { [HEADERS.conversationId]: "c-2" }, BOUND, { nonce }), INVALID);
  assertEquals(await send(cast, {}, BOUND, { nonce }), "401 PROXY_AUTH_REPLAY");
  assertEquals(await send(cast), "202");
});

test("a context that is repeated, malformed or cannot be built is refused", async (cast, t) => {
  const target = await messageTarget(BOUND);
  const hash = target.split("=")[1] ?? "";
  const targets: [name: string, target: string][] = [
    ["twice", `${target}&ctx=${hash}`],
    ["empty", "/hooks/agent?ctx="],
    ["without a value", "/hooks/agent?ctx"],
    ["padded", `${target}=`],
    ["short", target.slice(0, -1)],
    ["two hashes", `${target},${hash}`],
    ["in hexadecimal", "/hooks/agent?ctx=" + "a1".repeat(32)],
    ["in a long query", `${target}&x=${"x".repeat(4096)}`],
  ];
  for (const [name, changed] of targets) {
    await t.step(name, async () => assertEquals(await send(cast, {}, BOUND, { target: changed }), INVALID));
  }
  const many = Array.from({ length: 17 }, (_, i) => [`x-svc-m${i}`, "v"]);
  const headers: [name: string, sent: Record<string, string | null>][] = [
    ["a request ID that the proxy replaces", { "x-request-id": "1234567" }],
    ["17 more headers", Object.fromEntries(many)],
    ["a header of 1,025 characters", { "X-Svc-New": "v".repeat(1025) }],
    ["more than 4,096 bytes", Object.fromEntries(many.slice(0, 5).map(([name = ""]) => [name, "v".repeat(1000)]))],
    ["an empty header", { "X-Svc-New": "" }],
    ["a letter beyond ASCII", { "X-Svc-New": "caf\u00e9" }],
  ];
  for (const [name, sent] of headers) {
    await t.step(name, async () => assertEquals(await send(cast, sent), INVALID));
  }
  await t.step("beside another parameter it is accepted", async () => {
    assertEquals(await send(cast, {}, BOUND, { target: `/hooks/agent?x=1&ctx=${hash}` }), "202");
  });
  assertEquals(cast.socket.delivered.length, 1);
});

test("the context is checked after the reply headers and before the pair", async (cast, t) => {
  const { w } = cast;
  const stranger = await w.agent();
  const other = await w.agent();
  await w.pair(stranger, other);
  const wrong = { [HEADERS.conversationId]: "a b", [HEADERS.auto]: "2", "X-Svc-New": "changed" };
  const rows: [sent: Record<string, string>, expected: string][] = [
    [wrong, "400 PROXY_HOOK_CONVERSATION_INVALID"],
    [{ ...wrong, [HEADERS.conversationId]: "c-1" }, "400 PROXY_HOOK_REPLY_INVALID"],
    [{ "X-Svc-New": "changed" }, INVALID],
    [{}, "403 PROXY_AUTH_FORBIDDEN"],
  ];
  for (const [sent, expected] of rows) {
    await t.step(expected, async () => assertEquals(await send({ ...cast, a: stranger }, sent), expected));
  }
});

test("a message without a context is accepted with any message headers", async ({ w, a, b, socket }) => {
  for (const target of ["/hooks/agent", "/hooks/agent?", "/hooks/agent?x=1"]) {
    assertEquals(await outcome(await w.message(a, b, { target, headers: { "X-Svc-New": "caf\u00e9" } })), "202");
  }
  assertEquals(socket.delivered.length, 3);
});
