/** Where a reader of the unread messages is. */

/**
 * Last pages after which a reader begins again. With more, a peer that writes all the time hides lower numbers for
 * longer; with less, messages that stay unread are read again more often.
 */
const LAST_PAGES = 10;

/**
 * The place of a reader of the unread messages, page by page, again and again, because lower numbers come too: after a
 * lease or a replay, and from a connector with a new database.
 */
export class InboxPlace {
  /** The number after which the next page begins. */
  after = 0;
  #lastPages = 0;

  /**
   * Moves behind a page. Returns true when the next page is the first again: after an empty page, and after some last
   * pages, because no page is empty while a peer writes all the time.
   *
   * @param last number of its last message; `undefined` for an empty page
   */
  move(last: number | undefined, more: boolean): boolean {
    if (!more) this.#lastPages++;
    const isOver = last === undefined || this.#lastPages >= LAST_PAGES;
    this.after = isOver ? 0 : last;
    if (isOver) this.#lastPages = 0;
    return isOver;
  }
}
