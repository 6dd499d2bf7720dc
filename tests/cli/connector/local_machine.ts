/**
 * A machine with the agent alpha in the test's process, and alpha's connector with its local API on a real port. The
 * proxy is reached by requests only: the connector has no link.
 */
import { assert } from "@std/assert";
import { store } from "./store/disk.ts";
import type { ReceivedMessages } from "../../../cli/connector/store/received_messages.ts";
import { knowPeer } from "../../support/known_peer.ts";
import { type RunningConnector, startAgentConnector } from "../../../cli/connector/agent_connector.ts";
import { type AgentFolder, AgentStore } from "../../../cli/agents/agent_store.ts";
import type { StartOptions } from "../../../cli/connector/start_options.ts";
import { PROXY_URL, type TestAgent, type World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { stopping } from "./bench.ts";
import { contextOf } from "./context.ts";

/** A machine with an agent named alpha. */
export async function machineWithAlpha(given?: World): Promise<Machine> {
  const machine = await Machine.ofPerson(given, { env: { SVC_PROXY_URL: PROXY_URL, SVC_HUMAN_NAME: "Ada" } });
  machine.fetch =
    ((input: string, init?: RequestInit) =>
      input.startsWith("http://127.0.0.1:") ? fetch(input, init) : machine.world.fetch(input, init)) as typeof fetch;
  await machine.json("agent", "create", "alpha");
  return machine;
}

/** The folder of an agent of the machine. */
export async function folderOf(machine: Machine, name: string): Promise<AgentFolder> {
  return await new AgentStore(contextOf(machine.world, machine)).open(name);
}

/** The client of an agent of the machine, for requests that `svc` does not make. */
export async function clientOf(world: World, machine: Machine, name: string): Promise<TestAgent["client"]> {
  const folder = await folderOf(machine, name);
  const { privateKey } = await folder.keys();
  const { did } = folder.identity();
  return world.clientOf({ did, ait: folder.ait(), privateKey, accessToken: folder.auth().accessToken });
}

/** Pairs alpha with a new agent. */
export async function pairAlpha(world: World, machine: Machine, name: string): Promise<TestAgent> {
  const peer = await world.agent(undefined, name);
  const { ticket } = await peer.client.pairStart({ agentName: name, humanName: "Bob" });
  await (await clientOf(world, machine, "alpha")).pairConfirm(ticket, { agentName: "alpha", humanName: "Ada" });
  await knowPeer(machine.dir, "alpha", { did: peer.agent.did, agentName: name, humanName: "Bob" });
  return peer;
}

/** The running connector of alpha. Disposing it stops it. */
export async function connectorOfAlpha(
  world: World,
  machine: Machine,
  options: StartOptions = {},
): Promise<RunningConnector & AsyncDisposable> {
  const ctx = { ...contextOf(world, machine), env: (name: keyof typeof machine.env) => machine.env[name] };
  const running = await startAgentConnector(ctx, "alpha", options, { emit: () => {} });
  return {
    ...running,
    [Symbol.asyncDispose]: () => stopping(world, running.stop()),
  };
}

/** A text with characters that a terminal must not get. */
export const HOSTILE = "no\u001b[2J\u0007\r\u009b\u202e";

/** Stores messages of an agent, and makes each a dead letter. Returns their IDs. */
export function deadLettersFrom(inbox: ReceivedMessages, from: TestAgent, count: number, now: number): number[] {
  return Array.from({ length: count }, (_, i) => {
    store(inbox, `request-${i}`, { from: from.agent.did }, now + i);
    const message = inbox.read(inbox.waiting().at(-1)?.seq ?? 0);
    assert(message);
    inbox.moveToDeadLetters(message, HOSTILE, now + i);
    return message.seq;
  });
}
