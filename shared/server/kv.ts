/**
 * The store as the services use it. Deno calls its key-value store a beta that may change, so its types have this one place:
 * another store that has this shape and passes the tests of the store can take its place, and a change of Deno's shows here.
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
