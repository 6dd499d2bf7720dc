/** Detects the agent runtimes on a machine (D-90), with evidence, by every row of the table. Changes nothing. */
import type { Confidence, Finding, Machine } from "./machine.ts";
import { type Platform, PLATFORM_IDS, type PlatformId } from "./platform.ts";
import { PLATFORMS } from "./table.ts";

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
