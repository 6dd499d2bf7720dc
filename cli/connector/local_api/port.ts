/** The port of an agent's local API: chosen once among those that no other agent has, and kept. */
import { hash } from "node:crypto";
import { resolve } from "node:path";
import { type Listening, listenOn } from "../../../shared/listening.ts";
import type { AgentFolder, AgentStore } from "../../agents/agent_store.ts";
import { parsePort } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";

/** The range of first ports. It ends below 32,768, because systems use higher ports for outgoing connections. */
export const LOWEST_PORT = 12_000, PORTS = 20_000;
/** Ports that are tried. With more, a start would take seconds when another program holds them all. */
const PORTS_TRIED = 1_000;

const PORT_FILE = "port";

/**
 * The first port that an agent without a saved port tries. All agents of a user and configuration directory begin at
 * the same port, but those of two users begin at different ones. If every user began at one port, the address of a
 * connector that does not run would lead to the connector of another user.
 */
export function firstPort({ uid, configDir }: Pick<Context, "uid" | "configDir">): number {
  return LOWEST_PORT + hash("sha256", `${uid}\n${resolve(configDir)}`, "buffer").readUIntBE(0, 3) % PORTS;
}

/**
 * Listens on the agent's own port. The first start chooses a free port that no other agent of this configuration has,
 * and saves it, so that an agent's address never leads to another agent's connector. When another program has the port,
 * the next free one is used for this run.
 *
 * @param wanted from `wantedPort`, which changes the port permanently
 * @param choice where an agent without a port looks for one; `reserved`: ports of programs that may not run now;
 * `onFailed` gets the reason when the listener fails later
 * @returns `movedFrom`: the agent's own port, when another program has it; `null`: the listener has it
 * @throws {CliError} `CLI_BUSY` when none of a thousand ports is free
 */
export async function openPort(
  store: AgentStore,
  folder: AgentFolder,
  wanted: number | null,
  response: Deno.ServeHandler<Deno.NetAddr>,
  { first, reserved = [], onFailed }: {
    first: number;
    reserved?: readonly number[];
    onFailed?: (cause: unknown) => void;
  },
): Promise<{ listener: Listening; movedFrom: number | null }> {
  const own = wanted ?? readPort(folder);
  const listen = (port: number): Listening | null => {
    try {
      return listenOn({ hostname: "127.0.0.1", port, ...onFailed && { onFailed } }, response);
    } catch (error) {
      if (error instanceof Deno.errors.AddrInUse) return null;
      throw error;
    }
  };
  let listener = own === null ? null : listen(own);
  if (listener === null) {
    // Read only when this agent needs a new port, because one process may start hundreds of agents.
    const taken = new Set([...(await portsOfOthers(store, folder.name)).keys(), ...reserved]);
    const from = own ?? first, last = Math.min(65_535, from + taken.size + PORTS_TRIED - 1);
    for (let port = from; listener === null && port <= last; port++) listener = taken.has(port) ? null : listen(port);
    if (listener === null) {
      throw new CliError("CLI_BUSY", `No port from ${from} to ${last} is free`, {
        fix: "Choose another port with --port.",
      });
    }
  }
  const { port } = listener.addr, kept = own ?? port;
  try {
    if (kept !== readPort(folder)) await folder.write(PORT_FILE, String(kept));
  } catch (error) {
    await listener.shutdown();
    throw error;
  }
  return { listener, movedFrom: port === kept ? null : kept };
}

/**
 * Returns the port of `--port`; `null` without it.
 *
 * @throws {CliError} `CLI_USAGE` for a text that is no port, and for the port of another agent, because the address of
 * that agent would lead to this one
 */
export async function wantedPort(
  store: AgentStore,
  folder: AgentFolder,
  text: string | undefined,
): Promise<number | null> {
  const port = parsePort(text, "--port") ?? null;
  if (port === null || port === readPort(folder)) return port;
  const owner = (await portsOfOthers(store, folder.name)).get(port);
  if (owner === undefined) return port;
  throw new CliError("CLI_USAGE", `Port ${port} is the port of your agent ${owner}`, {
    fix: `Choose another port, or first start ${owner} with another one.`,
  });
}

/** The saved port of an agent; `null` before its first start, or when the file is invalid. */
export function readPort(folder: AgentFolder): number | null {
  const text = folder.read(PORT_FILE)?.trim() ?? "";
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : null;
}

/** The saved ports of the other agents, each with the name of its agent. */
async function portsOfOthers(store: AgentStore, name: string): Promise<Map<number, string>> {
  const ports = [...await store.each(readPort)];
  return new Map(ports.flatMap(([other, port]) => other === name || port === null ? [] : [[port, other]]));
}
