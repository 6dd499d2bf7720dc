/**
 * The program `svc`: parses the command line, runs the command and returns its exit code. The only file that ends the
 * process.
 */
import { resolve } from "node:path";
import { inputPlaces } from "./command_line/command.ts";
import { commandsOf, GROUPS } from "./commands/table.ts";
import type { Authority, Context, Programs, SeenVersion, System } from "./context.ts";
import { defaultConfigDir } from "./files/config_dir.ts";
import { folderOfProfile, readAuthority, savedAuthority } from "./files/profile.ts";
import { DEFAULT_PROFILE } from "../shared/client/user_folder.ts";
import { realSystem } from "./system.ts";
import { resolveSecrets } from "./command_line/secrets.ts";
import { CliError, describe, type Described, EXIT, FINAL_EXITS } from "./errors.ts";
import { ServiceClock } from "./link/service_clock.ts";
import { tellNewerVersion } from "./newer_version.ts";
import { ApiError, UnreachableError } from "../shared/client/errors.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { toIso } from "../shared/protocol/time.ts";
import { help } from "./command_line/help.ts";
import { Output } from "./terminal/output.ts";
import { hasSwitch, type HereOptions, parse } from "./command_line/parse.ts";
import project from "../deno.json" with { type: "json" };

/** First words of commands that run even with a damaged profile, because they do not use it, or help to repair it. */
const NEEDS_NO_PROFILE: ReadonlySet<string | undefined> = new Set(
  ["serve", "store", "demo", "profile", "explain", "completions", "uninstall"],
);

export async function run(argv: readonly string[], world: System): Promise<number> {
  const serviceClock = new ServiceClock(world.clock), complaint = () => clockComplaint(serviceClock, world.clock.now());
  const json = hasSwitch(argv, "json"), wide = hasSwitch(argv, "wide"), colour = world.env("NO_COLOR") === undefined;
  const out = new Output(world.terminal, world.clock, { json, wide, colour });
  out.concern = complaint;
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
    const { configDir, profile, ca } = parsed.here;
    out.hereWords = Object.entries({ "--config-dir": configDir, "--profile": profile, "--ca": ca })
      .flatMap(([name, value]) => value === undefined ? [] : [name, value]);
    const agentPlaces = inputPlaces(command, input).filter(({ spec }) => spec.complete === "agents");
    if (agentPlaces.length > 0) {
      const words = agentPlaces.flatMap(({ name, values }) => values[name]);
      // The variable is read only for such a command, because the demo has no permission for it.
      named = words.find((word) => typeof word === "string") ?? world.env("SVC_AGENT") ?? null;
      (await import("./agents/agent_store.ts")).checkAgentWords(agentPlaces);
    }
    await resolveSecrets(world, out, command, input);
    const needsProfile = !NEEDS_NO_PROFILE.has(command.path[0]);
    const ctx: Context = Object.assign(await contextOf(world, parsed.here, out, needsProfile), {
      allowInsecure: input.options["allow-insecure"] === true,
      onResponse: (headers: Headers) => serviceClock.see(headers.get("Date")),
      onVersion: (found: SeenVersion) => seen = found,
    });
    only = () => onlyAgent(ctx);
    const code = await command.run(ctx, input) ?? EXIT.done;
    if (seen !== null) await tellNewerVersion(ctx, seen);
    return code;
  } catch (error) {
    const described = withClock(describe(error), error, complaint);
    if (described.fix.includes("<name>")) described.fix = described.fix.replaceAll("<name>", named ?? await only());
    described.fix = out.withHere(described.fix);
    out.error(described);
    // From a hook, Claude Code takes this exit code as an order to wake the model, and would do so at every turn.
    const isHook = argv.some((word, i) => word === "hook" && argv[i + 1] === "claude-code");
    if (isHook && described.exit === EXIT.usage) return EXIT.failed;
    // launchd knows no codes but success, and would start the service again each 10 s.
    const isOfLaunchd = argv[0] === "connector" && world.env("SVC_SERVICE_LOG") !== undefined;
    return isOfLaunchd && FINAL_EXITS.includes(described.exit) ? EXIT.done : described.exit;
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

/**
 * The difference between the clock of this machine and that of the services as text, because a wrong clock makes signed
 * requests fail with errors that do not name the cause. `null` within the allowed skew, or before any response.
 */
function clockComplaint({ seenMs }: ServiceClock, here: number): string | null {
  const seconds = Math.round(Math.abs(seenMs ?? 0) / 1000);
  if (seenMs === null || seconds <= LIMITS.timestampSkewSeconds) return null;
  const offset = `${Math.floor(seconds / 60)} min ${seconds % 60} s ${seenMs < 0 ? "ahead of" : "behind"}`;
  return `This machine's clock is ${offset} the service's: it shows ${toIso(here)}, the service's ${
    toIso(here + seenMs)
  }. ` +
    "Correct the one that is wrong; until then signed requests are refused";
}

/** Adds the offset of the clock to an error when the clock is wrong, because that is the most likely cause. */
function withClock(described: Described, error: unknown, complaint: () => string | null): Described {
  const wrong = error instanceof UnreachableError ? null : complaint();
  if (wrong === null) return described;
  const cause = `${described.cause.replace(/[.]$/, "")}. ${wrong}`;
  // A new token would not verify either, so the usual fix of that code would lead nowhere.
  const isOfClock = error instanceof CliError && error.code === "CLI_TOKEN_REFUSED" && error.fix === undefined;
  return { ...described, cause, ...(error instanceof ApiError || isOfClock ? { fix: "" } : {}) };
}

export async function main(programs: Programs | null): Promise<never> {
  const world = realSystem(project.version, programs);
  Deno.addSignalListener("SIGINT", () => {
    if (!world.interrupt.press()) return;
    const { stderr, stderrIsTerminal } = world.terminal;
    if (hasSwitch(Deno.args, "json")) {
      const interrupted = describe(new CliError("CLI_INTERRUPTED", "The command was interrupted"));
      new Output(world.terminal, world.clock, { json: true, colour: false }).error(interrupted);
    } else stderr(stderrIsTerminal ? "\r\x1b[KInterrupted.\n" : "Interrupted.\n");
    // This is safe at any moment, because every command resumes when it is run again.
    Deno.exit(EXIT.interrupted);
  });
  Deno.exit(await run(Deno.args, world));
}

/**
 * Returns the context of a command. The folder is looked up only when it is used, because a command that stores no
 * files must also work without a home directory.
 */
async function contextOf(
  world: System,
  here: HereOptions,
  out: Output,
  needsProfile: boolean,
): Promise<Omit<Context, "onResponse" | "onVersion">> {
  const file = here.ca ?? world.env("SVC_CA"), named = here.ca === undefined ? "SVC_CA" : "--ca";
  const given = file === undefined ? undefined : await readAuthority(world, file, named);
  const base = () => resolve(here.configDir ?? defaultConfigDir(world));
  // SVC_PROFILE does not count with --config-dir, because a host that names the folder may inherit the variable.
  const profile = () => here.profile ?? (here.configDir === undefined ? world.env("SVC_PROFILE") : undefined);
  const folder = () => folderOfProfile(base(), profile() ?? DEFAULT_PROFILE);
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
 * Returns the saved authorities. They are read before the command runs, because a damaged file that a request finds
 * would be reported as a service that cannot be reached.
 */
function savedOf(folder: () => string, isNeeded: boolean): Authority | undefined {
  try {
    return savedAuthority({ configDir: folder() }) ?? undefined;
  } catch (error) {
    // A command that needs a home directory reports its absence itself. The demo has no permission to look for one.
    if (isNeeded && error instanceof CliError && error.code !== "CLI_NO_CONFIG_DIR") throw error;
    return undefined;
  }
}

if (import.meta.main) await main(null);
