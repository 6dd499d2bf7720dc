/** Observes the writes of a store: every key before it is written, and every commit. Changes no call by itself. */
import type { AtomicOperation, KvCommitError, KvCommitResult, KvKey } from "./kv.ts";

/** What sees the writes of a store. */
export interface Interceptor {
  /** Called with each key of an atomic operation that is written or deleted. */
  writes(key: KvKey): void;
  /** Called when an operation with checks begins to have them. */
  checks?(): void;
  commit(run: () => Promise<Commit>): Promise<Commit>;
}

type Commit = KvCommitResult | KvCommitError;

/** Reports the keys and the commit of an atomic operation, in place. Returns the operation. */
export function intercept(operation: AtomicOperation, seen: Interceptor): AtomicOperation {
  for (const name of ["set", "delete", "sum", "min", "max"] as const) {
    const call = operation[name].bind(operation) as (...args: unknown[]) => AtomicOperation;
    operation[name] = (key: KvKey, ...rest: unknown[]) => {
      seen.writes(key);
      call(key, ...rest);
      return operation;
    };
  }
  const { mutate, check, commit } = operation;
  operation.mutate = (...mutations) => {
    for (const { key } of mutations) seen.writes(key);
    mutate.apply(operation, mutations);
    return operation;
  };
  if (seen.checks) {
    operation.check = (...checks) => {
      seen.checks?.();
      check.apply(operation, checks);
      return operation;
    };
  }
  operation.commit = () => seen.commit(() => commit.call(operation));
  return operation;
}
