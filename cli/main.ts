/**
 * The program `svc`: parses the command line, runs the command and returns its exit code. The only file that ends the
 * process.
 */
import { join, resolve } from "node:path";
import type { Command, RawInput } from "./command_line/command.ts";
import { commandsOf, GROUPS } from "./commands/table.ts";
import type { Authority, Context, Programs, SeenVersion, System } from "./context.ts";
import { defaultConfigDir } from "./files/config_dir.ts";
import { DEFAULT_PROFILE, profileFolder, readAuthority, savedAuthority } from "./files/profile.ts";
import { realSystem } from "./system.ts";
import { CliError, describe, type Described, EXIT } from "./errors.ts";
import { ApiError, UnreachableError } from "../shared/client/errors.ts";
import { help } from "./command_line/help.ts";
import { Output } from "./terminal/output.ts";
import { hasSwitch, type HereOptions, parse } from "./command_line/parse.ts";
import { type Clock, DAY_MS } from "../shared/clock.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { parseIso, toIso } from "../shared/protocol/time.ts";
import { readPrivate, writePrivate } from "./files/private_files.ts";
import project from "../deno.json" with { type: "json" };

/** First words of commands that a damaged profile must not stop, because they trust no server of it, or explain and undo. */
const NEEDS_NO_PROFILE: ReadonlySet<string | undefined> = new Set(
  ["serve", "store", "demo", "profile", "explain", "completions", "uninstall"],
);

/** Runs one command line. Returns the exit code. */
export async function run(argv: readonly string[], world: System): Promise<number> {
  const clockCheck = new ClockCheck(world.clock);
  const colour = world.env("NO_COLOR") === undefined;
  const out = new Output(world.terminal, world.clock, {
    json: hasSwitch(argv, "json"),
    wide: hasSwitch(argv, "wide"),
    colour,
  });
  out.concern = () => clockCheck.complaint();
  /** The agent that the command is about, for the commands in the text of an error. */
  let named: string | null = null;
  let only = () => Promise.resolve("<name>");
  let seen: SeenVersion | null = null;
  try {
    const commands = await commandsOf(argv);
    const parsed = parse(argv, commands);
    if (parsed.kind === "version") {
      out.result({ version: world.version }, world.version);
      return EXIT.done;
    }
    if (parsed.kind === "help") {
      const text = help(parsed.path, commands, GROUPS);
      out.result({ help: text }, text.split("\n"));
      return EXIT.done;
    }
    const { command, input } = parsed;
    out.groups = Object.keys(GROUPS);
    // Read only where it counts, because the demo has no permission for it.
    named = agentOf(command, input) ?? (namesAgents(command) ? world.env("SVC_AGENT") : undefined) ?? null;
    const { configDir, profile, ca } = parsed.here;
    out.hereWords = Object.entries({ "--config-dir": configDir, "--profile": profile, "--ca": ca })
      .flatMap(([name, value]) => value === undefined ? [] : [name, value]);
    if (namesAgents(command)) (await import("./agents/agent_store.ts")).checkAgentWords(command, input);
    await resolveSecrets(world, out, command, input);
    const needsProfile = !NEEDS_NO_PROFILE.has(command.path[0]);
    const ctx: Context = Object.assign(await contextOf(world, parsed.here, out, needsProfile), {
      allowInsecure: input.options["allow-insecure"] === true,
      onResponse: (headers: Headers) => clockCheck.see(headers),
      onVersion: (found: SeenVersion) => seen = found,
    });
    only = () => onlyAgent(ctx);
    const code = await command.run(ctx, input) ?? EXIT.done;
    if (seen !== null) await tellNewerVersion(ctx, seen);
    return code;
  } catch (error) {
    const described = withClock(describe(error), error, clockCheck);
    if (described.fix.includes("<name>")) described.fix = described.fix.replaceAll("<name>", named ?? await only());
    described.fix = out.withHere(described.fix);
    out.error(described);
    // For a hook of Claude Code this exit code means to wake the model, at the end of every turn.
    return argv[0] === "hook" && described.exit === EXIT.usage ? EXIT.failed : described.exit;
  } finally {
    out.finish();
  }
}

/** The agent of this machine, for the commands in the text of an error; `<name>` where there are none or several. */
async function onlyAgent(ctx: Context): Promise<string> {
  const { AgentStore } = await import("./agents/agent_store.ts");
  const { agents } = await new AgentStore(ctx).names().catch(() => ({ agents: [] }));
  return agents.length === 1 ? agents[0] ?? "<name>" : "<name>";
}

function namesAgents({ args, options }: Command): boolean {
  return [...Object.values(args), ...Object.values(options)].some(({ complete }) => complete === "agents");
}

/** The agent that a command line names; `undefined` when it names none. */
function agentOf({ args, options }: Command, input: RawInput): string | undefined {
  const given = [
    ...Object.entries(args).map(([name, spec]) => ({ ...spec, value: input.args[name] })),
    ...Object.entries(options).map(([name, spec]) => ({ ...spec, value: input.options[name] })),
  ];
  const values = given.filter(({ complete }) => complete === "agents").flatMap(({ value }) => value);
  return values.find((value) => typeof value === "string");
}

/** Adds the clock offset to an error of a service whose clock differs: that is the most likely cause. */
function withClock(described: Described, error: unknown, clockCheck: ClockCheck): Described {
  const complaint = error instanceof UnreachableError ? null : clockCheck.complaint();
  if (complaint === null) return described;
  const cause = `${described.cause.replace(/[.]$/, "")}. ${complaint}`;
  return { ...described, cause, ...(error instanceof ApiError ? { fix: "" } : {}) };
}

/** Runs the command line of this process and ends the process. */
export async function main(programs: Programs | null): Promise<never> {
  const world = realSystem(project.version, programs);
  Deno.addSignalListener("SIGINT", () => {
    if (!world.interrupt.press()) return;
    const { stderr, stderrIsTerminal } = world.terminal;
    if (hasSwitch(Deno.args, "json")) {
      const interrupted = describe(new CliError("CLI_INTERRUPTED", "The command was interrupted"));
      new Output(world.terminal, world.clock, { json: true, colour: false }).error(interrupted);
    } else stderr(stderrIsTerminal ? "\r\x1b[KInterrupted.\n" : "Interrupted.\n");
    // Safe at any moment, because every command resumes when it is run again.
    Deno.exit(EXIT.interrupted);
  });
  Deno.exit(await run(Deno.args, world));
}

/**
 * Compares the clock of this machine with the `Date` header of the services' responses, because a wrong clock makes
 * signed requests fail with errors that do not name the cause.
 */
class ClockCheck {
  #seen: { service: number; here: number } | null = null;

  constructor(private readonly clock: Clock) {}

  /** Stores the time in the `Date` header of a service's response. */
  see(headers: Headers): void {
    const service = Date.parse(headers.get("Date") ?? "");
    if (!Number.isNaN(service)) this.#seen = { service, here: this.clock.now() };
  }

  /** The offset of the clock as text; `null` when it is within the allowed skew, or no response had a `Date`. */
  complaint(): string | null {
    if (this.#seen === null) return null;
    const { service, here } = this.#seen;
    const seconds = Math.round(Math.abs(here - service) / 1000);
    if (seconds <= LIMITS.timestampSkewSeconds) return null;
    const offset = `${Math.floor(seconds / 60)} min ${seconds % 60} s ${here > service ? "ahead" : "behind"}`;
    return `This machine's clock is ${offset}: it shows ${toIso(here)}, the service's ${toIso(service)}. ` +
      "Correct it; until then signed requests are refused";
  }
}

/** Returns the context of a command. The folder is named on use: a command that stores no files works without a home. */
async function contextOf(
  world: System,
  here: HereOptions,
  out: Output,
  needsProfile: boolean,
): Promise<Omit<Context, "onResponse" | "onVersion">> {
  const file = here.ca ?? world.env("SVC_CA");
  const given = file === undefined ? undefined : await readAuthority(
    world,
    file,
    here.ca === undefined ? "SVC_CA" : "--ca",
  );
  const base = () => resolve(here.configDir ?? defaultConfigDir(world));
  // A folder that an option names is meant, also by programs that a shell with the variable has started.
  const profile = () => here.profile ?? (here.configDir === undefined ? world.env("SVC_PROFILE") : undefined);
  const folder = () => profileFolder(base(), profile() ?? DEFAULT_PROFILE);
  const authority = given ?? savedOf(folder, needsProfile);
  return {
    ...world,
    out,
    get configDir() {
      return folder();
    },
    get baseDir() {
      return base();
    },
    authority,
    fetch: authority === undefined ? world.fetch : world.trusting?.(authority.pem) ?? world.fetch,
  };
}

/**
 * The saved authorities. Read before the command runs, because in a request the reason would be that a service cannot
 * be reached.
 */
function savedOf(folder: () => string, isNeeded: boolean): Authority | undefined {
  try {
    return savedAuthority({ configDir: folder() }) ?? undefined;
  } catch (error) {
    // A command that needs a folder says so itself; the demo may not even ask where it is.
    const stops = error instanceof CliError && error.code !== "CLI_NO_CONFIG_DIR" && isNeeded;
    if (stops) throw error;
    return undefined;
  }
}

if (import.meta.main) await main(null);

/** Far above every secret. */
const MAX_SECRET_BYTES = 64 * 1024;

/**
 * Fills in the secrets that are not on the command line: from standard input for `-`, or from the environment, because
 * other processes can read the arguments of a command.
 *
 * @throws {CliError} `CLI_USAGE` when a required secret is missing, or two would come from standard input
 */
async function resolveSecrets(
  world: Pick<System, "stdin" | "stdinIsTerminal" | "env">,
  out: Output,
  command: Command,
  input: RawInput,
) {
  const places = [
    ...Object.entries(command.args).map(([name, { secret, env, optional }]) => ({
      what: `<${name}>`,
      name,
      secret,
      env,
      values: input.args,
      isRequired: !optional,
    })),
    ...Object.entries(command.options).map(([name, { secret, env, required }]) => ({
      what: `--${name}`,
      name,
      secret,
      env,
      values: input.options,
      isRequired: required,
    })),
  ];
  let stdinIsFor: string | null = null;
  for (const { what, name, env, values, isRequired } of places.filter(({ secret }) => secret)) {
    if (values[name] === "-") {
      if (stdinIsFor !== null) {
        throw new CliError("CLI_USAGE", `Standard input can be ${stdinIsFor} or ${what}, not both`);
      }
      stdinIsFor = what;
      if (world.stdinIsTerminal) out.note(`Paste ${what} here, then press Enter and Ctrl-D.`);
      values[name] = new TextDecoder().decode(await world.stdin(MAX_SECRET_BYTES)).trim();
      if (values[name] === "") throw new CliError("CLI_USAGE", `Standard input is empty; expected ${what}`);
    } else if (values[name] === undefined) {
      values[name] = env === undefined ? undefined : world.env(env);
      if (values[name] !== undefined || !isRequired) continue;
      const how = env === undefined ? "" : `, set ${env},`;
      throw new CliError("CLI_USAGE", `${what} is missing: give it${how} or give - and pipe it to standard input`);
    }
  }
}

const NOTICE_FILE = "version-notice.json";
const NOTICE_BYTES = 1_000;

/** True when a version is higher than another one. A text that is no version is not. */
export function isNewer(version: string, than: string): boolean {
  const [found, own] = [version, than].map((text) => /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?![.\d])/.exec(text)?.slice(1));
  if (found === undefined || own === undefined) return false;
  const [wanted, given] = [found, own].map((parts) => parts.reduce((sum, part) => sum * 1_000_000 + Number(part), 0));
  return (wanted ?? 0) > (given ?? 0);
}

/**
 * Prints the notice on a terminal, unless it was printed within a day, with `--json` and with `SVC_NO_NOTICE=1`.
 * Never throws: the command that was asked for has ended by then.
 */
export async function tellNewerVersion(ctx: Context, { version, registryUrl }: SeenVersion): Promise<void> {
  const [plain = ""] = /^[\d.]+/.exec(version) ?? [];
  const isSilent = ctx.out.json || !ctx.terminal.stderrIsTerminal || ctx.env("SVC_NO_NOTICE") === "1";
  if (isSilent || !isNewer(version, ctx.version)) return;
  try {
    const path = join(ctx.configDir, NOTICE_FILE), now = ctx.clock.now();
    const told = parseIso(JSON.parse(readPrivate(path, NOTICE_BYTES) ?? "{}").toldAt ?? "");
    if (told !== null && now - told < DAY_MS && told <= now) return;
    // Before it is shown, because where the file cannot be written, each command would show it.
    await writePrivate(ctx.random, path, `${JSON.stringify({ toldAt: toIso(now) })}\n`);
    ctx.out.note(`The server runs svc ${plain}, this is ${ctx.version}. How to update: ${registryUrl}/join`);
  } catch {
    // Without the file the notice could not be held back for a day.
  }
}
