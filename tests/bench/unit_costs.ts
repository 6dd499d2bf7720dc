/**
 * Unit costs of `docs/scaling.md`, measured by hand on an idle machine: CPU of denokv, with the options of its unit, for a
 * commit and a read, memory of an idle socket, CPU of a connection. About a minute. Asserts nothing.
 *
 *   deno run -A tests/bench/unit_costs.ts [store | sockets]
 */
import { accessToken, Denokv, findDenokv, unitOptions } from "../support/denokv.ts";
import { cpuSeconds } from "../support/process_figures.ts";
import { cpuOf, freePort, settledBytes, UNLIMITED, World } from "./world.ts";
import { SCALES } from "./scale.ts";

const SOCKETS = 1_000;
const WARM_UP = 100;
const CALLS = 1_000;
/** Checks and records of a commit, as of a delivered message, and its bytes. */
const CHECKS = 7, WRITES = 5, VALUE = new Uint8Array(250);

interface CallCost {
  what: string;
  perSecond: number;
  denokvMicros: number;
  /** Part of it on the thread that writes. */
  writerMicros: number;
}

/** Returns the folder of denokv's thread for commits, which has the name sw-0. */
function writerOf(pid: number): string {
  const threads = [...Deno.readDirSync(`/proc/${pid}/task`)].map(({ name }) => `/proc/${pid}/task/${name}`);
  const writer = threads.find((path) => Deno.readTextFileSync(`${path}/comm`) === "sw-0\n");
  if (writer === undefined) throw new Error("denokv has no thread sw-0");
  return writer;
}

async function timed(
  server: Denokv,
  what: string,
  atOnce: number,
  call: (n: number) => Promise<unknown>,
): Promise<CallCost> {
  let next = 0;
  const worker = async () => {
    while (next < CALLS) await call(next++);
  };
  const paths = [`/proc/${server.pid}`, writerOf(server.pid)];
  const before = paths.map(cpuSeconds), began = performance.now();
  await Promise.all(Array.from({ length: atOnce }, worker));
  const seconds = (performance.now() - began) / 1000;
  const [denokvMicros = 0, writerMicros = 0] = paths.map((path, i) =>
    Math.round((cpuSeconds(path) - before[i]!) / CALLS * 1e6)
  );
  return { what: `${what}, ${atOnce} in flight`, perSecond: Math.round(CALLS / seconds), denokvMicros, writerMicros };
}

async function denokvCosts(program: string, folder: string): Promise<CallCost[]> {
  accessToken();
  await using server = await Denokv.start(program, `${folder}/denokv.sqlite`, 0, await unitOptions());
  const kv = await Deno.openKv(server.address);
  const commit = async (n: number) => {
    const operation = kv.atomic();
    for (let i = 0; i < CHECKS; i++) operation.check({ key: ["message", n, i], versionstamp: null });
    for (let i = 0; i < WRITES; i++) operation.set(["message", n, i], VALUE, { expireIn: 86_400_000 });
    if (!(await operation.commit()).ok) throw new Error("A commit failed");
  };
  const read = (n: number) => kv.get(["message", n, 0]);
  const empty = () => Array.fromAsync(kv.list({ prefix: ["nothing"] }));
  const costs: CallCost[] = [];
  for (const [turn, atOnce] of [1, 16].entries()) {
    costs.push(await timed(server, "commit", atOnce, (n) => commit(turn * CALLS + n)));
    costs.push(await timed(server, "get", atOnce, read));
    costs.push(await timed(server, "list of nothing", atOnce, empty));
  }
  kv.close();
  return costs;
}

/** Memory of an idle socket, KiB, and CPU of the server for one connection, milliseconds. */
async function socketCosts(world: World): Promise<Record<string, number | null>> {
  const env = { ...UNLIMITED, PORT: String(freePort()), KV_URL: world.newStore() };
  const { place, admin } = await world.together(env);
  const load = await world.agents(place, admin, WARM_UP + SOCKETS);
  await Promise.all(place.children.map((child) => child.end()));
  // Registration leaves garbage that sockets would reuse.
  const { child, url: proxyUrl } = await world.service(env);
  const from = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);
  await load.ask("connect", { proxyUrl, agents: from(0, WARM_UP) });
  const before = await settledBytes(child, 5), cpu = cpuOf([child]);
  await load.ask("connect", { proxyUrl, agents: from(WARM_UP, SOCKETS) });
  const after = cpuOf([child]), bytes = await settledBytes(child, 30);
  return {
    socketKiB: bytes === null || before === null ? null : (bytes - before) / 1024 / SOCKETS,
    connectMs: after === null || cpu === null ? null : (after - cpu) / SOCKETS * 1000,
  };
}

if (import.meta.main) {
  const [only] = Deno.args;
  await using world = new World(SCALES.usual, null, (what) => console.error(what));
  const program = only === "sockets" ? null : await findDenokv();
  if (program !== null) console.table(await denokvCosts(program, world.folder));
  if (only !== "store") console.table([await socketCosts(world)]);
}
