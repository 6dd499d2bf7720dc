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

/** Opens a world with agents `a` and `b` paired and `b` connected. */
export async function openCast(options: WorldOptions = {}): Promise<Cast> {
  const w = await openProxy(options);
  return { w, ...await w.story() };
}
