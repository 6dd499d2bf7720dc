/**
 * The platform table: every supported agent runtime, and the inbox for agents without one. This file also finds out
 * which of them are on a machine. A row has the runtime's address, timeout, request, replies and set-up, so a new
 * runtime is one row and no new path in the code.
 */
import { A2A } from "./a2a.ts";
import { GENERIC } from "./generic.ts";
import { HERMES } from "./hermes.ts";
import { NANOBOT } from "./nanobot.ts";
import { OPENCLAW } from "./openclaw.ts";
import {
  type Confidence,
  type Finding,
  type Machine,
  type Platform,
  PLATFORM_IDS,
  type PlatformId,
  type PullPlatform,
  type PushPlatform,
  type PushPlatformId,
} from "./platform.ts";

/** No runtime: a program reads the messages from the local API of the connector. */
const INBOX: PullPlatform = { id: "inbox", name: "the inbox of the connector" };

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

const UNSEEN: Finding = { confidence: "none", reasons: [], configPath: null };
const RANK: Record<Confidence, number> = { high: 2, medium: 1, none: 0 };

export async function detectAll(machine: Machine): Promise<Detected[]> {
  const found = await Promise.all(
    PLATFORM_IDS.map(async (id) => {
      const platform: Platform = PLATFORMS[id];
      // A pull platform is chosen by name only, because nothing on a machine shows that it is wanted.
      const finding = platform.id === "inbox" ? UNSEEN : await platform.detect(machine, null);
      return { platform: id, name: platform.name, ...finding };
    }),
  );
  return found.sort((a, b) => RANK[b.confidence] - RANK[a.confidence]);
}

/** The platform to use when none is named; `null` when none is found, or several have the same confidence. */
export function likeliest(found: readonly Detected[]): Detected | null {
  const [first, second] = found;
  if (first === undefined || first.confidence === "none") return null;
  return second?.confidence === first.confidence ? null : first;
}
