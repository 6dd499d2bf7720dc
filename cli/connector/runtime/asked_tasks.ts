/**
 * The tasks of local A2A clients whose result their clients wait for or have asked for (D-135): the reply to one ends it
 * and goes to the client only. In memory: after a restart a reply is kept a moment for a client that asks.
 */
import { BoundedMap } from "../../../shared/bounded_map.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";

/** Tasks that are remembered, the newest: a client may ask for any number. */
const KNOWN_TASKS = 1_000;

/** A task: the sent message whose reply is its result. */
interface Task {
  toDid: string;
  requestId: string;
}

export class AskedTasks {
  /** When the receipts of a task were last requested, milliseconds since the Unix epoch. */
  readonly #asked = new BoundedMap<string, number>(KNOWN_TASKS);
  #blocking = 0;

  /** Records that a client will take the result. */
  add(task: Task): void {
    const key = keyOf(task);
    this.#asked.set(key, this.#asked.get(key) ?? 0);
  }

  /** Returns true once for a task whose client takes the result: the first reply is for that client. */
  claim(task: Task): boolean {
    return this.#asked.delete(keyOf(task));
  }

  /** Whether the receipts of an asked task may be requested again; then the time is recorded. */
  mayLookUp(task: Task, now: number): boolean {
    const key = keyOf(task), last = this.#asked.get(key) ?? 0;
    if (now >= last && now - last < LIMIT.receiptLookupMaxMs) return false;
    this.#asked.set(key, now);
    return true;
  }

  /** Counts a call that waits for the end of its task; `null` when there are too many. Disposing it makes room. */
  block(): Disposable | null {
    if (this.#blocking >= LIMIT.a2aBlockingCalls) return null;
    this.#blocking++;
    let isOpen = true;
    return {
      [Symbol.dispose]: () => {
        if (isOpen) this.#blocking--;
        isOpen = false;
      },
    };
  }
}

function keyOf({ toDid, requestId }: Task): string {
  return `${toDid} ${requestId}`;
}
