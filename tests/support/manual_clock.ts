/** A clock that stands still until a test moves it. Timers fire in the order of their time. */
import { setImmediate } from "node:timers";
import type { Cancel, Clock } from "../../shared/clock.ts";
import { outsideWork } from "./outside_work.ts";

interface Timer {
  at: number;
  fn: () => void;
}

export class ManualClock implements Clock {
  #now: number;
  #uptime = 0;
  /** In the order in which they were set. A busy test has thousands, and most of them are cancelled. */
  readonly #timers = new Set<Timer>();

  constructor(now = Date.UTC(2026, 1, 21, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  uptime(): number {
    return this.#uptime;
  }

  after(ms: number, fn: () => void): Cancel {
    const timer = { at: Math.ceil(this.#now + ms), fn };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Number of pending timers. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** The pending timers, one line each: the delay, and the start of what runs then. A stack for each timer takes long. */
  pending(): string {
    return [...this.#timers].map(({ at, fn }) => `+${at - this.#now} ms ${shortSource(fn)}`).join("\n");
  }

  /** Moves the clock, and waits for `rest` after each timer before the next one fires. */
  async advance(ms: number, rest = flushTasks): Promise<void> {
    const end = this.#now + ms;
    while (true) {
      const due = this.#nextUntil(end);
      if (!due) break;
      this.#timers.delete(due);
      this.#passUntil(due.at);
      due.fn();
      await rest();
    }
    this.#passUntil(end);
    await rest();
  }

  #passUntil(at: number): void {
    const ms = Math.max(0, at - this.#now);
    this.#now += ms;
    this.#uptime += ms;
  }

  /** The timer that fires first, unless it fires after `end`. */
  #nextUntil(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.at <= end && timer.at < (next?.at ?? Infinity)) next = timer;
    return next;
  }

  /** Sets the clock forward or back without firing a timer, like a change of the machine's time. */
  step(ms: number): void {
    this.#now += ms;
    for (const timer of this.#timers) timer.at += ms;
  }

  /** Like `step`, after the work of earlier requests: a commit in flight would otherwise count as older by the step. */
  async stepWhenIdle(ms: number): Promise<void> {
    await flushTasks();
    this.step(ms);
  }
}

function shortSource(fn: () => void): string {
  return String(fn).replaceAll(/\s+/g, " ").slice(0, 120);
}

/** Event-loop turns without outside work after which no more work follows. */
const IDLE_TURNS = 3;
/**
 * Turns in which a call may be outstanding that a test delays on purpose: two seconds of a process that runs. A limit in
 * real time would end the wait of a process that a busy machine has kept from running.
 */
const HELD_BACK_TURNS = 2_000;

/** Runs pending tasks until store, WebCrypto and files have answered every call, and three turns bring no new one. */
export async function flushTasks(): Promise<void> {
  for (let idle = 0, turns = 0; idle < IDLE_TURNS && turns < HELD_BACK_TURNS; turns++) {
    const isLast = idle === IDLE_TURNS - 1;
    // A timer of 0 ms puts the process to sleep, for thirty times the CPU of a turn. It gives other threads time to answer.
    await new Promise<void>((resolve) => isLast || outsideWork() > 0 ? setTimeout(resolve, 0) : setImmediate(resolve));
    idle = outsideWork() === 0 ? idle + 1 : 0;
  }
}
