/** Contents and messages of the client library (D-125), its errors, and its public types. */
import { assertEquals, assertThrows } from "@std/assert";
import type * as api from "../../../../shared/client/library/agent_api.ts";
import { asSvcError, problemOf } from "../../../../shared/client/library/error_conversion.ts";
import { payloadText } from "../../../../shared/client/library/message_values.ts";
import { SvcError } from "../../../../shared/client/library/svc_error.ts";
import { ApiError, UnreachableError } from "../../../../shared/client/errors.ts";
import type { LocalMessage, SentState } from "../../../../shared/client/local_shapes.ts";
import type { AgentAuth } from "../../../../shared/protocol/api/sessions.ts";
import type { Receipt } from "../../../../shared/protocol/api/receipts.ts";
import { ContextError } from "../../../../shared/protocol/message_context.ts";

/** Compiles only when both types accept the same values. */
type Same<A, B> = [A] extends [B] ? [B] extends [A] ? true : never : never;

Deno.test("the public types are those of the protocol and of the local API", () => {
  const same: [
    Same<api.MessageState, SentState>,
    Same<api.AgentAuth, AgentAuth>,
    Same<api.Receipt, Receipt>,
    Same<Omit<api.IncomingMessage, "id" | "payload">, Omit<LocalMessage, "id" | "payload" | "readAt">>,
  ] = [true, true, true, true];
  assertEquals(same.length, 4);
});

Deno.test("a text becomes the member message, an object stays as it is, and both have a bound in bytes", () => {
  assertEquals([payloadText("hi"), payloadText({ a: [1] }), payloadText([])], ['{"message":"hi"}', '{"a":[1]}', "[]"]);
  const most = 196_444 - '{"message":""}'.length;
  assertEquals(payloadText("x".repeat(most)).length, 196_444);
  const codeOf = (work: () => unknown) => assertThrows(work, SvcError).code;
  assertEquals(codeOf(() => payloadText("x".repeat(most + 1))), "PAYLOAD_TOO_LARGE");
  assertEquals(codeOf(() => payloadText("ä".repeat(most / 2 + 1))), "PAYLOAD_TOO_LARGE", "bytes count, not characters");
  assertEquals(codeOf(() => payloadText((() => {}) as unknown as object)), "CLI_USAGE");
});

Deno.test("errors of the services become one error with code, status and request ID; defects stay", () => {
  const shown = (error: unknown) => {
    const { code, status, requestId, message } = asSvcError(error) as SvcError;
    return [code, status, requestId, message];
  };
  assertEquals(shown(new ApiError(403, "A_CODE", "no", "r-1")), ["A_CODE", 403, "r-1", "A_CODE: no"]);
  assertEquals(shown(new ApiError(502, null, "bad", null)), ["HTTP_502", 502, undefined, "bad"]);
  assertEquals(shown(new UnreachableError("gone")), ["CLI_UNREACHABLE", undefined, undefined, "gone"]);
  assertEquals(shown(new ContextError("odd")), ["CLI_USAGE", undefined, undefined, "odd"]);
  const own = new SvcError("NO_REPLY", "none", { requestId: "r-2" });
  assertEquals([asSvcError(own) === own, "status" in own, own.requestId], [true, false, "r-2"]);
  const defect = new TypeError("x is undefined");
  assertEquals([asSvcError(defect), problemOf(defect)], [defect, { code: null, message: "x is undefined" }]);
});
