/** Signals of a terminal to a person who looks elsewhere: a sound or a notification, and the title of its window. */
import type { Clock } from "../../../shared/clock.ts";
import type { Notify } from "../../files/profile.ts";

const EVERY_MS = 30_000;
/** Terminals that know the older sequence of urxvt only. */
const OLD_SEQUENCE = /^(?:rxvt|foot)/;

export class Notifier {
  #last = -Infinity;
  #title = "";

  /** @param write writes a sequence to the terminal; @param term value of `TERM` */
  constructor(
    readonly clock: Clock,
    readonly write: (sequence: string) => void,
    readonly how: Notify,
    readonly term: string,
  ) {}

  /** Signals that a message arrived, at most once in 30 s. */
  arrived(agent: string, unread: number): void {
    const now = this.clock.now();
    // A time in the future comes from a clock that was set back, and would silence the signals until then.
    if (this.how === "off" || Math.abs(now - this.#last) < EVERY_MS) return;
    this.#last = now;
    if (this.how === "bell") return this.write("\x07");
    const text = `${unread} unread ${unread === 1 ? "message" : "messages"} for ${agent}`;
    this.write(OLD_SEQUENCE.test(this.term) ? `\x1b]777;notify;svc;${text}\x07` : `\x1b]9;svc: ${text}\x07`);
  }

  /** Sets the title of the window; the first time it asks the terminal to keep the earlier one. */
  title(text: string): void {
    if (this.how === "off" || text === this.#title) return;
    this.write(`${this.#title === "" ? "\x1b[22;0t" : ""}\x1b]2;${text}\x07`);
    this.#title = text;
  }

  close(): void {
    if (this.#title !== "") this.write("\x1b[23;0t");
    this.#title = "";
  }
}
