/**
 * Whether the sender of a queued message is still an active agent (D-222): asked of the registry (D-48) and kept for 30 s.
 * The revocation list alone does not say so: an entry leaves it when the AIT has expired.
 */
import type { Clock } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { RegistryClient } from "../registry_client.ts";

interface Kept {
  /** Milliseconds since the Unix epoch. */
  until: number;
  isActive: Promise<boolean>;
}

export class SenderStatus {
  readonly #registry: Pick<RegistryClient, "ownership">;
  readonly #clock: Clock;
  /** By agent, oldest first. */
  readonly #kept = new Map<string, Kept>();

  constructor(registry: Pick<RegistryClient, "ownership">, clock: Clock) {
    this.#registry = registry;
    this.#clock = clock;
  }

  /**
   * True while the agent exists, belongs to this owner and is not revoked.
   *
   * @throws {RegistryUnavailable}
   */
  isActive({ agentDid, ownerDid }: { agentDid: string; ownerDid: string }): Promise<boolean> {
    const now = this.#clock.now();
    const kept = this.#kept.get(agentDid);
    if (kept && now < kept.until) return kept.isActive;
    const isActive = this.#registry.ownership(ownerDid, agentDid)
      .then(({ ownsAgent, agentStatus }) => ownsAgent && agentStatus === "active");
    const entry: Kept = { until: now + LIMITS.senderStatusMs, isActive };
    // A failure is not kept.
    isActive.catch(() => this.#kept.get(agentDid) === entry && this.#kept.delete(agentDid));
    this.#kept.delete(agentDid);
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined && this.#kept.size >= LIMITS.senderStatuses) this.#kept.delete(oldest);
    this.#kept.set(agentDid, entry);
    return isActive;
  }

  /** Trust in these agents has changed: what is kept about them, or is being asked, counts no longer. */
  forget(agentDids: readonly string[]): void {
    for (const agentDid of agentDids) this.#kept.delete(agentDid);
  }
}
