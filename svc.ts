/**
 * The program `svc`: the command, and the server and the work on its store, which are loaded only when they are asked
 * for, because every command would otherwise parse the server. `cli/` itself imports nothing of the server.
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
      if (error instanceof WorkFailed) throw new CliError("CLI_STORE_FAILED", error.message);
      throw error instanceof StartRefused ? refused(error) : error;
    }
  },
};

/** The error of the command for a start that the server refuses, with options in place of the variables that they set. */
function refused(
  { headline, problems }: { headline: string; problems: readonly string[] },
  optionOf: ServeOptions["optionOf"] = {},
): CliError {
  // Whole words only, because a path can hold the name of a variable, as /srv/EXPORT does.
  const options = new Map(Object.entries(optionOf));
  const named = (text: string) =>
    text.replaceAll(/(?<![\w/.-])[A-Z_]+(?![\w/-])/g, (word) => options.get(word) ?? word);
  const details = [...new Set(problems.map(named))];
  // A headline without problems says what to do, so no other fix is added.
  return new CliError("CLI_SERVER_REFUSED", named(headline), details.length === 0 ? { fix: "" } : { details });
}

if (import.meta.main) await main(programs);
