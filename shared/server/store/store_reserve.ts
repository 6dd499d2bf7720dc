/**
 * Keeps a part of the store's disk free of queued messages, receipts, tickets and pairs. Without it, those of a few people
 * fill the disk, and then no request is accepted, because each request writes a nonce.
 */
import type { Clock } from "../../clock.ts";
import { ServiceError } from "../../protocol/errors.ts";
import type { DiskSpace } from "../machine.ts";

/** Time between two questions to the system about free bytes. What is written meanwhile is subtracted. */
const LOOK_MS = 1_000;
const GIB = 2 ** 30;
/** How often each byte is written: SQLite writes a record to its log, and from there to the file. */
const WRITTEN_TIMES = 2;

/** @param what kind of records that would use the reserve */
export function diskRefusal(what: string): ServiceError {
  const message = `The disk of the proxy has no space left for ${what}`;
  return new ServiceError("SERVICE_UNAVAILABLE", { message, headers: { "Retry-After": "60" } });
}

export class StoreReserve {
  #seen: DiskSpace | null = null;
  #seenAt = -Infinity;
  #written = 0;

  /**
   * @param look returns `null` for a store whose disk this process cannot see, and then there is always room
   * @param reserveBytes bytes that stay free; `null` for the smaller of 1 GiB and a tenth of the disk
   */
  constructor(
    private readonly look: () => DiskSpace | null,
    private readonly clock: Clock,
    private readonly reserveBytes: number | null,
  ) {}

  /** Bytes of the disk that are free, and bytes that must stay free; `null` when this process cannot see the disk. */
  get space(): { freeBytes: number; reserveBytes: number } | null {
    const seen = this.look();
    return seen && { freeBytes: seen.freeBytes, reserveBytes: this.#reserveOf(seen) };
  }

  #reserveOf({ totalBytes }: DiskSpace): number {
    return this.reserveBytes ?? Math.min(GIB, totalBytes / 10);
  }

  /** Tells whether a record leaves some reserves and `more` bytes free. If so, counts the record. */
  hasRoom(bytes: number, { reserves = 1, more = 0 } = {}): boolean {
    const now = this.clock.now();
    if (Math.abs(now - this.#seenAt) >= LOOK_MS) {
      this.#seen = this.look();
      this.#seenAt = now;
      this.#written = 0;
    }
    if (this.#seen === null) return true;
    const written = this.#written + bytes * WRITTEN_TIMES;
    if (this.#seen.freeBytes - written - more < reserves * this.#reserveOf(this.#seen)) return false;
    this.#written = written;
    return true;
  }
}
