/** The WebSockets that a server has open, so that a stop can wait until they are closed. */
import { sleep, systemClock, yieldToEventLoop } from "../../clock.ts";
import { TokenBucket } from "../token_bucket.ts";
import { dropSocket, watchPongs } from "./drop_socket.ts";

/** A socket and the response that opens it. */
export interface Upgraded {
  socket: WebSocket;
  response: Response;
}

export type UpgradeWebSocket = (request: Request) => Upgraded | Promise<Upgraded>;

/**
 * Pongs of a socket, of which an honest client sends one in 22 s. With more, one socket could stop the process, because
 * Deno handles all that have arrived before anything else.
 */
const PONGS_PER_SECOND = 10;

export class OpenSockets {
  /** A socket is added when it opens, because Deno reports no event for a client that left before that. */
  readonly #open = new Set<WebSocket>();

  /**
   * Makes a socket of a request. Refuses a client that has left, because Deno never frees the connection of such a
   * socket, and after a few thousand the process would have no file descriptor left. Deno reports it one turn of the
   * event loop after it is asked. Without `no-legacy-abort` in deno.json it prints a warning into the log, and reports
   * each answered request in the same way.
   *
   * @throws {Error} also when the request is no upgrade
   */
  readonly upgrade = async (request: Request): Promise<Upgraded> => {
    const { signal } = request;
    await yieldToEventLoop();
    if (signal.aborted) throw new Error("The client has left");
    const upgraded = Deno.upgradeWebSocket(request, { idleTimeout: 45 }), { socket } = upgraded;
    const pongs = new TokenBucket(PONGS_PER_SECOND);
    watchPongs(socket, systemClock, () => void (pongs.take(1, systemClock.uptime()) || dropSocket(socket)));
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
