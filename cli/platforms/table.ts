/**
 * The platform table: every supported agent runtime, and the inbox for agents without one; and which of them are on a
 * machine, with evidence. A new runtime is one row and no new path in the code.
 */
import { A2A } from "./a2a.ts";
import { HERMES } from "./hermes.ts";
import { NANOBOT } from "./nanobot.ts";
import { OPENCLAW } from "./openclaw.ts";
import {
  type Platform,
  PLATFORM_IDS,
  type PlatformId,
  type PullPlatform,
  type PushPlatform,
  type PushPlatformId,
  senderHeaders,
} from "./platform.ts";
import type { Confidence, Finding, Machine } from "./machine.ts";
import { payloadOf } from "./message_text.ts";
import { topLevelMembers } from "../../shared/protocol/json_text.ts";
import { tryParse } from "./settings.ts";

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
    const authorization = hookToken === null ? {} : { Authorization: `Bearer ${hookToken}` };
    return Promise.resolve({ headers: { ...senderHeaders(message), ...authorization }, body: payloadOf(message) });
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

/** No runtime: a program reads the messages from the local API of the connector (D-116). */
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
