/**
 * The program `svc`: the command, the server, and the work on its store. The last two are loaded only when a command
 * asks for them, because every command would otherwise take the time to parse the server. For the same reason `cli/`
 * imports nothing of the server.
 */
import { CliError } from "./cli/errors.ts";
import { main } from "./cli/main.ts";
import type { Programs, ServeOptions } from "./cli/context.ts";

export const programs: Programs = {
  async serve({ variables, purpose, optionOf }) {
    const { processEnviron, runServer, silentLog, startServer, StartRefused } = await import("./deploy.ts");
    try {
      return purpose === "demo"
        ? await startServer((name) => variables[name], silentLog)
        : await runServer((name) => variables[name] ?? processEnviron(name));
    } catch (error) {
      throw error instanceof StartRefused ? refused(error, optionOf) : error;
    }
  },
  async environment() {
    return (await import("./deploy.ts")).processEnviron;
  },
  async store(argv) {
    const { runStore, StartRefused, WorkFailed } = await import("./deploy_store.ts");
    try {
      return await runStore(argv);
    } catch (error) {
      // The message itself says what to do, because that depends on what the work has written.
      if (error instanceof WorkFailed) throw new CliError("CLI_STORE_FAILED", error.message, { fix: "" });
      throw error instanceof StartRefused ? refused(error, { KV_URL: "--store" }) : error;
    }
  },
};

/** Turns a refused start into an error of the command, which names options instead of the variables that they set. */
function refused(
  { headline, problems, mayPass }: { headline: string; problems: readonly string[]; mayPass: boolean },
  optionOf: ServeOptions["optionOf"] = {},
): CliError {
  // Whole words only, because a path such as /srv/EXPORT can contain the name of a variable.
  const options = new Map(Object.entries(optionOf));
  const named = (text: string) =>
    text.replaceAll(/(?<![\w/.-])[A-Z_]+(?![\w/-])/g, (word) => options.get(word) ?? word);
  const details = [...new Set(problems.map(named))];
  // A headline without problems already says what to do, so no other fix is added.
  // With the exit code of the other, a supervisor would not start the server again.
  const code = mayPass ? "CLI_STORE_FAILED" : "CLI_SERVER_REFUSED";
  return new CliError(code, named(headline), details.length === 0 ? { fix: "" } : { details });
}

if (import.meta.main) await main(programs);
