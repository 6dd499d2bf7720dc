/** A machine with the agent alpha and its connected peer beta, and the result of a message that reached beta. */
import { assertEquals } from "@std/assert";
import { NOT_KEPT } from "../../support/not_kept.ts";
import { type TestAgent, type TestSocket, World } from "../../support/world.ts";
import type { Machine } from "../cli_world.ts";
import { machineWithAlpha, pairAlpha } from "../connector/local_machine.ts";

export interface PlaceWithBeta {
  world: World;
  machine: Machine;
  beta: TestAgent;
  socket: TestSocket;
}

export async function withBeta(test: (place: PlaceWithBeta) => Promise<void>): Promise<void> {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const beta = await pairAlpha(world, machine, "beta");
  const socket = world.connect(beta);
  await world.connected();
  machine.stdin = null;
  machine.requests.length = 0;
  await test({ world, machine, beta, socket });
}

/** Asserts that this is the result of the message `request-1`, which beta has. */
export function assertDelivered({ stateAt, ...result }: Record<string, unknown>, beta: TestAgent): void {
  const sent = { requestId: "request-1", to: beta.agent.did, state: "delivered", problem: null, expiresAt: null };
  assertEquals([typeof stateAt, result], ["string", {
    ...sent,
    ...NOT_KEPT,
    replies: [],
    replyError: null,
    reply: null,
  }]);
}
