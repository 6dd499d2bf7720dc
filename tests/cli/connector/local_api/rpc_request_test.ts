/** Requests of local A2A clients (D-135): what is refused with which code, payloads, any input, and the worst input. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { RPC_ERROR } from "../../../../cli/platforms/a2a_protocol.ts";
import { parseCall, RpcError } from "../../../../cli/connector/local_api/a2a/rpc_request.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";

const message = (more: object = {}) => ({ messageId: "m", role: "ROLE_USER", parts: [{ text: "hi" }], ...more });
const request = (method: string, params: unknown, more: object = {}) =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method, params, ...more });
const send = (more: object = {}, configuration?: object) =>
  request("SendMessage", { message: message(more), ...(configuration === undefined ? {} : { configuration }) });

function codeOf(text: string, version: string | null = null): number {
  const error = assertThrows(() => parseCall(text, version), RpcError);
  return RPC_ERROR[error.code].code;
}

function payloadOf(parts: string): string {
  const text =
    `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":${parts}}}}`;
  const call = parseCall(text, null);
  return call.method === "SendMessage" ? call.message.payload : "";
}

Deno.test("each request that does not fit has its code", async (t) => {
  const cases: [string, string, number][] = [
    ["no JSON", "{", -32700],
    ["nothing", "", -32700],
    ["deep, no JSON", "[".repeat(200_000), -32700],
    ["batch", `[${send()}]`, -32600],
    ["empty batch", "[]", -32600],
    ["text", '"x"', -32600],
    ["null", "null", -32600],
    ["version of JSON-RPC", request("GetTask", { id: "x" }, { jsonrpc: "1.0" }), -32600],
    ["without an ID", '{"jsonrpc":"2.0","method":"GetTask","params":{"id":"x"}}', -32600],
    ["an ID that is an object", request("GetTask", { id: "x" }, { id: {} }), -32600],
    ["no such method", request("Nothing", {}), -32601],
    ["a name of the prototype", request("constructor", {}), -32601],
    ["the method of A2A 0.3", request("message/send", {}), -32601],
    ["without params", request("SendMessage", undefined), -32602],
    ["an array as params", request("SendMessage", []), -32602],
    ["messageId empty", send({ messageId: "" }), -32602],
    ["messageId of 129", send({ messageId: "x".repeat(129) }), -32602],
    ["contextId with a space", send({ contextId: "a b" }), -32602],
    ["contextId of 129", send({ contextId: "x".repeat(129) }), -32602],
    ["another role", send({ role: "ROLE_AGENT" }), -32602],
    ["no parts", send({ parts: [] }), -32602],
    ["a part without content", send({ parts: [{}] }), -32602],
    ["a blank text", send({ parts: [{ text: " \n" }] }), -32602],
    ["too large", send({ parts: [{ text: "x".repeat(LIMITS.payloadBytes) }] }), -32602],
    ["a file", send({ parts: [{ text: "x" }, { url: "http://x.example/" }] }), -32005],
    ["bytes", send({ parts: [{ raw: "AAAA" }] }), -32005],
    ["a text with a file", send({ parts: [{ text: "x", raw: "AAAA" }] }), -32005],
    ["data with a file", send({ parts: [{ data: {}, url: "http://x.example/" }] }), -32005],
    ["a text with data", send({ parts: [{ text: "x", data: { a: 1 } }] }), -32602],
    ["push", send({}, { taskPushNotificationConfig: { url: "http://x.example/" } }), -32003],
    ["push, its method", request("CreateTaskPushNotificationConfig", {}), -32003],
    ["streaming", request("SendStreamingMessage", {}), -32004],
    ["subscription", request("SubscribeToTask", {}), -32004],
    ["a page of none", request("ListTasks", { pageSize: 0 }), -32602],
    ["a page of 101", request("ListTasks", { pageSize: 101 }), -32602],
    ["a page token of another kind", request("ListTasks", { pageToken: "1" }), -32602],
    ["a state that does not exist", request("ListTasks", { status: "DONE" }), -32602],
    ["a time that is none", request("ListTasks", { statusTimestampAfter: "yesterday" }), -32602],
    ["extended card", request("GetExtendedAgentCard", {}), -32007],
    ["a task without an ID", request("GetTask", {}), -32602],
  ];
  for (const [what, text, code] of cases) await t.step(what, () => assertEquals(codeOf(text), code));
  for (const version of ["0.3", "2.0", "1", "x", "1.0.0", ""]) {
    await t.step(`A2A ${version}`, () => assertEquals(codeOf(send(), version), -32009));
  }
  for (const version of ["1.0", "1.1", null]) await t.step(`A2A ${version}`, () => void parseCall(send(), version));
});

Deno.test("the ID of a request is in its call and in its error, with all its digits", () => {
  for (const id of ["1", "1.50", "9223372036854775807", '"x"', '""', "null"]) {
    const text = (method: string) => `{"id": ${id} ,"jsonrpc":"2.0","method":"${method}","params":{"id":"x"}}`;
    assertEquals(parseCall(text("GetTask"), null).id, id);
    assertEquals(assertThrows(() => parseCall(text("Nothing"), null), RpcError).id, id);
  }
  for (const text of ["{", "null", "[]", '{"id":{}}']) {
    assertEquals(assertThrows(() => parseCall(text, null), RpcError).id, "null");
  }
});

Deno.test("parts become a payload: texts and data as lines, one object of data unchanged", () => {
  assertEquals(payloadOf('[{"text":"a"}]'), '{"message":"a"}');
  assertEquals(
    payloadOf('[{"text":"a"},{"data":{"n":12345678901234567890}}]'),
    '{"message":"a\\n{\\"n\\":12345678901234567890}"}',
  );
  assertEquals(payloadOf('[{"data": {"n": 12345678901234567890, "m":1.0} }]'), '{"n": 12345678901234567890, "m":1.0}');
  assertEquals(payloadOf('[{"data":[1]}]'), '{"message":"[1]"}');
  assertEquals(payloadOf('[{"data":null}]'), '{"message":"null"}');
  assertEquals(payloadOf('[{"data":{"a":1},"data":{"b":2}}]'), '{"b":2}');
});

Deno.test("blank optional members count as absent", () => {
  const call = parseCall(send({ contextId: "", taskId: "" }, {}), null);
  assert(call.method === "SendMessage");
  const { contextId, taskId, returnImmediately } = call.message;
  assertEquals([contextId, taskId, returnImmediately], [undefined, undefined, false]);
});

Deno.test("a list of tasks has its defaults, and a page token is a place in the order", () => {
  const queryOf = (params: unknown) => {
    const call = parseCall(request("ListTasks", params), null);
    return call.method === "ListTasks" ? call.query : null;
  };
  const usual = {
    contextId: undefined,
    status: undefined,
    since: 0,
    before: undefined,
    limit: 50,
    hasArtifacts: false,
  };
  assertEquals(queryOf({}), usual);
  assertEquals(queryOf(undefined), usual);
  assertEquals(queryOf({ contextId: "", status: "TASK_STATE_UNSPECIFIED", pageToken: "", pageSize: null }), usual);
  const all = {
    contextId: "c",
    status: "TASK_STATE_WORKING",
    statusTimestampAfter: "2026-01-01T01:00:00+01:00",
    pageToken: "1700000000000.5",
    pageSize: 2,
    includeArtifacts: true,
  };
  assertEquals(queryOf(all), {
    contextId: "c",
    status: "TASK_STATE_WORKING",
    since: Date.UTC(2026, 0, 1),
    before: { at: 1_700_000_000_000, seq: 5 },
    limit: 2,
    hasArtifacts: true,
  });
});

Deno.test("any text is a call or an error with a code, and a call keeps what the client wrote", () => {
  const part = fc.oneof(
    fc.record({ text: fc.string() }),
    fc.record({ data: fc.jsonValue() }),
    fc.record({ url: fc.string() }),
    fc.jsonValue(),
  );
  const written = fc.oneof(
    fc.string(),
    fc.json(),
    fc.record({
      jsonrpc: fc.constantFrom("2.0", "2.0", "1.0"),
      id: fc.oneof(fc.integer(), fc.string(), fc.constant(null), fc.jsonValue()),
      method: fc.constantFrom("SendMessage", "SendMessage", "GetTask", "CancelTask", "ListTasks", "x"),
      params: fc.oneof(
        fc.record({
          message: fc.record({
            messageId: fc.string(),
            contextId: fc.string(),
            role: fc.constantFrom("ROLE_USER", "ROLE_USER", "ROLE_AGENT"),
            parts: fc.array(part),
          }, { requiredKeys: ["messageId", "role", "parts"] }),
          configuration: fc.oneof(fc.jsonValue(), fc.record({ returnImmediately: fc.boolean() })),
        }, { requiredKeys: ["message"] }),
        fc.record({ id: fc.string() }),
        fc.jsonValue(),
      ),
    }).map((value) => JSON.stringify(value)),
  );
  let calls = 0;
  fc.assert(
    fc.property(written, fc.option(fc.constantFrom("1.0", "0.3")), (text, version) => {
      try {
        const call = parseCall(text, version);
        calls++;
        assertEquals(JSON.parse(call.id), JSON.parse(text).id);
        if (call.method === "SendMessage") assertEquals(typeof JSON.parse(call.message.payload), "object");
      } catch (error) {
        assert(error instanceof RpcError, String(error));
        assert(RPC_ERROR[error.code].code < -32000);
      }
    }),
    { numRuns: 2_000 },
  );
  assert(calls > 0);
});

Deno.test("the worst bodies of 264 KiB are calls or errors with a code, at any depth", () => {
  const most = 264 * 1024;
  const around = (parts: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":${parts}}}}`;
  const deep = `[{"data":${"[".repeat(most / 2 - 200)}${"]".repeat(most / 2 - 200)}}]`;
  const worst = [
    "[".repeat(most),
    around(deep),
    around(`[{"data":{"x":${"[".repeat(90_000)}${"]".repeat(90_000)}}}]`),
    around(`[${Array(20_000).fill('{"text":""}').join(",")}]`),
    around(`[${Array(15_000).fill('{"data":{"a":1}}').join(",")}]`),
    around(`[{"text":"${"\\u0000".repeat(40_000)}"}]`),
    `{${Array(15_000).fill('"jsonrpc":"2.0"').join(",")}}`,
  ];
  for (const text of worst) {
    assert(text.length <= most + 200, String(text.length));
    try {
      parseCall(text, null);
    } catch (error) {
      assert(error instanceof RpcError, String(error));
    }
  }
  // Each of them would be a problem of its own, and all together would take a second.
  const { message } = assertThrows(() => parseCall(around(`[${Array(130_000).fill(1).join(",")}]`), null), RpcError);
  assertEquals(message, "Invalid params: message.parts must have at most 1000 entries");
});
