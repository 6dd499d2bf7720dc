/**
 * Counts work outside the event loop: calls of Deno KV, of WebCrypto and of the file system, and what a watch has yet to
 * report. A test that waits a number of turns sees another state on a busy machine. A test that waits for the end of this
 * work does not.
 */

let inFlight = 0;

/** Calls of the store, of WebCrypto and of the file system that have not settled yet, and watches with news. */
export function outsideWork(): number {
  return inFlight;
}

function counted<A extends unknown[], R>(call: (...args: A) => Promise<R>) {
  return async function (this: unknown, ...args: A): Promise<R> {
    inFlight++;
    try {
      return await call.apply(this, args);
    } finally {
      inFlight--;
    }
  };
}

/** Counts the calls of methods. For code that reads files through `node:fs`, whose functions cannot be replaced. */
export function countCalls(target: object, names: readonly string[]): void {
  const methods = target as Record<string, (...args: unknown[]) => Promise<unknown>>;
  for (const name of names) {
    const method = methods[name];
    if (method) methods[name] = counted(method);
  }
}

const { list } = Deno.Kv.prototype;
Deno.Kv.prototype.list = function <T>(this: Deno.Kv, ...args: Parameters<typeof list>): Deno.KvListIterator<T> {
  const entries = list.apply(this, args);
  countCalls(entries, ["next"]);
  return entries as Deno.KvListIterator<T>;
};

/** A watch whose reader has not been told of this version of its keys yet. `null`: it has been told everything. */
interface Watch {
  keys: Set<string>;
  untold: string | null;
  told: string;
}

/** The watches of a store. */
const watchesOf = new WeakMap<Deno.Kv, Set<Watch>>();
const nameOf = (key: Deno.KvKey) => JSON.stringify(key.map(String));

/** Counts a watch until its reader is told of a version. */
function awaitNews(watch: Watch, version: string): void {
  if (watch.told >= version || (watch.untold ?? "") >= version) return;
  if (watch.untold === null) inFlight++;
  watch.untold = version;
}

function told(watch: Watch, version: string): void {
  watch.told = version;
  if (watch.untold === null || version < watch.untold) return;
  watch.untold = null;
  inFlight--;
}

/** Later than every version. */
const ALL = "~";

const { watch } = Deno.Kv.prototype;
Deno.Kv.prototype.watch = function (this: Deno.Kv, ...args: Parameters<typeof watch>): ReadableStream {
  const real = watch.apply(this, args).getReader();
  const watches = watchesOf.getOrInsertComputed(this, () => new Set());
  const mine: Watch = { keys: new Set(args[0].map(nameOf)), untold: null, told: "" };
  watches.add(mine);
  const end = () => {
    watches.delete(mine);
    told(mine, ALL);
  };
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await real.read().catch((error) => {
        end();
        throw error;
      });
      if (done) {
        end();
        return controller.close();
      }
      // A key without a value may have been deleted after any change.
      const versions = value.map(({ versionstamp }) => versionstamp ?? mine.untold ?? "");
      told(mine, versions.sort().at(-1) ?? "");
      controller.enqueue(value);
    },
    cancel(reason) {
      end();
      return real.cancel(reason);
    },
  }, { highWaterMark: 0 });
} as typeof watch;

const { atomic } = Deno.Kv.prototype;
Deno.Kv.prototype.atomic = function (this: Deno.Kv) {
  const operation = atomic.apply(this), watches = watchesOf.get(this);
  if (!watches?.size) return operation;
  const { set, commit } = operation, keys = new Set<string>();
  operation.set = (key, ...rest) => {
    keys.add(nameOf(key));
    return set.call(operation, key, ...rest);
  };
  operation.commit = async () => {
    const result = await commit.call(operation);
    if (!result.ok) return result;
    for (const one of watches) if (!one.keys.isDisjointFrom(keys)) awaitNews(one, result.versionstamp);
    return result;
  };
  return operation;
};

countCalls(Deno.Kv.prototype, ["get", "getMany", "set", "delete"]);
countCalls(Deno.AtomicOperation.prototype, ["commit"]);
countCalls(SubtleCrypto.prototype, ["sign", "verify", "digest", "importKey", "exportKey", "generateKey"]);
countCalls(SubtleCrypto.prototype, ["deriveBits", "deriveKey", "encrypt", "decrypt"]);
countCalls(Deno, ["open", "readTextFile", "readFile", "writeTextFile", "stat", "lstat", "rename", "remove", "mkdir"]);
countCalls(Deno.FsFile.prototype, ["read", "write", "sync", "stat", "tryLock"]);
