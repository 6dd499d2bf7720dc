/** Tells a program that only shows or announces unread messages which of them are new to it. */
import type { LocalMessage } from "../../shared/client/local_shapes.ts";

type Numbered = Pick<LocalMessage, "id" | "receivedAt">;
type Unread = Numbered | { message: Numbered };

/**
 * Reads the unread messages page by page, again and again, because lower numbers come too: after a lease or a replay,
 * and from a connector with a new database. A message that was not among the unread ones meanwhile is new again.
 */
export class Unseen {
  /** The number after which the next page begins. */
  after = 0;
  /** The messages of the last time from the first page to an empty one, and those since. */
  #known: Set<string>;
  /** Those of `#known` that are unread still. */
  #present = new Set<string>();

  /** @param known what `seen` has returned */
  constructor(known: Iterable<string> = []) {
    this.#known = new Set(known);
  }

  /** The messages that were seen since the first page. */
  get seen(): string[] {
    return [...this.#present];
  }

  /** Takes the next page, and returns its new messages. After an empty page the next one is the first again. */
  news<M extends Unread>(page: readonly M[]): M[] {
    const last = page.at(-1);
    this.after = last === undefined ? 0 : numbered(last).id;
    if (last === undefined) [this.#known, this.#present] = [this.#present, new Set()];
    const found = page.filter((message) => !this.#known.has(keyOf(message)));
    for (const message of page) {
      this.#known.add(keyOf(message));
      this.#present.add(keyOf(message));
    }
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
