/**
 * The store as the services use it. Deno calls its key-value store a beta that may change, so its types are named only
 * in this file. A change of Deno then shows here, and another store of this form that passes the store's tests can
 * replace it.
 */

export type KvKey = Deno.KvKey;
export type KvKeyPart = Deno.KvKeyPart;
export type KvEntry<T> = Deno.KvEntry<T>;
export type KvEntryMaybe<T> = Deno.KvEntryMaybe<T>;
export type KvListSelector = Deno.KvListSelector;
export type KvListIterator<T> = Deno.KvListIterator<T>;
export type KvCommitResult = Deno.KvCommitResult;
export type KvCommitError = Deno.KvCommitError;

/** What a commit checks and changes. It takes effect completely or not at all. */
export type AtomicOperation = Deno.AtomicOperation;

/** The calls of the store that the services make. */
export type Kv = Pick<Deno.Kv, "get" | "getMany" | "list" | "set" | "delete" | "atomic" | "watch" | "close">;
