/**
 * `deno task bench`: starts real servers and real clients on loopback, measures one row after the other, and prints a
 * table. A ratio is a result; a time is not. The only assertion is that every message arrives unchanged. With
 * `--against` it measures one row: a message of this version and of another one, in turns. `--svg` draws the result.
 */
import { type Finished, type Outcome, type Report, table } from "./figures.ts";
import { type Options, readOptions, USAGE } from "./options.ts";
import { plot, readReport } from "./plot.ts";
import { type Row, ROWS } from "./rows.ts";
import { against, comparisonScale } from "./rows/against.ts";
import { type Scale, SCALES } from "./scale.ts";
import { World } from "./world.ts";

/** The rows of a run, with their sizes. */
interface Work {
  rows: readonly Row[];
  scale: Scale;
}

/** The row in progress, for a signal. */
let current: World | null = null;

function optionsOrExit(args: string[]): Options {
  try {
    return readOptions(args);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    console.error(USAGE);
    Deno.exit(2);
  }
}

/** Returns what the options ask for. Exits with 2 when the folder of the other version has no service. */
function workOf(options: Options): Work {
  const scale: Scale = SCALES[options.scale];
  if (options.against === null) return { rows: ROWS.filter(({ name }) => name.includes(options.only)), scale };
  const root = serviceRoot(options.against);
  const measure = (world: World) => against(world, root);
  return { rows: [{ name: "this version against another", measure }], scale: comparisonScale(scale, options.rounds) };
}

function serviceRoot(folder: string): string {
  try {
    const root = Deno.realPathSync(folder);
    Deno.statSync(`${root}/deploy.ts`);
    return root;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.error(
      `--against: ${folder} has no deploy.ts; name the root folder of a checkout, as git worktree makes it`,
    );
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

async function measured(row: Row, scale: Scale, profiles: string | null): Promise<Finished> {
  const began = performance.now();
  let outcome: Outcome;
  try {
    await using world = new World(scale, profiles, (what) => tell(row.name, what));
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

/** Writes the plot. Exits with 1 when there is nothing to draw, or the file cannot be written. */
function draw(reports: readonly Report[], file: string): void {
  try {
    Deno.writeTextFileSync(file, plot(reports));
  } catch (error) {
    console.error(`--svg: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}

function storedReports(files: readonly string[]): Report[] {
  return files.map((file) => {
    try {
      return readReport(Deno.readTextFileSync(file));
    } catch (error) {
      console.error(`--from: ${file}: ${error instanceof Error ? error.message : error}`);
      Deno.exit(2);
    }
  });
}

async function main(args: string[]): Promise<void> {
  const options = optionsOrExit(args);
  const { svg } = options;
  if (svg !== null && options.from.length > 0) return draw(storedReports(options.from), svg);
  const work = workOf(options);
  endOn("SIGINT", 130);
  endOn("SIGTERM", 143);
  const machine = {
    deno: Deno.version.deno,
    os: `${Deno.build.os} ${Deno.build.arch}`,
    cores: navigator.hardwareConcurrency,
    loadBefore: Deno.loadavg()[0] ?? 0,
    scale: options.scale,
    startedAt: new Date().toISOString(),
  };
  const rows: Finished[] = [];
  for (const row of work.rows) rows.push(await measured(row, work.scale, options.profiles));
  if (options.json) console.log(JSON.stringify({ machine, rows }, null, 2));
  else {
    console.log(`${Object.entries(machine).map(([name, value]) => `${name} ${value}`).join(" · ")}\n`);
    console.log(
      `${
        table(rows)
      }\n\n▸ ratio of two numbers of this run: a result. All other figures hold only for this machine and this run.`,
    );
  }
  if (svg !== null) draw([{ machine, rows }], svg);
  if (rows.length === 0) console.error(`no row name contains "${options.only}"`);
  Deno.exit(rows.length === 0 || rows.some((row) => "failed" in row) ? 1 : 0);
}

if (import.meta.main) await main(Deno.args);
