/**
 * The books on messages: what each one must look like when it arrives, and how often it did. A message that was answered
 * as delivered must have come exactly once, whole and under its sender's name.
 */
import type { Delivered, FleetAgent } from "./fleet.ts";

interface Expected {
  sender: FleetAgent;
  recipient: FleetAgent;
  text: string;
}

export class Ledger {
  readonly #expected: Expected[] = [];
  readonly #seen: number[] = [];
  readonly #identity: boolean;
  readonly #prefix: string;
  #wrong: string | null = null;
  arrived = 0;

  /** @param prefix starts every request id of these messages, and of no others */
  constructor(prefix: string, identity: boolean) {
    this.#prefix = prefix;
    this.#identity = identity;
  }

  /** Adds a message; gives its request id. */
  expect(message: Expected): string {
    this.#seen.push(0);
    return `${this.#prefix}${this.#expected.push(message) - 1}`;
  }

  /** Notes a message that arrived. */
  readonly delivered: Delivered = (frame, recipient) => {
    // One that was still under way when an earlier run ended is none of these.
    if (!String(frame.requestId).startsWith(this.#prefix)) return;
    const index = Number(frame.requestId.slice(this.#prefix.length));
    const message = this.#expected[index];
    if (!message) return this.#note(`no message was sent as ${frame.requestId}`);
    this.arrived++;
    this.#seen[index] = (this.#seen[index] ?? 0) + 1;
    if (recipient !== message.recipient) this.#note(`message ${index} came to another agent`);
    if (frame.fromAgentDid !== message.sender.did) this.#note(`message ${index} came under another name`);
    const { message: text } = frame.payload;
    const isWhole = this.#identity
      ? String(text).startsWith(`[Svc Identity]\nagentDid: ${message.sender.did}\n`) &&
        String(text).endsWith(`\n\n${message.text}`)
      : text === message.text;
    if (!isWhole) this.#note(`message ${index} came changed: ${String(text).slice(0, 200)}`);
  };

  /** @throws {Error} when one of the first `sent` messages is lost, doubled or changed, or another came */
  close(sent: number): void {
    for (const [index, times] of this.#seen.entries()) {
      const wanted = index < sent ? 1 : 0;
      if (times !== wanted) this.#note(`message ${index} of ${sent} came ${times} times`);
    }
    if (this.#wrong !== null) throw new Error(`The messages are not right: ${this.#wrong}`);
  }

  #note(what: string): void {
    this.#wrong ??= what;
  }
}
