/**
 * The program `svc`: parses the command line, runs the command and returns its exit code. The only file that ends the
 * process.
 */
import { resolve } from "node:path";
import project from "../deno.json" with { type: "json" };
import { ClockCheck } from "./client/clock_check.ts";
import type { Command } from "./command_line/command.ts";
import { COMMANDS, GROUPS } from "./commands/table.ts";
import type { Context, System } from "./context.ts";
import { defaultConfigDir } from "./files/config_dir.ts";
import type { Programs } from "./programs.ts";
import { realSystem } from "./system.ts";
import { CliError, describe, type Described, EXIT } from "./errors.ts";
import { ApiError, UnreachableError } from "../shared/client/errors.ts";
import { help } from "./command_line/help.ts";
import { Output } from "./terminal/output.ts";
import { parse, wantsJson } from "./command_line/parse.ts";
import { resolveSecrets } from "./command_line/secret_input.ts";
import { withAuthority } from "./client/tls.ts";

/** Runs one command line. Returns the exit code. */
export async function run(argv: readonly string[], world: System): Promise<number> {
  const clockCheck = new ClockCheck(world.clock);
  const colour = world.env("NO_COLOR") === undefined;
  const out = new Output(world.terminal, world.clock, { json: wantsJson(argv), colour });
  out.concern = () => clockCheck.complaint();
  try {
    const parsed = parse(argv, COMMANDS);
    if (parsed.kind === "version") {
      out.result({ version: world.version }, world.version);
      return EXIT.done;
    }
    if (parsed.kind === "help") {
      const text = help(parsed.path, COMMANDS, GROUPS);
      out.result({ help: text }, text.split("\n"));
      return EXIT.done;
    }
    const { command, input } = parsed;
    out.hereWords = [["--config-dir", parsed.configDir] as const, ["--ca", parsed.ca] as const]
      .flatMap(([name, value]) => value === undefined ? [] : [name, value]);
    if (namesAgents(command)) (await import("./agents/agent_name.ts")).checkAgentWords(command, input);
    await resolveSecrets(world, command, input);
    const trusting = await withAuthority(world, parsed.ca);
    const ctx: Context = {
      ...trusting,
      onResponse: (headers) => clockCheck.see(headers),
      out,
      // Evaluated on use: a command that stores no files works without a home directory.
      get configDir() {
        return resolve(parsed.configDir ?? defaultConfigDir(world));
      },
    };
    return await command.run(ctx, input) ?? EXIT.done;
  } catch (error) {
    const described = withClock(describe(error), error, clockCheck);
    out.error(described);
    // For a hook of Claude Code this exit code means to wake the model, at the end of every turn (D-132).
    return argv[0] === "hook" && described.exit === EXIT.usage ? EXIT.failed : described.exit;
  } finally {
    out.finish();
  }
}

function namesAgents({ args, options }: Command): boolean {
  return [...Object.values(args), ...Object.values(options)].some(({ complete }) => complete === "agents");
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
    if (wantsJson(Deno.args)) {
      const interrupted = describe(new CliError("CLI_INTERRUPTED", "The command was interrupted"));
      new Output(world.terminal, world.clock, { json: true, colour: false }).error(interrupted);
    } else stderr(stderrIsTerminal ? "\r\x1b[KInterrupted.\n" : "Interrupted.\n");
    // Safe at any moment: every command resumes when it is run again.
    Deno.exit(EXIT.interrupted);
  });
  Deno.exit(await run(Deno.args, world));
}

if (import.meta.main) await main(null);
