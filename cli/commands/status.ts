/** `svc whoami`, and `svc status`: registry, proxy, person and agents at a glance. Changes nothing. */
import { memberOf } from "../platforms/settings.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";
import { connect, connectAsPerson, type ConnectionOptions } from "../account/registry_access.ts";
import { command, PERSON_OPTIONS } from "../command_line/command.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import { CliError, EXIT } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { endOf } from "../agents/lifecycle.ts";
import { exchange, ExchangeError } from "../../shared/client/http.ts";
import { connectorOf } from "../connector/attach.ts";
import { presentPeers, readPeers } from "../connector/peers/peers.ts";
import { countUnread, hasReader } from "../connector/runtime/runtime_file.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { isConnectorHealthy, problemOf, statusOf } from "../connector/status.ts";
import type { Context } from "../context.ts";

/** Without SVC_AGENT, because a name in it that is out of date would hide the state of this machine. */
const ONLY_AGENT = { value: "name", summary: "Only this agent (default: every agent)", complete: "agents" } as const;

export const COMMANDS = [
  command({
    path: ["whoami"],
    summary: "Show the person whose API key is configured",
    options: PERSON_OPTIONS,
    examples: { "svc whoami": "Show which account this machine uses, and its role" },
    async run(ctx, { options }) {
      const { registry, registryUrl, apiKey: own } = connectAsPerson(ctx, options);
      const { human, apiKey } = await registry.me(own);
      ctx.out.result({ registryUrl, human, apiKey }, [
        ctx.out.bold(human.displayName),
        ...fields([
          ["human", human.did],
          ["role", human.role],
          ["since", human.createdAt],
          ["API key", `${apiKey.name} (${apiKey.id})`],
          ["registry", registryUrl],
        ]),
      ]);
    },
  }),
  command({
    path: ["status"],
    summary: "Show registry, proxy, person, and the agents on this machine",
    details: ["Exits with 1 if a service or a running connector is not healthy."],
    options: { ...PERSON_OPTIONS, agent: ONLY_AGENT },
    examples: { "svc status": "Show whether everything works, and what is unread" },
    async run(ctx, { options }) {
      ctx.out.doing("Looking at services and connectors");
      const { registry, proxy, human, agents } = await overview(ctx, options);
      const service = ({ url, problem }: { url: string | null; problem: string | null }) =>
        url === null ? "not configured" : problem === null ? url : `${url}: NOT HEALTHY, it ${problem}`;
      const count = (number: number | null) => number === null ? null : String(number);
      for (const { name, problem } of agents) if (problem !== null) ctx.out.warn(`${name}: ${problem}`);
      const shown = agents.map(({ hasPeers: _, ...agent }) => agent);
      ctx.out.result({ registry, proxy, human, agents: shown }, [
        ...fields([
          ["registry", service(registry)],
          ["proxy", service(proxy)],
          ["person", human.problem ?? (ctx.out.showsIds ? `${human.displayName}, ${human.did}` : human.displayName)],
        ]),
        "",
        ...agents.length === 0 ? [`No agents in ${ctx.configDir}.`] : ctx.out.table<AgentOverview>([
          { head: "AGENT", of: ({ name }) => name },
          { head: "CONNECTOR", rank: 1, of: ({ connector }) => connector },
          { head: "LINK", rank: 2, of: ({ connection }) => connection },
          { head: "UNREAD", rank: 2, of: ({ unread }) => count(unread) },
          { head: "DEAD LETTERS", rank: 3, of: ({ deadLetters }) => count(deadLetters) },
          { head: "DID", isWide: true, of: ({ did }) => did },
        ], agents),
      ]);
      const lonely = agents.find(({ hasPeers, problem }) => !hasPeers && problem === null);
      const stopped = agents.find(({ connector, problem }) => connector === "not running" && problem === null);
      // A command that reads the link from standard input keeps the code out of the process list.
      if (human.problem === NO_API_KEY) ctx.out.next(["join", "-"], { when: "to paste the link of your invite" });
      else if (registry.problem !== null) {
        ctx.out.note(`Start the server of ${registry.url}, or check the address: svc config get registryUrl.`);
      } else if (agents.length === 0) ctx.out.next(["agent", "create", "my-agent"]);
      else if (lonely?.connector === "not running") {
        ctx.out.next(["connector", "start", lonely.name], { when: "to pair with another agent by pressing p" });
      } else if (lonely !== undefined) {
        ctx.out.note(`${lonely.name} has no peer yet: press p where its connector runs.`);
      } else if (stopped !== undefined) ctx.out.next(["connector", "start", stopped.name]);
      const isIll = [registry, proxy].some(({ problem }) => problem !== null) ||
        agents.some(({ connector }) => connector === "unhealthy");
      return isIll ? EXIT.failed : EXIT.done;
    },
  }),
];

interface AgentOverview {
  name: string;
  did: string | null;
  connector: "running" | "unhealthy" | "not running";
  /** State of the link to the proxy. This and `deadLetters` are `null` without a connector. */
  connection: string | null;
  /** `null` when messages go to a runtime, because those that wait for it are not unread. */
  unread: number | null;
  deadLetters: number | null;
  problem: string | null;
  hasPeers: boolean;
}

const NO_API_KEY = "no API key is saved";
const HEALTH_MS = 3_000;
const MAX_HEALTH_BYTES = 64 * 1024;

/** Asks the services and the connectors at the same time. @throws {CliError} for configuration and options */
async function overview(ctx: Context, options: ConnectionOptions & { agent?: string | undefined }) {
  const { registry: client, registryUrl, config } = connect(ctx, options);
  const proxyUrl = config.proxyUrl ?? null;
  const store = new AgentStore(ctx);
  const names = options.agent === undefined ? (await store.names()).agents : [(await store.open(options.agent)).name];
  const registryHealth = healthOf(ctx, registryUrl);
  const asked = registryHealth.then(({ problem }) => personOf(client, config.apiKey, problem !== null));
  // While the person is suspended, the registry refuses each agent, and a reissue would be refused too.
  const judge = asked.then(({ problem }) => problem === null ? client : null);
  const [registry, proxy, human, agents] = await Promise.all([
    registryHealth,
    proxyUrl === registryUrl ? registryHealth : healthOf(ctx, proxyUrl, registryUrl),
    asked,
    Promise.all(names.map((name) => agentOf(ctx, store, name, judge))),
  ]);
  return { registry, proxy, human, agents };
}

/**
 * Asks a service for its health.
 *
 * @param url `null` when none is configured
 * @param registryUrl named in the notice about a new version
 */
export async function healthOf(ctx: Context, url: string | null, registryUrl = url) {
  if (url === null) return { url, problem: null };
  try {
    const { status, text } = await exchange(ctx, {
      method: "GET",
      url: `${url}/health`,
      timeoutMs: HEALTH_MS,
      maxBytes: MAX_HEALTH_BYTES,
      onTooLarge: "truncate",
    });
    const version = memberOf(tryParse(text), "version");
    if (typeof version === "string" && registryUrl !== null) ctx.onVersion?.({ version, registryUrl });
    if (status !== 200) return { url, problem: `answers with status ${status}` };
    return { url, problem: version === undefined ? "is not an svc service" : null };
  } catch (error) {
    if (!(error instanceof ExchangeError)) throw error;
    return { url, problem: error.message };
  }
}

async function personOf(registry: RegistryClient, apiKey: string | undefined, isAway: boolean) {
  const unknown = (problem: string) => ({ displayName: null, did: null, problem });
  if (apiKey === undefined) return unknown(NO_API_KEY);
  if (isAway) return unknown("unknown while the registry is not healthy");
  try {
    const { displayName, did } = (await registry.me(apiKey)).human;
    return { displayName, did, problem: null };
  } catch (error) {
    return unknown(describeError(error));
  }
}

/** Says why the connector of an agent could not start; `null` when nothing is known that prevents it. */
async function endText(registry: RegistryClient | null, folder: AgentFolder): Promise<string | null> {
  if (registry?.registryUrl !== folder.identity().registryUrl) return null;
  // A registry that does not tell is no fault of the agent, such as one that is asked about too many agents at once.
  const end = await endOf(registry, folder).catch(() => null);
  return end && `registry: ${end.why}. ${end.fix}`;
}

async function agentOf(
  ctx: Context,
  store: AgentStore,
  name: string,
  judge: Promise<RegistryClient | null>,
): Promise<AgentOverview> {
  const nothing = { did: null, connection: null, unread: null, deadLetters: null, hasPeers: false };
  const stopped = { name, ...nothing, connector: "not running" } as const;
  let folder: AgentFolder, did: string;
  try {
    folder = await store.open(name);
    ({ did } = folder.identity());
  } catch (error) {
    // Shown as a problem of this agent, because its damaged file would otherwise hide the other agents.
    if (!(error instanceof CliError)) throw error;
    return { ...stopped, problem: error.message };
  }
  try {
    const client = await connectorOf(ctx, folder);
    const hasPeers = Object.keys(presentPeers(readPeers(folder))).length > 0;
    if (client === null) {
      const unread = hasReader(folder) ? await countUnread(folder) : null;
      return { ...stopped, did, hasPeers, unread, problem: await endText(await judge, folder) };
    }
    const status = await statusOf(client);
    const { connection: { state: connection }, inbox, deadLetters, runtime } = status;
    const connector = isConnectorHealthy(status) ? "running" : "unhealthy";
    const unread = runtime.url === null ? inbox.waiting : null;
    return {
      name,
      did,
      connector,
      connection,
      unread,
      deadLetters,
      problem: problemOf(status),
      hasPeers,
    };
  } catch (error) {
    return { ...stopped, did, connector: "unhealthy", problem: describeError(error) };
  }
}
