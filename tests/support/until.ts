/** Waiting for a condition instead of a number of event-loop turns. */
import { flushTasks, type ManualClock } from "./manual_clock.ts";

/** Longer than any condition takes on a busy machine: only a condition that stays false reaches it. */
const DEADLINE_MS = 30_000;

/**
 * Waits, without moving the clock of the test, until a condition holds.
 *
 * @param details evaluated for the error, for example the timers that are still pending
 * @throws {Error} after 30 s of real time, with the source of the condition
 */
export async function until(holds: () => boolean | Promise<boolean>, details: () => string = () => ""): Promise<void> {
  for (const end = performance.now() + DEADLINE_MS; performance.now() < end;) {
    if (await holds()) return;
    await flushTasks();
  }
  throw new Error(`Not true after ${DEADLINE_MS / 1000} s: ${holds} ${details()}`.trim());
}

/**
 * Moves the clock by steps until a condition holds. What waits for a file as well as for the clock may set its next timer
 * after the clock has moved, so after one large step that timer would never fire.
 *
 * @throws {Error} after 30 s of real time, with the source of the condition and the timers that are still pending
 */
export async function untilLater(clock: ManualClock, holds: () => boolean, stepMs = 1_000): Promise<void> {
  for (const end = performance.now() + DEADLINE_MS; performance.now() < end;) {
    if (holds()) return;
    await clock.advance(stepMs);
  }
  throw new Error(`Not true after ${DEADLINE_MS / 1000} s: ${holds}\n${clock.pending()}`);
}

/** Moves a clock by `ms` in steps of 100 ms, between which files are read, or until a condition holds. */
export async function passTime(clock: ManualClock, ms: number, isOver: () => boolean): Promise<void> {
  for (let passed = 0; passed < ms && !isOver(); passed += 100) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    await clock.advance(100);
  }
}
