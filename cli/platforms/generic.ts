/** Any program that accepts a POST: the payload is the body, the sender is in headers, and a 2xx accepts the message. */
import { payloadOf } from "./message_text.ts";
import { type PushPlatform, senderHeaders } from "./platform.ts";

export const GENERIC: PushPlatform = {
  delivery: "push",
  id: "generic",
  name: "a generic webhook",
  defaults: { baseUrl: "http://127.0.0.1:18789", hookPath: "/hooks/agent" },
  timeoutMs: 10_000,
  needsToken: false,
  health: null,

  request(message, { hookToken }) {
    const authorization = hookToken === null ? {} : { Authorization: `Bearer ${hookToken}` };
    return Promise.resolve({ headers: { ...senderHeaders(message), ...authorization }, body: payloadOf(message) });
  },

  detect: () => Promise.resolve({ confidence: "none", reasons: [], configPath: null }),

  plan: (_machine, { target: { hookToken, hookPath } }) =>
    Promise.resolve({ changes: [], steps: [], hookToken, hookPath }),
};
