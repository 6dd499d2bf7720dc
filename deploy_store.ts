/**
 * `deno task store`: maintenance of the store on the host while no server uses it. It holds no rule of either service.
 */
import { parseArgs } from "@std/cli/parse-args";
import { STORED as PROXY_STORED } from "./proxy/schema/retention.ts";
import { STORED as REGISTRY_STORED } from "./registry/schema/retention.ts";
import { RevocationCounts } from "./registry/revocation/counts.ts";
import { recoverAdmin } from "./registry/accounts/recovery.ts";
import { systemClock } from "./shared/clock.ts";
import { ulidSource } from "./shared/protocol/ids.ts";
import { systemRandom } from "./shared/random.ts";
import { ConfigError, ConfigReader, processEnviron } from "./shared/server/config_reader.ts";
import { openStore, type Store, StoreRefused } from "./shared/server/store/open_store.ts";
import { readServerConfig } from "./shared/server/server_config.ts";
import { sizesOf } from "./shared/server/store/store_sizes.ts";
import { readWithFormatCheck } from "./shared/server/store/store_format.ts";
import { exportLines, importLines, type StoredTables, TransferError } from "./shared/server/store/transfer.ts";

const USAGE =
  `deno task store inspect [--json]     number and size of the records of each kind, and the humans with most revocations
deno task store recover              create a new API key for the first admin when all are lost
deno task store export > file        write every record as JSON lines; holds the signing key: keep it private
deno task store export --out <file>  the same, to a new file that only its owner can read
deno task store import < file        read an export into an empty store

KV_URL names the store (default .data/svc.kv). Stop the server first.`;

/**
 * Refuses a path without a store, because opening it would create an empty one.
 *
 * @throws {StoreRefused}
 */
async function refuseMissing(kvUrl: string | null): Promise<void> {
  if (kvUrl === null || /^(https?:|:memory:$)/.test(kvUrl)) return;
  try {
    await Deno.stat(kvUrl);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new StoreRefused(`There is no store at ${kvUrl}. Set KV_URL to the store that the server uses.`);
  }
}

/**
 * Opens the store.
 *
 * @throws {StoreRefused} when another process uses the store, or a newer version wrote it
 */
async function openReadable(kvUrl: string | null): Promise<Store> {
  const store = await openStore(kvUrl);
  try {
    await readWithFormatCheck(store.kv, []);
    return store;
  } catch (error) {
    store.close();
    throw error;
  }
}

async function recover(kvUrl: string | null): Promise<number> {
  await refuseMissing(kvUrl);
  const store = await openReadable(kvUrl);
  try {
    const newId = ulidSource(systemClock.now, systemRandom.bytes);
    const recovered = await recoverAdmin({ kv: store.kv, clock: systemClock, random: systemRandom, newId });
    if (!recovered) {
      console.error(
        "There is no admin to recover: this store was never bootstrapped. Start the server and bootstrap it.",
      );
      return 1;
    }
    const { human, key } = recovered;
    console.log(`admin    ${human.displayName}  ${human.did}`);
    console.log(`API key  ${key.token}`);
    console.log(`\nThis key is shown only once. Revoke the lost keys with svc api-key revoke <id>.`);
    return 0;
  } finally {
    store.close();
  }
}

const TABLES: StoredTables = { registry: REGISTRY_STORED, proxy: PROXY_STORED };

/** Options of the command line. */
interface Options {
  json: boolean;
  out: string | undefined;
}

const TOP_REVOCATIONS = 10;

async function inspect(kvUrl: string | null, { json }: Options): Promise<number> {
  await refuseMissing(kvUrl);
  const store = await openReadable(kvUrl);
  try {
    const counts = new RevocationCounts(store.kv);
    const found = await sizesOf(store.kv, (entry) => counts.count(entry));
    const known = new Set(found.map(({ kind }) => kind));
    const absent = Object.entries(TABLES).flatMap(([service, kinds]) =>
      Object.keys(kinds).map((kind) => `${service} ${kind}`)
    )
      .filter((kind) => !known.has(kind)).map((kind) => ({ kind, records: 0, bytes: 0 }));
    const kinds = [...found, ...absent];
    const total = kinds.reduce((sum, one) => ({
      kind: "total",
      records: sum.records + one.records,
      bytes: sum.bytes + one.bytes,
    }));
    const revocations = counts.top(TOP_REVOCATIONS);
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
    return 0;
  } finally {
    store.close();
  }
}

async function exportStore(kvUrl: string | null, { out }: Options): Promise<number> {
  await refuseMissing(kvUrl);
  const store = await openReadable(kvUrl);
  try {
    const target = out === undefined ? Deno.stdout : await createPrivate(out);
    const encoder = new TextEncoder();
    for await (const line of exportLines(store.kv, TABLES, systemClock.now())) {
      for (let rest = encoder.encode(`${line}\n`); rest.length > 0;) {
        rest = rest.subarray(await target.write(rest));
      }
    }
    return 0;
  } finally {
    store.close();
  }
}

/**
 * Creates a file that only its owner can read, because an export holds the signing key (D-241).
 *
 * @throws {StoreRefused} when the file exists or cannot be created
 */
async function createPrivate(path: string): Promise<Deno.FsFile> {
  try {
    return await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) throw new StoreRefused(`Cannot export: ${path} exists already`);
    if (error instanceof Deno.errors.NotFound) throw new StoreRefused(`Cannot export: there is no folder for ${path}`);
    if (!(error instanceof Deno.errors.NotCapable || error instanceof Deno.errors.PermissionDenied)) throw error;
    throw new StoreRefused(`Cannot export: this process may not write ${path}; deno task store writes below .data`);
  }
}

async function importStore(kvUrl: string | null): Promise<number> {
  const store = await openReadable(kvUrl);
  try {
    const lines = linesOf(Deno.stdin.readable);
    console.error(`${await importLines(store.kv, TABLES, lines, systemClock.now())} records imported`);
    return 0;
  } catch (error) {
    if (!(error instanceof TransferError)) throw error;
    console.error(`Cannot import: ${error.message}`);
    return 1;
  } finally {
    store.close();
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

/** The commands, each with the option that it accepts. */
const COMMANDS: Readonly<
  Record<string, { run(kvUrl: string | null, options: Options): Promise<number>; option?: keyof Options }>
> = {
  inspect: { run: inspect, option: "json" },
  recover: { run: recover },
  export: { run: exportStore, option: "out" },
  import: { run: importStore },
};

async function main(args: readonly string[]): Promise<number> {
  const { _: words, json, out, ...others } = parseArgs([...args], { boolean: ["json"], string: ["out"] });
  const options: Options = { json: json === true, out: typeof out === "string" ? out : undefined };
  const command = words.length === 1 ? COMMANDS[String(words[0])] : undefined;
  const given = [...Object.keys(others), ...json ? ["json"] : [], ...out === undefined ? [] : ["out"]];
  if (!command || out === "" || given.some((name) => name !== command.option)) {
    console.error(USAGE);
    return 2;
  }
  try {
    const reader = new ConfigReader(processEnviron);
    const { kvUrl } = readServerConfig(reader, false);
    reader.finish({});
    return await command.run(kvUrl, options);
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StoreRefused)) throw error;
    console.error(error.message);
    return 2;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
