/**
 * Marks of group commits. When the call of a commit fails or is late, the commit may have taken effect, or may still do
 * so (D-216). So each commit also writes a mark: a record with the number of the commit. The mark takes effect together
 * with the commit, so it shows exactly whether the commit did. The changed records cannot show that, because a replay
 * writes the same values. Each of the commits that run at the same time has its own slot, and each slot has its own
 * mark. After an error, and for the halves of a batch, marks get another key, because a late commit would otherwise
 * overwrite a newer mark, and the commit of one half the mark of the whole batch, which the other half still reads.
 */
import type { Kv, KvKey } from "../kv.ts";
import { readAtOnce } from "./batched_reads.ts";

export interface Mark {
  key: KvKey;
  number: number;
}

/** Second part of the keys of marks. */
export const COMMIT_MARK = "commit_mark";

/** How long a mark is kept. With less, it could end before it is read, and its commit would count as failed. */
export const MARK_KEPT_MS = 3_600_000;

export class CommitMarks {
  /** Number of the newest mark. `#generation` is part of the keys of the next marks. */
  #commits = 0;
  #generation = 0;

  /** @param key the beginning of the key of each mark; without it, a commit whose answer is lost counts as failed */
  constructor(private readonly kv: Kv, private readonly key: KvKey | undefined) {}

  next(slot: number): Mark | undefined {
    return this.key && { key: [...this.key, slot, this.#generation], number: ++this.#commits };
  }

  /** Gives later marks other keys, because a late commit would otherwise overwrite a mark that is still read. */
  newKeys(): void {
    this.#generation++;
  }

  /** Returns those marks whose commits have taken effect. @throws {StoreUnavailable} */
  async found(marks: readonly Mark[]): Promise<Set<Mark>> {
    const entries = await readAtOnce<unknown>(this.kv, marks.map(({ key }) => key));
    return new Set(marks.filter(({ number }, i) => entries[i]?.value === number));
  }
}
