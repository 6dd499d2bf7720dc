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
 */
export function ownCommand(set: "connector" | "svc" = "connector"): string[] {
  if (Deno.build.standalone) return [Deno.execPath()];
  const main = fileURLToPath(Deno.mainModule);
  // The bundle of the npm package has all its code; the source loads libraries.
  const alone = main.endsWith(".js") ? ["--no-remote", "--no-npm"] : [];
  const config = join(dirname(main), "deno.json");
  return [Deno.execPath(), "run", "--quiet", "--no-prompt", ...alone, "--config", config, `-P=${set}`, main];
}
