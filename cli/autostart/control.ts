/**
 * Installs and removes an autostart service, and builds the command that shows its log (D-91). Install and removal are
 * idempotent. The caller checks whether the connector in the service answers.
 */
import { dirname } from "node:path";
import { CliError } from "../errors.ts";
import { reason } from "../files/private_files.ts";
import { label, plistPath, plistText } from "./launchd.ts";
import type { Host, Ran, ServiceAgent, ServiceSpec, ServiceSystem } from "./autostart.ts";
import { isProgram, unitName, unitPath, unitText } from "./systemd.ts";

/** An installed service. */
export interface Installed {
  system: ServiceSystem;
  name: string;
  path: string;
  /** Hints to print. */
  notes: string[];
}

/** The service manager from the option, or that of the operating system. @throws {CliError} `CLI_USAGE`, `CLI_SERVICE_FAILED` */
export function chooseSystem(wanted: string, os: typeof Deno.build.os): ServiceSystem {
  if (wanted === "systemd" || wanted === "launchd") return wanted;
  if (wanted !== "auto") {
    throw new CliError("CLI_USAGE", `--platform is one of auto, launchd, systemd, not "${wanted}"`);
  }
  if (os === "darwin") return "launchd";
  if (os === "linux") return "systemd";
  throw new CliError("CLI_SERVICE_FAILED", "This system has neither systemd nor launchd", {
    fix: "Run svc connector start <name> with another service manager.",
  });
}

export async function installService(host: Host, system: ServiceSystem, spec: ServiceSpec): Promise<Installed> {
  const path = system === "systemd" ? unitPath(host, spec.agentName) : plistPath(host, spec.agentName);
  const wasThere = await exists(path);
  try {
    return system === "systemd" ? await installUnit(host, spec) : await installAgent(host, spec);
  } catch (error) {
    // Remove the file: else a rejected service would start at the next login.
    if (!wasThere) await uninstallService(host, system, spec.agentName);
    throw error;
  }
}

/** Stops and removes a service. @returns true when there was one */
export async function uninstallService(host: Host, system: ServiceSystem, agentName: ServiceAgent): Promise<boolean> {
  if (system === "systemd") {
    const path = unitPath(host, agentName);
    if (!await exists(path)) return false;
    // The result does not matter: a unit that is not loaded does not run.
    await host.run("systemctl", ["--user", "disable", "--now", unitName(agentName)]);
    await remove(path);
    await host.run("systemctl", ["--user", "daemon-reload"]);
    return true;
  }
  const path = plistPath(host, agentName);
  if (!await exists(path)) return false;
  await host.run("launchctl", ["bootout", `gui/${host.uid}/${label(agentName)}`]);
  await remove(path);
  return true;
}

/** The command that shows the log of a service. */
export function logCommand(
  system: ServiceSystem,
  agentName: ServiceAgent,
  logPath: string,
  lines: number,
  follow: boolean,
) {
  return system === "systemd"
    ? {
      program: "journalctl",
      args: ["--user", "--unit", unitName(agentName), "--output", "cat", "--lines", String(lines), "--no-pager"]
        .concat(follow ? ["--follow"] : []),
    }
    : { program: "tail", args: ["-n", String(lines), ...follow ? ["-F"] : [], logPath] };
}

async function installUnit(host: Host, spec: ServiceSpec): Promise<Installed> {
  const { agentName } = spec;
  const [name, path] = [unitName(agentName), unitPath(host, agentName)];
  const [program = ""] = spec.command;
  if (!isProgram(program)) {
    throw new CliError("CLI_USAGE", `systemd cannot run a program at this path; move it: ${program}`);
  }
  await write(path, unitText(spec));
  must(await host.run("systemctl", ["--user", "daemon-reload"]), "systemctl");
  must(await host.run("systemctl", ["--user", "enable", name]), "systemctl");
  must(await host.run("systemctl", ["--user", "restart", name]), "systemctl");
  const linger = await host.run("loginctl", ["show-user", String(host.uid), "--property", "Linger"]);
  const notes = linger?.stdout.includes("Linger=no")
    ? ["It runs while you are logged in. To run it from boot: loginctl enable-linger"]
    : [];
  return { system: "systemd", name, path, notes };
}

async function installAgent(host: Host, spec: ServiceSpec): Promise<Installed> {
  const { agentName } = spec;
  const [name, path] = [label(agentName), plistPath(host, agentName)];
  await write(path, plistText(spec));
  const domain = `gui/${host.uid}`;
  await host.run("launchctl", ["bootout", `${domain}/${name}`]);
  must(await host.run("launchctl", ["bootstrap", domain, path]), "launchctl");
  must(await host.run("launchctl", ["kickstart", `${domain}/${name}`]), "launchctl");
  return { system: "launchd", name, path, notes: [] };
}

function must(ran: Ran | null, program: string): void {
  if (ran?.code === 0) return;
  const why = ran === null ? "it is not installed" : ran.stderr.trim() || `it ended with ${ran.code}`;
  throw new CliError("CLI_SERVICE_FAILED", `The service was rejected by ${program}: ${why}`, {
    fix: "Run svc connector start <name> with another service manager.",
  });
}

async function write(path: string, text: string): Promise<void> {
  const temporary = `${path}.svc-new`;
  try {
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.remove(temporary).catch(() => {});
    await Deno.writeTextFile(temporary, text, { createNew: true, mode: 0o644 });
    await Deno.rename(temporary, path);
  } catch (error) {
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be written: ${reason(error)}`, { cause: error });
  }
}

async function remove(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be removed: ${reason(error)}`, { cause: error });
  }
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}
