/** Agents of a cluster without faults of a plan: registered, and spread over the instances. */
import { BOOTSTRAP_SECRET, newAgent } from "../../support/process.ts";
import { ChaosAgent, type World } from "./clients.ts";
import type { Fact } from "./history.ts";
import { INSTANCES } from "./plan.ts";

/** Registrations at once. */
const AT_ONCE = 20;

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Registers agents, spread over the instances, without links. */
export async function register(world: World, count: number): Promise<ChaosAgent[]> {
  const place = { registryUrl: world.cluster.origin, proxyUrl: world.cluster.origin };
  const apiKey = (await world.registryAt(0).bootstrap(BOOTSTRAP_SECRET)).apiKey.token;
  const agents: ChaosAgent[] = [];
  const one = async (i: number) => {
    const live = await newAgent(place, apiKey, `agent-${i}`, world.depsAt(() => i % INSTANCES));
    agents[i] = new ChaosAgent(world, i, live);
  };
  for (let i = 0; i < count; i += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - i) }, (_, n) => one(i + n)));
  }
  return agents;
}

/** True when each agent has a link, else `undefined`, for `eventually`. */
export const areConnected = (agents: readonly ChaosAgent[]) =>
  agents.every(({ isConnected }) => isConnected) || undefined;

/** Messages that were received; one that was received twice is there twice. */
export function receivedIn(history: readonly Fact[]): string[] {
  return history.flatMap((fact) => fact.kind === "received" ? [fact.message] : []);
}
