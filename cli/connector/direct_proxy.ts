/**
 * Calls to the proxy from a command, signed as the agent, when its connector does not run. Takes no connector lock;
 * refreshes the session as every other process does (D-83).
 */
import { connect } from "../account/registry_access.ts";
import type { AgentFolder, AgentStore } from "../agents/agent_store.ts";
import type { Context } from "../context.ts";
import { openFileCredentials } from "./file_credentials.ts";
import { proxyAddress } from "./proxy_address.ts";
import { secureServiceUrl } from "../client/service_url.ts";
import { PeerProxies } from "../link/peer_proxies.ts";
import { ProxyCaller } from "../link/proxy_caller.ts";
import { ServiceClock } from "../link/service_clock.ts";

/** The proxy for one command. Disposing it ends its timers. */
export interface DirectProxy extends Disposable {
  proxy: ProxyCaller;
  /** The proxy at `origin`, where a peer of another server lives; the agent's own for `undefined`. */
  at(origin: string | undefined): ProxyCaller;
}

/** @throws {import("../errors.ts").CliError} `CLI_USAGE`, `CLI_INSECURE_URL`, `CLI_FILE_INVALID` */
export async function directProxy(
  ctx: Context,
  { store, folder }: { store: AgentStore; folder: AgentFolder },
  allowInsecure: boolean,
): Promise<DirectProxy> {
  const place = proxyAddress(ctx, undefined, allowInsecure);
  const clock = new ServiceClock(ctx.clock);
  const onResponse = (headers: Headers) => {
    ctx.onResponse?.(headers);
    clock.see(headers.get("Date"));
  };
  const registryOf = (registryUrl: string) =>
    connect({ ...ctx, clock, onResponse }, { "allow-insecure": allowInsecure }, registryUrl).registry;
  const emit = () => {};
  const session = await openFileCredentials({ ctx, clock, store, name: folder.name, registryOf, emit });
  const { fetch, random, onResponse: seen } = ctx, calls = { fetch, onResponse: seen, random, session, emit };
  const proxy = new ProxyCaller({ ...calls, clock }, place);
  const check = (origin: string) => void secureServiceUrl(ctx, origin, "The server of the peer", allowInsecure);
  const elsewhere = new PeerProxies({ ...calls, machine: ctx.clock, check }, proxy, () => undefined);
  const at = (origin: string | undefined) => origin === undefined ? proxy : elsewhere.at(origin);
  return { proxy, at, [Symbol.dispose]: () => session.stop() };
}
