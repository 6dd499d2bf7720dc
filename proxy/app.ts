/** Creates the proxy: mounts the route table on its parts, and starts and stops them. */
import { settledWithin } from "../shared/clock.ts";
import { toBase64Url } from "../shared/protocol/base64url.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { isForeignOrigin } from "../shared/protocol/origins.ts";
import { type App, createApp } from "../shared/server/http/app.ts";
import type { ProxyConfig } from "./config.ts";
import { buildProxy, type ProxyDeps, type ProxyExternals } from "./deps.ts";
import { AUTHENTICATORS, PROXY_ROUTES } from "./routes.ts";

/**
 * Least time over which agents come back from an instance that stops. With less, all of them connect at once, and their
 * requests wait for each other.
 */
const RETURN_MS = 1_000;
/** The same when there is no other instance. With less, agents connect before the next process has started. */
const RETURN_ALONE_MS = 5_000;
/**
 * Milliseconds for each agent that comes back. With less, they come faster than one store accepts connections, which is
 * about 250 a second (D-392).
 */
export const RETURN_PER_AGENT_MS = 4;

export interface Proxy extends App {
  deps: ProxyDeps;
  /**
   * Starts the background work. `isSole` means that no other process uses the store. `address` (`host:port`) is where
   * other instances can reach this one.
   */
  start(options?: { isSole?: boolean; address?: string | undefined }): Promise<void>;
  /**
   * Announces that this instance stops, and within half a second closes its sockets, each after its last delivery. It
   * still serves requests and the notes of other instances.
   */
  leave(): Promise<void>;
  closeSockets(): void;
  /** Ends the background work, at the latest after `withinMs` milliseconds. */
  stop(withinMs?: number): Promise<void>;
}

export function createProxy(externals: ProxyExternals, config: ProxyConfig): Proxy {
  const { deps, pairRemoval, sweeper, trustChanges } = buildProxy(externals, config);
  const { clock, random, leases, links, inbox, forwarder, connectedAgents, mailboxDelivery } = deps;
  const { crl, commits, revalidation, series } = deps;
  // The time grows with the number of agents, because a fixed one would bring many back at a rate that one store and a
  // few instances cannot take.
  const returnMs = () => {
    const least = leases.hasOthers ? RETURN_MS : RETURN_ALONE_MS;
    return Math.max(least, connectedAgents.agents * RETURN_PER_AGENT_MS);
  };
  // After the end of the lease, other instances send no message here. Sockets on which messages wait are still open,
  // because the results of these messages would otherwise be lost.
  const leave = async () => {
    links.leave();
    await leases.stop();
    await inbox.stop();
    await Promise.all([forwarder.finish(), mailboxDelivery.finish()]);
    // Read again, because another instance may have seen the lease before its end, and written a note.
    await inbox.catchUp();
    await forwarder.finish();
    await leases.leave();
    links.stop();
  };
  return {
    ...createApp(PROXY_ROUTES, AUTHENTICATORS, deps),
    deps,
    async start({ isSole = false, address } = {}) {
      const { registryUrl, proxyUrl, environment, federation } = config;
      // Without this line in the log, only people of other servers would notice that they cannot pair with agents here.
      const isTaken = [registryUrl, proxyUrl].every((url) => isForeignOrigin(url, environment));
      if (federation.mode !== "off" && !isTaken) {
        const message =
          "agents of other servers cannot pair with agents here: that needs https and a name without port";
        deps.log("warn", "not_federated", { registryUrl, proxyUrl, message });
      }
      if (address !== undefined && isSole) {
        const message = "INSTANCE_LISTEN has no use here: a store in a file or in memory has one instance only; " +
          "for more, set KV_URL to a store over the network";
        deps.log("warn", "no_other_instances", { address, message });
      }
      if (address !== undefined) leases.link = { at: address, key: toBase64Url(random.bytes(32)) };
      void crl.refresh();
      mailboxDelivery.start();
      revalidation.start();
      sweeper.start();
      series.start();
      await Promise.all([trustChanges.start(), leases.start({ isSole })]);
      inbox.start();
    },
    async leave() {
      await leases.beginLeaving();
      // Messages that reach this instance meanwhile are passed on to the instances where the agents connect again.
      await connectedAgents.closeInWaves({ withinMs: LIMITS.stopNoticeMs / 2, returnMs: returnMs() });
    },
    closeSockets: () => connectedAgents.closeAll(returnMs()),
    async stop(withinMs = LIMITS.noteDrainMs) {
      for (const part of [crl, mailboxDelivery, revalidation, trustChanges, pairRemoval, sweeper, series]) part.stop();
      // The requests have ended, so no outcome of a message is added meanwhile.
      await settledWithin(clock, Promise.all([leave(), commits.flush()]), Math.min(withinMs, LIMITS.noteDrainMs));
    },
  };
}
