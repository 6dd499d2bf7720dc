/** Chooses the agent of a command that one agent is enough for (D-120). */
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { type AgentFolder, AgentStore } from "./agent_store.ts";

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
