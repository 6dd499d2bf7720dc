/**
 * The agent of a command: the one that it names, by the name of a local agent or by the ID or DID of any agent, or the
 * only one on this machine.
 */
import { parseDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { type AgentFolder, AgentStore } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";

export interface AgentReference {
  /** ULID of the agent's record. */
  id: string;
  /** Name on this machine; `null` for an agent of another machine. */
  localName: string | null;
}

/** Returns ID and local name of an agent. @throws {CliError} `CLI_AGENT_UNKNOWN`, `CLI_USAGE`, `CLI_FILE_INVALID` */
export async function findAgent(ctx: Context, text: string): Promise<AgentReference> {
  const store = new AgentStore(ctx);
  const did = parseDid(text);
  const id = did?.kind === "agent" ? did.id : isUlid(text) ? text : null;
  const { agents } = await store.names();
  if (id !== null && !agents.includes(text)) {
    const here = [...await store.namesByDid()].find(([known]) => parseDid(known)?.id === id);
    return { id, localName: here?.[1] ?? null };
  }
  const identity = (await store.open(text)).identity();
  const own = parseDid(identity.did)?.id;
  if (own === undefined) throw new CliError("CLI_FILE_INVALID", `The identity of ${text} has no valid DID`);
  return { id: own, localName: text };
}

/**
 * Returns the named agent, else that of `SVC_AGENT`, else the only agent on this machine.
 *
 * @throws {CliError} `CLI_AGENT_UNKNOWN`; `CLI_USAGE` when there are several agents and none is named
 */
export async function chosenAgent(
  ctx: Context,
  named: string | undefined,
): Promise<{ store: AgentStore; folder: AgentFolder }> {
  const store = new AgentStore(ctx);
  const name = named ?? ctx.env("SVC_AGENT") ?? onlyOne((await store.names()).agents, ctx.configDir);
  return { store, folder: await store.open(name) };
}

function onlyOne(agents: readonly string[], configDir: string): string {
  const [first, second] = agents;
  if (first === undefined) throw new CliError("CLI_AGENT_UNKNOWN", `There is no agent in ${configDir}`);
  if (second === undefined) return first;
  throw new CliError("CLI_USAGE", `There are several agents on this machine. Name one of ${agents.join(", ")}`);
}
