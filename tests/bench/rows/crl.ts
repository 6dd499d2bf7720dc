/**
 * A large CRL: how fast the registry serves it, compared with a fixed text of the same size, sent at once and after one
 * read of a store (which D-21 requires for every response). Also how long another request waits while the list is
 * rebuilt. The entries are written to the store before the start.
 */
import { formatDid } from "../../../shared/protocol/did.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { endImport } from "../../../shared/server/store/store_format.ts";
import { pause } from "../child.ts";
import { newId } from "../fleet.ts";
import { figure, type Outcome, ratio } from "../figures.ts";
import { type Admin, cpuOf, type Load, type Place, revoke, type Server, UNLIMITED, type World } from "../world.ts";

const CONCURRENCY = 4;
/** Requests per second of the client that waits. */
const PROBES = 500;
const ENTRIES_PER_COMMIT = 500;
const YEAR_SECONDS = 31_536_000;

export async function list(world: World): Promise<Outcome> {
  const { crlEntries, crlRequests } = world.scale;
  const store = world.newStore();
  await fill(store, crlEntries);
  const { place, admin } = await world.together({ ...UNLIMITED, KV_URL: store });
  // A proxy sends its credential, so the limit per address does not apply.
  const headers = { [HEADERS.serviceId]: admin.service.id, [HEADERS.serviceSecret]: admin.service.secret };
  const bytes = await sizeOf(place, headers);
  const bare = await world.bare("bare.ts", [String(bytes)]);
  const load = world.load();
  const served = await requests(load, `${place.registryUrl}/v1/crl`, crlRequests, bytes, headers, place.children);
  const plain = await requests(load, `${bare.url}/bytes`, crlRequests, bytes, {}, [bare.child]);
  const looked = await requests(load, `${bare.url}/looked`, crlRequests, bytes, {}, [bare.child]);
  const calm = await probe(world, load, place);
  const rebuilt = await whileRebuilding(world, load, place, admin, headers);
  return {
    figures: [
      figure(`size of the list with ${crlEntries} entries`, bytes / 1024, "KiB"),
      figure("requests for the list", served.perSecond, "/s"),
      figure("requests for the list: CPU of each", served.cpuUs, "µs"),
      figure("fixed text of that size", plain.perSecond, "/s"),
      figure("fixed text of that size: CPU of each", plain.cpuUs, "µs"),
      figure("fixed text after one read of a store", looked.perSecond, "/s"),
      figure("fixed text after one read of a store: CPU of each", looked.cpuUs, "µs"),
      ratio("list / fixed text: throughput", served.perSecond, plain.perSecond),
      ratio("list / fixed text after one read: throughput", served.perSecond, looked.perSecond, { atLeast: 1 }),
      ratio("fixed text after one read / list: CPU of each", looked.cpuUs, served.cpuUs),
      figure("longest wait of another request", calm.max, "ms"),
      figure(`longest wait while the list is rebuilt`, rebuilt.max, "ms"),
      figure(`p99 of another request`, calm.p99, "ms"),
      figure(`p99 while the list is rebuilt`, rebuilt.p99, "ms"),
      ratio("longest wait with / without a rebuild", rebuilt.max, calm.max),
    ],
  };
}

/** Writes revocations to a store that no server has opened yet. */
async function fill(path: string, entries: number): Promise<void> {
  const kv = await Deno.openKv(path);
  // A server starts on no store that holds records without a format.
  await endImport(kv);
  const now = Math.floor(Date.now() / 1000);
  for (let done = 0; done < entries; done += ENTRIES_PER_COMMIT) {
    const operation = kv.atomic().set(KEYS.crlHead(), { seq: entries });
    for (let i = done; i < Math.min(entries, done + ENTRIES_PER_COMMIT); i++) {
      const jti = newId();
      const agentDid = formatDid({ authority: "127.0.0.1", kind: "agent", id: newId() });
      const record = { jti, agentDid, reason: "reissued", revokedAt: now - i, keptUntil: now + YEAR_SECONDS };
      operation.set(KEYS.revocation(jti), record);
    }
    await operation.commit();
  }
  kv.close();
}

async function sizeOf({ registryUrl }: Place, headers: Record<string, string>): Promise<number> {
  const response = await fetch(`${registryUrl}/v1/crl`, { headers });
  const { byteLength } = await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`The list was answered with ${response.status}`);
  return byteLength;
}

async function requests(
  load: Load,
  url: string,
  count: number,
  bytes: number,
  headers: Record<string, string>,
  servers: Server["child"][],
): Promise<{ perSecond: number; cpuUs: number | null }> {
  await load.ask("prepare", { kind: "gets", url, count, bytes, headers });
  const before = cpuOf(servers);
  const run = await load.ask("run", { concurrency: CONCURRENCY, seconds: 60, strict: true });
  const after = cpuOf(servers);
  const cpuUs = before === null || after === null ? null : (after - before) * 1_000_000 / run.sent;
  return { perSecond: run.sent / run.seconds, cpuUs };
}

/** Repeats a cheap request while the list is rebuilt. */
async function probe(world: World, load: Load, place: Place) {
  const { rebuilds } = world.scale;
  await load.ask("prepare", { kind: "gets", url: `${place.registryUrl}/v1/metadata`, count: 1, bytes: 1 });
  return await load.ask("run", {
    concurrency: 8,
    seconds: rebuilds * 0.5 + 0.2,
    rate: PROBES,
    repeat: true,
    strict: true,
  });
}

/** Revokes an agent every 0.5 s. Each time the list is rebuilt and the proxy reads it. */
async function whileRebuilding(
  world: World,
  prober: Load,
  place: Place,
  admin: Admin,
  headers: Record<string, string>,
) {
  const load = world.load();
  const { rebuilds } = world.scale;
  const { ids } = await load.ask("register", {
    registryUrl: place.registryUrl,
    apiKeys: [admin.apiKey],
    count: rebuilds,
  });
  const revoking = async () => {
    for (const id of ids) {
      await pause(200);
      await revoke(place, admin, id);
      await sizeOf(place, headers);
      await pause(300);
    }
  };
  const [waited] = await Promise.all([probe(world, prober, place), revoking()]);
  return waited;
}
