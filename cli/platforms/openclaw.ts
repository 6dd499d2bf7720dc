/**
 * OpenClaw: its gateway accepts messages at `POST /hooks/agent`, with its own token and a string `message`. The request
 * has no member that chooses agent, session, model or channel, because a peer could otherwise choose them in place of
 * `openclaw.json`. A running gateway applies changes to its hooks.
 */
import { join, resolve } from "node:path";
import {
  confidenceOf,
  type FileChange,
  type Machine,
  NO_ANSWER,
  type PushPlatform,
  senderHeaders,
  textOf,
} from "./platform.ts";
import { CliError } from "../errors.ts";
import { changeTo, memberOf, parseSettings, withMember } from "./settings.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";

const PORT = 18_789;

export const OPENCLAW: PushPlatform = {
  id: "openclaw",
  name: "OpenClaw",
  defaults: { baseUrl: `http://127.0.0.1:${PORT}`, hookPath: "/hooks/agent" },
  timeoutMs: 10_000,
  needsToken: true,
  repliesByDefault: false,
  health: { path: "/readyz", isHealthy: (status) => status === 200 },

  request(message, { hookToken }) {
    const body = JSON.stringify({ message: textOf(message) });
    return Promise.resolve({ headers: senderHeaders(message, hookToken), body });
  },

  async detect(machine, stateDir) {
    const reasons: string[] = [];
    const { path: configPath, text } = await openClawSettings(machine, stateDir);
    if (text !== null) reasons.push(`its settings are at ${configPath}`);
    const version = await machine.run("openclaw", ["--version"]);
    if (version !== null && /^OpenClaw\b/i.test(version.trim())) reasons.push(`${version.trim()} is installed`);
    const settings = tryParse(text);
    const baseUrl = gatewayUrl(settings);
    const live = await machine.ask(`${baseUrl}/healthz`);
    const isLive = live?.status === 200 && memberOf(tryParse(live.body), "status") === "live";
    if (isLive) reasons.push(`its gateway answers at ${baseUrl}`);
    const path = memberOf(settings, "hooks", "path");
    const hookPath = `${typeof path === "string" ? path.replace(/\/$/, "") : "/hooks"}/agent`;
    return { confidence: confidenceOf(reasons, isLive), reasons, configPath, baseUrl, hookPath };
  },

  async inspectHook(machine, { baseUrl, hookPath, hookToken }, stateDir) {
    const response = await machine.ask(baseUrl + hookPath);
    if (response === null) return NO_ANSWER;
    // With hooks on, OpenClaw refuses a GET with 405. With hooks off, it returns a page.
    if (response.status !== 405) {
      return `hooks are off, or not at ${hookPath}: a GET returns ${response.status}`;
    }
    const { path, text } = await openClawSettings(machine, stateDir);
    const known = memberOf(tryParse(text), "hooks", "token");
    if (typeof known === "string" && known !== hookToken) return `the token is not that of ${path}`;
    return null;
  },

  async plan(machine, { target, stateDir, makeToken }) {
    const { path, text } = await openClawSettings(machine, stateDir);
    if (path === null) {
      const steps = ["Give the state directory of OpenClaw with --platform-state-dir"];
      return { change: null, steps, hookToken: null };
    }
    const settings = parseSettings(text, path);
    const known = memberOf(settings, "hooks", "token");
    const hookToken = target.hookToken ?? (typeof known === "string" && known !== "" ? known : makeToken());
    const hooks = target.hookPath.replace(/\/agent$/, "");
    let wanted = withMember(withMember(settings, ["hooks", "enabled"], true), ["hooks", "token"], hookToken);
    if (memberOf(settings, "hooks", "path") !== hooks && (hooks !== "/hooks" || memberOf(settings, "hooks", "path"))) {
      wanted = withMember(wanted, ["hooks", "path"], hooks);
    }
    return { change: changeTo(wanted, path, settings, text), steps: [], hookToken };
  },
};

/** A peer of OpenClaw's A2A channel: where OpenClaw sends to, with which token, and the token that it accepts. */
export interface OpenClawPeer {
  url: string;
  outboundToken: string;
  token: string;
}

const PEERS = ["channels", "a2a", "peers"];

/** Lower case, because OpenClaw refuses capitals. */
const peerName = (alias: string) => `svc-${alias.toLowerCase()}`.slice(0, 64);

/**
 * The settings with a peer of the A2A channel, and the name of the peer.
 *
 * @throws {CliError} `CLI_FILE_INVALID`; `CLI_USAGE` without settings, or when another address has the name
 */
export async function withA2aPeer(
  machine: Machine,
  stateDir: string | null,
  alias: string,
  peer: OpenClawPeer,
): Promise<FileChange & { name: string }> {
  const { path, text } = await openClawSettings(machine, stateDir);
  if (path === null || text === null) {
    throw new CliError("CLI_USAGE", `There is no ${path ?? "openclaw.json"}: is OpenClaw installed for this user?`, {
      fix: "Name its state directory with --platform-state-dir.",
    });
  }
  const settings = parseSettings(text, path);
  const name = peerName(alias), at = [...PEERS, name];
  const present = memberOf(settings, ...at, "url");
  if (present !== undefined && present !== peer.url) {
    throw new CliError("CLI_USAGE", `${path} has a peer ${name} with another address`, {
      fix: "Remove it there, then run the command again.",
    });
  }
  const wanted = withMember(withMember(settings, ["channels", "a2a", "enabled"], true), at, peer);
  return { path, before: text, text: `${JSON.stringify(wanted, null, 2)}\n`, name };
}

/** The settings without the peer that has this token; `null` where there is none. @throws {CliError} `CLI_FILE_INVALID` */
export async function withoutA2aPeer(
  machine: Machine,
  stateDir: string | null,
  alias: string,
  isItsToken: (token: string) => boolean,
): Promise<FileChange | null> {
  const { path, text } = await openClawSettings(machine, stateDir);
  if (path === null || text === null) return null;
  const settings = parseSettings(text, path), at = [...PEERS, peerName(alias)];
  const token = memberOf(settings, ...at, "outboundToken");
  if (typeof token !== "string" || !isItsToken(token)) return null;
  return changeTo(withMember(settings, at, undefined), path, settings, text);
}

export function gatewayUrl(settings: unknown): string {
  const port = memberOf(settings, "gateway", "port"), url = `http://127.0.0.1:${port}`;
  // A number that is no port makes no URL, and would end a command with an error of svc itself.
  return typeof port === "number" && URL.canParse(url) ? url : `http://127.0.0.1:${PORT}`;
}

/**
 * Path of `openclaw.json`, also when the file does not exist; `null` without a home directory. It is absolute, because
 * an undo in another working directory would otherwise not find the file that was changed.
 */
export function openClawConfigPath(machine: Pick<Machine, "env" | "home">, stateDir: string | null): string | null {
  if (stateDir !== null) return resolve(stateDir, "openclaw.json");
  const named = machine.env("OPENCLAW_CONFIG_PATH");
  if (named !== undefined) return resolve(named);
  const state = machine.env("OPENCLAW_STATE_DIR");
  if (state !== undefined) return resolve(state, "openclaw.json");
  return machine.home === null ? null : join(machine.home, ".openclaw", "openclaw.json");
}

/** Path and text of `openclaw.json`; each is `null` when there is none. */
export async function openClawSettings(machine: Machine, stateDir: string | null) {
  const path = openClawConfigPath(machine, stateDir);
  return { path, text: path === null ? null : await machine.read(path) };
}
