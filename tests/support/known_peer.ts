/** Writes a peer that an agent has named before, as an earlier run of its connector has left it. */
import { aliasesOf, type Peers } from "../../cli/connector/peers/peers.ts";

/**
 * @param dir configuration folder
 * @param peer with its key it is one of a ticket, else a contact with the name that it has had
 */
export async function knowPeer(
  dir: string,
  agent: string,
  { did, agentName, humanName, key }: { did: string; agentName: string; humanName: string; key?: string },
): Promise<void> {
  const path = `${dir}/agents/${agent}/peers.json`;
  const peers = JSON.parse(await Deno.readTextFile(path).catch(() => "{}")) as Peers;
  if (aliasesOf(peers).has(did)) return;
  const alias = agentName in peers ? `${agentName}-2` : agentName;
  const pin = key === undefined ? {} : { key, how: "ticket" as const, since: "2026-02-21T00:00:00.000Z" };
  await Deno.writeTextFile(path, JSON.stringify({ ...peers, [alias]: { did, agentName, humanName, ...pin } }), {
    mode: 0o600,
  });
}

/** An agent with its files, and the name of its person. */
interface Side {
  /** Configuration folder. */
  dir: string;
  name: string;
  humanName: string;
}

/** Writes both sides of a pair, as a ticket of one of their connectors would. */
export async function knowEachOther(...pair: readonly [Side, Side]): Promise<void> {
  const [a, b] = await Promise.all(pair.map(async ({ dir, name, humanName }) => {
    const read = (file: string) => Deno.readTextFile(`${dir}/agents/${name}/${file}`);
    const { did } = JSON.parse(await read("identity.json")) as { did: string };
    return { did, agentName: name, humanName, key: (await read("public.key")).trim() };
  }));
  if (a === undefined || b === undefined) return;
  await knowPeer(pair[0].dir, a.agentName, b);
  await knowPeer(pair[1].dir, b.agentName, a);
}
