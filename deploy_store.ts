/**
 * `deno task store`: work on the store itself, on the host, while no server uses it. Knows the stores of both services
 * and none of their rules.
 */
import { STORED as PROXY_STORED } from "./proxy/keys.ts";
import { STORED as REGISTRY_STORED } from "./registry/keys.ts";
import { recoverAdmin } from "./registry/accounts/recovery.ts";
import { systemClock } from "./shared/clock.ts";
import { ulidSource } from "./shared/protocol/ids.ts";
import { systemRandom } from "./shared/random.ts";
import { ConfigError, ConfigReader, processEnviron } from "./shared/server/config.ts";
import { openStore, type Store, StoreRefused } from "./shared/server/kv.ts";
import { readServerConfig } from "./shared/server/place.ts";
import { readAtStart } from "./shared/server/store_format.ts";
import { exportLines, importLines, type StoredTables, TransferError } from "./shared/server/transfer.ts";

const USAGE = `deno task store recover             a new API key for the first admin, when all are lost
deno task store export > file       every record, as lines of JSON; holds the signing key: keep it private
deno task store import < file       an export into an empty store

The store is the one that KV_URL names (default .data/svc.kv). Stop the server first.`;

/** A mistyped path must not leave an empty store behind. */
async function refuseMissing(kvUrl: string | null): Promise<void> {
  if (kvUrl === null || /^(https?:|:memory:$)/.test(kvUrl)) return;
  try {
    await Deno.stat(kvUrl);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new StoreRefused(`There is no store at ${kvUrl}. Set KV_URL to the one that the server uses.`);
  }
}

/** Opens the store; one that a newer version wrote is left alone. */
async function openReadable(kvUrl: string | null): Promise<Store> {
  const store = await openStore(kvUrl);
  try {
    await readAtStart(store.kv, []);
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
    console.log(`\nThis key is shown once. Revoke the lost ones with DELETE /v1/me/api-keys/<id>.`);
    return 0;
  } finally {
    store.close();
  }
}

const TABLES: StoredTables = { registry: REGISTRY_STORED, proxy: PROXY_STORED };

async function exportStore(kvUrl: string | null): Promise<number> {
  await refuseMissing(kvUrl);
  const store = await openReadable(kvUrl);
  try {
    const encoder = new TextEncoder();
    for await (const line of exportLines(store.kv, TABLES, systemClock.now())) {
      for (let rest = encoder.encode(`${line}\n`); rest.length > 0;) {
        rest = rest.subarray(await Deno.stdout.write(rest));
      }
    }
    return 0;
  } finally {
    store.close();
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

const COMMANDS = { recover, export: exportStore, import: importStore } as const;

async function main(args: readonly string[]): Promise<number> {
  const [command, ...rest] = args;
  const run = Object.entries(COMMANDS).find(([name]) => name === command)?.[1];
  if (!run || rest.length > 0) {
    console.error(USAGE);
    return 2;
  }
  try {
    const reader = new ConfigReader(processEnviron);
    const { kvUrl } = readServerConfig(reader, false);
    reader.finish({});
    return await run(kvUrl);
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StoreRefused)) throw error;
    console.error(error.message);
    return 2;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
