/** Anything that takes a POST: the payload as it came, the sender in headers, a 2xx accepts. */
import { type Platform, senderHeaders } from "./platform.ts";

export const GENERIC: Platform = {
  id: "generic",
  name: "a generic webhook",
  defaults: { baseUrl: "http://127.0.0.1:18789", hookPath: "/hooks/agent" },
  timeoutMs: 10_000,
  needsToken: false,
  health: null,

  request(message, { hookToken }) {
    const authorization = hookToken === null ? {} : { Authorization: `Bearer ${hookToken}` };
    return Promise.resolve({ headers: { ...senderHeaders(message), ...authorization }, body: message.payload });
  },

  detect: () => Promise.resolve({ confidence: "none", reasons: [], configPath: null }),

  plan: (_machine, { target: { hookToken, hookPath } }) =>
    Promise.resolve({ changes: [], steps: [], hookToken, hookPath }),
};
