/**
 * The platform table: every supported agent runtime, and the inbox for agents without one; and which of them are on a
 * machine, with evidence. A new runtime is one row and no new path in the code.
 */
import { A2A } from "./a2a.ts";
import { HERMES } from "./hermes.ts";
import { OPENCLAW } from "./openclaw.ts";
import {
  type Confidence,
  confidenceOf,
  type Finding,
  type Machine,
  payloadOf,
  type Platform,
  PLATFORM_IDS,
  type PlatformId,
  type PullPlatform,
  type PushPlatform,
  type PushPlatformId,
  senderHeaders,
  textOf,
} from "./platform.ts";
import { topLevelMembers } from "../../shared/protocol/json_text.ts";
import { tryParse } from "./settings.ts";
import { join } from "node:path";
import * as z from "zod";

const Choice = z.object({ message: z.object({ content: z.string() }) });
const Completion = z.object({ choices: z.tuple([Choice], z.unknown()) });

const BASE_URL = "http://127.0.0.1:8900";

/**
 * nanobot: an OpenAI-compatible API, `POST /v1/chat/completions`, with one user message per request. It answers when the
 * run has ended, and its answer goes back to the sender. It has no request IDs, so it cannot recognise a duplicate.
 */
const NANOBOT: PushPlatform = {
  delivery: "push",
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
      // Contains the sender's DID, because with a free choice a peer could join the conversation of another.
      session_id: message.session === null ? message.fromDid : `${message.fromDid}#${message.session}`,
    });
    return Promise.resolve({ headers: senderHeaders(message, hookToken), body });
  },

  replyOf({ text }) {
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

  plan(_machine, { target: { hookToken, hookPath } }) {
    // Its API needs no settings.
    return Promise.resolve({ changes: [], steps: ["Run its API: nanobot serve"], hookToken, hookPath });
  },
};

/**
 * Any program that accepts a POST: the payload is the body, the sender is in headers, and a 2xx accepts the message. With
 * replies on, the member `reply` of its JSON answer goes back to the sender.
 */
const GENERIC: PushPlatform = {
  delivery: "push",
  id: "generic",
  name: "a generic webhook",
  defaults: { baseUrl: "http://127.0.0.1:18789", hookPath: "/hooks/agent" },
  timeoutMs: 10_000,
  needsToken: false,
  // An internal service must not begin to leak its answers.
  repliesByDefault: false,
  health: null,

  request(message, { hookToken }) {
    return Promise.resolve({ headers: senderHeaders(message, hookToken), body: payloadOf(message) });
  },

  /** The member `reply` of a JSON object: a text, or an object that is passed on byte for byte. */
  replyOf({ text }) {
    if (tryParse(text) === null) return null;
    const member = topLevelMembers(text).findLast(({ key }) => key === "reply");
    if (member === undefined) return null;
    const json = text.slice(member.start, member.end);
    const reply: unknown = JSON.parse(json);
    if (typeof reply === "string") return { text: reply };
    return typeof reply === "object" && reply !== null && !Array.isArray(reply) ? { payload: json } : null;
  },

  detect: () => Promise.resolve({ confidence: "none", reasons: [], configPath: null }),

  plan: (_machine, { target: { hookToken, hookPath } }) =>
    Promise.resolve({ changes: [], steps: [], hookToken, hookPath }),
};

/** No runtime: a program reads the messages from the local API of the connector. */
const INBOX: PullPlatform = { delivery: "pull", id: "inbox", name: "the inbox of the connector" };

export const PLATFORMS: Readonly<Record<PushPlatformId, PushPlatform> & { inbox: PullPlatform }> = Object.freeze({
  openclaw: OPENCLAW,
  hermes: HERMES,
  nanobot: NANOBOT,
  generic: GENERIC,
  a2a: A2A,
  inbox: INBOX,
});

export interface Detected extends Finding {
  platform: PlatformId;
  name: string;
}

const RANK: Record<Confidence, number> = { high: 3, medium: 2, low: 1, none: 0 };

/** The result for every platform, highest confidence first. */
export async function detectAll(machine: Machine): Promise<Detected[]> {
  const found = await Promise.all(
    PLATFORM_IDS.map(async (id) => {
      const platform: Platform = PLATFORMS[id];
      return { platform: id, name: platform.name, ...await findingOf(platform, machine) };
    }),
  );
  return found.sort((a, b) => RANK[b.confidence] - RANK[a.confidence]);
}

/** A pull platform is chosen by name only: nothing on a machine shows that it is wanted. */
async function findingOf(platform: Platform, machine: Machine): Promise<Finding> {
  if (platform.delivery === "push") return await platform.detect(machine, null);
  return { confidence: "none", reasons: [], configPath: null };
}

/** The platform to use when none is named; `null` when none is found, or several have the same confidence. */
export function likeliest(found: readonly Detected[]): Detected | null {
  const [first, second] = found;
  if (first === undefined || first.confidence === "none") return null;
  return second?.confidence === first.confidence ? null : first;
}
