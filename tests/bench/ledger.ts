/**
 * Compares the messages that arrive with those that were sent. A message with the result "delivered" must arrive
 * exactly once, complete and from its sender.
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

  /** @param prefix first part of the request ID of these messages, and of no others */
  constructor(prefix: string, identity: boolean) {
    this.#prefix = prefix;
    this.#identity = identity;
  }

  /** Adds a message. Returns its request ID. */
  expect(message: Expected): string {
    this.#seen.push(0);
    return `${this.#prefix}${this.#expected.push(message) - 1}`;
  }

  /** Records a message that arrived. */
  readonly delivered: Delivered = (frame, recipient) => {
    // A message of an earlier run may still arrive.
    if (!String(frame.requestId).startsWith(this.#prefix)) return;
    const index = Number(frame.requestId.slice(this.#prefix.length));
    const message = this.#expected[index];
    if (!message) return this.#note(`no message was sent as ${frame.requestId}`);
    this.arrived++;
    this.#seen[index] = (this.#seen[index] ?? 0) + 1;
    if (recipient !== message.recipient) this.#note(`message ${index} arrived at another agent`);
    if (frame.fromAgentDid !== message.sender.did) this.#note(`message ${index} arrived from another sender`);
    const { message: text } = frame.payload;
    const isWhole = this.#identity
      ? String(text).startsWith(`[Svc Identity]\nagentDid: ${message.sender.did}\n`) &&
        String(text).endsWith(`\n\n${message.text}`)
      : text === message.text;
    if (!isWhole) this.#note(`message ${index} arrived changed: ${String(text).slice(0, 200)}`);
  };

  /** @throws {Error} when one of the first `sent` messages is lost, duplicated or changed, or another one arrived */
  close(sent: number): void {
    for (const [index, times] of this.#seen.entries()) {
      const wanted = index < sent ? 1 : 0;
      if (times !== wanted) this.#note(`message ${index} of ${sent} arrived ${times} times`);
    }
    if (this.#wrong !== null) throw new Error(`Wrong messages: ${this.#wrong}`);
  }

  #note(what: string): void {
    this.#wrong ??= what;
  }
}
