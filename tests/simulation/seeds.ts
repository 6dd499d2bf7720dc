/**
 * The seeds of a test run: `-- --seeds n` (default 12), or the one of `-- --seed n` with its log printed. A failure
 * shows the violated invariant, the last lines of the log, and the command that repeats it.
 */
import { lineOf } from "./events.ts";
import { Simulation, violations } from "./simulation.ts";

const USUAL_SEEDS = 12;
const LINES = 30;

/** A number that follows a flag. */
function said(flag: string): number | null {
  const at = Deno.args.indexOf(flag);
  const number = at === -1 ? NaN : Number(Deno.args[at + 1]);
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

/** The seeds of one of several test files that run at the same time. */
export function seedsOf(file: number, files: number): number[] {
  const one = said("--seed");
  const all = one === null ? Array.from({ length: said("--seeds") ?? USUAL_SEEDS }, (_, i) => i + 1) : [one];
  return all.filter((seed) => seed % files === file);
}

/**
 * Runs a seed.
 *
 * @throws {Error} when an invariant does not hold
 */
export async function runSeed(seed: number): Promise<void> {
  const run = await Simulation.run(seed);
  const lines = run.log.map(lineOf);
  if (said("--seed") !== null) console.log(lines.join("\n"));
  const problems = violations(run);
  if (problems.length === 0) return;
  throw new Error([
    ...problems.map(({ invariant, problem }) => `Seed ${seed} breaks ${invariant}: ${problem}`),
    ...lines.slice(-LINES),
    "Repeat it with:",
    `deno test --no-prompt --allow-read --allow-write tests/simulation/seeds_${
      seed % 2 ? "odd" : "even"
    }_test.ts -- --seed ${seed}`,
  ].join("\n"));
}
