/**
 * The store as the services use it. Deno calls its key-value store a beta that may change, so it is named only in this
 * file. A change of Deno then shows here, and another store of this form that passes the store's tests can replace it.
 */

export type KvKey = Deno.KvKey;
export type KvKeyPart = Deno.KvKeyPart;
export type KvEntry<T> = Deno.KvEntry<T>;
export type KvEntryMaybe<T> = Deno.KvEntryMaybe<T>;
export type KvListSelector = Deno.KvListSelector;
export type KvListIterator<T> = Deno.KvListIterator<T>;
export type KvCommitResult = Deno.KvCommitResult;
export type KvCommitError = Deno.KvCommitError;

/** Returns the part of a key in whose place the store puts the version of the commit. */
export const commitVersion = (): KvKeyPart => Deno.Kv.prototype.commitVersionstamp();

/** What a commit checks and changes. It takes effect completely or not at all. */
export interface AtomicOperation {
  check(...checks: Deno.AtomicCheck[]): this;
  set(key: KvKey, value: unknown, options?: { expireIn?: number }): this;
  delete(key: KvKey): this;
  commit(how?: CommitOptions): Promise<KvCommitResult | KvCommitError>;
}

/** What store_errors.ts needs to repeat a commit safely. */
export interface CommitOptions {
  /**
   * For a commit that relies on more than its checks: tells whether that still holds. Without it, a message could pass
   * after its session has ended, because the commit was tried again later.
   */
  mayRepeat?: (() => boolean) | undefined;
  /** The mark of the commit, which shows whether it took effect while its answer is missing. */
  mark?: { readonly key: KvKey; readonly number: number } | undefined;
}

/** The calls of the store that the services make. */
export interface Kv extends Pick<Deno.Kv, "get" | "getMany" | "list" | "set" | "delete" | "watch" | "close"> {
  atomic(): AtomicOperation;
}
