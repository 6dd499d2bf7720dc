/**
 * Waits for recipients whose instance stops (D-392). It has closed their sockets, and they connect elsewhere within
 * seconds. Without the wait, each rolling restart would tell their senders that they are offline.
 */
import { type Clock, settledWithin, sleep, timeLeft } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { Presence } from "../schema/records.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { InstanceLeases } from "./instance_leases.ts";
import type { PresenceStore } from "./presence.ts";

/**
 * How long the agents of a stopping instance are expected back. With less, those that return late are answered as
 * offline. With more, senders wait for agents that are gone.
 */
export const RETURN_EXPECTED_MS = 10_000;

interface ReturnDeps {
  clock: Clock;
  connectedAgents: ConnectedAgents;
  leases: InstanceLeases;
  presence: PresenceStore;
  reads: BatchedReads;
}

/** Time that a stopping instance keeps for a delivery after the wait. With less, the request would be cut off. */
const DELIVERY_MS = 700;
/** Time between two looks. With more, messages to expected agents wait longer. With less, the looks load the store. */
const LOOK_MS = 200;

export class RecipientReturn {
  /** The next look for each agent that is expected back. It serves all messages that wait for the agent. */
  readonly #looks = new Map<string, Promise<boolean>>();

  constructor(private readonly deps: ReturnDeps) {}

  /**
   * Returns true when an agent without a socket here is connected somewhere by now, or within 5 s. Waits only when the
   * instance of its presence began to stop less than 10 s ago, because other agents may never return.
   *
   * @param tried another instance where it has no socket either
   * @param beforeWait is called before the wait, if there is one
   * @throws {StoreUnavailable}
   */
  async isBack(agentDid: string, tried: string | null, beforeWait: () => Promise<unknown> | void): Promise<boolean> {
    const { connectedAgents, leases, presence } = this.deps;
    const holder = await presence.holderOf(agentDid);
    if (holder === null) return false;
    const since = await leases.leavingSince(holder);
    // Without the absolute value, each message would wait for as long as a clock that stepped back is behind.
    if (since !== null && Math.abs(since) < RETURN_EXPECTED_MS) {
      await beforeWait();
      return await this.#wait(agentDid, holder);
    }
    // The agent may have moved while this instance tried another one.
    if (holder === leases.instance) {
      return connectedAgents.socketsOf(agentDid) !== undefined || connectedAgents.isOpening(agentDid);
    }
    return holder !== tried && await leases.isAlive(holder);
  }

  async #wait(agentDid: string, holder: string): Promise<boolean> {
    const { clock, leases } = this.deps;
    const left = timeLeft(clock, Math.min(LIMITS.returnWaitMs, leases.restMs - DELIVERY_MS));
    let isBack = false;
    while (!isBack && left() > 0) {
      const look = this.#looks.get(agentDid) ?? this.#look(agentDid, holder);
      // A store that hangs answers only after the time of the wait, when this instance may have ended.
      await settledWithin(clock, look.then((found) => isBack = found), left());
    }
    return isBack;
  }

  /** Looks for an agent after 200 ms. While the store fails, the agent stays expected. */
  #look(agentDid: string, left: string): Promise<boolean> {
    const look = sleep(this.deps.clock, LOOK_MS).then(() => this.#isBack(agentDid, left)).catch(() => false)
      .finally(() => this.#looks.delete(agentDid));
    this.#looks.set(agentDid, look);
    return look;
  }

  async #isBack(agentDid: string, left: string): Promise<boolean> {
    const { connectedAgents, reads } = this.deps;
    if (connectedAgents.socketsOf(agentDid)) return true;
    const { value } = await reads.get<Presence>(KEYS.presence(agentDid));
    return value !== null && value.instance !== left;
  }
}
