/** What an `Agent` is started with: from the folder of an agent on this machine, or from credentials (D-125). */
import { CLIENT_LIMITS } from "../limits.ts";
import type { ProxyPlace } from "../link.ts";
import type { SessionStore } from "../agent_credentials.ts";
import type { ServiceClock } from "../service_clock.ts";
import { isLoopback, parseServiceUrl } from "../service_url.ts";
import type { AgentAuth, AgentOptions, Credentials } from "./agent_api.ts";
import { AgentDirectory } from "./directory_store.ts";
import { LocalConnection } from "./local_connection.ts";
import { directorySession, keptSession } from "./session_stores.ts";
import { SvcError } from "./svc_error.ts";
import { type ClientSystem, leavesMachine } from "./system.ts";

/** What an agent is started with. */
export interface AgentParts {
  system: ClientSystem;
  did: string;
  name: string;
  humanName: string;
  proxy: ProxyPlace;
  /** The session of the agent; its requests use the clock. */
  session(clock: ServiceClock): Promise<SessionStore>;
  /** The DIDs of the peers by alias. */
  aliases(): Promise<ReadonlyMap<string, string>>;
}

/** The name that peers see when no owner is named; that of the connector. */
const NO_NAME = "someone";

/**
 * The parts of an agent in `agents/<name>/`.
 *
 * @throws {SvcError} `CONNECTOR_RUNNING` while its connector runs; `CLI_AGENT_UNKNOWN`, `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`,
 * `CLI_CONFIG_INVALID`, `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export async function partsOfDirectory(system: ClientSystem, path: string, options: AgentOptions): Promise<AgentParts> {
  const directory = await AgentDirectory.open(system, path);
  const { did, name, registryUrl } = await directory.identity();
  const config = await directory.config();
  const { allowInsecure = false, proxyUrl = system.env("SVC_PROXY_URL") ?? config.proxyUrl } = options;
  if (proxyUrl === undefined) throw new SvcError("CLI_USAGE", "No proxy is configured: give proxyUrl");
  const registry = secureUrl(system, registryUrl, "registryUrl of identity.json", allowInsecure);
  const proxy = secureUrl(system, proxyUrl, "proxyUrl", allowInsecure);
  await refuseRunning(system, directory);
  return {
    system,
    did,
    name,
    humanName: options.humanName ?? system.env("SVC_HUMAN_NAME") ?? config.humanName ?? NO_NAME,
    proxy: { dialUrl: proxy, origin: proxy },
    session: (clock) => Promise.resolve(directorySession({ ...system, clock }, directory, registry)),
    aliases: () => directory.aliases(),
  };
}

/**
 * The parts of an agent whose credentials the program keeps.
 *
 * @param save stores new tokens
 * @throws {SvcError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export function partsOfCredentials(
  system: ClientSystem,
  credentials: Credentials,
  options: AgentOptions & { save(auth: AgentAuth): Promise<void> },
): AgentParts {
  const { allowInsecure = false, humanName = NO_NAME } = options;
  const registry = secureUrl(system, credentials.registryUrl, "registryUrl", allowInsecure);
  const proxy = secureUrl(system, options.proxyUrl ?? credentials.proxyUrl, "proxyUrl", allowInsecure);
  return {
    system,
    did: credentials.did,
    name: credentials.name,
    humanName,
    proxy: { dialUrl: proxy, origin: proxy },
    session: (clock) => keptSession({ ...system, clock }, credentials, registry, (auth) => options.save(auth)),
    aliases: () => Promise.resolve(new Map()),
  };
}

/** The origin of an address that secrets may be sent to. */
function secureUrl(system: ClientSystem, text: string, what: string, allowInsecure: boolean): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new SvcError("CLI_USAGE", `${what} is not an address such as https://proxy.example: "${text}"`);
  }
  if (!origin.startsWith("http:")) return origin;
  if (!isLoopback(origin)) {
    if (allowInsecure) return origin;
    throw new SvcError("CLI_INSECURE_URL", `${what} is ${origin}: plain http would expose secrets to the network`);
  }
  if (!leavesMachine(system)) return origin;
  throw new SvcError("CLI_USAGE", `HTTP_PROXY is set, and would get the secrets for ${origin}: add it to NO_PROXY`);
}

/** @throws {SvcError} `CONNECTOR_RUNNING` when the connector runs, or when that cannot be found out */
async function refuseRunning(system: ClientSystem, directory: AgentDirectory): Promise<void> {
  const file = await directory.connectorFile();
  if (file === null) return;
  const running = (what: string, cause?: unknown) =>
    new SvcError("CONNECTOR_RUNNING", `The connector of ${directory.name} ${what}; LocalAgent uses it`, { cause });
  try {
    if (!system.isRunning(file.pid)) return;
  } catch (cause) {
    throw running("may run: Deno needs --allow-run to find out", cause);
  }
  const timeoutMs = CLIENT_LIMITS.localStatusMs;
  // Another process can have the number of a connector that was killed.
  const isConnector = await new LocalConnection(system, directory).call("GET", "/v1/status", undefined, { timeoutMs })
    .then(() => true, () => false);
  if (isConnector) throw running(`runs as process ${file.pid}`);
}
