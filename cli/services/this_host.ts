/** This machine for services, and the command by which this very program is run again. */
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { Host } from "./autostart.ts";

export function thisHost(ctx: Context): Host {
  const home = ctx.env("HOME");
  if (home === undefined) throw new CliError("CLI_NO_CONFIG_DIR", "There is no home directory to keep a service in");
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

/** Program and first arguments of `svc` itself: the compiled binary, or Deno and the file it was started with. */
export function ownCommand(): string[] {
  if (Deno.build.standalone) return [Deno.execPath()];
  return [Deno.execPath(), "run", "--no-prompt", "--allow-all", fileURLToPath(Deno.mainModule)];
}
