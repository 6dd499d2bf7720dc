/**
 * Checks connected agents again (D-64): after a trust change, after a new CRL, and every few minutes. It uses the CRL
 * and the registry's status of agent and session, and not the access token of the upgrade, because that token expires.
 * While the registry is unreachable a socket stays open, because admission checks each message anyway.
 */
import type { ProxyConfig } from "../config.ts";
import type { CrlCache } from "../admission/crl_cache.ts";
import type { RegistryClient } from "../registry_client.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { RelaySocket } from "./agent_sockets.ts";
import { repeat } from "../../shared/clock.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

interface RevalidationDeps extends Pick<ServiceDeps, "clock" | "log" | "metrics"> {
  connectedAgents: ConnectedAgents;
  crl: CrlCache;
  registry: RegistryClient;
  config: Pick<ProxyConfig, "sessionRevalidateMs">;
}

export class Revalidation {
  /** Sockets that are being checked after an announcement of a trust change, with the time of the announcement. */
  readonly #announced = new Map<RelaySocket, number>();
  #cancel = () => {};

  constructor(private readonly deps: RevalidationDeps) {}

  start(): void {
    const { clock, config, connectedAgents } = this.deps;
    this.#cancel = repeat(clock, () => config.sessionRevalidateMs, async () => {
      for (const link of connectedAgents.links()) await this.check(link);
    });
  }

  stop(): void {
    this.#cancel();
  }

  /**
   * Drops what is cached about trust, refreshes the CRL and checks the sockets of these agents.
   *
   * @param since when the change was announced, milliseconds since the Unix epoch
   */
  async onTrustChange(agentDids: readonly string[], since: number): Promise<void> {
    const { crl, registry, connectedAgents } = this.deps;
    const links = agentDids.flatMap((did) => connectedAgents.links(did));
    for (const link of links) this.#announced.set(link, since);
    registry.forgetVerdicts();
    // The sockets do not wait for the list, which may take seconds. `onCrlInstalled` closes those that only it names.
    await Promise.all([crl.refreshAgain(), ...links.map((link) => this.check(link))]);
    for (const link of links) this.#announced.delete(link);
  }

  /** Closes the sockets whose identity token is on the new CRL. */
  async onCrlInstalled(): Promise<void> {
    for (const link of this.deps.connectedAgents.links()) {
      if (await this.#isListed(link)) this.#revoke(link, "the identity token is revoked");
    }
  }

  /** Checks a socket, even one that was just attached, because trust may have changed since it was admitted. */
  async check(link: RelaySocket): Promise<void> {
    const { registry, log } = this.deps;
    const { agentDid, ownerDid } = link.agent;
    try {
      if (await this.#isListed(link)) return this.#revoke(link, "the identity token is revoked");
      const { ownsAgent, agentStatus, session } = await registry.ownership(ownerDid, agentDid);
      if (!ownsAgent || agentStatus !== "active") this.#revoke(link, "the agent is revoked");
      else if (session === "suspended") this.#revoke(link, "an admin has suspended the account of its owner");
      else if (session !== "active") this.#revoke(link, "the agent's session has ended");
    } catch (cause) {
      log("warn", "revalidation_failed", { agentDid, cause });
    }
  }

  #revoke(link: RelaySocket, reason: string): void {
    const { connectedAgents, clock, metrics } = this.deps;
    connectedAgents.revoke(link, reason);
    const since = this.#announced.get(link);
    if (since === undefined) return;
    metrics.observe("revocation_close_seconds", (clock.now() - since) / 1000);
    this.#announced.delete(link);
  }

  /** Returns true when the CRL lists the agent's identity token; false when there is no usable CRL. */
  async #isListed({ agent }: RelaySocket): Promise<boolean> {
    return await this.deps.crl.isRevoked(agent.aitJti).catch(() => false);
  }
}
