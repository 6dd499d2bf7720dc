/** Listens for HTTP, and does not stop because the process had no file left for a connection. */
import { sleep, systemClock } from "./clock.ts";

/** With less, a process without a free file spends its time on listening; with more, it is away longer than it must be. */
const AGAIN_MS = 500;

export interface Listening {
  readonly addr: Deno.NetAddr;
  /** Takes no more connections. Resolves when the requests under way have been answered. */
  shutdown(): Promise<void>;
}

/**
 * Listens at an address. When the listener fails, it listens there again: a listener of Deno ends when the system has no
 * file for a connection, so anyone who opens enough of them would otherwise end the service permanently.
 *
 * @param options.signal ends it together with its connections
 * @param options.onFailed gets the reason of each failure
 * @throws {Error} of Deno when the address cannot be used
 */
export function listenOn(
  { hostname, port, signal, onFailed = () => {} }: {
    hostname: string;
    port: number;
    signal?: AbortSignal;
    onFailed?: (cause: unknown) => void;
  },
  answer: Deno.ServeHandler<Deno.NetAddr>,
): Listening {
  const options = {
    hostname,
    ...signal && { signal },
    onListen: () => {},
    // A handler that reads the URL of a request whose Host is no name fails, and Deno would print a stack trace for each.
    onError: () => new Response(null, { status: 400 }),
  };
  let isEnded = false, server = open(port);
  const { addr } = server;

  function open(port: number): Deno.HttpServer<Deno.NetAddr> {
    const opened = Deno.serve({ ...options, port }, answer);
    opened.finished.catch(again);
    return opened;
  }

  async function again(cause: unknown): Promise<void> {
    onFailed(cause);
    while (true) {
      await sleep(systemClock, AGAIN_MS);
      if (isEnded || signal?.aborted) return;
      try {
        server = open(addr.port);
        return;
      } catch (cause) {
        // Another program may have the port for a moment, or keep it, and the service would be away unseen.
        onFailed(cause);
      }
    }
  }

  return {
    addr,
    shutdown() {
      isEnded = true;
      return server.shutdown();
    },
  };
}
