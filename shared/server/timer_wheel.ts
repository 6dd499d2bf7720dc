import { type Cancel, type Clock, DAY_MS } from "../clock.ts";

/**
 * Shortest timer that the wheel takes. With less, a short deadline would end late by a large part of itself. With more,
 * each call of the store would set a timer of the runtime, for its second attempt.
 */
const WHEEL_TIMER_MS = 500;
/** Length of a slot. With more, a deadline ends later; with less, the wheel wakes up too often to save anything. */
export const SLOT_MS = 250;

interface Timer {
  /** When it is due, on the scale of `uptime`. */
  at: number;
  /** How many timers were set before it. */
  number: number;
  fn: () => void;
  /** Its place in its slot; -1 once it has fired or was cancelled. */
  place: number;
}

const nothing = () => {};

/** Removes a timer from its slot. Returns false for one that has been removed before. */
function removed(timers: Timer[], timer: Timer): boolean {
  const { place } = timer;
  if (place === -1) return false;
  // The last timer takes its place. The list is sorted before it fires, so its order does not matter until then.
  const last = timers.pop();
  if (last && last !== timer) {
    timers[place] = last;
    last.place = place;
  }
  timer.place = -1;
  // The caller that can cancel it may keep it for long, and would keep what `fn` uses.
  timer.fn = nothing;
  return true;
}

/**
 * A clock with cheap timers. A request sets several timers and cancels nearly all of them; here each is only an entry
 * in a list, which costs much less than a timer of the runtime. Timers of half a second or more fire at the end of
 * their slot of 250 ms: up to one slot late, never early, and in the order of their times. Shorter timers, and the time
 * itself, are those of the given clock. Pending timers keep the process alive; once none is left, the wheel holds nothing.
 */
export class TimerWheel implements Clock {
  /** Pending timers by the number of their slot. A slot without timers is removed. */
  readonly #slots = new Map<number, Timer[]>();
  /** The slot for which the timer of the runtime is set. */
  #wakeSlot = Infinity;
  #cancelWake: Cancel = () => {};
  #timersSet = 0;

  constructor(private readonly clock: Clock) {}

  now(): number {
    return this.clock.now();
  }

  uptime(): number {
    return this.clock.uptime();
  }

  after(ms: number, fn: () => void): Cancel {
    if (!(ms >= WHEEL_TIMER_MS)) return this.clock.after(ms, fn);
    const at = this.uptime() + ms;
    const slot = Math.ceil(at / SLOT_MS);
    let timers = this.#slots.get(slot);
    if (!timers) this.#slots.set(slot, timers = []);
    const timer: Timer = { at, number: this.#timersSet++, fn, place: timers.length };
    timers.push(timer);
    if (slot < this.#wakeSlot) this.#wakeAt(slot);
    return () => {
      if (removed(timers, timer) && timers.length === 0) this.#drop(slot);
    };
  }

  /** Removes an empty slot. A wake-up for it stays set, unless nothing else is pending. */
  #drop(slot: number): void {
    this.#slots.delete(slot);
    if (this.#slots.size === 0) this.#wakeAt(Infinity);
  }

  /** Sets the timer of the runtime for a slot, in place of the present one. */
  #wakeAt(slot: number): void {
    this.#cancelWake();
    this.#wakeSlot = slot;
    if (slot === Infinity) return;
    // The runtime cannot wait longer than 24 days, so the wait is at most a day. An early wake-up sets the next one.
    const wait = Math.min(Math.ceil(slot * SLOT_MS - this.uptime()), DAY_MS);
    this.#cancelWake = this.clock.after(Math.max(0, wait), () => this.#wake());
  }

  /** Fires the timers of every slot that has ended. */
  #wake(): void {
    // The runtime's timer has fired. A timer that is set from now on must set it again, or it would never fire.
    this.#wakeSlot = Infinity;
    const last = Math.floor(this.uptime() / SLOT_MS);
    const ended = [...this.#slots.keys()].filter((slot) => slot <= last).sort((a, b) => a - b);
    for (const slot of ended) this.#fire(slot);
    let next = Infinity;
    for (const slot of this.#slots.keys()) next = Math.min(next, slot);
    this.#wakeAt(next);
  }

  #fire(slot: number): void {
    const timers = this.#slots.get(slot) ?? [];
    // Timers of the same time fire in the order in which they were set, which a cancelled one has changed in the list.
    for (const timer of timers.toSorted((a, b) => a.at - b.at || a.number - b.number)) {
      // An earlier timer of the slot may have cancelled it.
      const { fn } = timer;
      if (!removed(timers, timer)) continue;
      try {
        fn();
      } catch (error) {
        // The error is reported as for a timer of the runtime, because a thrown error would stop the other timers.
        reportError(error);
      }
    }
    this.#drop(slot);
  }
}
