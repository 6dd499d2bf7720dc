/**
 * Which instances are alive (D-390). An instance renews its lease after a third of the lease's time, so that two
 * renewals in a row may fail. Other instances count it as alive while they see the lease change, because a comparison
 * of their clocks would refuse the agents of an instance whose clock is behind. The time in a lease serves only for a
 * warning, and for the age of what its instance wrote.
 */
import type { KvEntry } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { InstanceLease, LinkAddress } from "../schema/records.ts";
import { type Cancel, repeat, settledWithin } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { fraction } from "../../shared/random.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

/**
 * How long an instance counts as alive without a renewal. With less, one that is busy for some seconds would count as
 * ended. With more, messages wait for one that was killed.
 */
export const LEASE_MS = 12_000;
/** A third of the lease, so that two renewals in a row may fail. */
export const RENEW_MS = 4_000;
/**
 * How long after a look at its lease an instance is still taken to serve. With more, notes could go to a stopped
 * instance, because each one announces its stop only a second before.
 */
const RELIED_MS = 500;
/** Time without a renewal after which this instance may have stood still, as in a pause of its machine. */
const PAUSED_MS = 2 * RENEW_MS;
/** How long after a pause requests may have waited for its end. With less, some of them would pass as new ones. */
const RESUMED_MS = 10_000;

interface LeaseDeps extends Pick<ServiceDeps, "kv" | "clock" | "log" | "random" | "newId"> {
  metrics?: Metrics;
}

/** The lease of another instance as this one has seen it. Times are milliseconds. */
interface Known {
  lease: InstanceLease;
  versionstamp: string;
  /** When the newest look at it began, by the clock of this instance. */
  seenAt: number;
  /** Looks in a row that found it unchanged. */
  unchanged: number;
  /** How far the clock of its instance is ahead of the clock of this one: at least and at most. */
  ahead: { least: number; most: number };
}

/** Looks without a change after which a lease has ended. */
const LOOKS_TO_END = Math.ceil(LEASE_MS / RENEW_MS);
/**
 * A lease that is seen for the first time and was written this long ago, by its own time, counts as ended, because its
 * instance was killed before this one began. With less, a new instance whose clock is behind would count as ended until
 * the next look.
 */
const FORGOTTEN_MS = 60_000;
/** How many leases one look reads, newest first. The others are of instances that ended within the last day. */
const LEASES_READ = 500;
/** Difference of clocks above which there is a warning, because ends of proofs and tokens are then seconds apart. */
const CLOCKS_DIFFER_MS = 2_000;
const CLOCK_WARNING_MS = 60_000;
/** Longest wait for the announcement of a stop. With more, a slow store would take the time of the last deliveries. */
const ANNOUNCED_MS = 300;
/**
 * Time that a stopping instance keeps for its last answers, because a request that is cut off would be repeated, and
 * its message could arrive twice.
 */
const ANSWER_MS = 500;
/** How long a lease's record is kept. With less, the presences of its agents would be deleted within the day. */
const KEPT_MS = LEASE_MS + LIMITS.presenceKeptSeconds * 1000;

export class InstanceLeases {
  /** ID of this instance, new at each start. */
  readonly instance: string;
  /** Where other instances reach this one. Set before `start()`, because the first lease would otherwise lack it. */
  link: LinkAddress | null = null;
  /** Called after each look at the leases of the others. */
  onLooked: () => void = () => {};
  /** Returns true while there is a link to an instance, over which that instance would say that it leaves. */
  isLinked: (instance: string) => boolean = () => false;
  readonly #known = new Map<string, Known>();
  #state: InstanceLease["state"] = "serving";
  #leavingAt: number | undefined;
  /** When this instance last renewed its lease, and when it first did so after a pause. */
  #renewedAt = Infinity;
  #resumedAt = -Infinity;
  #timers: Cancel[] = [];
  #warnedAt = -Infinity;
  /** The newest write of the lease. */
  #written = Promise.resolve();

  constructor(private readonly deps: LeaseDeps) {
    this.instance = deps.newId();
    deps.metrics?.read("instance_clock_difference_seconds", () => Math.abs(this.#mostDifferent()?.ms ?? 0) / 1000);
  }

  /** True once this instance closes its sockets and opens no new ones. */
  get isLeaving(): boolean {
    return this.#state !== "serving";
  }

  /** True once this instance has ended its lease. */
  get hasStopped(): boolean {
    return hasEnded(this.#state);
  }

  /** True in a pause of this instance and for 10 s afterwards, when requests may have waited for a long time. */
  get hasPaused(): boolean {
    const now = this.deps.clock.now();
    return now - this.#renewedAt > PAUSED_MS || Math.abs(now - this.#resumedAt) < RESUMED_MS;
  }

  /** Returns for how many milliseconds this instance still answers requests; `Infinity` before it leaves. */
  get restMs(): number {
    if (this.#leavingAt === undefined) return Infinity;
    return this.#leavingAt + LIMITS.drainMs - ANSWER_MS - this.deps.clock.now();
  }

  /** True while another instance serves, as the newest look at the leases has seen it. */
  get hasOthers(): boolean {
    return [...this.#known.values()].some((known) => known.lease.state === "serving" && isRunning(known));
  }

  /** True unless an instance that started earlier runs too, as the newest look at the leases has seen it. */
  get isOldest(): boolean {
    return ![...this.#known].some(([instance, known]) => instance < this.instance && isRunning(known));
  }

  /** Returns the other instances that serve and have an address, as the newest look at the leases has seen them. */
  others(): { instance: string; link: LinkAddress }[] {
    return [...this.#known].flatMap(([instance, known]) => {
      const { state, link } = known.lease;
      return link && state === "serving" && isRunning(known) ? [{ instance, link }] : [];
    });
  }

  /**
   * Takes the lease of this instance, and renews it and looks at the others until `stop()`.
   *
   * @param isSole true when no other process uses the store: the leases of other processes end at once
   * @throws {StoreUnavailable}
   */
  async start({ isSole }: { isSole: boolean }): Promise<void> {
    if (isSole) await this.#endOthers();
    await Promise.all([this.#write(), this.#look()]);
    const { clock, random } = this.deps;
    // At random after 3 to 5 s, because looks that find a lease always at the same age learn less about its clock.
    const renewMs = () => RENEW_MS * (0.75 + fraction(random) / 2);
    this.#timers = [
      repeat(clock, renewMs, () => this.#tried(this.#write())),
      repeat(clock, () => RENEW_MS, () => this.#tried(this.#look())),
    ];
  }

  /**
   * Announces that this instance closes its sockets but still handles notes, and looks at the others. Never rejects.
   */
  async beginLeaving(): Promise<void> {
    if (this.isLeaving) return;
    const announced = Promise.all([this.#become("leaving"), this.#tried(this.#look())]);
    await settledWithin(this.deps.clock, announced, ANNOUNCED_MS);
  }

  /** Ends the lease, so that others see the agents of this one as offline at once. Idempotent. Never rejects. */
  async stop(): Promise<void> {
    if (this.hasStopped) return;
    for (const cancel of this.#timers) cancel();
    await this.#become("stopped");
  }

  /** Records that this instance handles no further notes. Never rejects. */
  async leave(): Promise<void> {
    await this.#become("left");
  }

  /**
   * Returns true while an instance renews its lease.
   *
   * @throws {StoreUnavailable}
   */
  async isAlive(instance: string): Promise<boolean> {
    if (instance === this.instance) return !this.hasStopped;
    return isRunning(await this.#read(instance));
  }

  /** Returns those of the instances that renew their leases, all read at once. @throws {StoreUnavailable} */
  async aliveOf(instances: Iterable<string>): Promise<ReadonlySet<string>> {
    const all = [...new Set(instances)];
    const areAlive = await Promise.all(all.map((instance) => this.isAlive(instance)));
    return new Set(all.filter((_, i) => areAlive[i]));
  }

  /**
   * Returns true when a message can be sent to another instance. The lease is not read if it was seen to serve within
   * half a second, or if its instance has a link, because a read for each message would cost a round trip.
   *
   * @throws {StoreUnavailable}
   */
  async takesMessages(instance: string): Promise<boolean> {
    const known = this.#known.get(instance);
    const isFresh = known !== undefined && Math.abs(this.deps.clock.now() - known.seenAt) < RELIED_MS;
    const isRelied = known?.lease.state === "serving" && (isFresh || this.isLinked(instance));
    return isRelied ? isRunning(known) : await this.isAlive(instance);
  }

  /**
   * Returns how many milliseconds ago an instance began to leave, which may be this one; `null` when it has not.
   *
   * @throws {StoreUnavailable}
   */
  async leavingSince(instance: string): Promise<number | null> {
    const known = instance === this.instance ? null : await this.#read(instance);
    const leavingAt = instance === this.instance ? this.#leavingAt : known?.lease.leavingAt;
    return leavingAt === undefined ? null : this.deps.clock.now() + differenceOf(known) - leavingAt;
  }

  /**
   * Returns what the lease of an instance says, even if it was not renewed in time; "left" without a lease.
   *
   * @throws {StoreUnavailable}
   */
  async stateOf(instance: string): Promise<InstanceLease["state"]> {
    return (await this.#read(instance))?.lease.state ?? "left";
  }

  /**
   * Returns the time on the clock of another instance. It may be too early by at most the time between two renewals.
   * `null` when this instance knows no lease of it.
   */
  timeAt(instance: string): number | null {
    if (instance === this.instance) return this.deps.clock.now();
    const known = this.#known.get(instance);
    return known ? this.deps.clock.now() + known.ahead.least : null;
  }

  async #read(instance: string): Promise<Known | null> {
    const began = this.deps.clock.now();
    const entry = await this.deps.kv.get<InstanceLease>(KEYS.instance(instance));
    return entry.value === null ? null : this.#see(instance, entry, began);
  }

  /** @param began when the look at the store began */
  #see(instance: string, { value: lease, versionstamp }: KvEntry<InstanceLease>, began: number): Known {
    const now = this.deps.clock.now(), before = this.#known.get(instance);
    if (before?.versionstamp === versionstamp) {
      before.seenAt = Math.max(before.seenAt, began);
      return before;
    }
    // The lease was written after the look before this one began, and before now. These two bound the other clock.
    let ahead = { least: lease.at - now, most: before ? lease.at - before.seenAt : Infinity };
    const both = before && {
      least: Math.max(ahead.least, before.ahead.least),
      most: Math.min(ahead.most, before.ahead.most),
    };
    // When the old and the new bounds do not overlap, one of the clocks was set, so only the new bounds count.
    if (both && both.least <= both.most) ahead = both;
    const unchanged = before || now - lease.at < FORGOTTEN_MS ? 0 : LOOKS_TO_END;
    const known = { lease, versionstamp, seenAt: began, unchanged, ahead };
    this.#known.set(instance, known);
    return known;
  }

  /** Looks at every lease, and warns when clocks differ. */
  async #look(): Promise<void> {
    const { kv, clock, log } = this.deps;
    const began = clock.now();
    const present = new Set<string>();
    const selector = { prefix: KEYS.instances() };
    for await (const entry of kv.list<InstanceLease>(selector, { limit: LEASES_READ, reverse: true })) {
      const instance = String(entry.key.at(-1));
      if (instance === this.instance) continue;
      present.add(instance);
      const before = this.#known.get(instance);
      const known = this.#see(instance, entry, began);
      if (known === before) known.unchanged++;
    }
    for (const instance of this.#known.keys()) if (!present.has(instance)) this.#known.delete(instance);
    this.onLooked();
    const most = this.#mostDifferent();
    // Without the absolute value, a clock that was set back would stop its own warning for as long as the step.
    if (!most || Math.abs(clock.now() - this.#warnedAt) < CLOCK_WARNING_MS) return;
    this.#warnedAt = clock.now();
    log("warn", "clocks_differ", {
      instance: most.instance,
      aheadSeconds: Math.round(most.ms / 100) / 10,
      message: "the clocks of two instances differ by at least this; keep each one set by NTP",
    });
  }

  /** Returns the running instance whose clock certainly differs most from this one's, by over 2 s; otherwise `null`. */
  #mostDifferent(): { instance: string; ms: number } | null {
    let found: { instance: string; ms: number } | null = null;
    for (const [instance, known] of this.#known) {
      if (!isRunning(known)) continue;
      const ms = differenceOf(known);
      if (Math.abs(ms) > Math.max(CLOCKS_DIFFER_MS, Math.abs(found?.ms ?? 0))) found = { instance, ms };
    }
    return found;
  }

  async #endOthers(): Promise<void> {
    const { kv } = this.deps;
    for await (const { key, value } of kv.list<InstanceLease>({ prefix: KEYS.instances() })) {
      if (value.state === "left") continue;
      await kv.set(key, { ...value, state: "left" } satisfies InstanceLease, { expireIn: KEPT_MS });
    }
  }

  async #tried(work: Promise<void>): Promise<void> {
    await work.catch((cause) => this.deps.log("warn", "bus_failed", { cause }));
  }

  async #become(state: InstanceLease["state"]): Promise<void> {
    this.#state = state;
    this.#leavingAt ??= this.deps.clock.now();
    await this.#write().catch(() => {});
  }

  /**
   * Writes after the write before has ended, because a renewal on its way could otherwise undo the end of the lease.
   */
  #write(): Promise<void> {
    const writing = this.#written.then(async () => {
      const leaving = this.#leavingAt === undefined ? {} : { leavingAt: this.#leavingAt };
      const link = this.link ? { link: this.link } : {};
      const lease: InstanceLease = {
        at: this.deps.clock.now(),
        pid: Deno.pid,
        state: this.#state,
        ...leaving,
        ...link,
      };
      await this.deps.kv.set(KEYS.instance(this.instance), lease, { expireIn: KEPT_MS });
      const now = this.deps.clock.now();
      if (now - this.#renewedAt > PAUSED_MS) this.#resumedAt = now;
      this.#renewedAt = now;
    });
    this.#written = writing.catch(() => {});
    return writing;
  }
}

/** Returns by how many milliseconds a clock is certainly ahead, negative when it is behind; 0 when it may be right. */
function differenceOf(known: Known | null): number {
  return known ? Math.max(known.ahead.least, Math.min(known.ahead.most, 0)) : 0;
}

function isRunning(known: Known | null): boolean {
  return known !== null && !hasEnded(known.lease.state) && known.unchanged < LOOKS_TO_END;
}

function hasEnded(state: InstanceLease["state"]): boolean {
  return state === "stopped" || state === "left";
}
