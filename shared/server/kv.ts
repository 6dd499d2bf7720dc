/**
 * The store as the services use it. Deno calls its key-value store a beta that may change, so its types are named only
 * here: a change of Deno shows in this file, and another store of this shape that passes the store's tests can replace
 * it.
 */

export type KvKey = Deno.KvKey;
export type KvKeyPart = Deno.KvKeyPart;
export type KvEntry<T> = Deno.KvEntry<T>;
export type KvEntryMaybe<T> = Deno.KvEntryMaybe<T>;
export type KvListSelector = Deno.KvListSelector;
export type KvListIterator<T> = Deno.KvListIterator<T>;
export type KvCommitResult = Deno.KvCommitResult;
export type KvCommitError = Deno.KvCommitError;

/** What a commit checks and changes, all or nothing. */
export type AtomicOperation = Deno.AtomicOperation;

/** The calls of the store that the services make. */
export type Kv = Pick<Deno.Kv, "get" | "getMany" | "list" | "set" | "delete" | "atomic" | "watch" | "close">;
