/**
 * How expiring records affect messages (D-217): an even pace for longer than the lifetime of a nonce, a stop in which
 * all nonces expire, and the first minute after it. A response waits for its commit, so the slowest response shows the
 * longest pause of the store. Two load processes take turns: one sends while the other signs.
 */
import { DatabaseSync } from "node:sqlite";
import { pause } from "../child.ts";
import { type Figure, figure, type Outcome, ratio } from "../figures.ts";
import type { RunAnswer } from "../jobs.ts";
import { type Admin, freePort, type Load, type Place, UNLIMITED, type World } from "../world.ts";
import { pairsOf } from "./messages.ts";

const BODY_BYTES = 120;
const AT_ONCE = 64;
const MINUTE = 60;
/** Minutes between two counts of the records. Counting reads the whole file. */
const COUNTED_MINUTES = 5;
const LONGEST_PAUSE_MS = 150;
const LONGEST_PAUSE_AFTER_STOP_MS = 300;
/** Earliest end of a nonce after its message, seconds. */
const NONCE_SECONDS = 600;

/** One part of a run. */
interface Part {
  /** Seconds since the start of the run. */
  at: number;
  run: RunAnswer;
}

export async function expiry(world: World): Promise<Outcome> {
  const { expirySeconds, expiryStopSeconds } = world.scale;
  if (expirySeconds === 0) return { skipped: "runs for 45 minutes: only with --full" };
  const store = world.newStore();
  const env = { ...UNLIMITED, ACCESS_TOKEN_TTL_SECONDS: "7200", PORT: String(freePort()), KV_URL: store };
  const { place, admin } = await world.together(env);
  const loads = [await senders(world, place, admin), await senders(world, place, admin)] as const;
  const sizes: Figure[] = [];
  const parts = await paced(world, place, loads, expirySeconds, (minute) => {
    if (minute % COUNTED_MINUTES === 0) sizes.push(...sizeOf(store, `minute ${minute}`));
  });
  sizes.push(...sizeOf(store, "at the end"));
  world.say(`stopped for ${expiryStopSeconds} s`);
  await place.children[0]?.end();
  await pause(expiryStopSeconds * 1000);
  await world.service(env);
  await Promise.all(loads.map((load) => connect(world, place, load)));
  const after = await paced(world, place, loads, Math.min(MINUTE, expirySeconds), () => {});
  sizes.push(...sizeOf(store, "after the restart"));
  const worst = slowest(parts);
  const worstAfter = slowest(after);
  return {
    figures: [
      ...byMinute(parts),
      figure("first minute after the restart: slowest answer", worstAfter, "ms"),
      ...sizes,
      ratio("slowest answer once nonces end / before", slowest(parts.filter(isLate)), slowest(parts.filter(isEarly))),
      ratio(`slowest answer / ${LONGEST_PAUSE_MS} ms`, worst, LONGEST_PAUSE_MS, { atMost: 1 }),
      ratio(
        `slowest answer after the restart / ${LONGEST_PAUSE_AFTER_STOP_MS} ms`,
        worstAfter,
        LONGEST_PAUSE_AFTER_STOP_MS,
        { atMost: 1 },
      ),
    ],
    notes: ["the generators sign on the same cores: the store may not be the cause of a slow response"],
  };
}

const isLate = ({ at }: Part) => at >= NONCE_SECONDS;
const isEarly = (part: Part) => !isLate(part);

async function senders(world: World, place: Place, admin: Admin): Promise<Load> {
  const load = await world.agents(place, admin, world.scale.pairs * 2);
  await load.ask("pair", { proxyUrl: place.proxyUrl, pairs: pairsOf(world.scale.pairs) });
  await connect(world, place, load);
  return load;
}

async function connect(world: World, { proxyUrl }: Place, load: Load): Promise<void> {
  await load.ask("connect", { proxyUrl, agents: pairsOf(world.scale.pairs).map(([, recipient]) => recipient) });
}

/** Sends at the pace of the scale, one part after the other. */
async function paced(
  world: World,
  { proxyUrl }: Place,
  loads: readonly [Load, Load],
  seconds: number,
  onMinute: (minute: number) => void,
): Promise<Part[]> {
  const { expiryPartSeconds, expiryPace, pairs } = world.scale;
  const prepare = (load: Load) =>
    load.ask("prepare", {
      kind: "messages",
      proxyUrl,
      pairs: pairsOf(pairs),
      count: Math.ceil(expiryPace * expiryPartSeconds),
      bodyBytes: BODY_BYTES,
      identity: true,
    });
  const parts: Part[] = [];
  let [current, next] = loads;
  await prepare(current);
  for (let at = 0; at < seconds; at += expiryPartSeconds) {
    world.say(`second ${Math.floor(at)} of ${seconds}`);
    const [run] = await Promise.all([
      current.ask("run", { concurrency: AT_ONCE, seconds: expiryPartSeconds, rate: expiryPace, strict: true }),
      prepare(next),
    ]);
    parts.push({ at, run });
    [current, next] = [next, current];
    if (Math.floor((at + expiryPartSeconds) / MINUTE) > Math.floor(at / MINUTE)) {
      onMinute(Math.floor((at + expiryPartSeconds) / MINUTE));
    }
  }
  return parts;
}

function slowest(parts: readonly Part[]): number | null {
  return parts.length === 0 ? null : Math.max(...parts.map(({ run }) => run.max));
}

function byMinute(parts: readonly Part[]): Figure[] {
  const minutes = Map.groupBy(parts, ({ at }) => Math.floor(at / MINUTE) + 1);
  return [...minutes].map(([minute, own]) => figure(`minute ${minute}: slowest answer`, slowest(own), "ms"));
}

/** Returns the number of records in the store's file, and the size of the file with its log. */
function sizeOf(path: string, when: string): Figure[] {
  using database = new DatabaseSync(path, { readOnly: true });
  const { n } = database.prepare("select count(*) as n from kv").get() as { n: number };
  const bytes = [path, `${path}-wal`].reduce((sum, file) => sum + bytesOf(file), 0);
  return [figure(`${when}: records`, Number(n), ""), figure(`${when}: file`, bytes / 1_048_576, "MiB")];
}

function bytesOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}
