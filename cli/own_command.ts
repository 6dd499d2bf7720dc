/**
 * The command with which a service, a host or a hook starts this `svc` again: the compiled binary, or Deno with the
 * main file of this process. Its permissions are a set of the deno.json beside that file and not a list, because the
 * command outlives the release in which it is written. With an old list, the next release would fail at the first
 * variable that the list lacks.
 */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CliError } from "./errors.ts";

/**
 * Returns the program and the first words.
 *
 * @param exec program of `--exec`, which is allowed too
 * @throws {CliError} `CLI_USAGE` for `exec` where no program can be allowed
 */
export function ownCommand(set: "connector" | "svc", exec?: string): string[] {
  if (Deno.build.standalone) {
    if (exec === undefined) return [Deno.execPath()];
    const problem = "--exec needs the installed svc, from npm: a single file may start no other program";
    throw new CliError("CLI_USAGE", problem);
  }
  const main = fileURLToPath(Deno.mainModule);
  // The bundle of the npm package has all its code, so it may load nothing. The source loads libraries.
  const alone = main.endsWith(".js") ? ["--no-remote", "--no-npm"] : [];
  const config = join(dirname(main), "deno.json");
  const flags = ["--quiet", "--no-prompt", ...alone, "--config", config, `-P=${set}`];
  if (exec !== undefined) {
    // The option replaces the programs of the set, so it must name them too.
    const programs: string[] = JSON.parse(Deno.readTextFileSync(config)).permissions[set].run;
    flags.push(`--allow-run=${[...programs, exec].join(",")}`);
  }
  return [Deno.execPath(), "run", ...flags, main];
}
