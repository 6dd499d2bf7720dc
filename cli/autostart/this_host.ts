/** This machine as a host of services, and the command that starts this program again. */
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { Host } from "./control.ts";

export function thisHost(ctx: Context): Host {
  const home = ctx.env("HOME");
  if (home === undefined) {
    throw new CliError("CLI_NO_CONFIG_DIR", "No home directory is set, so a service cannot be installed");
  }
  return {
    home,
    configHome: ctx.env("XDG_CONFIG_HOME") ?? join(home, ".config"),
    uid: ctx.uid,
    async run(program, args) {
      try {
        const { code, stdout, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" }).output();
        const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
        return { code, stdout: text(stdout), stderr: text(stderr) };
      } catch {
        return null;
      }
    },
  };
}

/**
 * Program and first words of the command that starts this `svc` again in a service, a host or a hook: the compiled binary,
 * or Deno with the file of this process. The permissions are a set of the deno.json beside that file, never a
 * list: what is written outlives the release, and with an old list the next release fails at the first variable that the
 * list lacks.
 *
 * @param exec program of `--exec`, which is allowed too
 * @throws {CliError} `CLI_USAGE` for `exec` where no program can be allowed
 */
export function ownCommand(set: "connector" | "svc" = "connector", exec?: string): string[] {
  if (Deno.build.standalone) {
    if (exec === undefined) return [Deno.execPath()];
    throw new CliError(
      "CLI_USAGE",
      "--exec needs the installed svc, from npm: a single file may start no other program",
    );
  }
  const main = fileURLToPath(Deno.mainModule);
  // The bundle of the npm package has all its code; the source loads libraries.
  const alone = main.endsWith(".js") ? ["--no-remote", "--no-npm"] : [];
  const config = join(dirname(main), "deno.json");
  // The option takes the place of the set's own list, so it has that too.
  const programs = exec === undefined ? [] : [`--allow-run=${[...programsOf(config, set), exec].join(",")}`];
  const flags = ["--quiet", "--no-prompt", ...alone, "--config", config, `-P=${set}`, ...programs];
  return [Deno.execPath(), "run", ...flags, main];
}

function programsOf(config: string, set: string): string[] {
  return JSON.parse(Deno.readTextFileSync(config)).permissions[set].run;
}
