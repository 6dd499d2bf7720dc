/** What several e2e files set up in the same way. */
import type { Place } from "../cli/place.ts";
import { clientFromFiles, svc } from "../cli/connector/people.ts";
import { Machine, type Program } from "../cli/program.ts";
import type { AgentClient } from "../support/agent_client.ts";
import type { LiveAgent, Service } from "../support/process.ts";

/** Returns a function that declares a test with a machine of its own, next to services that all tests share. */
export function machineTests(program: Program, place: Place) {
  return (name: string, run: (place: Place, machine: Machine) => Promise<void>): void =>
    Deno.test({
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

/** Creates paired agents with their files in `dir`. */
export async function pairedNames(
  service: Service,
  dir: string,
  program: Program,
  [first, second]: readonly [string, string],
): Promise<void> {
  const env = { SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url };
  await svc(dir, ["config", "init", "--registry-url", service.url], {}, program);
  for (const name of [first, second]) await svc(dir, ["agent", "create", name], env, program);
  const a = await clientFromFiles(dir, first, service.url);
  const b = await clientFromFiles(dir, second, service.url);
  const { ticket } = await a.pairStart({ agentName: first, humanName: "A" });
  await b.pairConfirm(ticket, { agentName: second, humanName: "B" });
}

/** Creates agent `b` with its files in `dir`, and agent `a` paired with it; `more` is set in the environment. */
export async function pairedAgents(
  service: Service,
  dir: string,
  program: Program,
  more: Record<string, string> = {},
): Promise<{ a: LiveAgent; b: AgentClient }> {
  const env = { ...more, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url };
  await svc(dir, ["config", "init", "--registry-url", service.url], more, program);
  await svc(dir, ["agent", "create", "b"], env, program);
  const a = await service.agent("a");
  const b = await clientFromFiles(dir, "b", service.url);
  const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
  await b.pairConfirm(ticket, { agentName: "b", humanName: "B" });
  return { a, b };
}
