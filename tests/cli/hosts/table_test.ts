/** The table of hosts: the file of each host by system, scope and variables. */
import { assert, assertEquals } from "@std/assert";
import { LONG_WAIT_SECONDS } from "../../../cli/mcp/waits.ts";
import { HOST_IDS, type HostId, HOSTS, type Scope, type Whereabouts } from "../../../cli/hosts/table.ts";

function where(os: Whereabouts["os"], variables: Record<string, string> = {}, stateDir: string | null = null) {
  const env = (name: string) => variables[name];
  return { home: "/home/ada", project: "/projects/shop", os, env, stateDir } satisfies Whereabouts;
}

Deno.test("each host has its file, which variables of the host move", async (t) => {
  const xdg = { XDG_CONFIG_HOME: "/x" }, relative = { XDG_CONFIG_HOME: "x" };
  const cases: [host: HostId, scope: Scope, where: Whereabouts, path: string | null][] = [
    ["claude-code", "user", where("linux"), "/home/ada/.claude.json"],
    ["claude-code", "project", where("linux"), "/projects/shop/.mcp.json"],
    ["cursor", "user", where("darwin"), "/home/ada/.cursor/mcp.json"],
    ["cursor", "project", where("linux"), "/projects/shop/.cursor/mcp.json"],
    ["gemini", "user", where("linux"), "/home/ada/.gemini/settings.json"],
    ["gemini", "project", where("linux"), "/projects/shop/.gemini/settings.json"],
    ["codex", "user", where("linux"), "/home/ada/.codex/config.toml"],
    ["codex", "user", where("linux", { CODEX_HOME: "/codex" }), "/codex/config.toml"],
    ["codex", "project", where("linux", { CODEX_HOME: "/codex" }), "/projects/shop/.codex/config.toml"],
    ["vscode", "user", where("linux"), "/home/ada/.config/Code/User/mcp.json"],
    ["vscode", "user", where("linux", xdg), "/x/Code/User/mcp.json"],
    ["vscode", "user", where("linux", relative), "/home/ada/.config/Code/User/mcp.json"],
    ["vscode", "user", where("darwin"), "/home/ada/Library/Application Support/Code/User/mcp.json"],
    ["vscode", "user", where("windows", { APPDATA: "/app" }), "/app/Code/User/mcp.json"],
    ["vscode", "user", where("windows"), null],
    ["vscode", "project", where("windows"), "/projects/shop/.vscode/mcp.json"],
    ["openclaw", "user", where("linux"), "/home/ada/.openclaw/openclaw.json"],
    ["openclaw", "user", where("linux", { OPENCLAW_CONFIG_PATH: "/o.json" }), "/o.json"],
    ["openclaw", "user", where("linux", { OPENCLAW_STATE_DIR: "/o" }), "/o/openclaw.json"],
    ["openclaw", "user", where("linux", {}, "/state"), "/state/openclaw.json"],
    ["openclaw", "project", where("linux"), null],
  ];
  for (const [host, scope, place, path] of cases) {
    await t.step(`${host} ${scope} ${place.os}`, async () => {
      assertEquals(await HOSTS[host].path(scope, place), path);
    });
  }
  assertEquals(Object.keys(HOSTS).sort(), [...HOST_IDS].sort());
});

Deno.test("no host ends a call before its longest wait is over", () => {
  for (const [host, units] of [["codex", 1], ["gemini", 1000], ["openclaw", 1000]] as const) {
    const { tool_timeout_sec, timeout, requestTimeoutMs } = HOSTS[host].entry("svc", []);
    const most = Number(tool_timeout_sec ?? timeout ?? requestTimeoutMs) / units;
    assert(most > LONG_WAIT_SECONDS, `${host}: ${most}`);
  }
});
