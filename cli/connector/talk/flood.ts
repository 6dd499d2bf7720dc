/** How many messages are shown at once: a peer that writes a thousand must not push the others off the screen. Pure. */

const WINDOW_MS = 10_000;
const OF_ONE_PEER = 5;
const OF_ALL = 20;

export class Flood {
  #began = -Infinity;
  #shown = new Map<string, number>();
  #hidden = new Map<string, number>();

  /** Whether this message of a peer is shown; else it is counted. */
  isShown(peer: string, now: number): boolean {
    if (now - this.#began >= WINDOW_MS && this.#hidden.size === 0) {
      this.#began = now;
      this.#shown.clear();
    }
    const all = [...this.#shown.values()].reduce((sum, count) => sum + count, 0);
    const own = this.#shown.get(peer) ?? 0;
    if (own < OF_ONE_PEER && all < OF_ALL && now - this.#began < WINDOW_MS) {
      this.#shown.set(peer, own + 1);
      return true;
    }
    this.#hidden.set(peer, (this.#hidden.get(peer) ?? 0) + 1);
    return false;
  }

  /** A line for each peer with messages that are not shown. */
  lines(): string[] {
    return [...this.#hidden].slice(0, OF_ONE_PEER).map(([peer, count]) =>
      `${peer}: ${count} more ${count === 1 ? "message" : "messages"}; u shows them`
    );
  }

  /** The lines when the window is over, after which they do not change; empty before. */
  take(now: number): string[] {
    if (this.#hidden.size === 0 || now - this.#began < WINDOW_MS) return [];
    const lines = this.lines();
    this.#hidden.clear();
    return lines;
  }
}
