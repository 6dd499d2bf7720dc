/**
 * Installs and removes an autostart service, and builds the command that shows its log. The service file holds no
 * secret, because other programs of the machine can read it. Installing or removing twice does no harm. The caller
 * checks whether the connector in the service answers.
 */
import { basename, dirname, isAbsolute, join } from "node:path";
import { isAgentName } from "../../shared/protocol/names.ts";
import { parseWord } from "../command_line/numbers.ts";
import { CliError, FINAL_EXITS } from "../errors.ts";
import { removeFile, saveFailed } from "../files/private_files.ts";
import { type Ran, runProgram } from "../platforms/local_machine.ts";
import type { Context } from "../context.ts";

/** With less, a service that is slow to stop counts as rejected. With more, a hanging service manager holds up svc. */
const RUN_MS = 60_000;

/** The words of `--platform`. */
export const SYSTEMS = ["auto", "launchd", "systemd"] as const;

/**
 * Returns the service manager that the option names, or that of this system. @throws {CliError} `CLI_USAGE`,
 * `CLI_SERVICE_FAILED`
 */
export function chooseSystem(wanted: string, os: typeof Deno.build.os): ServiceSystem {
  const word = parseWord(SYSTEMS, wanted, "--platform");
  if (word !== "auto") return word;
  if (os === "darwin") return "launchd";
  if (os === "linux") return "systemd";
  throw new CliError("CLI_SERVICE_FAILED", "This system has neither systemd nor launchd", {
    fix: "Run svc connector start <name> with another service manager.",
  });
}

/** Agent and profile name a service, because by the agent alone one profile would replace the service of another. */
export class Service {
  /** The name of a unit of systemd, or the label of an agent of launchd. */
  readonly name: string;
  readonly path: string;

  /**
   * @param agentName `null`: all agents of the profile
   * @param profile `null`: the default profile
   */
  constructor(
    readonly host: Host,
    readonly system: ServiceSystem,
    readonly agentName: string | null,
    profile: string | null,
  ) {
    // Two dots, which no agent name has, stand before the profile, because with one dot the agent `a.work` and the agent
    // `a` of the profile `work` would share a service.
    const suffix = profile === null ? "" : `..${profile}`;
    const isUnit = system === "systemd", separator = isUnit ? "-" : ".";
    const name = (agentName === null ? "" : separator + agentName) + suffix;
    this.name = isUnit ? `svc-connector${name}.service` : `com.svc.connector${name}`;
    this.path = isUnit
      ? join(host.configHome, "systemd", "user", this.name)
      : join(host.home, "Library", "LaunchAgents", `${this.name}.plist`);
  }

  /** Returns notes for the person. */
  async install(spec: ServiceSpec): Promise<string[]> {
    const wasThere = await exists(this.path);
    try {
      return await (this.system === "systemd" ? installUnit : installAgent)(this, spec);
    } catch (error) {
      // The file is removed again, because a rejected service would otherwise start at the next login.
      if (!wasThere) await this.uninstall();
      throw error;
    }
  }

  /** Returns true when the service was installed for this configuration folder. */
  async isOf(configDir: string): Promise<boolean> {
    const text = await Deno.readTextFile(this.path).catch(() => "");
    return text.includes(this.system === "systemd" ? quoted(configDir) : `<string>${escaped(configDir)}</string>`);
  }

  /**
   * Refuses a service that is installed for another configuration folder. In two folders that are no profiles, agents of
   * the same name also share the name of their service, so installing one would end the connector of the other.
   *
   * @throws {CliError} `CLI_USAGE`
   */
  async requireOwn(configDir: string): Promise<void> {
    if (!await exists(this.path) || await this.isOf(configDir)) return;
    throw new CliError("CLI_USAGE", `${this.path} is the service of another configuration folder`, {
      fix:
        "Give each account a profile (svc --profile <profile>), whose services have names of their own, or delete that file.",
    });
  }

  /**
   * Stops and removes the service.
   *
   * @param warn called with why the service may still run
   * @returns true when there was one
   */
  async uninstall(warn: (text: string) => void = () => {}): Promise<boolean> {
    const { host, system, name, path } = this;
    if (!await exists(path)) return false;
    if (system === "systemd") {
      const ran = await host.run("systemctl", ["--user", "disable", "--now", name]);
      // Without its manager, as in a shell of sudo, the service runs on, and its person would believe that it has ended.
      if (ran !== null && ran.code !== 0) warn(`${name} may still run, because systemctl failed: ${ran.stderr.trim()}`);
    } else {
      // The exit code does not matter, because a service that is not loaded does not run.
      await host.run("launchctl", ["bootout", `gui/${host.uid}/${name}`]);
    }
    await removeFile(path);
    if (system === "systemd") await host.run("systemctl", ["--user", "daemon-reload"]);
    return true;
  }

  logCommand(logPath: string, lines: number, follow: boolean) {
    if (this.system === "launchd") {
      return { program: "tail", args: ["-n", String(lines), ...follow ? ["-F"] : [], logPath] };
    }
    const args = ["--user", "--unit", this.name, "--output", "cat", "--lines", String(lines), "--no-pager"];
    return { program: "journalctl", args: [...args, ...follow ? ["--follow"] : []] };
  }
}

/** Returns the agents that a service file names, even those whose own files are gone. */
export async function agentsWithService(host: Host, system: ServiceSystem, profile: string | null): Promise<string[]> {
  const { path } = new Service(host, system, "*", profile);
  const [before = "", after = ""] = basename(path).split("*");
  const names = await Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name).catch(() => []);
  return names.filter((name) => name.startsWith(before) && name.endsWith(after))
    .map((name) => name.slice(before.length, -after.length)).filter(isAgentName);
}

/** The log of a service under launchd. @param folder that of its agent, or of the configuration for all agents */
export function logPathOf(folder: string): string {
  return join(folder, "connector.log");
}

async function installUnit({ host, agentName, name, path }: Service, { command }: ServiceSpec): Promise<string[]> {
  const [program = ""] = command;
  if (!isProgram(program)) {
    throw new CliError("CLI_USAGE", `systemd cannot run a program at this path; move it: ${program}`);
  }
  await write(path, unitText(agentName, command));
  must(await host.run("systemctl", ["--user", "daemon-reload"]), "systemctl");
  must(await host.run("systemctl", ["--user", "enable", name]), "systemctl");
  must(await host.run("systemctl", ["--user", "restart", name]), "systemctl");
  const linger = await host.run("loginctl", ["show-user", String(host.uid), "--property", "Linger"]);
  return linger?.stdout.includes("Linger=no")
    ? ["It runs while you are logged in. To run it from boot: loginctl enable-linger"]
    : [];
}

async function installAgent({ host, name, path }: Service, spec: ServiceSpec): Promise<string[]> {
  await write(path, plistText(name, spec));
  const domain = `gui/${host.uid}`;
  await host.run("launchctl", ["bootout", `${domain}/${name}`]);
  must(await host.run("launchctl", ["bootstrap", domain, path]), "launchctl");
  must(await host.run("launchctl", ["kickstart", `${domain}/${name}`]), "launchctl");
  return [];
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
    throw saveFailed(path, "written", error);
  }
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

export function unitText(agentName: string | null, command: readonly string[]): string {
  return [
    "# Written by svc connector service install; svc connector service uninstall removes it.",
    "[Unit]",
    `Description=svc connector of ${specifiersEscaped(agentName ?? "all agents")}`,
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    "Type=exec",
    // Without this, Deno would look for its own updates over the network.
    "Environment=DENO_NO_UPDATE_CHECK=1",
    // The colon turns off variables in the command line, so that a $ stays a $.
    `ExecStart=:${command.map(quoted).join(" ")}`,
    "Restart=always",
    "RestartSec=5",
    `RestartPreventExitStatus=${FINAL_EXITS.join(" ")}`,
    "TimeoutStopSec=10",
    "UMask=0077",
    "NoNewPrivileges=yes",
    "",
    "[Install]",
    "WantedBy=default.target",
    "",
  ].join("\n");
}

/** Returns true when systemd can run a program at this path. Its unit files cannot quote some characters there. */
export function isProgram(path: string): boolean {
  // deno-lint-ignore no-control-regex
  return path.startsWith("/") && !/["'\\*?[\u0000-\u001f\u007f]/.test(path);
}

export function quoted(word: string): string {
  const escaped = word
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    // deno-lint-ignore no-control-regex
    .replace(/[\u0000-\u001f\u007f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `"${specifiersEscaped(escaped)}"`;
}

/** Escapes the percent sign, because systemd would replace a specifier such as `%n` by the name of the unit. */
function specifiersEscaped(text: string): string {
  return text.replaceAll("%", "%%");
}

export function plistText(label: string, { command, logPath }: ServiceSpec): string {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    "<dict>",
    `  <key>Label</key><string>${escaped(label)}</string>`,
    "  <key>ProgramArguments</key>",
    "  <array>",
    ...command.map((word) => `    <string>${escaped(word)}</string>`),
    "  </array>",
    // Without this, Deno would look for its own updates over the network.
    "  <key>EnvironmentVariables</key>",
    "  <dict>",
    "    <key>DENO_NO_UPDATE_CHECK</key><string>1</string>",
    `    <key>SVC_SERVICE_LOG</key><string>${escaped(logPath)}</string>`,
    "  </dict>",
    "  <key>RunAtLoad</key><true/>",
    // launchd knows no exit codes but success. After those that systemd takes as final, svc reports success here.
    "  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>",
    "  <key>ThrottleInterval</key><integer>10</integer>",
    "  <key>ProcessType</key><string>Background</string>",
    // This is 077 in decimal, because a property list knows no octal numbers.
    "  <key>Umask</key><integer>63</integer>",
    `  <key>StandardOutPath</key><string>${escaped(logPath)}</string>`,
    `  <key>StandardErrorPath</key><string>${escaped(logPath)}</string>`,
    "</dict>",
    "</plist>",
    "",
  ].join("\n");
}

/** Text of an XML element; characters that XML cannot contain are removed. */
export function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&apos;")
    // deno-lint-ignore no-control-regex
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}

export type ServiceSystem = "launchd" | "systemd";

/** The command of a service. It contains no secret, because other users can read the service file. */
interface ServiceSpec {
  command: readonly string[];
  /** File for the output of the program under launchd. */
  logPath: string;
}

export interface Host {
  home: string;
  configHome: string;
  uid: number | null;
  /** Runs a program; `null` when it is not installed. */
  run(program: string, args: readonly string[]): Promise<Ran | null>;
}

export function thisHost(ctx: Context): Host {
  const home = ctx.env("HOME"), xdg = ctx.env("XDG_CONFIG_HOME");
  if (home === undefined) {
    throw new CliError("CLI_NO_CONFIG_DIR", "No home directory is set, so services cannot be found", {
      fix: "Set HOME.",
    });
  }
  return {
    home,
    // A relative path is ignored as in userFolder, because systemd would not find the unit below the working directory.
    configHome: xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, ".config"),
    uid: ctx.uid,
    run: (program, args) => runProgram(ctx.clock, program, args, RUN_MS),
  };
}
