/** The systemd user unit of a connector (D-91): name, path and text. Pure. */
import { join } from "node:path";
import type { Host, ServiceAgent, ServiceSpec } from "./autostart.ts";

export function unitName(agentName: ServiceAgent): string {
  return agentName === null ? "svc-connector.service" : `svc-connector-${agentName}.service`;
}

export function unitPath({ configHome }: Pick<Host, "configHome">, agentName: ServiceAgent): string {
  return join(configHome, "systemd", "user", unitName(agentName));
}

/** The text of the unit. Exit codes that a restart would not change (usage error, not authorised, not found) end it. */
export function unitText({ agentName, command }: ServiceSpec): string {
  return [
    "# Written by svc connector service install; svc connector service uninstall removes it.",
    "[Unit]",
    `Description=svc connector of ${specifiersEscaped(agentName ?? "all agents")}`,
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    "Type=exec",
    // The colon turns off variables in the command line, so that a $ stays a $.
    `ExecStart=:${command.map(quoted).join(" ")}`,
    "Restart=always",
    "RestartSec=5",
    "RestartPreventExitStatus=2 3 4",
    "TimeoutStopSec=10",
    "UMask=0077",
    "NoNewPrivileges=yes",
    "",
    "[Install]",
    "WantedBy=default.target",
    "",
  ].join("\n");
}

/** Whether systemd can run a program at this path. Some characters cannot be quoted. */
export function isProgram(path: string): boolean {
  // deno-lint-ignore no-control-regex
  return path.startsWith("/") && !/["'\\*?[\u0000-\u001f\u007f]/.test(path);
}

/** Any text, quoted as one word of a command line. */
export function quoted(word: string): string {
  const escaped = word
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    // deno-lint-ignore no-control-regex
    .replace(/[\u0000-\u001f\u007f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `"${specifiersEscaped(escaped)}"`;
}

/** Escapes specifiers such as `%n`, the name of the unit. */
function specifiersEscaped(text: string): string {
  return text.replaceAll("%", "%%");
}
