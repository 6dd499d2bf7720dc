/** Listens on an address. If the address cannot be used, the error says in one line why, and what to do. */
import { listenOn } from "../../listening.ts";
import { ConfigError, StartRefused } from "../config_reader.ts";

export interface ListenAddress {
  host: string;
  port: number;
}

/** Returns `host:port`, with brackets around an IPv6 address. */
export function addressText({ host, port }: ListenAddress): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Tells whether only this machine can reach a host. A URL writes an IPv6 address with brackets. */
export function isLoopbackHost(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || host.startsWith("127.");
}

/**
 * Returns an error that explains why a process cannot listen on an address. Any other error is returned unchanged.
 *
 * @param names the variables that hold host and port
 */
export function refusedAddress(names: { host: string; port: string }, address: ListenAddress, error: unknown): unknown {
  const at = addressText(address);
  if (error instanceof Deno.errors.AddrInUse) {
    return new ConfigError([`${names.port}: ${at} is in use; stop what listens there, or set another ${names.port}`]);
  }
  if (error instanceof Deno.errors.AddrNotAvailable) {
    return new ConfigError([`${names.host}: ${address.host} is not an address of this machine`]);
  }
  if (error instanceof URIError) {
    return new ConfigError([`${names.host}: ${address.host} is no host name and no address`]);
  }
  if (error instanceof Deno.errors.NotCapable) {
    const other = `Use svc serve or deno task start, or add --allow-net=${at}`;
    return new StartRefused(`${names.host}: this process may not listen on ${at}. ${other}`);
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    const other = `set ${names.port} to 1024 or more`;
    return new ConfigError([`${names.port}: the system does not let this process listen on ${at}; ${other}`]);
  }
  const isUnknown = error instanceof Error && error.message.startsWith("failed to lookup address");
  return isUnknown ? new ConfigError([`${names.host}: ${address.host} has no address`]) : error;
}

export interface Listener {
  /** For example `127.0.0.1:9464`. */
  address: string;
  stop(): Promise<void>;
}

/** Listens on the address that a variable names. @throws {StartRefused} when the address cannot be used */
export function listenAt(
  variable: string,
  at: ListenAddress,
  answer: (request: Request) => Response | Promise<Response>,
): Listener {
  const end = new AbortController();
  try {
    const server = listenOn({ hostname: at.host, port: at.port, signal: end.signal }, answer);
    return {
      address: addressText({ ...at, port: server.addr.port }),
      // Closes the connections too, because a client that does not read would otherwise delay the end of the process.
      async stop() {
        end.abort();
        await server.shutdown();
      },
    };
  } catch (error) {
    throw refusedAddress({ host: variable, port: variable }, at, error);
  }
}
