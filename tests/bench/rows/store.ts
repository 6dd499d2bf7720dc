/**
 * The store alone: what one commit costs where the service keeps its records, and what a record costs when a hundred
 * share a commit. Nothing of the service runs.
 */
import { figure, type Outcome, ratio } from "../figures.ts";
import { ROOT } from "../child.ts";
import type { World } from "../world.ts";

interface Cost {
  us: number;
  cpuUs: number;
}

/** What a commit costs that holds one record, and a record that shares one with ninety-nine. */
export async function bareCommits(world: World): Promise<{ single: Cost; each: Cost }> {
  const path = world.newStore();
  const leave = ["read", "write"].map((kind) => `--allow-${kind}=${world.folder}`);
  const file = `${ROOT}/tests/bench/commits.ts`;
  const child = world.spawn(["run", "--no-prompt", ...leave, file, path, String(world.scale.commits)]);
  return JSON.parse(await child.line()) as { single: Cost; each: Cost };
}

export async function commit(world: World): Promise<Outcome> {
  const { single, each } = await bareCommits(world);
  return {
    figures: [
      figure("one record in a commit", single.us, "µs"),
      figure("one record in a commit: CPU", single.cpuUs, "µs"),
      figure("one of a hundred in a commit", each.us, "µs"),
      figure("one of a hundred in a commit: CPU", each.cpuUs, "µs"),
      ratio("alone / one of a hundred", single.us, each.us),
    ],
  };
}
