/**
 * nanobot: an OpenAI-compatible API, `POST /v1/chat/completions`, with one user message per request. It answers when
 * the run has ended, and its answer goes back to the sender. It has no request IDs, so it cannot recognise a duplicate.
 */
import { join } from "node:path";
import * as z from "zod";
import { confidenceOf, type PushPlatform, senderHeaders, textOf } from "./platform.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";

const Choice = z.object({ message: z.object({ content: z.string() }) });
const Completion = z.object({ choices: z.tuple([Choice], z.unknown()) });

const BASE_URL = "http://127.0.0.1:8900";

export const NANOBOT: PushPlatform = {
  id: "nanobot",
  name: "nanobot",
  defaults: { baseUrl: BASE_URL, hookPath: "/v1/chat/completions" },
  timeoutMs: 120_000,
  needsToken: false,
  repliesByDefault: true,
  health: { path: "/health", isHealthy: (status) => status === 200 },

  request(message, { hookToken }) {
    const body = JSON.stringify({
      messages: [{ role: "user", content: textOf(message) }],
      // Made from the sender's DID, because a peer with a free choice could join the conversation of another.
      session_id: message.session === null ? message.fromDid : `${message.fromDid}#${message.session}`,
    });
    return Promise.resolve({ headers: senderHeaders(message, hookToken), body });
  },

  replyOf(text) {
    const { success, data } = Completion.safeParse(tryParse(text));
    return success ? { text: data.choices[0].message.content } : null;
  },

  async detect(machine, stateDir) {
    const reasons: string[] = [];
    const folder = stateDir ?? (machine.home === null ? null : join(machine.home, ".nanobot"));
    const configPath = folder === null ? null : join(folder, "config.json");
    if (configPath !== null && await machine.exists(configPath)) reasons.push(`its settings are at ${configPath}`);
    const version = await machine.run("nanobot", ["--version"]);
    if (version !== null && /nanobot/i.test(version)) reasons.push(`${version.trim()} is installed`);
    const [health, models] = [await machine.ask(`${BASE_URL}/health`), await machine.ask(`${BASE_URL}/v1/models`)];
    const isLive = health?.status === 200 && models?.status === 200;
    if (isLive) reasons.push(`its API answers at ${BASE_URL}`);
    return { confidence: confidenceOf(reasons, isLive), reasons, configPath, baseUrl: BASE_URL };
  },

  plan(_machine, { target: { hookToken } }) {
    // There is nothing to change, because its API needs no settings.
    return Promise.resolve({ change: null, steps: ["Run its API: nanobot serve"], hookToken });
  },
};
