/**
 * Faults from a seed on three instances with one denokv and twelve agents: `-- --seeds n` for the first n seeds,
 * `-- --seed n` for one, `-- --broken nonce|fence|retry` against a build without that protection: seeds 1, 1 and 2 have
 * found the loss; another run of a seed may miss it. A failing seed prints the shortest history that still fails.
 */
import { findDenokv } from "../support/denokv.ts";
import { breakBuild, type Broken } from "./chaos/broken.ts";
import { findFaketime } from "./chaos/cluster.ts";
import { countsOf, lineOf } from "./chaos/history.ts";
import { type ChaosEvent, planOf } from "./chaos/plan.ts";
import { type Outcome, runPlan } from "./chaos/run.ts";

/** Seeds of the gate, and the time in which it runs further ones. */
const USUAL_SEEDS = 3;
const FURTHER_MS = 95_000;
const LINES = 60;

function said(flag: string): string | undefined {
  const at = Deno.args.indexOf(flag);
  return at === -1 ? undefined : Deno.args[at + 1];
}

const denokv = await findDenokv();
const hasClock = await findFaketime() !== null;
if (!hasClock) console.log("skipped: events of clocks; no libfaketime; apt-get install faketime");
const isByHand = ["--seed", "--seeds", "--from"].some((flag) => Deno.args.includes(flag));
const first = Number(said("--seed") ?? said("--from") ?? 1);
const count = said("--seed") ? 1 : Number(said("--seeds") ?? USUAL_SEEDS);
const broken = said("--broken") as Broken | undefined;

/** Removes events one by one while the run still fails, in one of two tries. */
async function shortest(
  plan: readonly ChaosEvent[],
  outcome: Outcome,
  run: (plan: readonly ChaosEvent[]) => Promise<Outcome>,
) {
  let left = [...plan], failed = outcome;
  for (const event of plan) {
    const fewer = left.filter((one) => one !== event);
    for (let tries = 0; tries < 2; tries++) {
      const again = await run(fewer);
      if (again.violations.length === 0) continue;
      [left, failed] = [fewer, again];
      break;
    }
  }
  return { plan: left, ...failed };
}

/** Runs the faults of a seed. @throws {Error} with the shortest history that still fails */
async function runSeed(seed: number): Promise<void> {
  const build = broken ? await breakBuild(broken) : null;
  try {
    const run = (plan: readonly ChaosEvent[]) => runPlan(denokv ?? "", plan, seed, build?.entry);
    const plan = planOf(seed, hasClock);
    const outcome = await run(plan);
    if (isByHand) console.log(`seed ${seed}: ${countsOf(outcome.history)}`);
    if (outcome.violations.length === 0) return;
    console.log(`seed ${seed}: ${outcome.violations.slice(0, 5).join("\n")}`);
    const found = Deno.args.includes("--whole") ? { plan, ...outcome } : await shortest(plan, outcome, run);
    throw new Error([
      ...found.violations,
      "with these events:",
      ...found.plan.map((event) => JSON.stringify(event)),
      "and these facts:",
      ...relevant(found).map(lineOf),
      "Repeat it with:",
      `deno test -A tests/soak/chaos_test.ts -- --seed ${seed}${broken ? ` --broken ${broken}` : ""}`,
    ].join("\n"));
  } finally {
    await build?.[Symbol.asyncDispose]();
  }
}

for (let seed = first; seed < first + count; seed++) {
  Deno.test({
    name: `three instances on denokv keep every rule under the faults of seed ${seed}`,
    ignore: denokv === null,
    fn: () => runSeed(seed),
  });
}

if (!isByHand) {
  Deno.test({
    name: "three instances on denokv keep every rule under the faults of further seeds, as time allows",
    ignore: denokv === null,
    async fn() {
      let seed = first + count;
      for (; performance.now() < FURTHER_MS; seed++) await runSeed(seed);
      console.log(`the faults of seeds ${first} to ${seed - 1} ran`);
    },
  });
}

/** The facts about what the violations name, and every event. */
function relevant({ violations, history }: Outcome) {
  const messages = new Set(violations.map((line) => line.split(/[ :]/)[0]));
  const requests = new Set(
    history.flatMap((fact) => fact.kind === "sent" && messages.has(fact.message) ? [fact.request] : []),
  );
  return history.filter((fact) =>
    fact.kind === "event" || fact.kind === "opened" || ("message" in fact && messages.has(fact.message)) ||
    ("request" in fact && requests.has(fact.request))
  ).slice(-LINES);
}
