/**
 * The bus between proxy instances on one store: which instance holds an agent's session, and notes from one to another.
 * An instance proves that it lives by a lease of its own; an agent's presence names instance and epoch, and moves with
 * its newest connection. Notes lie in the receiver's inbox and ring its bell in the same commit; the bell is watched,
 * and the inbox looked at every 2 s besides. Isolates of one process also knock, which is heard at once (D-105). Knows
 * nothing of what notes mean.
 */
import { KEYS } from "../schema/kv_keys.ts";
import type { InstanceLease, Presence, StoredInstanceMessage } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Random } from "../../shared/random.ts";
import type { Log } from "../../shared/server/log.ts";
import { concatChunks, splitChunks } from "../../shared/server/store/chunks.ts";
import type { Update, Write } from "../../shared/server/store/group_commit.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";

/** What is done with a note. Notes are started in the order they were written. */
export type Receive = (body: unknown, bytes: Uint8Array) => void;

const NOTE_KEPT_MS = 60_000;
const PRESENCE_KEPT_MS = LIMITS.presenceKeptSeconds * 1000;
/** Notes taken from the inbox in one commit: it may hold 1 000 deletions, and a note has 13 parts at most. */
const NOTES_AT_ONCE = 50;

/** How isolates of one process knock at each other's doors, by the name of the instance: as `BroadcastChannel` does. */
export interface LocalWakeups {
  postMessage(instance: string): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

interface BusDeps {
  kv: Deno.Kv;
  clock: Clock;
  random: Random;
  newId: NewId;
  log: Log;
  /** Absent where no other isolate is part of this process. */
  siblings?: LocalWakeups;
}

export class PresenceStore {
  /** Name of this instance, new at each start. */
  readonly instance: string;
  readonly #deps: BusDeps;
  /** Called for each note. */
  onNote: Receive = () => {};
  #looking: Promise<void> | null = null;
  #reader: ReadableStreamDefaultReader<unknown> | null = null;
  #cancels: (() => void)[] = [];
  #stopped = false;

  constructor(deps: BusDeps) {
    this.#deps = deps;
    this.instance = deps.newId();
  }

  /** Shows that this instance lives, and listens. `isSole`: whatever process used the store before is gone. */
  async start(isSole: boolean): Promise<void> {
    if (isSole) await this.#forgetOthers();
    await this.#renew();
    this.#every(LIMITS.instanceRenewMs, () => this.#renew());
    this.#every(LIMITS.bellLookMs, () => this.poll());
    const { siblings } = this.#deps;
    if (siblings) siblings.onmessage = ({ data }) => void (data === this.instance && this.#handleWakeUp());
    void this.#watch();
  }

  /** Ends the lease: the agents of this instance are offline to the others at once. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#reader?.cancel().catch(() => {});
    await this.#setLease(KEYS.instance(this.instance), 0).catch(() => {});
  }

  /** Takes an agent's session to this instance; `moved` is written to the one that had it. */
  async claim(agentDid: string, isHere: () => boolean, moved: (presence: Presence) => unknown): Promise<void> {
    let told: string | undefined;
    await commitOptimistically(this.#deps, async () => {
      told = undefined;
      const entry = await this.#deps.kv.get<Presence>(KEYS.presence(agentDid));
      const operation = this.#deps.kv.atomic().check(entry);
      const before = entry.value;
      if (before?.instance === this.instance && isHere()) return { operation, result: undefined };
      const presence: Presence = { instance: this.instance, epoch: (before?.epoch ?? 0) + 1 };
      operation.set(entry.key, presence);
      if (before && before.instance !== this.instance) {
        told = before.instance;
        for (const write of this.#note(before.instance, this.#deps.newId(), moved(before), [])) put(operation, write);
      }
      return { operation, result: undefined };
    });
    if (told) this.wakeUp(told);
  }

  /** Gives up an agent's session that ended here, unless it has moved or come back meanwhile. */
  async release(agentDid: string, isHere: () => boolean): Promise<void> {
    if (this.#stopped) return;
    const entry = await this.#deps.kv.get<Presence>(KEYS.presence(agentDid));
    if (entry.value?.instance !== this.instance || isHere()) return;
    // The epoch must go on rising, so the record stays, without an instance.
    const gone: Presence = { instance: "", epoch: entry.value.epoch + 1 };
    await this.#deps.kv.atomic().check(entry).set(entry.key, gone, { expireIn: PRESENCE_KEPT_MS }).commit();
  }

  /** The other instance that holds an agent's session and lives, or `null`. */
  async findInstance(agentDid: string): Promise<string | null> {
    const instance = await this.lastSeenAt(agentDid);
    return instance && await this.isAlive(instance) ? instance : null;
  }

  /** The other instance that holds an agent's session, dead or alive, or `null`. */
  async lastSeenAt(agentDid: string): Promise<string | null> {
    const instance = (await this.#deps.kv.get<Presence>(KEYS.presence(agentDid))).value?.instance;
    return instance && instance !== this.instance ? instance : null;
  }

  /** True while an instance shows signs of life. */
  async isAlive(instance: string): Promise<boolean> {
    const lease = (await this.#deps.kv.get<InstanceLease>(KEYS.instance(instance))).value;
    return lease !== null && this.#deps.clock.now() < lease.until;
  }

  /** The update that refuses a claim when the agent's session is not this instance's any more. */
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

  /** Tells a sibling that a note has been written for it; others hear of it by their bell. */
  wakeUp(instance: string): void {
    this.#deps.siblings?.postMessage(instance);
  }

  /** The update that writes a note and rings, as part of a claim; `knock` when it has taken effect. */
  post(instance: string, body: unknown, bytes: Uint8Array = new Uint8Array()): Update<never> {
    const id = this.#deps.newId();
    const [first, ...also] = this.#note(instance, id, body, splitChunks(bytes));
    return {
      key: KEYS.inboxNote(instance, id),
      bytes: bytes.length,
      next: () => ({ value: (first as { value: unknown }).value, expireInMs: NOTE_KEPT_MS, also }),
    };
  }

  /** Writes a note on its own. */
  async send(instance: string, body: unknown): Promise<void> {
    const operation = this.#deps.kv.atomic();
    for (const write of this.#note(instance, this.#deps.newId(), body, [])) put(operation, write);
    await operation.commit();
    this.wakeUp(instance);
  }

  /** Reads the inbox. */
  poll(): Promise<void> {
    this.#looking ??= this.#poll()
      .catch((cause) => this.#deps.log("warn", "inbox_look_failed", { cause }))
      .finally(() => this.#looking = null);
    return this.#looking;
  }

  #note(instance: string, id: string, body: unknown, parts: Uint8Array[]): Write[] {
    const value: StoredInstanceMessage = { body, parts: parts.length };
    const expireInMs = NOTE_KEPT_MS;
    return [
      { key: KEYS.inboxNote(instance, id), value, expireInMs },
      ...parts.map((part, i) => ({ key: KEYS.inboxPart(instance, id, i), value: part, expireInMs })),
      { key: KEYS.instanceBell(instance), value: id, expireInMs },
    ];
  }

  async #poll(): Promise<void> {
    const { kv } = this.#deps;
    const inbox = { prefix: KEYS.inbox(this.instance) };
    while (!this.#stopped) {
      const notes = await Array.fromAsync(kv.list<StoredInstanceMessage>(inbox, { limit: NOTES_AT_ONCE }));
      if (notes.length === 0) return;
      const operation = kv.atomic();
      const bytes = await Promise.all(notes.map(({ key, value: { parts } }) => {
        const id = String(key.at(-1));
        operation.delete(key);
        for (let i = 0; i < parts; i++) operation.delete(KEYS.inboxPart(this.instance, id, i));
        return this.#bytes(id, parts);
      }));
      await operation.commit();
      notes.forEach(({ value }, i) => this.onNote(value.body, bytes[i] ?? new Uint8Array()));
    }
  }

  async #handleWakeUp(): Promise<void> {
    // A look that is under way may have passed the new note already.
    await this.#looking;
    await this.poll();
  }

  async #bytes(id: string, parts: number): Promise<Uint8Array> {
    const read: Uint8Array[] = [];
    for (let i = 0; i < parts; i++) {
      const { value } = await this.#deps.kv.get<Uint8Array>(KEYS.inboxPart(this.instance, id, i));
      if (value) read.push(value);
    }
    return concatChunks(read);
  }

  async #forgetOthers(): Promise<void> {
    const { kv } = this.#deps;
    for await (const { key, value } of kv.list<InstanceLease>({ prefix: KEYS.instances() })) {
      if (value.pid !== Deno.pid && value.until > 0) await this.#setLease(key, 0, value.pid);
    }
  }

  async #renew(): Promise<void> {
    await this.#setLease(KEYS.instance(this.instance), this.#deps.clock.now() + LIMITS.instanceLeaseMs);
  }

  /** The record outlives its lease by a day: the presence of the instance ends with it (D-218). */
  async #setLease(key: Deno.KvKey, until: number, pid = Deno.pid): Promise<void> {
    const lease: InstanceLease = { until, pid };
    await this.#deps.kv.set(key, lease, { expireIn: LIMITS.instanceLeaseMs + PRESENCE_KEPT_MS });
  }

  #every(ms: number, run: () => Promise<void>): void {
    const slot = this.#cancels.length;
    const again = async () => {
      await run().catch((cause) => this.#deps.log("warn", "bus_failed", { cause }));
      if (this.#stopped) return;
      if (!this.#reader) void this.#watch();
      this.#cancels[slot] = this.#deps.clock.after(ms, again);
    };
    this.#cancels.push(this.#deps.clock.after(ms, again));
  }

  async #watch(): Promise<void> {
    try {
      const reader = this.#reader = this.#deps.kv.watch([KEYS.instanceBell(this.instance)]).getReader();
      while (!(await reader.read()).done) await this.#handleWakeUp();
    } catch (cause) {
      if (!this.#stopped) this.#deps.log("warn", "bus_watch_failed", { cause });
    } finally {
      this.#reader = null;
    }
  }
}

function put(operation: Deno.AtomicOperation, write: Write): void {
  if ("delete" in write) operation.delete(write.key);
  else operation.set(write.key, write.value, { expireIn: write.expireInMs });
}
