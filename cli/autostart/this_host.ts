/** This machine as a host of services, and the command that starts this program again. */
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { Host } from "./autostart.ts";
import { CONNECTOR_PERMISSIONS } from "./permissions.ts";

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
 * Program and first arguments of the command that starts this `svc` in a service: the compiled binary, or Deno with the
 * permissions of a connector (D-241) and the file of this process.
 */
export function ownCommand(): string[] {
  if (Deno.build.standalone) return [Deno.execPath()];
  const main = fileURLToPath(Deno.mainModule);
  // The npm package is a bundle without a project; the source needs its deno.json.
  const alone = main.endsWith(".js") ? ["--no-config", "--no-lock", "--no-remote", "--no-npm"] : [];
  return [Deno.execPath(), "run", "--quiet", ...alone, ...CONNECTOR_PERMISSIONS, main];
}
