/**
 * Knows which kinds of records this process is writing; the kind of a record is the first two parts of its key. No
 * other process has the store open, so every write passes here. A record that a commit has checked therefore needs no
 * check in a later commit, as long as no record of its kind is written. A write counts from its call until the store
 * has answered it, even after the deadline of the call. After a second a record is checked again in any case, because a
 * process that writes to the file in spite of its lock could otherwise end a session that this process would accept
 * until it stops.
 */
import type { AtomicOperation, CommitOptions, Kv, KvCommitError, KvCommitResult, KvKey } from "./kv.ts";

/** How long a check holds. With more, another process's change is seen later; with less, most messages check again. */
const CHECKED_FOR_MS = 1_000;

interface Kind {
  begun: number;
  underWay: number;
}

/** A moment at which no record of a kind was being written. */
export interface Moment {
  readonly kind: Kind;
  readonly begun: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
}

export class WriteWatch {
  /** The kinds that were written or asked about, by service and family. There are as many as the key tables have. */
  readonly #kinds = new Map<unknown, Map<unknown, Kind>>();

  /**
   * Changes the writing calls of an open store. This must be done before deadlines are added, because a late call has
   * ended for its caller while its write may still take effect.
   */
  constructor(kv: Kv) {
    const set = kv.set.bind(kv), remove = kv.delete.bind(kv), atomic = kv.atomic.bind(kv);
    kv.set = (key, ...rest) => this.#during([this.#kindOf(key)], () => set(key, ...rest));
    kv.delete = (key) => this.#during([this.#kindOf(key)], () => remove(key));
    kv.atomic = () => {
      const kinds: Kind[] = [];
      return observed(atomic(), {
        writes: (key) => kinds.push(this.#kindOf(key)),
        commit: (run) => this.#during(kinds, run),
      });
    };
  }

  /** Returns the moment `now` for the kind of a record, or `null` while a record of this kind is being written. */
  momentOf(key: KvKey, now: number): Moment | null {
    const kind = this.#kindOf(key);
    return kind.underWay === 0 ? { kind, begun: kind.begun, at: now } : null;
  }

  /** @param kinds of the records that are written, one for each record */
  async #during<R>(kinds: readonly Kind[], write: () => Promise<R>): Promise<R> {
    for (const kind of kinds) {
      kind.begun++;
      kind.underWay++;
    }
    try {
      return await write();
    } finally {
      for (const kind of kinds) kind.underWay--;
    }
  }

  #kindOf(key: KvKey): Kind {
    const [service, family] = key;
    let kinds = this.#kinds.get(service);
    if (!kinds) this.#kinds.set(service, kinds = new Map());
    let kind = kinds.get(family);
    if (!kind) kinds.set(family, kind = { begun: 0, underWay: 0 });
    return kind;
  }
}

/** Tells whether the moment is less than a second ago and no record of the kind was written since. */
export function isUnwritten({ kind, begun, at }: Moment, now: number): boolean {
  return kind.underWay === 0 && kind.begun === begun && now >= at && now - at < CHECKED_FOR_MS;
}

/** What an operation reports. */
interface Observer {
  /** Called with each key that the operation writes or deletes. */
  writes(key: KvKey): void;
  /** Called whenever checks are added to the operation. */
  checks?(): void;
  commit(run: () => Promise<Commit>): Promise<Commit>;
}

type Commit = KvCommitResult | KvCommitError;

/** Returns an atomic operation that reports its keys and its commit. */
export function observed(operation: AtomicOperation, observer: Observer): AtomicOperation {
  return new ObservedOperation(operation, observer);
}

/** A class, because each message makes such an operation, and functions of its own for each would be slower. */
class ObservedOperation implements AtomicOperation {
  constructor(private readonly operation: AtomicOperation, private readonly observer: Observer) {}

  check(...checks: Parameters<AtomicOperation["check"]>): this {
    this.observer.checks?.();
    this.operation.check(...checks);
    return this;
  }

  set(key: KvKey, value: unknown, options?: { expireIn?: number }): this {
    this.observer.writes(key);
    this.operation.set(key, value, options);
    return this;
  }

  delete(key: KvKey): this {
    this.observer.writes(key);
    this.operation.delete(key);
    return this;
  }

  commit(how?: CommitOptions): Promise<Commit> {
    return this.observer.commit(() => this.operation.commit(how));
  }
}
