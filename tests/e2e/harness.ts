/** What several e2e files set up in the same way. */
import { knowEachOther, knowPeer } from "../support/known_peer.ts";
import type { Place } from "../cli/place.ts";
import { clientFromFiles, createAgents } from "../cli/connector/people.ts";
import { Machine, type Program } from "../cli/program.ts";
import { type AgentClient, ApiError } from "../support/agent_client.ts";
import type { LiveAgent, Service } from "../support/process.ts";

/** Returns a function that declares a test with a machine of its own, next to services that all tests share. */
export function machineTests(program: Program, place: Place, test = Deno.test) {
  return (name: string, run: (place: Place, machine: Machine) => Promise<void>): void =>
    test({
      name: `${program.name}: ${name}`,
      // The services start before a test and end after it.
      sanitizeResources: false,
      sanitizeOps: false,
      async fn() {
        place.tamper = null;
        await using machine = await Machine.open(program, place);
        await run(place, machine);
      },
    });
}

/** Creates agents with their files in `dir`, each paired with each other one by a ticket. */
export async function pairedNames(
  service: Pick<Service, "apiKey" | "url">,
  dir: string,
  names: readonly string[],
): Promise<void> {
  await createAgents(dir, service, names);
  for (const [i, second] of names.entries()) {
    for (const first of names.slice(0, i)) {
      const a = await clientFromFiles(dir, first, service.url);
      const b = await clientFromFiles(dir, second, service.url);
      const { ticket } = await a.pairStart({ agentName: first, humanName: "A" });
      await b.pairConfirm(ticket, { agentName: second, humanName: "B" });
      await knowEachOther({ dir, name: first, humanName: "A" }, { dir, name: second, humanName: "B" });
    }
  }
}

/** Creates agent `b` with its files in `dir`, and agent `a` paired with it. */
export async function pairedAgents(
  service: Service,
  dir: string,
): Promise<{ a: LiveAgent; b: AgentClient }> {
  await createAgents(dir, service, ["b"]);
  const a = await service.agent("a");
  const b = await clientFromFiles(dir, "b", service.url);
  const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
  await b.pairConfirm(ticket, { agentName: "b", humanName: "B" });
  await knowPeer(dir, "b", { did: a.agent.did, agentName: "a", humanName: "A" });
  return { a, b };
}

/** The result of a message: `202` and whether it was delivered, or status and code. */
export async function outcome(call: Promise<{ delivered: boolean }>): Promise<string> {
  return await call.then(({ delivered }) => `202 ${delivered}`, (error) => {
    if (error instanceof ApiError) return `${error.status} ${error.code}`;
    throw error;
  });
}

/** Number of sockets that the server reports in its health. */
export async function connectedSockets(url: string): Promise<number> {
  const { proxy, connectedSockets } = await (await fetch(`${url}/health`)).json();
  return (proxy ?? { connectedSockets }).connectedSockets;
}
