/**
 * The used nonces of a sender and when each ends, as a hash table of numbers. A `Map` with a text for each nonce would
 * take three times the memory, and the garbage collector would visit every entry of every sender.
 */
import type { Random } from "../../shared/random.ts";
import type { NonceName } from "../schema/sender_record.ts";

/** Slots of a new table. With more, a sender that sends one message takes more memory; with less, tables grow sooner. */
const LEAST_SLOTS = 16;
/** Most used slots, of all. With more, a lookup passes many used slots before it finds a free one. */
const FILL_MAX = 0.75;
/** A table with fewer used slots becomes smaller, because a sender would otherwise keep the memory of its busiest time. */
const FILL_MIN = 0.25;

export class UsedNonces {
  /** The three numbers of each slot's nonce. */
  #names = new Int32Array(3 * LEAST_SLOTS);
  /** The end of each slot's nonce, milliseconds since the Unix epoch; 0 for a free slot. */
  #ends = new Float64Array(LEAST_SLOTS);
  /** No nonce ends before this time. */
  #firstEnd = Infinity;
  size = 0;

  /** Without it, a sender could choose nonces that all take the same slot. */
  readonly #seed: number;

  constructor(random: Random) {
    this.#seed = new DataView(random.bytes(4).buffer).getInt32(0);
  }

  /** Returns the end of a nonce, milliseconds since the Unix epoch; 0 for one that is not known. */
  endOf({ a, b, c }: NonceName): number {
    return this.#ends[this.#slotOf(a, b, c)] as number;
  }

  /** @param end milliseconds since the Unix epoch, over 0 */
  set(name: NonceName, end: number): void {
    const { a, b, c } = name;
    let slot = this.#slotOf(a, b, c);
    if (this.#ends[slot] === 0 && ++this.size > this.#ends.length * FILL_MAX) {
      this.#resize(2 * this.#ends.length);
      slot = this.#slotOf(a, b, c);
    }
    this.#put(slot, a, b, c, end);
    if (end < this.#firstEnd) this.#firstEnd = end;
  }

  delete({ a, b, c }: NonceName): void {
    const slot = this.#slotOf(a, b, c);
    if (this.#ends[slot] !== 0) this.#free(slot);
  }

  clear(): void {
    this.#names = new Int32Array(3 * LEAST_SLOTS);
    this.#ends = new Float64Array(LEAST_SLOTS);
    this.#firstEnd = Infinity;
    this.size = 0;
  }

  /** Forgets every nonce that has ended by a time, milliseconds since the Unix epoch. */
  forgetEnded(by: number): void {
    if (by < this.#firstEnd) return;
    this.#firstEnd = Infinity;
    for (let slot = 0; slot < this.#ends.length;) {
      const end = this.#ends[slot] as number;
      // A later nonce may have moved into a slot that was freed, so this slot is looked at again.
      if (end !== 0 && end <= by) this.#free(slot);
      else {
        if (end !== 0 && end < this.#firstEnd) this.#firstEnd = end;
        slot++;
      }
    }
    let slots = this.#ends.length;
    while (slots > LEAST_SLOTS && this.size < slots * FILL_MIN) slots /= 2;
    if (slots < this.#ends.length) this.#resize(slots);
  }

  /** Returns the slot of a nonce, or the free slot into which it would come. */
  #slotOf(a: number, b: number, c: number): number {
    const names = this.#names, ends = this.#ends, last = ends.length - 1;
    for (let slot = this.#home(a, b) & last;; slot = slot + 1 & last) {
      if (ends[slot] === 0) return slot;
      if (names[3 * slot] === a && names[3 * slot + 1] === b && names[3 * slot + 2] === c) return slot;
    }
  }

  /** Mixes two numbers of a name with the seed. The result is a slot in its lowest bits. */
  #home(a: number, b: number): number {
    const mixed = Math.imul(a ^ this.#seed, 0x9e3779b1) ^ b;
    return Math.imul(mixed ^ mixed >>> 15, 0x85ebca6b) >>> 7;
  }

  /** Frees a slot and moves the nonces behind it up, because a lookup ends at the first free slot. */
  #free(freed: number): void {
    const names = this.#names, ends = this.#ends, last = ends.length - 1;
    let free = freed;
    for (let slot = free + 1 & last; ends[slot] !== 0; slot = slot + 1 & last) {
      const home = this.#home(names[3 * slot] as number, names[3 * slot + 1] as number) & last;
      // A nonce whose own slot lies behind the free one could not be found before it.
      if ((slot - home & last) < (slot - free & last)) continue;
      this.#move(names, ends, slot, free);
      free = slot;
    }
    ends[free] = 0;
    this.size--;
  }

  #resize(slots: number): void {
    const names = this.#names, ends = this.#ends;
    this.#names = new Int32Array(3 * slots);
    this.#ends = new Float64Array(slots);
    for (let from = 0; from < ends.length; from++) {
      if (ends[from] === 0) continue;
      const at = 3 * from;
      this.#move(
        names,
        ends,
        from,
        this.#slotOf(names[at] as number, names[at + 1] as number, names[at + 2] as number),
      );
    }
  }

  /** Copies a slot of a table into a slot of the present one. */
  #move(names: Int32Array, ends: Float64Array, from: number, to: number): void {
    const at = 3 * from, end = ends[from] as number;
    this.#put(to, names[at] as number, names[at + 1] as number, names[at + 2] as number, end);
  }

  #put(slot: number, a: number, b: number, c: number, end: number): void {
    const at = 3 * slot;
    this.#names[at] = a;
    this.#names[at + 1] = b;
    this.#names[at + 2] = c;
    this.#ends[slot] = end;
  }
}
