/**
 * The claims of a group commit that wait or are being committed. Over a network each commit is a round trip, so several
 * run at a time. The queue chooses the claims of the next commit: in order, but none on a record that a running commit
 * or an earlier waiting claim uses. So at most one running commit concerns a record, and the claims on the same record
 * keep their order.
 */
import { LIMITS } from "../../protocol/limits.ts";

/** Most claims that are passed over. With more, the search for a batch costs more than its commit. */
export const PASSED_OVER_MAX = 500;

/**
 * Running commits from which on the next one gathers claims for a turn of the event loop, about a millisecond. With
 * fewer, a message alone would wait too; without it, a busy instance makes a third more commits.
 */
const GATHERING_FROM = 4;

export interface Queued {
  /** True when the claim may wait up to 20 ms for a commit that another claim begins. */
  mayWait?: boolean;
  /** The keys of the records that no other running commit may concern. */
  ids: readonly string[];
  /** Approximate number of bytes written, if there are many. */
  bytes: number;
  /** Time of the claim, milliseconds since the Unix epoch. */
  since: number;
  /** True when the claim has waited too long and has been answered, although a running commit may still hold it. */
  isOver?: true;
}

export class ClaimQueue<C extends Queued> {
  #waiting: C[] = [];
  /** The running commits, each with the keys of its records. */
  readonly #inFlight = new Map<readonly C[], ReadonlySet<string>>();
  /** Number of claims at the front of `#waiting` that the last `take` passed over. */
  #passed = 0;
  #allDue = false;

  /** @param maxChecks records of one commit; a claim on more records gets a commit of its own */
  constructor(private readonly maxChecks: number) {}

  /** Number of claims that wait or are being committed. */
  get size(): number {
    let size = this.#waiting.length;
    for (const batch of this.#inFlight.keys()) size += batch.length;
    return size;
  }

  /** Time of the oldest claim for which a request waits, or infinity without one. Claims that may wait do not count. */
  get oldest(): number {
    return Math.min(...[this.#waiting, ...this.#inFlight.keys()].map(sinceOf));
  }

  /** True when a waiting claim needs a commit now, or when all waiting claims must be committed. */
  get isDue(): boolean {
    return this.#allDue || this.#waiting.some(({ mayWait }) => !mayWait);
  }

  /** True when so many commits run that the next one begins a moment later, with the claims that come meanwhile. */
  get gathers(): boolean {
    return this.#inFlight.size >= GATHERING_FROM;
  }

  /** Makes commits begin until no claim waits. */
  makeAllDue(): void {
    this.#allDue = this.#waiting.length > 0;
  }

  /** Time of the oldest waiting claim, or `undefined` when none waits. */
  get waitingSince(): number | undefined {
    return this.#waiting[0]?.since;
  }

  /**
   * Time of the oldest claim for which a request waits, and which waits for no record but only for a commit to end. It
   * is `undefined` without such a claim.
   */
  get oldestUnblocked(): number | undefined {
    for (let i = this.#passed; i < this.#waiting.length; i++) {
      const { mayWait, since } = this.#waiting[i] as C;
      if (!mayWait) return since;
    }
    return undefined;
  }

  add(claim: C): void {
    this.#waiting.push(claim);
  }

  /** Takes the claims of one more commit from those that wait. Returns none when all of them must still wait. */
  take(): readonly C[] {
    const batch: C[] = [], passed: C[] = [];
    const ids = new Set<string>(), behind = new Set<string>();
    let seen = 0, bytes = 0;
    for (const claim of this.#waiting) {
      if (passed.length === PASSED_OVER_MAX) break;
      if (this.#isBusy(claim) || isAnyIn(claim.ids, behind)) {
        // A later claim on any of these records waits behind this one, so that their order is kept.
        for (const id of claim.ids) behind.add(id);
        passed.push(claim);
      } else {
        let checks = ids.size;
        for (const id of claim.ids) if (!ids.has(id)) checks++;
        bytes += claim.bytes;
        if (batch.length > 0 && (checks > this.maxChecks || bytes > LIMITS.commitBytes)) break;
        for (const id of claim.ids) ids.add(id);
        batch.push(claim);
      }
      seen++;
    }
    this.#passed = passed.length;
    if (batch.length === 0) return batch;
    this.#waiting.splice(0, seen, ...passed);
    if (this.#waiting.length === 0) this.#allDue = false;
    this.#inFlight.set(batch, ids);
    return batch;
  }

  /** True while a running commit concerns a record of the claim. */
  #isBusy({ ids }: C): boolean {
    for (const busy of this.#inFlight.values()) if (isAnyIn(ids, busy)) return true;
    return false;
  }

  /**
   * Returns each claim that was made until `since`, and each one made after `now`, which shows that the clock was set
   * back. Those that wait leave the queue; those that are being committed stay until their commit has ended.
   */
  takeOverdue(since: number, now: number): C[] {
    const over = this.open().filter((claim) => claim.since <= since || claim.since > now);
    for (const claim of over) claim.isOver = true;
    this.#passed -= this.#waiting.slice(0, this.#passed).filter(({ isOver }) => isOver).length;
    this.#waiting = this.#waiting.filter(({ isOver }) => !isOver);
    if (this.#waiting.length === 0) this.#allDue = false;
    return over;
  }

  /** Time of the oldest claim that was not answered yet, or infinity without one. */
  get oldestOpen(): number {
    return this.open().reduce((time, { since }) => Math.min(time, since), Infinity);
  }

  /** Returns the claims that were not answered yet. */
  open(): C[] {
    return [...this.#inFlight.keys(), this.#waiting].flat().filter(({ isOver }) => !isOver);
  }

  /** Removes the claims of a commit, which have all been answered. Other claims may use their records now. */
  done(batch: readonly C[]): void {
    this.#inFlight.delete(batch);
  }
}

function isAnyIn(ids: readonly string[], set: ReadonlySet<string>): boolean {
  if (set.size === 0) return false;
  for (const id of ids) if (set.has(id)) return true;
  return false;
}

/** Time of the first claim for which a request waits, or infinity. */
function sinceOf(claims: readonly Queued[]): number {
  return claims.find(({ mayWait }) => !mayWait)?.since ?? Infinity;
}
