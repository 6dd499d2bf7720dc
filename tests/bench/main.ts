/**
 * `deno task bench`: starts real servers and real clients on loopback, measures one row after the other, and prints a
 * table. A ratio is a result; a time is not. The only assertion is that every message arrives unchanged.
 *
 *   deno task bench [--quick | --full] [--only <text>] [--json] [--profile <folder>]
 */
import { parseArgs } from "node:util";
import { type Finished, type Outcome, table } from "./figures.ts";
import { type Row, ROWS } from "./rows.ts";
import { type ScaleName, SCALES } from "./scale.ts";
import { World } from "./world.ts";

interface Options {
  scale: ScaleName;
  only: string;
  json: boolean;
  profiles: string | null;
}

/** The row in progress, for a signal. */
let current: World | null = null;

function readOptions(args: string[]): Options {
  try {
    const { quick, full, only = "", json, profile } = parseArgs({
      args,
      options: {
        quick: { type: "boolean", default: false },
        full: { type: "boolean", default: false },
        only: { type: "string" },
        json: { type: "boolean", default: false },
        profile: { type: "string" },
      },
    }).values;
    if (quick && full) throw new TypeError("--quick and --full exclude each other");
    return { scale: quick ? "quick" : full ? "full" : "usual", only, json, profiles: profile ?? null };
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    console.error("usage: deno task bench [--quick | --full] [--only <text>] [--json] [--profile <folder>]");
    Deno.exit(2);
  }
}

/** Prints the progress to a terminal, and nothing to a file. */
function tell(row: string, what: string): void {
  if (!Deno.stderr.isTerminal()) return;
  Deno.stderr.writeSync(new TextEncoder().encode(`\r\x1b[K${row}: ${what}`));
}

function clear(): void {
  if (Deno.stderr.isTerminal()) Deno.stderr.writeSync(new TextEncoder().encode("\r\x1b[K"));
}

async function measured(row: Row, { scale, profiles }: Options): Promise<Finished> {
  const began = performance.now();
  let outcome: Outcome;
  try {
    await using world = new World(SCALES[scale], profiles, (what) => tell(row.name, what));
    current = world;
    world.say("starting");
    outcome = await row.measure(world);
    world.say("ending");
  } catch (error) {
    outcome = { failed: error instanceof Error ? error.message : String(error) };
  } finally {
    current = null;
  }
  clear();
  return { name: row.name, seconds: (performance.now() - began) / 1000, ...outcome };
}

function endOn(signal: Deno.Signal, code: number): void {
  Deno.addSignalListener(signal, () => {
    clear();
    current?.kill();
    Deno.exit(code);
  });
}

async function main(args: string[]): Promise<void> {
  const options = readOptions(args);
  endOn("SIGINT", 130);
  endOn("SIGTERM", 143);
  const machine = {
    deno: Deno.version.deno,
    os: `${Deno.build.os} ${Deno.build.arch}`,
    cores: navigator.hardwareConcurrency,
    loadBefore: Deno.loadavg()[0],
    scale: options.scale,
    startedAt: new Date().toISOString(),
  };
  const rows: Finished[] = [];
  for (const row of ROWS.filter(({ name }) => name.includes(options.only))) rows.push(await measured(row, options));
  if (options.json) console.log(JSON.stringify({ machine, rows }, null, 2));
  else {
    console.log(`${Object.entries(machine).map(([name, value]) => `${name} ${value}`).join(" · ")}\n`);
    console.log(
      `${
        table(rows)
      }\n\n▸ ratio of two numbers of this run: a result. All other figures hold only for this machine and this run.`,
    );
  }
  if (rows.length === 0) console.error(`no row name contains "${options.only}"`);
  Deno.exit(rows.length === 0 || rows.some((row) => "failed" in row) ? 1 : 0);
}

if (import.meta.main) await main(Deno.args);
