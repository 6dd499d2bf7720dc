/**
 * The store alone: the cost of a commit in the store that the service uses, and the cost of a record when 100 share a
 * commit. No service runs.
 */
import { figure, type Outcome, ratio } from "../figures.ts";
import { ROOT } from "../child.ts";
import type { World } from "../world.ts";

interface Cost {
  us: number;
  cpuUs: number;
}

/** Measures a commit of one record, and a record in a commit of 100. */
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
