/**
 * Lines on their way to standard error or output: the log of a server, and the events of a connector. They are written in
 * the background, because a write to a full pipe waits for its reader, and the whole process would wait with it. Lines
 * beyond a bound are dropped and counted, and one line reports their number as soon as lines fit again.
 */
import { type Clock, settledWithin } from "./clock.ts";
import { type Bytes, joinedBytes, utf8Bytes } from "./protocol/base64url.ts";

/** Bytes that may wait. With more, a log that is not read fills the memory; with less, a burst of errors is lost. */
const QUEUE_BYTES = 1_048_576;
/** Bytes of one write. With more, a slow reader takes longer than a stop waits; with less, there are more calls. */
const WRITE_BYTES = 65_536;

export class LogQueue {
  /** Lines that wait, each with its line end. `#bytes` also counts those that are being written. */
  #waiting: Bytes[] = [];
  #bytes = 0;
  #writing: Promise<void> | null = null;
  /** How many lines were dropped since the start. `#reported` is how many of them a line has reported. */
  dropped = 0;
  #reported = 0;

  /**
   * @param write writes at least one byte and returns how many
   * @param report logs how many lines were dropped
   */
  constructor(
    private readonly write: (bytes: Bytes) => Promise<number>,
    private readonly report: (lines: number) => void,
  ) {}

  /** Adds a line, given without its end. Never waits. */
  add(line: string): void {
    const bytes = utf8Bytes(`${line}\n`);
    if (this.#bytes + bytes.length > QUEUE_BYTES) {
      this.dropped++;
      return;
    }
    this.#bytes += bytes.length;
    this.#waiting.push(bytes);
    this.#writing ??= this.#writeAll();
  }

  /** Resolves when every line is written, or after `ms` milliseconds. */
  async written(clock: Pick<Clock, "after">, ms: number): Promise<void> {
    if (this.#writing) await settledWithin(clock, this.#writing, ms);
  }

  async #writeAll(): Promise<void> {
    // Waits one turn, so that all lines of this turn go out in a single write.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const lines = this.#take();
      const bytes = joinedBytes(lines);
      let isWritten = false;
      try {
        for (let at = 0; at < bytes.length;) at += await this.write(bytes.subarray(at));
        isWritten = true;
      } catch {
        // The reader is gone, and there is no other place to say so. Later lines are tried again.
        this.dropped += lines.length;
      }
      this.#bytes -= bytes.length;
      // Waits until half of the bound is free, because a slow reader would otherwise get a report after each write.
      const unreported = this.dropped - this.#reported;
      if (isWritten && unreported > 0 && this.#bytes <= QUEUE_BYTES / 2) {
        this.#reported = this.dropped;
        this.report(unreported);
      }
    }
    // Cleared here and not when the promise settles, because a line added in between would wait for the next line.
    this.#writing = null;
  }

  /** Removes the next lines for one write: at least one. */
  #take(): Bytes[] {
    let count = 0;
    for (let size = 0; count < this.#waiting.length; count++) {
      size += this.#waiting[count]?.length ?? 0;
      if (count > 0 && size > WRITE_BYTES) break;
    }
    return this.#waiting.splice(0, count);
  }
}
