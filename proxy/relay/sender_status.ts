/**
 * Caches for 30 s whether the sender of a queued message is still an active agent. The registry is the source. The CRL
 * is not enough, because an entry leaves it when the AIT has expired.
 */
import { BoundedMap } from "../../shared/bounded_map.ts";
import type { Clock } from "../../shared/clock.ts";
import type { RegistryClient } from "../registry_client.ts";

/** With more, messages of a revoked sender are delivered for longer. With less, each message asks the registry. */
const STATUS_KEPT_MS = 30_000;
/** With more, senders that no longer send take memory. */
const STATUSES_MAX = 10_000;

export class SenderStatus {
  /** By agent DID; `until` is in milliseconds since the Unix epoch. */
  readonly #kept = new BoundedMap<string, { until: number; isActive: Promise<boolean> }>(STATUSES_MAX);

  constructor(private readonly registry: Pick<RegistryClient, "ownership">, private readonly clock: Clock) {}

  /**
   * Returns true while the agent exists, belongs to this owner and is not revoked.
   *
   * @throws {RegistryUnavailable}
   */
  isActive({ agentDid, ownerDid }: { agentDid: string; ownerDid: string }): Promise<boolean> {
    const now = this.clock.now();
    const kept = this.#kept.get(agentDid);
    // After a step back of the clock more is left, which would keep a deleted sender active for as long as the step.
    if (kept && now < kept.until && now >= kept.until - STATUS_KEPT_MS) return kept.isActive;
    const isActive = this.registry.ownership(ownerDid, agentDid)
      .then(({ ownsAgent, agentStatus }) => ownsAgent && agentStatus === "active");
    const entry = { until: now + STATUS_KEPT_MS, isActive };
    // A failure is not cached, because messages would otherwise wait for 30 s after the registry is back.
    isActive.catch(() => this.#kept.get(agentDid) === entry && this.#kept.delete(agentDid));
    this.#kept.set(agentDid, entry);
    return isActive;
  }

  /** Drops what is cached, or being read, about these agents. */
  forget(agentDids: readonly string[]): void {
    for (const agentDid of agentDids) this.#kept.delete(agentDid);
  }
}
