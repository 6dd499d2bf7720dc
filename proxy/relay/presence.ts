/**
 * Presence: which instance holds an agent's sockets. Each instance renews a lease that shows it is alive (D-209); the
 * presence of an agent names an instance and an epoch that rises with every move. Notes between instances are in
 * instance_inbox.ts.
 */
import { KEYS } from "../schema/kv_keys.ts";
import type { InstanceLease, Presence, Seen } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Random } from "../../shared/random.ts";
import type { Log } from "../../shared/server/log.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import { addWrite, type Update, type Write } from "../../shared/server/store/group_commit.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";

const PRESENCE_KEPT_MS = LIMITS.presenceKeptSeconds * 1000;
const SEEN_KEPT_MS = LIMITS.seenKeptSeconds * 1000;

interface PresenceDeps {
  kv: Deno.Kv;
  clock: Clock;
  random: Random;
  newId: NewId;
  log: Log;
  metrics?: Metrics;
}

/** A request to connect. */
export interface ConnectRequest {
  /** When the agent signed it, unix seconds. */
  signedAt: number;
  /** When its admission began, milliseconds since the Unix epoch. */
  admittedAt: number;
}

/** The agent has connected to another instance while this request waited for the store (D-273). */
export class OvertakenError extends Error {
  override name = "OvertakenError";
}

export class PresenceStore {
  /** ID of this instance, new at each start. */
  readonly instance: string;
  readonly #deps: PresenceDeps;
  #cancelRenewal = () => {};
  #stopped = false;

  constructor(deps: PresenceDeps) {
    this.#deps = deps;
    this.instance = deps.newId();
  }

  /**
   * Takes the lease of this instance and renews it until `stop()`.
   *
   * @param isSole true when no other process uses the store: the leases of other processes end at once
   * @throws {StoreUnavailable}
   */
  async start(isSole: boolean): Promise<void> {
    if (isSole) await this.#endOtherLeases();
    await this.#renew();
    this.#renewLater();
  }

  /** Ends the lease: other instances see the agents of this one as offline at once. Idempotent. Never rejects. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#cancelRenewal();
    await this.#setLease(KEYS.instance(this.instance), { until: 0, pid: Deno.pid }).catch(() => {});
  }

  /** Records that this instance handles no further note. Never rejects. */
  async leave(): Promise<void> {
    await this.#setLease(KEYS.instance(this.instance), { until: 0, pid: Deno.pid, hasLeft: true }).catch(() => {});
  }

  /**
   * Moves an agent's presence to this instance. Returns the instance that held it before, or `null`. No change when it
   * is here already and `isHere()`.
   *
   * @param onMove writes that are part of the same commit when the presence moves away from another instance
   * @param request the request that connects; without it the claim is never late
   * @throws {OvertakenError} when the request is late, and the agent signed a newer one, or one of the same second, for
   * another instance: its client may have given up long ago
   * @throws {StoreUnavailable}
   */
  async claim(
    agentDid: string,
    isHere: () => boolean,
    onMove: (previous: Presence) => readonly Write[],
    request?: ConnectRequest,
  ): Promise<string | null> {
    return await commitOptimistically(this.#deps, async () => {
      const entry = await this.#deps.kv.get<Presence>(KEYS.presence(agentDid));
      const operation = this.#deps.kv.atomic().check(entry);
      const previous = entry.value;
      if (previous?.instance === this.instance && isHere()) return { operation, result: null };
      if (request && this.#isOvertaken(request, previous)) {
        throw new OvertakenError("The agent has connected elsewhere");
      }
      this.#take(operation, agentDid, previous, request?.signedAt);
      const holder = this.#otherIn(previous);
      if (!previous || !holder) return { operation, result: null };
      for (const write of onMove(previous)) addWrite(operation, write);
      return { operation, result: holder };
    });
  }

  /**
   * Takes an agent's presence again when it was released since `claim`. Returns false when another instance has taken it:
   * the agent has moved there, and is not taken back.
   *
   * @throws {StoreUnavailable}
   */
  async keep(agentDid: string, isHere: () => boolean): Promise<boolean> {
    return await commitOptimistically(this.#deps, async () => {
      const entry = await this.#deps.kv.get<Presence>(KEYS.presence(agentDid));
      const holder = entry.value?.instance;
      if (holder && holder !== this.instance) return { done: false };
      if (holder || !isHere()) return { done: true };
      const operation = this.#deps.kv.atomic().check(entry);
      return { operation: this.#take(operation, agentDid, entry.value, entry.value?.signedAt), result: true };
    });
  }

  /** Clocks of agents differ, so only a late request is compared with another one. */
  #isOvertaken({ signedAt, admittedAt }: ConnectRequest, presence: Presence | null): boolean {
    const isLate = this.#deps.clock.now() - admittedAt > LIMITS.connectLateMs;
    return isLate && this.#otherIn(presence) !== null && (presence?.signedAt ?? 0) >= signedAt;
  }

  /** Adds the writes of an agent that is connected here. */
  #take(
    operation: Deno.AtomicOperation,
    agentDid: string,
    previous: Presence | null,
    signedAt?: number,
  ): Deno.AtomicOperation {
    const since = signedAt === undefined ? {} : { signedAt };
    const presence: Presence = { instance: this.instance, epoch: (previous?.epoch ?? 0) + 1, ...since };
    const seen: Seen = { instance: this.instance, connectedAt: this.#deps.clock.now(), disconnectedAt: null };
    return operation.set(KEYS.presence(agentDid), presence).set(KEYS.seen(agentDid), seen, { expireIn: SEEN_KEPT_MS });
  }

  /**
   * Ends an agent's presence at this instance, unless it has moved or the agent has connected here again.
   *
   * @throws {StoreUnavailable}
   */
  async release(agentDid: string, isHere: () => boolean): Promise<void> {
    if (this.#stopped) return;
    const { kv, clock } = this.#deps;
    const [entry, seen] = await kv.getMany<[Presence, Seen]>([KEYS.presence(agentDid), KEYS.seen(agentDid)]);
    if (entry.value?.instance !== this.instance || isHere()) return;
    // The epoch must continue to rise, so the record stays, without an instance.
    const gone: Presence = { ...entry.value, instance: "", epoch: entry.value.epoch + 1 };
    const operation = kv.atomic().check(entry).set(entry.key, gone, { expireIn: PRESENCE_KEPT_MS });
    if (seen.value) {
      const left: Seen = { ...seen.value, disconnectedAt: clock.now() };
      operation.set(seen.key, left, { expireIn: SEEN_KEPT_MS });
    }
    await operation.commit();
  }

  /**
   * Returns the other instance that holds an agent's sockets and is alive, or `null`.
   *
   * @param seen the presence as the caller has read it; one that names no other instance may be old and is read again
   * @throws {StoreUnavailable}
   */
  async findInstance(agentDid: string, seen?: Deno.KvEntryMaybe<Presence>): Promise<string | null> {
    // An absent record is never cached.
    if (seen?.value === null) return null;
    const instance = this.#otherIn(seen?.value) ?? await this.lastSeenAt(agentDid);
    return instance && await this.isAlive(instance) ? instance : null;
  }

  /**
   * Returns the other instance that an agent's presence names, alive or not, or `null`.
   *
   * @throws {StoreUnavailable}
   */
  async lastSeenAt(agentDid: string): Promise<string | null> {
    return this.#otherIn((await this.#deps.kv.get<Presence>(KEYS.presence(agentDid))).value);
  }

  #otherIn(presence: Presence | null | undefined): string | null {
    return presence?.instance && presence.instance !== this.instance ? presence.instance : null;
  }

  /**
   * Returns true while an agent's presence names this instance.
   *
   * @throws {StoreUnavailable}
   */
  async isHere(agentDid: string): Promise<boolean> {
    return (await this.#deps.kv.get<Presence>(KEYS.presence(agentDid))).value?.instance === this.instance;
  }

  /**
   * Returns true while an instance has a lease.
   *
   * @throws {StoreUnavailable}
   */
  async isAlive(instance: string): Promise<boolean> {
    const lease = (await this.#deps.kv.get<InstanceLease>(KEYS.instance(instance))).value;
    return lease !== null && this.#deps.clock.now() < lease.until;
  }

  /**
   * Returns "stopping" when an instance has ended its lease, "left" when it has also handled its last note, else "alive":
   * also without a lease that it has renewed in time.
   *
   * @throws {StoreUnavailable}
   */
  async stateOf(instance: string): Promise<"alive" | "stopping" | "left"> {
    const lease = (await this.#deps.kv.get<InstanceLease>(KEYS.instance(instance))).value;
    if (lease === null || lease.hasLeft) return "left";
    return lease.until === 0 ? "stopping" : "alive";
  }

  /** Returns the update that refuses a claim when another instance holds the agent's sockets. */
  requireHeldHere(agentDid: string, seen?: Deno.KvEntryMaybe<Presence>): Update<"moved"> {
    return {
      key: KEYS.presence(agentDid),
      ...(seen ? { seen } : {}),
      next: (current) => {
        const holder = (current as Presence | null)?.instance;
        return !holder || holder === this.instance ? "hold" : { refuse: "moved" };
      },
    };
  }

  async #endOtherLeases(): Promise<void> {
    const { kv } = this.#deps;
    for await (const { key, value } of kv.list<InstanceLease>({ prefix: KEYS.instances() })) {
      if (value.pid !== Deno.pid && value.until > 0) await this.#setLease(key, { until: 0, pid: value.pid });
    }
  }

  async #renew(): Promise<void> {
    const until = this.#deps.clock.now() + LIMITS.instanceLeaseMs;
    await this.#setLease(KEYS.instance(this.instance), { until, pid: Deno.pid });
  }

  #renewLater(): void {
    this.#cancelRenewal = this.#deps.clock.after(LIMITS.instanceRenewMs, async () => {
      await this.#renew().catch((cause) => this.#deps.log("warn", "bus_failed", { cause }));
      if (!this.#stopped) this.#renewLater();
    });
  }

  /** The record is kept a day longer than the lease: the presence of the instance's agents ends with it (D-218). */
  async #setLease(key: Deno.KvKey, lease: InstanceLease): Promise<void> {
    await this.#deps.kv.set(key, lease, { expireIn: LIMITS.instanceLeaseMs + PRESENCE_KEPT_MS });
  }
}
