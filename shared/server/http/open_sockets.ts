/** The WebSockets that a server has open, so that a stop can wait until they are closed. */
import { sleep, systemClock, yieldToEventLoop } from "../../clock.ts";
import { TokenBucket } from "../token_bucket.ts";
import { dropSocket, watchPongs } from "./drop_socket.ts";

/**
 * Pongs of a socket, of which an honest client sends one in 22 s. With more, one socket could stop the process, because
 * Deno handles all that have arrived before anything else.
 */
const PONGS_PER_SECOND = 10;

/**
 * Tells whether the client of a request has left. Deno never frees the connection of a request that is upgraded after
 * that, so a client that leaves early a few thousand times would take every file descriptor of the process. Deno reports it
 * one turn of the event loop after it is asked. `no-legacy-abort` in deno.json belongs to this: without it, Deno prints a
 * warning into the log, and the signal also aborts when a request has been answered.
 */
export async function hasLeft({ signal }: Request): Promise<boolean> {
  await yieldToEventLoop();
  return signal.aborted;
}

export class OpenSockets {
  /** A socket is added when it opens, because Deno reports no event for a client that left before that. */
  readonly #open = new Set<WebSocket>();

  readonly upgrade = (request: Request): Deno.WebSocketUpgrade => {
    const upgraded = Deno.upgradeWebSocket(request, { idleTimeout: 45 }), { socket } = upgraded;
    const pongs = new TokenBucket(PONGS_PER_SECOND);
    watchPongs(socket, () => void (pongs.take(1, systemClock.uptime()) || dropSocket(socket)));
    socket.addEventListener("open", () => this.#open.add(socket));
    socket.addEventListener("close", () => this.#open.delete(socket));
    return upgraded;
  };

  /** Resolves when every socket is closed, at the latest after `ms`. */
  async closed(ms: number): Promise<void> {
    const end = systemClock.uptime() + ms;
    while (this.#open.size > 0 && systemClock.uptime() < end) await sleep(systemClock, 20);
  }
}
