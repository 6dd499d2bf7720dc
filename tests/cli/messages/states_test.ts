/** What people read of the state of a sent message. */
import { assertEquals } from "@std/assert";
import { stateText } from "../../../cli/connector/states.ts";
import { didWhat } from "../../../cli/connector/talk/log_text.ts";

Deno.test("a queued message waits at the server until its time there is over, and is unclear then", () => {
  const message = { state: "queued", problem: null, nextTryAt: null, expiresAt: "2026-02-21T00:00:00.000Z" } as const;
  const end = Date.parse(message.expiresAt);
  assertEquals([end - 1, end].map((now) => stateText(message, now)), [
    "waits at the server",
    "unclear, it waited at the server",
  ]);
  assertEquals(stateText({ ...message, expiresAt: null }, end), "waits at the server");
});

Deno.test("a message that was answered, or whose recipient had no answer, says so beside its state", () => {
  const message = { state: "processed", problem: null, nextTryAt: null, expiresAt: null } as const;
  assertEquals(stateText({ ...message, replies: [3], replyError: "BUSY" }, 0), "read, no answer: BUSY");
  const error = { code: "BUSY", message: "Wait 9 s" };
  assertEquals(didWhat({ error, auto: true, isReply: true, verified: "end-to-end" }), "could not answer: BUSY");
  assertEquals([[], [3]].map((replies) => stateText({ ...message, replies }, 0)), ["read", "read, answered"]);
});

Deno.test("a message that was refused names why, and one that never left says that it was not sent", () => {
  const texts = [
    "blocked",
    "PROXY_AUTH_FORBIDDEN",
    "not sent: https://proxy.example cannot be reached",
    "not sent within 24 h",
  ].map((
    problem,
  ) => stateText({ state: "refused", problem, nextTryAt: null, expiresAt: null }, 0, "beta"));
  assertEquals(texts, [
    "refused: beta does not accept your messages",
    "refused: the two agents are not a confirmed pair",
    "not sent: https://proxy.example cannot be reached",
    "not sent within 24 h",
  ]);
});

Deno.test("a message to another server waits here while the agent's own server gives no token for it", () => {
  const kept = { state: "kept" as const, nextTryAt: new Date(3_000).toISOString(), expiresAt: null };
  const of = (problem: string) => stateText({ ...kept, problem }, 0, "beta@b.example", "b.example");
  assertEquals(of("https://b.example cannot be reached"), "waits for b.example, next try in 3 s");
  // Another server is tried again after up to 15 min, and 780 s would have to be converted.
  const later = { ...kept, nextTryAt: new Date(780_000).toISOString(), problem: null };
  assertEquals(stateText(later, 0, "beta@b.example", "b.example"), "waits for b.example, next try in 13 min");
  assertEquals(
    of("Your server gives no token for b.example: https://a.example cannot be reached"),
    "waits here, next try in 3 s",
  );
});
