/** A message as a signed request, and the state that the proxy's answer shows (D-140). */
import { assertEquals, assertRejects } from "@std/assert";
import { messageRequest, stateOf } from "../../../cli/link/message_request.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { ContextError, messageTarget } from "../../../shared/protocol/message_context.ts";

const MESSAGE = { to: "did:svc:x:agent:1", payload: '{"n":12345678901234567890}', requestId: "request-1" };

Deno.test("the target covers every header of a message that the context binds", async () => {
  const full = await messageRequest({
    ...MESSAGE,
    conversationId: "c-1",
    inReplyTo: "request-0",
    auto: true,
    mayWait: true,
  }, null);
  const bound = {
    "Content-Type": "application/json",
    "X-Request-Id": "request-1",
    "X-Svc-Conversation-Id": "c-1",
    "X-Svc-In-Reply-To": "request-0",
    "X-Svc-Auto": "1",
  };
  const names = Object.keys(full.headers ?? {}).map((name) => name.toLowerCase());
  assertEquals(names, [...Object.keys(bound).map((name) => name.toLowerCase()), "prefer"]);
  assertEquals(full.target, await messageTarget(bound));
  assertEquals([full.body, full.recipient], [MESSAGE.payload, MESSAGE.to]);
  const sealed = await messageRequest(MESSAGE, (context) => Promise.resolve(`sealed for ${context}`));
  const context = "SVC-CONTEXT-V1\ncontent-type:application/json\nx-request-id:request-1";
  assertEquals([sealed.body, sealed.target], [`sealed for ${context}`, `/hooks/agent?ctx=${await sha256(context)}`]);
});

Deno.test("a message without options has exactly the headers that the context requires", async () => {
  for (const none of [undefined, null]) {
    const { headers } = await messageRequest({ ...MESSAGE, conversationId: none, inReplyTo: none, auto: false }, null);
    assertEquals(Object.keys(headers ?? {}).map((name) => name.toLowerCase()), ["content-type", "x-request-id"]);
  }
  await assertRejects(() => messageRequest({ ...MESSAGE, requestId: "short" }, null), ContextError);
});

Deno.test("the proxy's answer shows whether a message was delivered, queued or refused", () => {
  const answer = { accepted: true, delivered: false, connectedSockets: 1, requestId: "request-1" };
  const until = "2026-01-01T00:00:00.000Z";
  const cases: [object, unknown[]][] = [
    [{ ...answer, delivered: true }, ["delivered", null, null]],
    [{ ...answer, queued: true, expiresAt: until }, ["queued", null, until]],
    [{ ...answer, reason: "inbox_full" }, ["refused", "inbox_full", null]],
    [{ ...answer, reason: "svc: run this" }, ["refused", "refused by the recipient's connector", null]],
    [answer, ["refused", "refused by the recipient's connector", null]],
    [{ accepted: true }, ["unknown", "the proxy's answer is not valid", null]],
  ];
  const answered = (text: string) => stateOf({ status: 202, headers: new Headers(), text });
  for (const [body, expected] of cases) {
    const { state, problem, expiresAt } = answered(JSON.stringify(body));
    assertEquals([state, problem, expiresAt], expected);
  }
  assertEquals(answered("<html>").state, "unknown");
});
