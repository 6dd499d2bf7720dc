/**
 * `deno task store` and `svc store`: maintenance of the store on its host, while no server uses it. The rules of both
 * services are elsewhere.
 */
import { parseArgs } from "@std/cli/parse-args";
import { STORED as PROXY_STORED } from "./proxy/schema/retention.ts";
import { STORED as REGISTRY_STORED } from "./registry/schema/retention.ts";
import { findHuman, recoverAdmin } from "./registry/accounts/store.ts";
import { mostRevocations } from "./registry/quota.ts";
import { systemClock } from "./shared/clock.ts";
import { ulidSource } from "./shared/protocol/ids.ts";
import type { Kv } from "./shared/server/kv.ts";
import { systemRandom } from "./shared/random.ts";
import { keepLocal, processEnviron, StartRefused } from "./shared/server/config_reader.ts";
import { openStore, refusedByStore, type Store, StoreRefused } from "./shared/server/store/open_store.ts";
import { DEFAULT_STORE } from "./shared/server/server_config.ts";
import { keyBytes, valueBytes } from "./shared/server/store/stored_bytes.ts";
import { readWithFormatCheck } from "./shared/server/store/store_format.ts";
import {
  exportLines,
  importLines,
  LINE_CHARACTERS_MAX,
  type StoredTables,
  TransferError,
} from "./shared/server/store/transfer.ts";

const USAGE =
  `deno task store inspect              number and size of the records of each kind; humans with most revocations
deno task store recover              create a new API key for the first admin when all are lost
deno task store export > file        write every record as JSON lines; keep them private, because they hold the signing key
deno task store export --out <file>  the same, to a new file that only its owner can read
deno task store import < file        read an export into an empty store

Options: --store <path> (default KV_URL, else .data/svc.kv); --json. Stop the server first.`;

/** The command could not do its work. The message tells the operator why, and what to do. */
export class WorkFailed extends Error {
  override name = "WorkFailed";
}

/** Refuses a path without a store, because opening it would create an empty store there. @throws {StoreRefused} */
async function refuseMissing(kvUrl: string): Promise<void> {
  if (/^(https?:|:memory:$)/.test(kvUrl)) return;
  // For any other failure, the attempt to open the store says why.
  const isMissing = await Deno.stat(kvUrl).then(
    () => false,
    (error) => error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory,
  );
  if (!isMissing) return;
  throw new StoreRefused(`There is no store at ${kvUrl}. Name the store that the server uses with --store.`);
}

/**
 * Opens the store, does the work, and closes it.
 *
 * @throws {StoreRefused} when another process uses the store, or the store has another format
 */
async function withStore(kvUrl: string, work: (store: Store) => Promise<void>): Promise<void> {
  const store = await openStore(kvUrl);
  try {
    await readWithFormatCheck(store, []);
    await work(store);
  } catch (error) {
    throw refusedByStore(error, store);
  } finally {
    store.close();
  }
}

async function recover(store: Store, { json }: Options): Promise<void> {
  const newId = ulidSource(systemClock.now, systemRandom.bytes);
  const recovered = await recoverAdmin({ ...store, clock: systemClock, random: systemRandom, newId });
  if (!recovered) {
    throw new WorkFailed(
      "There is no admin to recover: this store was never bootstrapped. Start the server and bootstrap it.",
    );
  }
  const { human, key } = recovered;
  if (json) {
    const { did, displayName } = human;
    return console.log(JSON.stringify({ human: { did, displayName }, apiKey: { token: key.token } }));
  }
  console.log(`admin    ${human.displayName}  ${human.did}`);
  console.log(`API key  ${key.token}`);
  console.log("\nThis key is shown only once. Start the server, and save the key with");
  console.log("svc config set apiKey -. Then revoke the lost keys with svc api-key revoke <id>.");
}

const TABLES: StoredTables = { registry: REGISTRY_STORED, proxy: PROXY_STORED };

interface Options {
  json: boolean;
  out: string | undefined;
}

const TOP_REVOCATIONS = 10;

async function inspect(store: Store, { json }: Options): Promise<void> {
  const kinds = await sizesOf(store.kv);
  const total = kinds.reduce((sum, one) => ({
    kind: "total",
    records: sum.records + one.records,
    bytes: sum.bytes + one.bytes,
  }));
  const most = await mostRevocations(store.kv, { now: systemClock.now(), limit: TOP_REVOCATIONS });
  const revocations = await Promise.all(most.map(async ({ humanId, entries }) => {
    const human = await findHuman(store, humanId);
    return { ownerDid: human?.did ?? humanId, revocations: entries };
  }));
  if (json) console.log(JSON.stringify({ kinds, total, revocations }));
  else {
    const width = Math.max(...kinds.map(({ kind }) => kind.length));
    console.log(`${"kind".padEnd(width)}  ${"records".padStart(12)}  ${"bytes".padStart(15)}`);
    for (const { kind, records, bytes } of [...kinds, total]) {
      console.log(`${kind.padEnd(width)}  ${String(records).padStart(12)}  ${String(bytes).padStart(15)}`);
    }
    console.log(revocations.length === 0 ? "\nno revocations" : "\nhumans with most revocations");
    for (const { ownerDid, revocations: count } of revocations) {
      console.log(`${String(count).padStart(12)}  ${ownerDid}`);
    }
  }
}

/**
 * Returns the number and size of the records of each kind, largest first, also of kinds without a record; a kind is
 * the first two parts of a key. It reads every record. The bytes are those of keys and values, without the indexes and
 * free pages of the store.
 */
async function sizesOf(kv: Kv) {
  const known = Object.entries(TABLES).flatMap(([service, kinds]) =>
    Object.keys(kinds).map((kind) => `${service} ${kind}`)
  );
  const sizes = new Map(known.map((kind) => [kind, { kind, records: 0, bytes: 0 }]));
  for await (const { key, value } of kv.list({ prefix: [] }, { batchSize: 200 })) {
    const kind = key.slice(0, 2).map(String).join(" ");
    const size = sizes.getOrInsert(kind, { kind, records: 0, bytes: 0 });
    size.records++;
    size.bytes += keyBytes(key) + valueBytes(value);
  }
  return [...sizes.values()].sort((a, b) => b.bytes - a.bytes);
}

async function exportStore(store: Store, { out, json }: Options): Promise<void> {
  const file = out === undefined ? null : await createPrivate(out), target = file ?? Deno.stdout;
  const failed = (error: unknown): never => {
    const why = error instanceof Error ? error.message : error;
    throw new WorkFailed(`Cannot export: ${why}. What was written is incomplete: remove it, then export again.`);
  };
  const encoder = new TextEncoder();
  // The first line and the last one are no records.
  let records = -2;
  for await (const line of exportLines(store.kv, TABLES, systemClock.now())) {
    for (let rest = encoder.encode(`${line}\n`); rest.length > 0;) {
      rest = rest.subarray(await target.write(rest).catch(failed));
    }
    records++;
  }
  if (!file) return;
  // A crash soon after could otherwise leave half a backup that was reported as whole.
  await file.sync().catch(failed);
  if (json) console.log(JSON.stringify({ records, path: out }));
  else console.error(`${records} records exported to ${out}`);
}

/**
 * Creates a file that only its owner can read, because an export holds the signing key.
 *
 * @throws {StoreRefused} when the file exists or cannot be created
 */
async function createPrivate(path: string): Promise<Deno.FsFile> {
  try {
    return await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) {
      const half = "If an export was stopped while it wrote this one, it is incomplete: remove it.";
      throw new StoreRefused(`Cannot export: ${path} exists already. Name a new file. ${half}`);
    }
    if (error instanceof Deno.errors.NotFound) throw new StoreRefused(`Cannot export: there is no folder for ${path}`);
    const isRefused = error instanceof Deno.errors.NotCapable || error instanceof Deno.errors.PermissionDenied;
    if (isRefused) throw new StoreRefused(`Cannot export: this process may not write ${path}`);
    throw new StoreRefused(`Cannot export: ${path} cannot be made: ${error instanceof Error ? error.message : error}`);
  }
}

async function importStore(store: Store, { json }: Options): Promise<void> {
  const records = await importLines(store.kv, TABLES, linesOf(Deno.stdin.readable), systemClock.now()).catch(
    (error) => {
      if (!(error instanceof TransferError)) throw error;
      // A second import into what the first has left would be refused.
      const again = error.isHalf ? `. Remove the store ${store.place}, then import a whole export.` : "";
      throw new WorkFailed(`Cannot import: ${error.message}${again}`);
    },
  );
  if (json) console.log(JSON.stringify({ records }));
  else console.error(`${records} records imported`);
}

async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LINE_CHARACTERS_MAX) throw new TransferError(0, "a line is too long for an export of a store");
  }
  if (rest !== "") yield rest;
}

const COMMANDS: Readonly<Record<string, (store: Store, options: Options) => Promise<void>>> = {
  inspect,
  recover,
  export: exportStore,
  import: importStore,
};

export { StartRefused } from "./shared/server/config_reader.ts";

/**
 * Runs a command line that begins after the name of the program. Returns the exit code, which is 2 for a wrong command
 * line.
 *
 * @throws {WorkFailed} when the command cannot do its work
 * @throws {StartRefused} when the configuration or the store cannot be used
 */
export async function runStore(args: readonly string[]): Promise<number> {
  const { _: words, json, out, store, ...others } = parseArgs([...args], {
    boolean: ["json"],
    string: ["out", "store"],
  });
  const command = words.length === 1 ? COMMANDS[String(words[0])] : undefined;
  const isWrong = out === "" || store === "" || (words[0] !== "export" && out !== undefined);
  if (!command || isWrong || Object.keys(others).length > 0) {
    console.error(USAGE);
    return 2;
  }
  const path = textOption(store) ?? processEnviron("KV_URL") ?? DEFAULT_STORE;
  if (command !== importStore) await refuseMissing(path);
  await withStore(path, (opened) => command(opened, { json: json === true, out: textOption(out) }));
  return 0;
}

function textOption(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

async function main(args: readonly string[]): Promise<number> {
  try {
    keepLocal();
    return await runStore(args);
  } catch (error) {
    if (!(error instanceof StartRefused || error instanceof WorkFailed)) throw error;
    console.error(error.message);
    return error instanceof StartRefused ? 2 : 1;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
