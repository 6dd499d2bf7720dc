/**
 * Time from the start to the first success: the service on a used store, compared with a bare server; and `--version` of
 * the command, from its sources and compiled, compared with an empty program. The row of the compiled program is skipped
 * when there is none.
 */
import { ROOT } from "../../support/process.ts";
import { pause } from "../child.ts";
import { figure, median, type Outcome, ratio } from "../figures.ts";
import { freePort, revoke, type World } from "../world.ts";

const START_MS = 20_000;
const PROGRAM = `${ROOT}/dist/svc`;
const PROGRAM_RUNS = 3;
const COMPILE_MS = 120_000;

export async function server(world: World): Promise<Outcome> {
  const port = freePort();
  const { args, variables } = world.serviceCommand({ PORT: String(port), KV_URL: await usedStore(world, port) });
  const own: number[] = [], bare: number[] = [];
  for (let i = 1; i <= world.scale.starts; i++) {
    world.say(`start ${i}`);
    own.push(await untilHealthy(world, args, variables, port));
    const barePort = freePort();
    const file = [`${ROOT}/tests/bench/bare.ts`, "0", String(barePort)];
    bare.push(await untilHealthy(world, ["--allow-net=127.0.0.1", ...file], {}, barePort));
  }
  return {
    figures: [
      figure("service: start to first 200 of /health", median(own), "ms"),
      figure("bare server: start to first 200", median(bare), "ms"),
      ratio("service / bare: start", median(own), median(bare)),
    ],
  };
}

export async function command(world: World): Promise<Outcome> {
  const empty = `${world.folder}/empty.ts`;
  await Deno.writeTextFile(empty, "");
  const run = ["run", "--quiet", "--no-prompt"];
  const own: number[] = [], least: number[] = [];
  for (let i = 0; i < world.scale.starts * PROGRAM_RUNS; i++) {
    world.say(`start ${i + 1}`);
    own.push(await untilEnded(world, Deno.execPath(), [...run, "-P=svc", `${ROOT}/svc.ts`, "--version"]));
    least.push(await untilEnded(world, Deno.execPath(), [...run, empty]));
  }
  return {
    figures: [
      figure("svc --version with Deno", median(own), "ms"),
      figure("empty file with Deno", median(least), "ms"),
      ratio("svc --version / empty file: start with Deno", median(own), median(least)),
    ],
  };
}

export async function program(world: World): Promise<Outcome> {
  if (!await exists(PROGRAM)) return { skipped: "there is no dist/svc; run deno task compile" };
  const denort = Deno.env.get("DENORT_BIN");
  if (!denort) return { skipped: "DENORT_BIN is not set, so that no empty program can be compiled beside dist/svc" };
  const compiler = Deno.env.get("COMPILE_DENO") ?? Deno.execPath();
  const empty = await compiledEmpty(world, compiler, denort);
  if (empty === null) {
    return { skipped: `what ${compiler} compiles with DENORT_BIN does not run; COMPILE_DENO names the Deno it is of` };
  }
  const own: number[] = [], least: number[] = [];
  for (let i = 0; i < world.scale.starts * PROGRAM_RUNS; i++) {
    own.push(await untilEnded(world, PROGRAM, ["--version"]));
    least.push(await untilEnded(world, empty, []));
  }
  return {
    figures: [
      figure("svc --version", median(own), "ms"),
      figure("empty program", median(least), "ms"),
      ratio("svc --version / empty program", median(own), median(least), { atMost: 1.5 }),
    ],
  };
}

/** Compiles an empty program. Returns its path, or `null` when compiler and stub do not match. */
async function compiledEmpty(world: World, compiler: string, denort: string): Promise<string | null> {
  const source = `${world.folder}/empty.ts`, empty = `${world.folder}/empty`;
  await Deno.writeTextFile(source, "");
  const args = ["compile", "--quiet", "--no-check", "--output", empty, source];
  const compiled = await world.spawn(args, { DENORT_BIN: denort }, compiler).ended(COMPILE_MS);
  if (!compiled.success) return null;
  const { success } = await world.spawn([], {}, empty).ended(START_MS);
  return success ? empty : null;
}

/** Returns the path of a store with an admin, an agent and a revocation, left by a stopped server. */
async function usedStore(world: World, port: number): Promise<string> {
  const store = world.newStore();
  const { place, admin } = await world.together({ PORT: String(port), KV_URL: store });
  const { registryUrl, children: [child] } = place;
  const { ids } = await world.load().ask("register", { registryUrl, apiKeys: [admin.apiKey], count: 1 });
  await revoke(place, admin, ids[0] ?? "");
  await child?.end();
  return store;
}

/** Returns the milliseconds from spawning to the first 200 of `/health`. */
async function untilHealthy(world: World, args: string[], env: Record<string, string>, port: number): Promise<number> {
  const began = performance.now();
  const child = world.spawn(["run", "--no-prompt", ...args], env);
  while (performance.now() - began < START_MS) {
    try {
      const answer = await fetch(`http://127.0.0.1:${port}/health`);
      await answer.body?.cancel();
      if (answer.status === 200) {
        const took = performance.now() - began;
        await child.end();
        return took;
      }
    } catch (error) {
      // The server does not listen yet.
      if (!(error instanceof TypeError)) throw error;
    }
    await pause(2);
  }
  throw new Error(`The server was not healthy within ${START_MS} ms`);
}

async function untilEnded(world: World, path: string, args: string[]): Promise<number> {
  const began = performance.now();
  const { success } = await world.spawn(args, {}, path).ended(START_MS);
  if (!success) throw new Error(`${path} failed`);
  return performance.now() - began;
}

async function exists(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
