/**
 * Room for request bodies (D-98): bodies that are being read or worked on take up a bounded number of bytes over all
 * clients, and half of them per address. Who finds no room waits, whoever holds least first; a body that still dribbles
 * in while others wait is cut. Small bodies need no room: their heads cost as much.
 */
import type { Clock } from "../../clock.ts";
import { ServiceError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** Room that somebody holds. */
export class BodyLease {
  readonly #release: () => void;
  /** Ends the reading of the body, while it is being read. */
  abortRead: (() => void) | null = null;

  constructor(readonly since: number, release: () => void) {
    this.#release = release;
  }

  /** Gives the room back; again is nothing. */
  release(): void {
    this.#release();
  }
}

interface QueuedBody {
  address: string;
  bytes: number;
  grant(): void;
}

export class BodyBudget {
  readonly #clock: Clock;
  /** Bytes held, by address. */
  readonly #held = new Map<string, number>();
  readonly #rooms = new Set<BodyLease>();
  #total = 0;
  #waiting: QueuedBody[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Bytes held, over all. */
  get total(): number {
    return this.#total;
  }

  /**
   * Takes room for a body.
   *
   * @throws {ServiceError} `SERVICE_UNAVAILABLE` when there is none within 2 s
   */
  async take(address: string, bytes: number): Promise<BodyLease> {
    if (bytes <= LIMITS.bodyFreeBytes) return new BodyLease(this.#clock.now(), () => {});
    if (this.#waiting.length > 0 || !this.#fits(address, bytes)) await this.#wait(address, bytes);
    else this.#add(address, bytes);
    let isHeld = true;
    const room = new BodyLease(this.#clock.now(), () => {
      if (!isHeld) return;
      isHeld = false;
      this.#rooms.delete(room);
      this.#add(address, -bytes);
      this.#grant();
    });
    this.#rooms.add(room);
    return room;
  }

  #wait(address: string, bytes: number): Promise<void> {
    const ofAddress = this.#waiting.filter((other) => other.address === address).length;
    const { bodiesWaiting } = LIMITS;
    if (this.#waiting.length >= bodiesWaiting || ofAddress >= bodiesWaiting / 2) throw budgetExceeded();
    return new Promise((resolve, reject) => {
      const waiting: QueuedBody = {
        address,
        bytes,
        grant: () => {
          cancelCut();
          cancelEnd();
          resolve();
        },
      };
      const cancelCut = this.#clock.after(LIMITS.bodyWaitMs / 2, () => this.#abortSlow());
      const cancelEnd = this.#clock.after(LIMITS.bodyWaitMs, () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        reject(budgetExceeded());
      });
      this.#waiting.push(waiting);
      this.#grant();
    });
  }

  /** Lets in who waits: the address that holds least, as long as its turn fits. */
  #grant(): void {
    while (true) {
      const mayTake = this.#waiting.filter(({ address, bytes }) => this.#ofAddress(address) + bytes <= SHARE);
      const next = mayTake.reduce<QueuedBody | undefined>(
        (least, one) => least && this.#ofAddress(least.address) <= this.#ofAddress(one.address) ? least : one,
        undefined,
      );
      if (!next || !this.#fits(next.address, next.bytes)) return;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#add(next.address, next.bytes);
      next.grant();
    }
  }

  /** Cuts bodies that have been arriving for long while others wait. */
  #abortSlow(): void {
    const latest = this.#clock.now() - LIMITS.bodyWaitMs / 2;
    for (const room of [...this.#rooms]) if (room.since <= latest) room.abortRead?.();
  }

  #fits(address: string, bytes: number): boolean {
    return this.#total + bytes <= LIMITS.bodyRoomBytes && this.#ofAddress(address) + bytes <= SHARE;
  }

  #ofAddress(address: string): number {
    return this.#held.get(address) ?? 0;
  }

  #add(address: string, bytes: number): void {
    this.#total += bytes;
    const held = this.#ofAddress(address) + bytes;
    if (held === 0) this.#held.delete(address);
    else this.#held.set(address, held);
  }
}

const SHARE = LIMITS.bodyRoomBytes / 2;

function budgetExceeded(): ServiceError {
  return new ServiceError("SERVICE_UNAVAILABLE", {
    message: "Too many large bodies at once",
    headers: { "Retry-After": "1", Connection: "close" },
  });
}
