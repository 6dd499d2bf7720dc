/**
 * A budget for request bodies. Bodies that are being read or handled may hold a bounded number of bytes in total, and
 * half of that per address. A body that does not fit waits, and the address that holds least is next. A body that
 * arrives slowly while others wait is aborted, and so is one whose sender's registry answers slowly. Small bodies are
 * exempt, because the heads of their requests cost as much.
 */
import type { Clock } from "../../clock.ts";
import { ServiceError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { ByteBudget } from "../byte_budget.ts";

/**
 * Bytes that request bodies may hold in memory, half of them for one address. With more, a flood of bodies takes the
 * memory of the process.
 */
export const BODY_ROOM_BYTES = 4_194_304;
/** How long a body waits for room. With more, slow bodies hold back others; with less, a short burst is refused. */
export const BODY_WAIT_MS = 2_000;
/** Most bodies that wait. With more, a flood costs memory for connections and heads before it is refused. */
export const BODIES_WAITING_MAX = 1_000;

export class BodyLease {
  /** Ends the reading of the body, or the wait of a visitor for its registry; `null` while there is neither. */
  abort: (() => void) | null = null;

  /**
   * @param since when the bytes were granted, milliseconds since the Unix epoch
   * @param release releases the lease; a second call changes nothing
   */
  constructor(readonly since: number, readonly release: () => void) {}
}

interface QueuedBody {
  address: string;
  bytes: number;
  grant(release: () => void): void;
}

const PER_ADDRESS = BODY_ROOM_BYTES / 2;

export class BodyBudget {
  readonly #budget = new ByteBudget({ total: BODY_ROOM_BYTES, perParty: PER_ADDRESS });
  readonly #leases = new Set<BodyLease>();
  #queue: QueuedBody[] = [];

  constructor(private readonly clock: Clock) {}

  get total(): number {
    return this.#budget.used;
  }

  /**
   * Takes bytes for a body, or waits for them for up to 2 s.
   *
   * @throws {ServiceError} `SERVICE_UNAVAILABLE` when they are not free in time, or too many bodies wait
   */
  take(address: string, bytes: number): BodyLease | Promise<BodyLease> {
    return bytes <= LIMITS.bodyFreeBytes ? new BodyLease(this.clock.now(), () => {}) : this.#takeRoom(address, bytes);
  }

  async #takeRoom(address: string, bytes: number): Promise<BodyLease> {
    // While others wait, even a body that fits must wait, because small ones would otherwise overtake a large one.
    const granted = this.#queue.length === 0 ? this.#budget.take(address, bytes) : null;
    const release = granted ?? await this.#wait(address, bytes);
    const lease = new BodyLease(this.clock.now(), () => {
      this.#leases.delete(lease);
      release();
      this.#grant();
    });
    this.#leases.add(lease);
    return lease;
  }

  #wait(address: string, bytes: number): Promise<() => void> {
    const ofAddress = this.#queue.filter((other) => other.address === address).length;
    if (this.#queue.length >= BODIES_WAITING_MAX || ofAddress >= BODIES_WAITING_MAX / 2) throw budgetExceeded();
    return new Promise((resolve, reject) => {
      const queued: QueuedBody = {
        address,
        bytes,
        grant: (release) => {
          cancelAbort();
          cancelEnd();
          resolve(release);
        },
      };
      const cancelAbort = this.clock.after(BODY_WAIT_MS / 2, () => this.#abortSlow());
      const cancelEnd = this.clock.after(BODY_WAIT_MS, () => {
        this.#queue = this.#queue.filter((other) => other !== queued);
        reject(budgetExceeded());
        // A smaller one behind it may fit, and would otherwise wait for a release, or be refused in vain.
        this.#grant();
      });
      this.#queue.push(queued);
      this.#grant();
    });
  }

  /** Gives waiting bodies their bytes, until the next one does not fit. The address that holds least comes first. */
  #grant(): void {
    while (true) {
      const used = (address: string) => this.#budget.usedBy(address);
      const mayTake = this.#queue.filter(({ address, bytes }) => used(address) + bytes <= PER_ADDRESS);
      const next = mayTake.reduce<QueuedBody | undefined>(
        (least, one) => least && used(least.address) <= used(one.address) ? least : one,
        undefined,
      );
      const release = next && this.#budget.take(next.address, next.bytes);
      if (!release) return;
      this.#queue.splice(this.#queue.indexOf(next), 1);
      next.grant(release);
    }
  }

  /** Aborts bodies that have been arriving, or waiting for a registry, for 1 s or longer. */
  #abortSlow(): void {
    const latest = this.clock.now() - BODY_WAIT_MS / 2;
    for (const lease of [...this.#leases]) if (lease.since <= latest) lease.abort?.();
  }
}

function budgetExceeded(): ServiceError {
  return new ServiceError("SERVICE_UNAVAILABLE", {
    message: "Too many large bodies at once",
    headers: { "Retry-After": "1", Connection: "close" },
  });
}
