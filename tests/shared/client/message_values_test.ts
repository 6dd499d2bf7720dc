/** Contents and messages of the client library, and its public types. */
import { assertEquals, assertThrows } from "@std/assert";
import type * as api from "../../../shared/client/agent_api.ts";
import { payloadText } from "../../../shared/client/inbox_reader.ts";
import { SvcError } from "../../../shared/client/svc_error.ts";
import type { CheckedReceipt, LocalMessage, SENT_STATES } from "../../../shared/client/local_shapes.ts";

/** Compiles only when both types accept the same values. */
type Same<A, B> = [A] extends [B] ? [B] extends [A] ? true : never : never;

Deno.test("the public types are those of the protocol and of the local API", () => {
  const same: [
    Same<api.MessageState, (typeof SENT_STATES)[number]>,
    Same<api.Receipt, CheckedReceipt>,
    Same<Omit<api.IncomingMessage, "payload">, Omit<LocalMessage, "payload" | "readAt" | "mayBeRepeat">>,
  ] = [true, true, true];
  assertEquals(same.length, 3);
});

Deno.test("a text becomes the member message, an object stays as it is, and both have a bound in bytes", () => {
  assertEquals([payloadText("hi"), payloadText({ a: [1] }), payloadText([])], ['{"message":"hi"}', '{"a":[1]}', "[]"]);
  const most = 196_444 - '{"message":""}'.length;
  assertEquals(payloadText("x".repeat(most)).length, 196_444);
  const codeOf = (work: () => unknown) => assertThrows(work, SvcError).code;
  assertEquals(codeOf(() => payloadText("x".repeat(most + 1))), "PAYLOAD_TOO_LARGE");
  assertEquals(codeOf(() => payloadText("ä".repeat(most / 2 + 1))), "PAYLOAD_TOO_LARGE", "bytes count, not characters");
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const noJson = [(() => {}) as unknown as object, cyclic, { n: 1n } as unknown as object];
  for (const content of noJson) assertEquals(codeOf(() => payloadText(content as Record<string, never>)), "CLI_USAGE");
});
