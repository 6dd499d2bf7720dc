/** The WebSockets that a server has open, so that a stop can wait until they are closed. */
import { sleep, systemClock, systemUptime } from "../../clock.ts";

export class OpenSockets {
  /** A socket is added when it opens, because Deno reports no event for a client that left before that. */
  readonly #open = new Set<WebSocket>();

  readonly upgrade = (request: Request): Deno.WebSocketUpgrade => {
    const upgraded = Deno.upgradeWebSocket(request, { idleTimeout: 45 }), { socket } = upgraded;
    socket.addEventListener("open", () => this.#open.add(socket));
    socket.addEventListener("close", () => this.#open.delete(socket));
    return upgraded;
  };

  /** Resolves when every socket is closed, at the latest after `ms`. */
  async closed(ms: number): Promise<void> {
    const end = systemUptime() + ms;
    while (this.#open.size > 0 && systemUptime() < end) await sleep(systemClock, 20);
  }
}
