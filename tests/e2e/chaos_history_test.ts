/** The rules of the chaos suite find each kind of violation in a history. */
import { assertEquals } from "@std/assert";
import { type Fact, violationsOf } from "../soak/chaos/history.ts";

const sent = (at: number, message: string, request: number, nonce = message): Fact => ({
  at,
  kind: "sent",
  message,
  nonce,
  from: 0,
  to: 1,
  instance: 0,
  request,
});
const answered = (request: number, as: "delivered" | "queued" | "refused", code = ""): Fact => ({
  at: 0,
  kind: "answered",
  request,
  as,
  code,
});
const received = (message: string, link = 1): Fact => ({ at: 0, kind: "received", message, agent: 1, link });

const CASES: [what: string, history: Fact[], count: number][] = [
  ["an accepted message that arrived", [sent(0, "m", 1), answered(1, "delivered"), received("m")], 0],
  ["a delivered message that never arrived", [sent(0, "m", 1), answered(1, "delivered")], 1],
  ["a queued message with a receipt", [sent(0, "m", 1), answered(1, "queued"), {
    at: 1,
    kind: "receipt",
    message: "m",
  }], 0],
  ["a queued message whose recipient is revoked", [
    sent(0, "m", 1),
    answered(1, "queued"),
    { at: 1, kind: "revoking", agent: 1 },
  ], 0],
  ["a nonce that is accepted twice", [
    sent(0, "m", 1),
    sent(0, "m", 2),
    answered(1, "delivered"),
    answered(2, "delivered"),
    received("m"),
  ], 1],
  [
    "a nonce that is sent once and refused as a replay",
    [sent(0, "m", 1), answered(1, "refused", "PROXY_AUTH_REPLAY")],
    1,
  ],
  ["a replay that is refused", [sent(0, "m", 1), sent(0, "m", 2), answered(2, "refused", "PROXY_AUTH_REPLAY")], 0],
  ["a message accepted after a revocation", [
    { at: 0, kind: "revoked", agent: 0 },
    sent(1_001, "m", 1),
    answered(1, "delivered"),
    received("m"),
  ], 1],
  ["a message accepted after its pair ended", [
    { at: 0, kind: "unpaired", agents: [1, 0] },
    sent(1_001, "m", 1),
    answered(1, "delivered"),
    received("m"),
  ], 1],
  ["a message on an older link", [
    { at: 0, kind: "opened", agent: 1, link: 2, instance: 1 },
    sent(1, "m", 1),
    answered(1, "delivered"),
    received("m", 1),
  ], 1],
  ["a queued message on an older link", [
    { at: 0, kind: "opened", agent: 1, link: 2, instance: 1 },
    sent(1, "m", 1),
    answered(1, "queued"),
    received("m", 1),
  ], 0],
  ["two winners of an invite", [
    { at: 0, kind: "won", thing: "invite", by: "0" },
    { at: 0, kind: "won", thing: "invite", by: "1" },
  ], 1],
  ["two live refresh tokens", [{ at: 0, kind: "live_tokens", agent: 0, count: 2 }], 1],
  ["a client that cannot work again", [{ at: 0, kind: "stuck", who: "agent 0", why: "no link" }], 1],
];

for (const [what, history, count] of CASES) {
  Deno.test(`the rules of the chaos suite report ${count === 0 ? "nothing" : "a violation"} for ${what}`, () => {
    assertEquals(violationsOf(history).length, count, violationsOf(history).join("\n"));
  });
}
