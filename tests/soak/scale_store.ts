/**
 * Parts of the simulation on paper: a queue of events, quantiles, and the unit costs that it starts from. Pure: no
 * clock, no store, no service.
 */

/** Costs of one unit of work. `docs/scaling.md` says where each comes from. */
export interface UnitCosts {
  /** Round trip to the store, ms. */
  roundTripMs: number;
  /** Commits that one instance has in flight. */
  commitsInFlight: number;
  /** CPU of the store for a commit and for a call that reads, ms. */
  storeCommitMs: number;
  storeReadMs: number;
  /** Part of a commit on the one thread of a denokv that writes, ms: more cores do not make it shorter. */
  storeWriteMs: number;
  /** CPU of instances for a message within one and for a message between two, ms. */
  messageMs: number;
  crossingMs: number;
  /** CPU of an instance for a connection, ms. */
  connectMs: number;
  /** CPU of an instance for an entry of the revocation list that it reads, signs and checks, ms. */
  crlEntryMs: number;
  /** Bytes of an entry in the list. */
  crlEntryBytes: number;
  /** Checks of a message's claim to another instance, and most of one commit. */
  messageChecks: number;
  checksPerCommit: number;
}

/** Returns the wait until the next of events that come independently, in the unit of `1 / rate`. */
export function nextWait(rate: number, chance: number): number {
  return -Math.log(1 - chance) / rate;
}

/** Returns the value below which a share of the values lies; `null` without values. */
export function quantile(values: readonly number[], share: number): number | null {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}

/** Events in the order of their time, and of their arrival at the same time. */
export class Events {
  readonly #heap: { at: number; order: number; run: () => void }[] = [];
  #order = 0;
  #now = 0;

  /** Time of the current event, ms. */
  get now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): void {
    const heap = this.#heap;
    heap.push({ at: this.#now + ms, order: this.#order++, run });
    for (let i = heap.length - 1; i > 0;) {
      const parent = (i - 1) >> 1;
      if (!this.#isBefore(i, parent)) break;
      this.#swap(i, parent);
      i = parent;
    }
  }

  /** Runs the events until a time, ms. */
  runUntil(end: number): void {
    for (let first = this.#heap[0]; first && first.at <= end; first = this.#heap[0]) {
      this.#removeFirst();
      this.#now = first.at;
      first.run();
    }
    this.#now = end;
  }

  #removeFirst(): void {
    const heap = this.#heap;
    this.#swap(0, heap.length - 1);
    heap.pop();
    for (let i = 0;;) {
      const left = 2 * i + 1, right = left + 1;
      let least = i;
      if (left < heap.length && this.#isBefore(left, least)) least = left;
      if (right < heap.length && this.#isBefore(right, least)) least = right;
      if (least === i) return;
      this.#swap(i, least);
      i = least;
    }
  }

  #isBefore(i: number, k: number): boolean {
    const a = this.#heap[i]!, b = this.#heap[k]!;
    return a.at < b.at || a.at === b.at && a.order < b.order;
  }

  #swap(i: number, k: number): void {
    [this.#heap[i], this.#heap[k]] = [this.#heap[k]!, this.#heap[i]!];
  }
}

/** Commits of one instance: claims that wait form the next commit, as many as its checks allow, in order. */
export class CommitQueue {
  commits = 0;
  readonly #waiting: { checks: number; done: () => void }[] = [];
  #inFlight = 0;
  #next = 0;

  constructor(readonly events: Events, readonly costs: UnitCosts) {}

  get length(): number {
    return this.#waiting.length - this.#next;
  }

  claim(checks: number, done: () => void): void {
    this.#waiting.push({ checks, done });
    this.#fill();
  }

  #fill(): void {
    const { commitsInFlight, checksPerCommit, roundTripMs } = this.costs;
    while (this.#inFlight < commitsInFlight && this.length > 0) {
      const batch: { done: () => void }[] = [];
      let checks = 0;
      for (let one = this.#waiting[this.#next]; one; one = this.#waiting[this.#next]) {
        checks += one.checks;
        if (batch.length > 0 && checks > checksPerCommit) break;
        batch.push(one);
        this.#next++;
      }
      if (this.#next > 10_000) this.#waiting.splice(0, this.#next), this.#next = 0;
      this.#inFlight++;
      this.commits++;
      this.events.after(roundTripMs, () => {
        this.#inFlight--;
        for (const { done } of batch) done();
        this.#fill();
      });
    }
  }
}
