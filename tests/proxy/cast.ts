/** The usual participants of a proxy test: a paired sender and recipient. */
import type { TestAgent, TestSocket, World, WorldOptions } from "../support/world.ts";
import { openProxy } from "./proxy_world.ts";

export interface Cast {
  w: World;
  /** Sends. */
  a: TestAgent;
  /** Receives on `socket`. */
  b: TestAgent;
  socket: TestSocket;
}

/** Returns the body of a test in the world that `open` makes, which ends with the test. */
export function inWorld<All extends { w: World }>(
  open: () => Promise<All>,
  run: (all: All, t: Deno.TestContext) => Promise<void>,
): (t: Deno.TestContext) => Promise<void> {
  return async (t) => {
    const all = await open();
    await using _ = all.w;
    await run(all, t);
  };
}

/** What a test does with its participants. */
export type CastTest = (cast: Cast, t: Deno.TestContext) => Promise<void>;

/** What a test does with two paired agents that are not connected. */
export type PairTest = (cast: Omit<Cast, "socket">, t: Deno.TestContext) => Promise<void>;

/** Opens a world with agents `a` and `b` paired, neither of them connected. */
export async function openPaired(): Promise<Omit<Cast, "socket">> {
  const w = await openProxy();
  return { w, ...await w.pairedAgents() };
}

/** Opens a world with agents `a` and `b` paired and `b` connected. */
export async function openCast(options: WorldOptions = {}): Promise<Cast> {
  const w = await openProxy(options);
  return { w, ...await w.story() };
}
