/** What `provider doctor` finds: one line a check, pass or fail, and the cure. Reads; changes nothing, anywhere. */
import type { AgentFolder } from "../agent_store.ts";
import type { ConnectorClient } from "../connector/client.ts";
import { findPeer, readPeers } from "../connector/peers.ts";
import { sayError } from "../connector/refusals.ts";
import type { Runtime } from "../connector/runtime.ts";
import type { RuntimeFile } from "../connector/runtime_file.ts";
import { span, type Status } from "../connector/status.ts";
import type { Machine } from "./machine.ts";

export interface Check {
  name: string;
  ok: boolean;
  /** What was seen. */
  seen: string;
  /** What to do about it; empty when all is well. */
  fix: string;
}

export interface DoctorSeams {
  machine: Machine;
  /** Where the runtime keeps its state, when somebody said so. */
  stateDir: string | null;
  folder: AgentFolder;
  file: RuntimeFile | null;
  runtime: Runtime;
  client: ConnectorClient | null;
  now: number;
}

export interface DoctorOptions {
  peer?: string | undefined;
  skipConnector: boolean;
}

/** Checks without which no message goes out; the others are about messages that come in. */
export const STOPPERS: ReadonlySet<string> = new Set(["agent", "identity token", "session", "connector", "proxy"]);

/** Runs every check; one that fails keeps no other from being made. */
export async function examine(seams: DoctorSeams, options: DoctorOptions): Promise<Check[]> {
  const checks = [
    ...identityChecks(seams),
    platformCheck(seams),
    await reachableCheck(seams),
    ...await hookChecks(seams),
  ];
  if (!options.skipConnector) checks.push(...await connectorChecks(seams));
  if (options.peer !== undefined) checks.push(peerCheck(seams, options.peer));
  return checks;
}

function check(name: string, ok: boolean, seen: string, fix: string): Check {
  return { name, ok, seen, fix: ok ? "" : fix };
}

function identityChecks({ folder, now }: DoctorSeams): Check[] {
  const { name } = folder;
  const again = `svc agent reissue ${name}`;
  try {
    const { did, expiresAt } = folder.identity();
    const left = Date.parse(expiresAt) - now;
    const until = left > 0 ? `valid for ${span(left)}` : `over for ${span(-left)}`;
    const { refreshExpiresAt } = folder.auth();
    const session = Date.parse(refreshExpiresAt) - now;
    return [
      check("agent", true, did, ""),
      check("identity token", left > 0, until, `It has expired: ${again}`),
      check("session", session > 0, session > 0 ? `until ${refreshExpiresAt}` : "over", `It is over: ${again}`),
    ];
  } catch (error) {
    return [check("agent", false, sayError(error), `Restore the files, or ${again}`)];
  }
}

function platformCheck({ file, folder, runtime }: DoctorSeams): Check {
  const { platform, target } = runtime;
  const seen = `${platform.name} at ${runtime.url}${file === null ? ", by default" : ""}`;
  if (file === null) {
    return check(
      "platform",
      false,
      seen,
      `Nobody has said which runtime it is: svc install --agent-name ${folder.name}`,
    );
  }
  const lacksToken = platform.needsToken && target.hookToken === null;
  const fix = `${platform.name} wants a token: svc provider setup --for ${platform.id} --agent-name ${folder.name}`;
  return check("platform", !lacksToken, lacksToken ? `${seen}, without a token` : seen, fix);
}

async function reachableCheck({ runtime }: DoctorSeams): Promise<Check> {
  const { reachable, problem } = await runtime.probe();
  const fix = `Start ${runtime.platform.name}, or say where it is: svc install --for ${runtime.platform.id}`;
  return check("runtime", reachable, reachable ? `answers at ${runtime.target.baseUrl}` : problem ?? "silent", fix);
}

async function hookChecks({ runtime, machine, stateDir }: DoctorSeams): Promise<Check[]> {
  const { platform, target } = runtime;
  if (platform.inspectHook === undefined) return [];
  const problem = await platform.inspectHook(machine, target, stateDir);
  return [
    check(
      "hook",
      problem === null,
      problem ?? `takes messages at ${runtime.url}`,
      `svc provider setup --for ${platform.id}`,
    ),
  ];
}

async function connectorChecks({ client, folder }: DoctorSeams): Promise<Check[]> {
  const start = `svc connector start ${folder.name}`;
  if (client === null) return [check("connector", false, "none runs", start)];
  let status: Status;
  try {
    status = await client.status();
  } catch (error) {
    return [check("connector", false, sayError(error), start)];
  }
  const { connection, deadLetters, clockOffsetMs, inbox, runtime } = status;
  const since = span(Date.parse(status.now) - Date.parse(connection.since));
  const seconds = Math.round(clockOffsetMs / 1000);
  return [
    check("connector", true, `runs as process ${status.pid}`, ""),
    check(
      "proxy",
      connection.state === "connected",
      `${connection.state} for ${since}${connection.problem === null ? "" : `: ${connection.problem}`}`,
      "svc explain says more about a code; svc connector status shows when it tries again",
    ),
    check(
      "hand-over",
      runtime.problem === null,
      runtime.problem ?? "the connector has seen nothing wrong",
      `A wrong token, or hooks that are off: svc provider setup --for ${runtime.platform}`,
    ),
    check("inbox", inbox.waiting < 1_000, `${inbox.waiting} waiting`, "See the check of the runtime"),
    check(
      "dead letters",
      deadLetters === 0,
      String(deadLetters),
      `Look at ${client.url}/v1/dead-letter, then replay or purge them (svc connector shows how to call it)`,
    ),
    check("clock", seconds === 0, seconds === 0 ? "right" : `off by ${seconds} s`, "Set this machine's clock right"),
  ];
}

function peerCheck({ folder }: DoctorSeams, alias: string): Check {
  try {
    const did = findPeer(readPeers(folder), alias);
    return check(
      "peer",
      did !== null,
      did ?? `nobody has the alias ${alias}`,
      `svc connector ${folder.name} shows how to pair`,
    );
  } catch (error) {
    return check("peer", false, sayError(error), "Remove the file; the connector writes it anew");
  }
}
