/** Which agent runtimes are on a machine (D-90): every row of the table is asked, with reasons. Changes nothing. */
import type { Confidence, Finding, Machine } from "./machine.ts";
import { PLATFORM_IDS, type PlatformId } from "./platform.ts";
import { PLATFORMS } from "./table.ts";

export interface Detected extends Finding {
  platform: PlatformId;
  name: string;
}

const RANK: Record<Confidence, number> = { high: 3, medium: 2, low: 1, none: 0 };

/** All of them, the surest first. */
export async function detectAll(machine: Machine): Promise<Detected[]> {
  const found = await Promise.all(
    PLATFORM_IDS.map(async (platform) => ({
      platform,
      name: PLATFORMS[platform].name,
      ...await PLATFORMS[platform].detect(machine, null),
    })),
  );
  return found.sort((a, b) => RANK[b.confidence] - RANK[a.confidence]);
}

/** The one that is meant when nobody says which; `null` when none is there, or several are equally likely. */
export function likeliest(found: readonly Detected[]): Detected | null {
  const [first, second] = found;
  if (first === undefined || first.confidence === "none") return null;
  return second?.confidence === first.confidence ? null : first;
}
