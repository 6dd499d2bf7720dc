/**
 * The queue of changes, each of which reads records, decides, and writes (D-221). Many changes share a record: the head
 * of the revocation list, the quota of a human, or the number of pairs of an agent. In the queue they take turns,
 * because they would otherwise conflict, and some would be refused only because others are busy. Changes that wait go
 * into one commit. Each takes effect completely or not at all, and sees what the changes before it in the same commit
 * have written.
 */
import type { AtomicOperation, Kv, KvEntryMaybe, KvKey } from "../kv.ts";
import { type Clock, sleep, timeLeft } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { fraction, type Random } from "../../random.ts";
import { countedCommit, type Metrics } from "../metrics/metrics.ts";
import { idOf } from "./batch.ts";
import type { BatchedReads } from "./batched_reads.ts";
import { StoreBusy, withDeadline } from "./store_errors.ts";
import { announceTrustChange } from "./trust_changes.ts";

/** Most changes in one commit. With more, one that conflicts with another instance makes more others run again. */
const CHANGES_PER_COMMIT = 25;
/** Most changes that wait. More could not be committed before their deadline, and would only hold memory. */
const CHANGES_WAITING_MAX = 10_000;
/**
 * How long a commit is repeated after conflicts. With more, a commit that conflicts with another instance takes the
 * time of the changes behind it.
 */
const CHANGE_RETRY_MS = 5_000;

/** How a change reads and writes. If the change throws, nothing is written. */
export interface Draft {
  /** Reads a record. The commit takes effect only if the record is still unchanged then. */
  get<T>(key: KvKey): Promise<KvEntryMaybe<T>>;
  /** Writes a record that the change has read. */
  set(key: KvKey, value: unknown, options?: { expireIn?: number }): void;
  delete(key: KvKey): void;
  /**
   * Adds writes to records that no other change of the commit may read, because that change would not see them.
   * `checks` is the number of checks that they add.
   */
  also(add: (operation: AtomicOperation) => unknown, options?: { checks?: number }): void;
  /**
   * Announces a change of sessions or revocations of these agents, in a single note for the whole commit. Even without
   * any agent, the receivers read the revocation list again.
   */
  announce(agentDids: readonly string[]): void;
}

type Change = (draft: Draft) => Promise<unknown>;

interface Queued {
  change: Change;
  keys: readonly KvKey[];
  since: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

interface StoredRecord {
  key: KvKey;
  versionstamp: string | null;
  value: unknown;
  write: ((operation: AtomicOperation) => void) | null;
}

interface ChangesDeps {
  kv: Kv;
  reads: BatchedReads;
  clock: Clock;
  random: Random;
  maxChecks: number;
  metrics?: Metrics;
}

export class Changes {
  #waiting: Queued[] = [];
  #running = false;

  constructor(private readonly deps: ChangesDeps) {}

  /**
   * Runs a change and commits it together with others. The change may run more than once, so it must write only through
   * the draft. It must read all records before it writes, because it does not see its own writes.
   *
   * @param keys records that the change will read. They are read at once for all changes of a commit, because over a
   * network each change would otherwise wait for the read of the one before it
   * @throws what the change throws
   * @throws {StoreBusy} when other writes change the records all the time for 5 s, or when the queue is full
   * @throws {StoreUnavailable} when the store fails, or after 10 s
   */
  run<T>(change: (draft: Draft) => Promise<T>, keys: readonly KvKey[] = []): Promise<T> {
    if (this.#waiting.length >= CHANGES_WAITING_MAX) {
      return Promise.reject(new StoreBusy(new Error("Too many changes wait")));
    }
    const { clock } = this.deps, { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.push({ change, keys, since: clock.now(), resolve, reject });
    if (!this.#running) queueMicrotask(() => this.#drain());
    this.#running = true;
    return withDeadline(clock, LIMITS.commitWaitMs, () => promise) as Promise<T>;
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, CHANGES_PER_COMMIT);
      const late = this.deps.clock.now() - LIMITS.commitWaitMs;
      for (const queued of batch.filter(({ since }) => since <= late)) {
        queued.reject(new StoreBusy(new Error("The change waited too long")));
      }
      const left = await this.#commit(batch.filter(({ since }) => since > late));
      this.#waiting.unshift(...left);
    }
    this.#running = false;
  }

  /** Commits as many changes as one commit can check, and returns the others. */
  async #commit(batch: Queued[]): Promise<Queued[]> {
    const { clock, random } = this.deps;
    const left = timeLeft(clock, CHANGE_RETRY_MS);
    for (let tries = 1;; tries++) {
      const attempt = new Attempt(this.deps);
      await attempt.read(batch.flatMap(({ keys }) => keys));
      for (const queued of batch) if (!(await attempt.add(queued))) break;
      const { settled } = attempt, rest = batch.slice(settled.length);
      const refuse = (error: unknown) => {
        for (const { queued } of settled) queued.reject(error);
        return rest;
      };
      try {
        if (await attempt.commit()) {
          for (const { settle } of settled) settle();
          return rest;
        }
      } catch (error) {
        return refuse(error);
      }
      if (left() <= 0) {
        return refuse(new StoreBusy(new Error("The records stayed contended")));
      }
      if (tries > 1) await sleep(clock, fraction(random) * 2 ** Math.min(tries, 7));
    }
  }
}

/** One attempt of a commit: the records as read, and as the changes so far leave them. */
class Attempt {
  readonly #records = new Map<string, StoredRecord>();
  readonly #checked = new Set<string>();
  readonly #also: ((operation: AtomicOperation) => unknown)[] = [];
  /** The agents of the note that the commit writes; `null` without a note. */
  #announced: readonly string[] | null = null;
  #otherChecks = 0;
  /** The changes of the commit. `settle` gives a change its own result. */
  readonly settled: { queued: Queued; settle(): void }[] = [];

  constructor(private readonly deps: ChangesDeps) {}

  /** Reads records for the changes. A change whose read has failed repeats it, and gets the error if it fails again. */
  async read(keys: readonly KvKey[]): Promise<void> {
    await Promise.allSettled(keys.map((key) => this.#read(key)));
  }

  /** Runs a change. Returns false, and leaves the change out, when the commit has no room for its checks. */
  async add(queued: Queued): Promise<boolean> {
    const read = new Set<string>();
    const writes: [string, StoredRecord][] = [];
    const also: ((operation: AtomicOperation) => unknown)[] = [];
    let announced = this.#announced, otherChecks = this.#otherChecks;
    const stage = (key: KvKey, value: unknown, write: StoredRecord["write"]) => {
      const before = this.#records.get(idOf(key));
      if (!before) throw new Error("A change must read a record before it writes it");
      writes.push([idOf(key), { ...before, value, write }]);
    };
    const draft: Draft = {
      get: async <T>(key: KvKey) => {
        const id = idOf(key);
        read.add(id);
        const record = this.#records.get(id) ?? await this.#read(key);
        return record as unknown as KvEntryMaybe<T>;
      },
      set: (key, value, options = {}) => stage(key, value, (operation) => operation.set(key, value, options)),
      delete: (key) => stage(key, null, (operation) => operation.delete(key)),
      also: (add, { checks = 0 } = {}) => {
        also.push(add);
        otherChecks += checks;
      },
      announce: (agentDids) => announced = [...announced ?? [], ...agentDids],
    };
    let value: unknown;
    try {
      value = await queued.change(draft);
    } catch (error) {
      this.settled.push({ queued, settle: () => queued.reject(error) });
      return true;
    }
    const checks = this.#checked.union(read).size + otherChecks;
    if (checks > this.deps.maxChecks && this.#checked.size > 0) return false;
    for (const id of read) this.#checked.add(id);
    for (const [id, record] of writes) this.#records.set(id, record);
    this.#also.push(...also);
    this.#announced = announced;
    this.#otherChecks = otherChecks;
    this.settled.push({ queued, settle: () => queued.resolve(value) });
    return true;
  }

  /** @returns false when a record has changed since it was read */
  async commit(): Promise<boolean> {
    const operation = this.deps.kv.atomic();
    const records = [...this.#checked].map((id) => this.#records.get(id)).filter((record) => record !== undefined);
    if (this.#also.length === 0 && records.every(({ write }) => write === null)) return true;
    for (const { key, versionstamp } of records) operation.check({ key, versionstamp });
    for (const { write } of records) write?.(operation);
    for (const add of this.#also) add(operation);
    if (this.#announced) announceTrustChange(operation, this.deps.clock.now(), this.#announced);
    return (await countedCommit(operation, this.deps.metrics)).ok;
  }

  async #read(key: KvKey): Promise<StoredRecord> {
    const { value, versionstamp } = await this.deps.reads.get(key);
    return this.#records.getOrInsert(idOf(key), { key, versionstamp, value, write: null });
  }
}
