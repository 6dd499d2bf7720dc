/**
 * Time of `svc send` without a running connector as the compiled program, and the share that its start takes. The row is
 * skipped when there is no compiled program.
 */
import { clientFromFiles } from "../../cli/connector/people.ts";
import { ROOT } from "../../support/process.ts";
import { figure, median, type Outcome, ratio } from "../figures.ts";
import type { World } from "../world.ts";

const PROGRAM = `${ROOT}/dist/svc`;
const RUNS = 3;
const RUN_MS = 20_000;
const GOAL_MS = 500;

export async function send(world: World): Promise<Outcome> {
  if (!await Deno.stat(PROGRAM).then(({ isFile }) => isFile, () => false)) {
    return { skipped: "there is no dist/svc; run deno task compile" };
  }
  const { place, admin } = await world.together();
  const { registryUrl, proxyUrl } = place;
  const dir = `${world.folder}/send`;
  const env = {
    SVC_CONFIG_DIR: dir,
    SVC_REGISTRY_URL: registryUrl,
    SVC_PROXY_URL: proxyUrl,
    SVC_API_KEY: admin.apiKey,
  };
  for (const name of ["alpha", "beta"]) await timed(world, ["agent", "create", name], env);
  const [alpha, beta] = await Promise.all([
    clientFromFiles(dir, "alpha", proxyUrl),
    clientFromFiles(dir, "beta", proxyUrl),
  ]);
  const { ticket } = await alpha.pairStart({ agentName: "alpha", humanName: "A" });
  await beta.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
  // The first message also reads the peers and saves their aliases. No connector has checked the ticket of this pair, so
  // beta is a contact.
  const line = ["send", "contact-beta", "Hello beta", "--agent", "alpha"];
  await timed(world, line, env);
  const sends: number[] = [], starts: number[] = [];
  for (let i = 0; i < world.scale.starts * RUNS; i++) {
    world.say(`send ${i + 1}`);
    sends.push(await timed(world, line, env));
    starts.push(await timed(world, ["--version"], env));
  }
  const [sent, started] = [median(sends), median(starts)];
  return {
    figures: [
      figure("svc send without a connector", sent, "ms"),
      figure("svc --version", started, "ms"),
      ratio("svc --version / svc send: share of the start", started, sent),
      ratio(`svc send / ${GOAL_MS} ms`, sent, GOAL_MS, { atMost: 1 }),
    ],
  };
}

/** Runs the program and returns the milliseconds until its end. */
async function timed(world: World, args: string[], env: Record<string, string>): Promise<number> {
  const began = performance.now();
  const { success } = await world.spawn(args, env, PROGRAM).ended(RUN_MS);
  if (!success) throw new Error(`svc ${args.join(" ")} failed`);
  return performance.now() - began;
}
