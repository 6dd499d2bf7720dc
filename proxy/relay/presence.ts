/**
 * Presence: which instance holds an agent's sockets. The lease of that instance (instance_leases.ts) shows whether it
 * is alive. Notes between instances are in instance_inbox.ts.
 */
import type { KvEntryMaybe } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { Presence, Seen } from "../schema/records.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { Changes } from "../../shared/server/store/changes.ts";
import { addWrite, type Update } from "../../shared/server/store/batch.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { InstanceInbox } from "./instance_inbox.ts";
import type { InstanceLeases } from "./instance_leases.ts";
import type { Note } from "./instance_note.ts";

/** Agents elsewhere whose presence is remembered. With fewer, a message to a forgotten one reads the store. */
const ELSEWHERE_MAX = 20_000;
/**
 * How long such a presence is remembered. With more, messages to an agent that has moved would first go to the wrong
 * instance for longer.
 */
const ELSEWHERE_MS = 1_000;
/** Age at which a connect request is late. With more, one that waited could take back an agent that has moved. */
export const CONNECT_LATE_MS = 1_000;

const SEEN_KEPT_MS = LIMITS.seenKeptSeconds * 1000;

interface PresenceDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  /** The claims of agents share commits here, because agents connect in large numbers at once. */
  changes: Changes;
  leases: InstanceLeases;
  inbox: Pick<InstanceInbox, "writesOf">;
  connectedAgents: Pick<ConnectedAgents, "socketsOf" | "isOpening">;
}

export interface ConnectRequest {
  /** When the agent signed it, unix seconds. */
  signedAt: number;
  /** When its admission began, milliseconds since the Unix epoch. */
  admittedAt: number;
  /** True when the agent's peers are not told whether it is connected. */
  isHidden: boolean;
}

export class PresenceStore {
  readonly instance: string;
  /** Presences that name another instance, with the time when each was found. */
  readonly #elsewhere = new BoundedMap<string, { seen: KvEntryMaybe<Presence>; at: number }>(ELSEWHERE_MAX);

  constructor(private readonly deps: PresenceDeps) {
    this.instance = deps.leases.instance;
  }

  /**
   * Moves an agent's presence to this instance. Changes nothing when the presence is here with the same `isHidden`, and
   * the agent has a socket here. The same commit tells the instance that held its sockets, which closes them.
   *
   * @param request the request that connects
   * @throws {Error} when the request is late, and the agent signed a newer one, or one of the same second, for another
   *   instance, because the client may have given up, and the claim would move the agent to where it has no socket
   * @throws {StoreUnavailable}
   */
  async claim(agentDid: string, request: ConnectRequest): Promise<void> {
    const key = KEYS.presence(agentDid);
    this.forget(agentDid);
    await this.deps.changes.run(async (draft) => {
      const { value: previous } = await draft.get<Presence>(key);
      const { signedAt, isHidden } = request;
      const isSame = previous?.instance === this.instance && (previous.hidden ?? false) === isHidden;
      if (isSame && this.deps.connectedAgents.socketsOf(agentDid)) return;
      if (this.#isOvertaken(request, previous)) throw new Error("The agent has connected elsewhere");
      const hidden = isHidden ? { hidden: true as const } : {};
      const connectedAt = this.deps.clock.now();
      const seen: Seen = { instance: this.instance, connectedAt, disconnectedAt: null, ...hidden };
      draft.set(key, { instance: this.instance, signedAt, ...hidden } satisfies Presence);
      draft.also((operation) => operation.set(KEYS.seen(agentDid), seen, { expireIn: SEEN_KEPT_MS }));
      const other = this.#otherIn(previous);
      if (other === null) return;
      const note: Note = { kind: "moved", agentDid };
      for (const write of this.deps.inbox.writesOf(other, note)) {
        draft.also((operation) => addWrite(operation, write.key, write));
      }
    }, [key]);
  }

  /**
   * Only a late request is compared with another one, because the clocks of an agent's machines may differ. One that
   * waited in a pause of this instance is late too, and its client has long connected elsewhere. A time that no request
   * can have yet comes from a clock that was ahead, and would refuse the agent for as long as the step.
   */
  #isOvertaken({ signedAt, admittedAt }: ConnectRequest, presence: Presence | null): boolean {
    const { clock, leases } = this.deps, now = clock.now(), newest = presence?.signedAt ?? 0;
    const isLate = leases.hasPaused || now - admittedAt > CONNECT_LATE_MS;
    const isPossible = newest <= unixSeconds(now) + LIMITS.timestampSkewSeconds;
    return isLate && isPossible && this.#otherIn(presence) !== null && newest >= signedAt;
  }

  /**
   * Ends an agent's presence at this instance, unless it has moved or the agent connects here again. A socket that is
   * about to open counts, because its claim of the presence may have been made.
   *
   * @throws {StoreUnavailable}
   */
  async release(agentDid: string): Promise<void> {
    const { kv, clock, leases, connectedAgents } = this.deps;
    // While this instance stops, the presence stays, because senders wait for its agents (D-392).
    if (leases.isLeaving) return;
    for (let isDone = false; !isDone;) {
      const [entry, seen] = await kv.getMany<[Presence, Seen]>([KEYS.presence(agentDid), KEYS.seen(agentDid)]);
      const isHere = connectedAgents.socketsOf(agentDid) !== undefined || connectedAgents.isOpening(agentDid);
      if (entry.value?.instance !== this.instance || isHere) return;
      const operation = kv.atomic().check(entry).delete(entry.key);
      if (seen.value) {
        const left: Seen = { ...seen.value, disconnectedAt: clock.now() };
        operation.check(seen).set(seen.key, left, { expireIn: SEEN_KEPT_MS });
      }
      // The commit also checks `seen`, because the record of an agent that was deleted meanwhile would otherwise come
      // back, and the agent would count as offline.
      isDone = (await operation.commit()).ok;
    }
  }

  /**
   * Returns the other instance that holds an agent's sockets and takes messages, or `null`.
   *
   * @param seen the presence as the caller has read it; one that names no other instance may be old and is read again
   * @throws {StoreUnavailable}
   */
  async findInstance(agentDid: string, seen = this.hint(agentDid)): Promise<string | null> {
    // An absent record is never cached, so the caller has just read that it is absent.
    if (seen?.value === null) return null;
    let found: KvEntryMaybe<Presence> | undefined = seen;
    if (!this.#otherIn(seen?.value)) found = await this.deps.kv.get<Presence>(KEYS.presence(agentDid));
    const instance = this.#otherIn(found?.value);
    if (!found || !instance || !(await this.deps.leases.takesMessages(instance))) return null;
    if (!this.hint(agentDid)) this.#elsewhere.set(agentDid, { seen: found, at: this.deps.clock.now() });
    return instance;
  }

  /**
   * Returns the presence of an agent at another instance, if it was found within the last second. An old one does no
   * harm, because the instance that it names reads the presence before it delivers.
   */
  hint(agentDid: string): KvEntryMaybe<Presence> | undefined {
    const found = this.#elsewhere.get(agentDid);
    return found && Math.abs(this.deps.clock.now() - found.at) < ELSEWHERE_MS ? found.seen : undefined;
  }

  forget(agentDid: string): void {
    this.#elsewhere.delete(agentDid);
  }

  /**
   * Returns the instance that an agent's presence names, alive or not, or `null`.
   *
   * @throws {StoreUnavailable}
   */
  async holderOf(agentDid: string): Promise<string | null> {
    return (await this.deps.kv.get<Presence>(KEYS.presence(agentDid))).value?.instance || null;
  }

  #otherIn(presence: Presence | null | undefined): string | null {
    return presence?.instance && presence.instance !== this.instance ? presence.instance : null;
  }

  /** Returns an update that refuses its claim when another instance holds the agent's sockets. Claims may share it. */
  requireHeldHere(agentDid: string, seen?: KvEntryMaybe<Presence>): Update<"moved"> {
    return {
      key: KEYS.presence(agentDid),
      ...(seen ? { seen } : {}),
      held: null,
      next: (current) => {
        const holder = (current as Presence | null)?.instance;
        return !holder || holder === this.instance ? "hold" : { refuse: "moved" };
      },
    };
  }
}
