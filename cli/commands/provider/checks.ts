/** The checks of `provider doctor`: one result per check, with its fix. Changes nothing. */
import { type AgentFolder, FIRST_AGENT } from "../../agents/agent_store.ts";
import { againFrom } from "../../agents/lifecycle.ts";
import { findPeer, findPeerEver, readPeers } from "../../connector/peers/peers.ts";
import { AGENT_FILES } from "../../../shared/client/agent_files.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { describeError, TAKEN_OVER } from "../../../shared/client/refusals.ts";
import { isErrorCode } from "../../../shared/protocol/errors.ts";
import { parseAit, readAitClaims } from "../../../shared/protocol/signed/ait.ts";
import { TokenError } from "../../../shared/protocol/signed/jws.ts";
import { NOT_READY, OF_OTHER_USER, type Runtime } from "../../connector/runtime/runtime.ts";
import { type Status, statusOf } from "../../connector/status.ts";
import { formatDuration } from "../../terminal/times.ts";
import { NO_ANSWER } from "../../platforms/platform.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { CliError } from "../../errors.ts";
import type { Provider } from "./provider_world.ts";

export interface DoctorCheck {
  name: string;
  ok: boolean;
  seen: string;
  source: string;
  /** The fix; empty when the check passes. */
  fix: string;
}

type DoctorDeps = Provider & { now: number };

/** Checks that must pass to send a message; the others are about received messages. */
export const BLOCKING_CHECKS: ReadonlySet<string> = new Set([
  "agent",
  "identity token",
  "session",
  "registry",
  "connector",
  "proxy",
]);

/** How many servers of peers are shown. With more, the other checks would scroll out of the terminal. */
const SERVERS_CHECKED = 10;

const RUNNING = "the running connector";
const FILES = "the agent's files";
const HERE = "a request from here";

/**
 * Runs every check, even after one has failed. A running connector is asked first, because it may use another runtime
 * than the one in the settings on disk.
 */
export async function runChecks(
  deps: DoctorDeps,
  options: { peer?: string | undefined; skipConnector: boolean },
): Promise<DoctorCheck[]> {
  const { folder, client } = deps;
  const response = options.skipConnector || client === null ? null : await statusOf(client).catch(describeError);
  const status = typeof response === "string" ? null : response;
  const runtime = status === null ? deps.runtime : runtimeOf(status, deps);
  // The hook checks read the settings on disk, so they say nothing about a connector that uses another runtime.
  const isOfFile = runtime?.url === deps.runtime?.url;
  const checks = [
    ...identityChecks(deps),
    ...folder === null ? [] : await registryCheck(folder, deps),
    status === null ? platformCheck(deps) : livePlatformCheck(runtime, status, deps),
    ...runtime === null ? [] : [await reachableCheck(runtime, ownOption(deps))],
    ...runtime === null || !isOfFile ? [] : await hookChecks(runtime, deps),
  ];
  if (!options.skipConnector && folder !== null) checks.push(...connectorChecks(folder, deps.clientUrl, response));
  if (options.peer !== undefined && folder !== null) checks.push(peerCheck(folder, options.peer));
  return checks;
}

function check(name: string, ok: boolean, seen: string, source: string, fix: string): DoctorCheck {
  return { name, ok, seen, source, fix: ok ? "" : fix };
}

function identityChecks({ folder, now }: DoctorDeps): DoctorCheck[] {
  if (folder === null) return [check("agent", false, "no agent yet", "this machine", FIRST_AGENT)];
  const { name } = folder;
  const again = `svc agent reissue ${name}`;
  try {
    const { did, expiresAt } = folder.identity();
    const left = Date.parse(expiresAt) - now;
    const until = left > 0 ? `valid for ${formatDuration(left)}` : `expired ${formatDuration(-left)} ago`;
    const { refreshExpiresAt } = folder.auth();
    readAitClaims(parseAit(folder.ait()));
    const session = Date.parse(refreshExpiresAt) - now;
    const sessionSeen = session > 0 ? `until ${refreshExpiresAt}` : "over";
    return [
      check("agent", true, did, FILES, ""),
      check("identity token", left > 0, until, FILES, `It has expired: ${again}`),
      check("session", session > 0, sessionSeen, FILES, `It is over: ${again}`),
    ];
  } catch (error) {
    return [
      check(
        "agent",
        false,
        error instanceof TokenError ? `${AGENT_FILES.ait}: ${error.message}` : describeError(error),
        FILES,
        `Restore it from a backup; if only tokens are lost, run ${again}`,
      ),
    ];
  }
}

/**
 * Returns no check in two cases: for an agent with damaged files, because another check reports them, and when the rate
 * limit of the registry refuses, because each agent of a machine with many would then look faulty.
 */
async function registryCheck(folder: AgentFolder, { ended }: Pick<DoctorDeps, "ended">): Promise<DoctorCheck[]> {
  try {
    const end = await ended(folder);
    return [check("registry", end === null, end?.why ?? "it has the agent", HERE, end?.fix ?? "")];
  } catch (error) {
    const isReported = error instanceof CliError || error instanceof TokenError;
    if (isReported || error instanceof ApiError && error.status === 429) return [];
    const seen = describeError(error);
    return [check("registry", false, seen, HERE, remedy(seen))];
  }
}

/**
 * What to do about a server with this problem. An error code shows that the server answers, and `svc explain` says more
 * about the code. Without one, the server may have to be started.
 */
function remedy(problem: string | null): string {
  const [code = ""] = problem?.split(":", 1) ?? [];
  return isErrorCode(code) ? `svc explain ${code} describes it` : "Check that the server runs, or ask its operator";
}

/**
 * Returns the option that names an agent with settings of its own, because a command without it changes only those of
 * the other agents.
 */
function ownOption({ folder, source }: Pick<DoctorDeps, "folder" | "source">): string {
  return folder !== null && source.startsWith(folder.path) ? ` --agent-name ${folder.name}` : "";
}

function platformCheck({ file, folder, source, runtime }: DoctorDeps): DoctorCheck {
  if (runtime === null) return check("platform", true, PLATFORMS.inbox.name, source, "");
  const { platform, target } = runtime;
  const seen = `${platform.name} at ${runtime.url}`;
  if (file === null) return check("platform", false, seen, source, "No runtime is configured: run svc install");
  const lacksToken = platform.needsToken && target.hookToken === null;
  const fix = `${platform.name} needs a token: svc provider setup --for ${platform.id}${ownOption({ folder, source })}`;
  return check("platform", !lacksToken, lacksToken ? `${seen}, without a token` : seen, source, fix);
}

function livePlatformCheck(runtime: Runtime | null, status: Status, deps: DoctorDeps): DoctorCheck {
  const given = status.runtime.source, saved = deps.runtime;
  // A connector reads the settings only when it starts, so a change of them would otherwise seem to have no effect.
  const isSaved = given === "option" || given === "environment" || deps.source === "--for" ||
    runtime?.url === saved?.url;
  const source = given === null ? RUNNING : `${RUNNING}, which has it from ${given}`;
  const seen = runtime === null ? PLATFORMS.inbox.name : `${runtime.platform.name} at ${runtime.url}`;
  const wanted = (saved?.platform ?? PLATFORMS.inbox).name;
  const fix = `${deps.source} names ${wanted}: stop the connector and start it again`;
  return check("platform", isSaved, seen, source, fix);
}

/** Returns the runtime that a connector uses, or that of the settings when its status has no valid URL. */
export function runtimeOf(
  { runtime: { platform, url } }: Status,
  { runtime: known, runtimeAt }: Pick<DoctorDeps, "runtime" | "runtimeAt">,
): Runtime | null {
  if (platform === "inbox") return null;
  if (url === null || !URL.canParse(url)) return known;
  const { origin, pathname } = new URL(url);
  const hookToken = url === known?.url ? known.target.hookToken : null;
  return runtimeAt({ platform, baseUrl: origin, hookPath: pathname, hookToken });
}

async function reachableCheck(runtime: Runtime, ownOption: string): Promise<DoctorCheck> {
  const problem = await runtime.problem();
  const own = `set its address: svc install --for ${runtime.platform.id}${ownOption}`;
  const fix = problem?.startsWith(NOT_READY)
    ? `Wait until ${runtime.platform.name} has started; messages wait too`
    : problem === OF_OTHER_USER
    ? `Messages wait, and go nowhere. Give ${runtime.platform.name} a port that no other user has, and ${own}`
    : `Start ${runtime.platform.name}, or ${own}`;
  return check("runtime", problem === null, problem ?? `answers at ${runtime.target.baseUrl}`, HERE, fix);
}

async function hookChecks(
  { platform, target, url }: Runtime,
  deps: DoctorDeps,
): Promise<DoctorCheck[]> {
  if (platform.inspectHook === undefined) return [];
  const problem = await platform.inspectHook(deps.machine, target, deps.stateDir);
  const setUp = `svc provider setup --for ${platform.id}${ownOption(deps)}`;
  const fix = problem === NO_ANSWER ? "See the check of the runtime" : setUp;
  return [check("hook", problem === null, problem ?? `takes messages at ${url}`, "the runtime's own settings", fix)];
}

/** @param response the connector's status, or an error as text; `null` when no connector runs */
export function connectorChecks(
  { name }: Pick<AgentFolder, "name">,
  clientUrl: string | null,
  response: Status | string | null,
): DoctorCheck[] {
  const start = `svc connector start ${name}`;
  if (response === null) return [check("connector", false, "none runs", FILES, start)];
  if (typeof response === "string") return [check("connector", false, response, `a request to ${clientUrl}`, start)];
  const { api, connection, deadLetters, clockOffsetMs, inbox, runtime, servers, otherKeys, session } = response;
  const live = (what: string, ok: boolean, seen: string, fix: string) => check(what, ok, seen, RUNNING, fix);
  const { state, problem } = connection;
  const since = formatDuration(Date.parse(response.now) - Date.parse(connection.since));
  const seconds = Math.round(clockOffsetMs / 1000);
  const isOver = Date.parse(session.accessExpiresAt) < Date.parse(response.now);
  const isPull = runtime.platform === "inbox";
  const own = runtime.source === "agent" ? ` --agent-name ${name}` : "";
  const ways = isPull ? `svc inbox --agent ${name} --take reads them` : "See the check of the runtime";
  return [
    live("connector", true, `runs as process ${response.pid}`, ""),
    // Other programs know the agent's own port, so they do not find a local API that had to take another one.
    ...api === null ? [] : [live(
      "port",
      api.movedFrom === null,
      api.movedFrom === null ? api.url : `${api.url}, because another program has port ${api.movedFrom}`,
      `Stop that program, or choose another port: ${start} --port <port>`,
    )],
    live(
      "proxy",
      state === "connected",
      `${state} for ${since}${problem === null ? "" : `: ${problem}`}`,
      problem !== null && problem === session.problem
        ? "See the check of the access token"
        : wayBack(name, problem) ?? `${remedy(problem)}; svc connector status ${name} shows the next attempt`,
    ),
    live(
      "access token",
      session.problem === null && !isOver,
      session.problem ?? `${isOver ? "over since" : "until"} ${session.accessExpiresAt}`,
      `svc agent auth refresh ${name} tries it at once, and says what to do`,
    ),
    ...isPull ? [] : [live(
      "hand-over",
      runtime.problem === null,
      runtime.problem ?? "the connector has seen no problem",
      `A wrong token, or hooks that are off: svc provider setup --for ${runtime.platform}${own}`,
    )],
    live(
      "inbox",
      inbox.problem === null && inbox.waiting < 1_000,
      inbox.problem ?? `${inbox.waiting} ${isPull ? "unread" : "waiting"}`,
      inbox.problem === null
        ? ways
        : "New messages wait at the server for a day, until the agent's folder can be written",
    ),
    live(
      "dead letters",
      deadLetters === 0,
      String(deadLetters),
      `svc dead-letters --agent ${name} lists them, with replay and purge`,
    ),
    ...servers.slice(0, SERVERS_CHECKED).map(({ host, problem }) =>
      live(
        `server ${host}`,
        problem === null,
        problem ?? "answered, or not called yet",
        `Messages for it wait here for a day and are tried again. ${remedy(problem)}`,
      )
    ),
    live(
      "peer keys",
      otherKeys.length === 0,
      otherKeys.length === 0 ? "one for each peer" : `the registry has signed another key for ${otherKeys.join(", ")}`,
      "Ask the operator of the registry why. Messages with the other key are refused; " +
        `svc peers remove <peer> --agent ${name} ends the pair`,
    ),
    live(
      "clock",
      seconds === 0,
      seconds === 0 ? "right" : `off by ${seconds} s`,
      "Correct the clock of this machine or the server's",
    ),
  ];
}

function peerCheck(folder: AgentFolder, alias: string): DoctorCheck {
  try {
    const peers = readPeers(folder), did = findPeer(peers, alias), ended = findPeerEver(peers, alias);
    const ticket = "press p in the terminal of svc connector start";
    if (did === null && ended !== null) {
      const fix = `A ticket begins it again, same name and key: ${ticket}`;
      return check("peer", false, `the pair with ${alias} is over`, FILES, fix);
    }
    const fix = `Run svc peers --agent ${folder.name} to see the peers; to pair, ${ticket}`;
    return check("peer", did !== null, did ?? `no peer has the alias ${alias}`, FILES, fix);
  } catch (error) {
    // The fix restores the folder, because with a new file of peers each peer would have to be paired again.
    const fix = error instanceof CliError && error.fix || `Restore the folder of ${folder.name} from a copy`;
    return check("peer", false, describeError(error), FILES, fix);
  }
}

/** The fix for a connector without a link; `null` when the link comes back by itself, or no command is known. */
function wayBack(name: string, problem: string | null): string | null {
  if (problem === null) return null;
  const again = `svc agent reissue ${name}`, newSession = `svc agent auth revoke ${name}, then ${again}`;
  if (problem.startsWith(TAKEN_OVER)) {
    return `A copy of ${name} runs. Stop one; if you do not know it: ${newSession}`;
  }
  const fixes = new Map([
    ["AGENT_NOT_FOUND", againFrom(name)],
    ["PROXY_AUTH_REVOKED", `It was reissued elsewhere, or its files are an old copy: ${again}`],
    ["AGENT_AUTH_REFRESH_REVOKED", again],
    ["AGENT_AUTH_REFRESH_INVALID", `If a copy of ${name} runs elsewhere, stop it. Then ${newSession}`],
    ["AGENT_AUTH_REFRESH_EXPIRED", newSession],
    ["AGENT_AUTH_REFRESH_UNAUTHORIZED", newSession],
    ["ACCOUNT_SUSPENDED", "Ask the administrator of the registry; then it comes back by itself"],
  ]);
  return fixes.get(problem.split(":", 1)[0] ?? "") ?? null;
}
