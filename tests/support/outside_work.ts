/**
 * Counts work outside the event loop: calls of Deno KV, of WebCrypto and of the file system. A test that waits a number of
 * turns sees another state on a busy machine. A test that waits for the end of this work does not.
 */

let inFlight = 0;

/** Calls of the store, of WebCrypto and of the file system that have not settled yet. */
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
countCalls(Deno.Kv.prototype, ["get", "getMany", "set", "delete"]);
countCalls(Deno.AtomicOperation.prototype, ["commit"]);
countCalls(SubtleCrypto.prototype, ["sign", "verify", "digest", "importKey", "exportKey", "generateKey"]);
countCalls(SubtleCrypto.prototype, ["deriveBits", "deriveKey", "encrypt", "decrypt"]);
countCalls(Deno, ["open", "readTextFile", "readFile", "writeTextFile", "stat", "lstat", "rename", "remove", "mkdir"]);
countCalls(Deno.FsFile.prototype, ["read", "write", "sync", "stat", "tryLock"]);
