/** Puts a test between a store and the code that uses it. */

type Committed = Promise<Deno.KvCommitResult | Deno.KvCommitError>;

/** Replaces the commits of a store. `around` gets the real commit and the number of keys that it checks. */
export function aroundCommits(kv: Deno.Kv, around: (commit: () => Committed, checks: number) => Committed): void {
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const check = operation.check.bind(operation), commit = operation.commit.bind(operation);
    let checks = 0;
    operation.check = (...entries) => {
      checks += entries.length;
      return check(...entries);
    };
    operation.commit = () => around(commit, checks);
    return operation;
  };
}

/** Returns the numbers of keys of each `getMany` from now on. */
export function recordReads(kv: Deno.Kv): number[] {
  const getMany = kv.getMany.bind(kv);
  const reads: number[] = [];
  kv.getMany = ((keys: readonly Deno.KvKey[]) => {
    reads.push(keys.length);
    return getMany([...keys]);
  }) as typeof kv.getMany;
  return reads;
}
