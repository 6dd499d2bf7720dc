/** Tells a program that only shows or announces unread messages which of them are new to it. */
import { InboxPlace } from "../../shared/client/inbox_place.ts";
import type { LocalMessage } from "../../shared/client/local_shapes.ts";

type Numbered = Pick<LocalMessage, "id" | "receivedAt">;
type Unread = Numbered | { message: Numbered };

/** A message that was not among the unread ones from the first page to the next first page is new again. */
export class Unseen {
  readonly #place = new InboxPlace();
  /** The messages from the first page before the present one on. */
  #known: Set<string>;
  /** The messages from the present first page on. */
  #present = new Set<string>();

  /** @param known what `seen` has returned */
  constructor(known: Iterable<string> = []) {
    this.#known = new Set(known);
  }

  /** The number after which the next page begins. */
  get after(): number {
    return this.#place.after;
  }

  /** The messages that are unread, once all pages were taken. */
  get seen(): string[] {
    return [...this.after === 0 ? this.#known : this.#present];
  }

  /** Takes the next page, and returns its new messages. */
  news<M extends Unread>({ messages, more }: { messages: readonly M[]; more: boolean }): M[] {
    const found = messages.filter((message) => !this.#known.has(keyOf(message)));
    for (const message of messages) {
      this.#known.add(keyOf(message));
      this.#present.add(keyOf(message));
    }
    const last = messages.at(-1);
    if (this.#place.move(last && numbered(last).id, more)) [this.#known, this.#present] = [this.#present, new Set()];
    return found;
  }

  /** Makes a message new again, because it was taken before it was announced, and may be given back. */
  forget(message: Unread): void {
    this.#known.delete(keyOf(message));
    this.#present.delete(keyOf(message));
  }
}

function numbered(message: Unread): Numbered {
  return "message" in message ? message.message : message;
}

/** The key of a message. A new database uses its number again, for a message that was received later. */
export function keyOf(message: Unread): string {
  const { id, receivedAt } = numbered(message);
  return `${id} ${receivedAt}`;
}
