/**
 * Memory of an idle agent: the memory of the server for each idle socket, at the service and at a bare WebSocket
 * server. It is the minimum in the seconds after, when garbage has been collected.
 */
import type { Child } from "../child.ts";
import { figure, type Outcome, ratio } from "../figures.ts";
import { freePort, type Load, settledBytes, UNLIMITED, type World } from "../world.ts";

/**
 * Share of sockets that are opened before the first reading, so that code which runs for the first time does not count.
 */
const WARM_UP_SHARE = 0.1;

export async function idleSocket(world: World): Promise<Outcome> {
  const { idleSockets } = world.scale;
  const warmUp = Math.ceil(idleSockets * WARM_UP_SHARE);
  // Registration leaves garbage that new sockets would reuse, so they connect to a process without registrations.
  const env = { ...UNLIMITED, PORT: String(freePort()), KV_URL: world.newStore() };
  const { place, admin } = await world.together(env);
  const load = await world.agents(place, admin, warmUp + idleSockets);
  await Promise.all(place.children.map((child) => child.end()));
  const service = await world.service(env);
  const own = await growth(world, load, service.url, service.child, warmUp);
  const bare = await world.bare("bare.ts", ["0"]);
  const plainLoad = world.load();
  await plainLoad.ask("invent", { count: warmUp + idleSockets });
  const plain = await growth(world, plainLoad, bare.url, bare.child, warmUp);
  return {
    figures: [
      figure(`service: memory of an idle socket, of ${idleSockets}`, own, "KiB"),
      figure(`bare server: memory of an idle socket, of ${idleSockets}`, plain, "KiB"),
      ratio("service / (bare + 6 KiB): memory of an idle socket", own, plain === null ? null : plain + 6, {
        atMost: 1,
      }),
    ],
  };
}

/** Returns the KiB of each socket. */
async function growth(
  world: World,
  load: Load,
  proxyUrl: string,
  server: Child,
  warmUp: number,
): Promise<number | null> {
  const { idleSockets, settle } = world.scale;
  const from = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);
  await load.ask("connect", { proxyUrl, agents: from(0, warmUp) });
  const before = await settledBytes(server, settle);
  world.say(`opening ${idleSockets} sockets`);
  await load.ask("connect", { proxyUrl, agents: from(warmUp, idleSockets) });
  const after = await settledBytes(server, settle);
  return before === null || after === null ? null : (after - before) / 1024 / idleSockets;
}
