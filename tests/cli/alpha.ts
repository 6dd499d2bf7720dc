/** A machine with the agent alpha, and operations of tests on its session. */
import { flushTasks } from "../support/manual_clock.ts";
import type { World } from "../support/world.ts";
import { Machine } from "./cli_world.ts";

export const AUTH = "agents/alpha/registry-auth.json";
export const MARKER = "agents/alpha/refresh.pending";

interface Auth {
  accessToken: string;
  refreshToken: string;
}

export const authOf = (machine: Machine) => JSON.parse(machine.read(AUTH)) as Auth;

export async function withAlpha(): Promise<Machine> {
  const machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  machine.world.clock.step(2_000);
  return machine;
}

/** True when the registry accepts the access token of the file. */
export async function works(machine: Machine): Promise<boolean> {
  const { did } = JSON.parse(machine.read("agents/alpha/identity.json")) as { did: string };
  const [, payload = ""] = machine.read("agents/alpha/ait.jwt").split(".");
  const { jti } = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as { jti: string };
  const { status } = await machine.world.ask("POST", "/v1/agents/auth/validate", {
    headers: { "X-Svc-Agent-Access": authOf(machine).accessToken },
    body: { agentDid: did, aitJti: jti },
  });
  return status === 204;
}

/** Moves the clock in steps until the work ends. */
export async function whileTimePasses<T>(world: World, work: Promise<T>, stepMs = 100): Promise<T> {
  let done = false;
  work.finally(() => done = true).catch(() => {});
  while (!done) {
    await flushTasks();
    if (!done) await world.clock.advance(stepMs);
  }
  return await work;
}
