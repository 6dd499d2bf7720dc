/**
 * Shows that every payload which a peer may send gives a line that a strict reader of JSON accepts: halves of
 * surrogate pairs have no UTF-8, and a program in Rust ends its session at such a line.
 */
import { assert, assertEquals } from "@std/assert";
import { messageJson } from "../../../cli/connector/local_api/message_json.ts";
import { modelMessage } from "../../../cli/mcp/model_message.ts";
import { toolResult } from "../../../cli/mcp/tool_result.ts";
import { LocalMessage } from "../../../shared/client/local_shapes.ts";
import { hostilePayloads } from "../../support/hostile_payloads.ts";
import { inboxMessage } from "../platforms/received_message.ts";

const HALVES = [
  '{"message":"\\ud800","value":"\\udc00"}',
  '{"message":"m","deep":[{"value":"a\\ud83d"}]}',
  '{"message":"m","\\ud800":1}',
  '{"message":"m","error":{"code":"FAILED","message":"\\udfff"}}',
  '{"message":"m","svcError":{"code":"FAILED","message":"\\udfff"}}',
  '["\\ud800"]',
];

/** Every string of a value, names included. */
function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    yield name;
    yield* strings(inner);
  }
}

Deno.test("a result has no half of a surrogate pair, with any payload of a peer", () => {
  for (const payload of [...HALVES, ...hostilePayloads(1, 1_000)]) {
    const json = messageJson(inboxMessage(payload), { aliasOf: () => null, of: () => null });
    const message = LocalMessage.parse(JSON.parse(json));
    const result = toolResult({ messages: [modelMessage({ message, json })] }, true);
    for (const text of strings(JSON.parse(JSON.stringify(result)))) assert(text.isWellFormed(), payload.slice(0, 200));
    assertEquals(typeof message.text === "string" && !message.text.isWellFormed(), false, payload.slice(0, 200));
  }
});
