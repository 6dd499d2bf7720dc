/**
 * Any program that accepts a POST: the payload is the body, the sender is in headers, and a 2xx accepts the message.
 * With replies on, the member `reply` of its JSON answer goes back to the sender.
 */
import { isRecord, memberText, tryParse } from "../../shared/protocol/json_text.ts";
import { payloadOf, type PushPlatform, senderHeaders } from "./platform.ts";

export const GENERIC: PushPlatform = {
  id: "generic",
  name: "a generic webhook",
  defaults: { baseUrl: "http://127.0.0.1:18789", hookPath: "/hooks/agent" },
  timeoutMs: 10_000,
  needsToken: false,
  // Off, because the answers of an internal service would otherwise go to peers.
  repliesByDefault: false,
  health: null,

  request(message, { hookToken }) {
    return Promise.resolve({ headers: senderHeaders(message, hookToken), body: payloadOf(message) });
  },

  /** The member `reply` of a JSON object: a text, or an object that is passed on byte for byte. */
  replyOf(text) {
    if (tryParse(text) === null) return null;
    const json = memberText(text, "reply");
    if (json === undefined) return null;
    const reply: unknown = JSON.parse(json);
    if (typeof reply === "string") return { text: reply };
    return isRecord(reply) ? { payload: json } : null;
  },

  detect: () => Promise.resolve({ confidence: "none", reasons: [], configPath: null }),

  plan: (_machine, { target: { hookToken } }) => Promise.resolve({ change: null, steps: [], hookToken }),
};
