/**
 * Makes commits over a network safe to repeat. Deno sends a commit again when its answer is lost, and if the first
 * attempt took effect, the second conflicts with it. So every commit with a check also writes a mark, which shows after
 * a conflict whether the commit took effect. Without this, a person would read that an invite was used before, and
 * never see the key that it gave.
 */
import type { Kv, KvKey } from "./kv.ts";
import { observed } from "./write_watch.ts";
import { COMMIT_MARK, MARK_KEPT_MS } from "./store/commit_marks.ts";

/**
 * Changes an open store so that its commits are confirmed in this way. A commit that writes a mark of its own is left
 * to its caller.
 *
 * @param id of this process, which names its marks
 */
export function confirmCommits(kv: Kv, id: string): void {
  const atomic = kv.atomic.bind(kv);
  /** Keys of marks that no commit under way uses. */
  const free: KvKey[] = [];
  let keys = 0, commits = 0;
  kv.atomic = () => {
    const operation = atomic();
    let hasChecks = false, hasWrites = false, hasMark = false;
    return observed(operation, {
      checks: () => hasChecks = true,
      writes: (key) => {
        hasWrites = true;
        hasMark ||= key[1] === COMMIT_MARK;
      },
      async commit(run) {
        if (!hasChecks || !hasWrites || hasMark) return await run();
        const key = free.pop() ?? ["store", COMMIT_MARK, id, keys++], number = ++commits;
        operation.set(key, number, { expireIn: MARK_KEPT_MS });
        const result = await run();
        const mark = result.ok ? null : await kv.get(key);
        // After an error, the key of the mark is not used again, because a late commit could replace a newer mark.
        free.push(key);
        return mark?.value === number && mark.versionstamp ? { ok: true, versionstamp: mark.versionstamp } : result;
      },
    });
  };
}
