/** The launchd agent of a connector (D-91): label, path and property list. Pure. */
import { join } from "node:path";
import type { Host, ServiceAgent, ServiceSpec } from "./autostart.ts";

export function label(agentName: ServiceAgent): string {
  return agentName === null ? "com.svc.connector" : `com.svc.connector.${agentName}`;
}

export function plistPath({ home }: Pick<Host, "home">, agentName: ServiceAgent): string {
  return join(home, "Library", "LaunchAgents", `${label(agentName)}.plist`);
}

export function plistText({ agentName, command, logPath }: ServiceSpec): string {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    "<dict>",
    `  <key>Label</key><string>${escaped(label(agentName))}</string>`,
    "  <key>ProgramArguments</key>",
    "  <array>",
    ...command.map((word) => `    <string>${escaped(word)}</string>`),
    "  </array>",
    "  <key>RunAtLoad</key><true/>",
    "  <key>KeepAlive</key><true/>",
    "  <key>ThrottleInterval</key><integer>10</integer>",
    "  <key>ProcessType</key><string>Background</string>",
    // Decimal of 077.
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
