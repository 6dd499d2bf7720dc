/** A clock that stands still until a test moves it. Timers fire in order of their time, as time passes over them. */
import type { Cancel, Clock } from "../../shared/clock.ts";

interface Timer {
  at: number;
  fn: () => void;
}

export class ManualClock implements Clock {
  #now: number;
  #timers: Timer[] = [];

  constructor(now = Date.UTC(2026, 1, 21, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): Cancel {
    const timer = { at: Math.ceil(this.#now + ms), fn };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Timers that wait. */
  get waiting(): number {
    return this.#timers.length;
  }

  /** Lets time pass, and everything that comes of a timer come to `rest` before the next. */
  async advance(ms: number, rest = settle): Promise<void> {
    const end = this.#now + ms;
    while (true) {
      const due = this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#now = Math.max(this.#now, due.at);
      due.fn();
      await rest();
    }
    this.#now = end;
    await rest();
  }

  /** Sets the clock, back or forth, without firing anything: somebody changed the machine's time. */
  step(ms: number): void {
    this.#now += ms;
    for (const timer of this.#timers) timer.at += ms;
  }
}

/** Lets pending work of this turn and of the store run. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setTimeout(resolve, 0));
}
