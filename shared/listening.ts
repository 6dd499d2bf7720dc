/** Listens for HTTP, and listens again after the process had no file descriptor left for a connection. */
import { sleep, systemClock } from "./clock.ts";

/**
 * Pause before a new attempt to listen. With less, a process without a free file descriptor spends its time on
 * attempts; with more, the service is away longer than it must be.
 */
const AGAIN_MS = 500;

export interface Listening {
  readonly addr: Deno.NetAddr;
  /** Accepts no further connections. Resolves when the requests under way have been answered. */
  shutdown(): Promise<void>;
}

/**
 * Listens at an address, and again whenever the listener fails. A listener of Deno ends when the system has no file
 * descriptor for a connection, so anyone who opens enough connections could otherwise end the service permanently.
 *
 * @param options.signal ends the listener together with its connections
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
    // A handler that reads the URL of a request fails if the Host header is not a valid name. Without this, Deno would
    // print a stack trace for each such request.
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
        // Another program may have the port for a moment, or keep it. Without this report, the service would be away
        // and the operator would not know.
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
