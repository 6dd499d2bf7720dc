/**
 * Shows that each nonce of a sender is accepted once (D-25): over restarts, on two instances, in bursts, when the clock
 * steps, and after its sender's record was deleted.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import {
  type NonceUse,
  type Sender,
  SenderChange,
  type SenderRefusal,
  Senders,
} from "../../../proxy/message/sender.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { systemRandom } from "../../../shared/random.ts";
import { NONCE_BYTES, senderKeptMs, unpackSender } from "../../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../../shared/server/store/store_errors.ts";
import { FaultyKv, type KvCall } from "../../support/faulty_kv.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { IS_REMOTE, MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

const AGENT = "did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const WINDOW_MS = LIMITS.agentWindowMs;
const KEPT_MS = senderKeptMs({ begun: [] }, WINDOW_MS);

/** One instance of the proxy, reduced to what uses up nonces. */
class Instance {
  #senders: Senders;
  readonly #commits: GroupCommit;

  constructor(readonly kv: Deno.Kv, readonly clock: ManualClock) {
    this.#commits = new GroupCommit(kv, MAX_CHECKS);
    this.#senders = this.#newSenders();
  }

  /** Forgets its senders, as after many others. */
  forget(): void {
    this.#senders = this.#newSenders();
  }

  async sender(): Promise<Sender> {
    return await this.#senders.loaded(AGENT, this.clock.now());
  }

  /** Reserves a nonce as check 5 does. */
  async reserve(nonce: string, timestamp = unixSeconds(this.clock.now())): Promise<NonceUse | null> {
    return (await this.sender()).reserve(nonce, timestamp, this.clock.now());
  }

  /** Commits a reserved nonce. True when it was accepted. */
  async commit(use: NonceUse): Promise<boolean> {
    try {
      const live = new SenderChange(use.sender, this.clock, use, null, null);
      return (await this.#commits.claim<SenderRefusal>([], { live })).taken;
    } catch (error) {
      use.sender.release(use);
      throw error;
    }
  }

  /** Uses a nonce as admission does. True when it was accepted. */
  async use(nonce: string, timestamp?: number): Promise<boolean> {
    const use = await this.reserve(nonce, timestamp);
    return use !== null && await this.commit(use);
  }

  /** Uses nonces one after the other. Returns how many were accepted. */
  async useAll(names: readonly string[]): Promise<number> {
    let accepted = 0;
    for (const name of names) if (await this.use(name)) accepted++;
    return accepted;
  }

  #newSenders(): Senders {
    const { kv, clock } = this;
    return new Senders({ kv, reads: new BatchedReads(kv), clock, random: systemRandom, windowMs: WINDOW_MS });
  }
}

function names(count: number, prefix = "nonce"): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
}

Deno.test("of a burst on two instances each nonce is accepted once, and the record stays small", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const both = [new Instance(kv, clock), new Instance(kv, clock)];
  const all = names(IS_REMOTE ? 100 : 700);
  const accepted = await Promise.all(both.flatMap((instance) => all.map((name) => instance.use(name))));
  assertEquals(accepted.filter((one) => one).length, all.length);
  const { value } = await kv.get<Uint8Array>(KEYS.sender(AGENT));
  assert((value?.length ?? 0) < 2 * LIMITS.senderNonces * NONCE_BYTES);
  assertEquals(await new Instance(kv, clock).useAll(all), 0);
});

Deno.test("a nonce that is reserved while its sender's record is being read is accepted, and is then used", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  assert(await one.use("nonce-0"));
  const sender = await one.sender();
  sender.drop();
  const reading = sender.load();
  const use = sender.reserve("nonce-1", unixSeconds(one.clock.now()), one.clock.now());
  await reading;
  assert(use !== null && await one.commit(use));
  assertEquals([await one.use("nonce-0"), await one.use("nonce-1")], [false, false]);
});

Deno.test("a sender that is dropped in the turn after its record was read is read again", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  const sender = await one.sender();
  let isLoaded = false;
  const again = Promise.withResolvers<void>();
  const set = (to: boolean) => {
    isLoaded = to;
    if (to) {
      queueMicrotask(() => {
        Object.defineProperty(sender, "isLoaded", { value: true, writable: true });
        sender.drop();
        again.resolve(sender.load());
      });
    }
  };
  Object.defineProperty(sender, "isLoaded", { get: () => isLoaded, set, configurable: true });
  await sender.load();
  await again.promise;
  assert(sender.isLoaded);
});

Deno.test("a nonce is accepted again when it has ended, and not before, in the record and in a part", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  assertEquals(await one.useAll(names(200)), 200);
  await one.clock.advance(301_000 - 1);
  for (const instance of [one, new Instance(kv, one.clock)]) {
    assertEquals([await instance.use("nonce-0"), await instance.use("nonce-199")], [false, false]);
  }
  await one.clock.advance(1);
  assertEquals([await one.use("nonce-0"), await one.use("nonce-199")], [true, true]);
  assertEquals([await one.use("nonce-0"), await one.use("nonce-199")], [false, false]);
});

Deno.test("a clock that steps ahead and back revives no sealed nonce", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const one = new Instance(kv, clock);
  const timestamp = unixSeconds(clock.now());
  assertEquals(await one.useAll(names(200)), 200);
  clock.step(500_000);
  assertEquals(await one.useAll(names(40, "ahead")), 40);
  clock.step(-500_000);
  one.forget();
  for (const instance of [one, new Instance(kv, clock)]) {
    for (const name of names(200)) assertEquals(await instance.use(name, timestamp), false, name);
  }
});

Deno.test("a nonce that was dated ahead is known as long as its request counts, also behind a part that has ended", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock(), one = new Instance(kv, clock);
  const now = unixSeconds(clock.now()), skew = LIMITS.timestampSkewSeconds;
  const ahead = names(LIMITS.senderPartNonces, "ahead");
  for (const name of ahead) assertEquals(await one.use(name, now + skew), true);
  for (const name of names(4 * LIMITS.senderPartNonces, "behind")) assertEquals(await one.use(name, now - skew), true);
  clock.step(2_000 * skew);
  for (const instance of [new Instance(kv, clock), one]) {
    for (const name of ahead) assertEquals(await instance.use(name, now + skew), false, name);
  }
});

Deno.test("parts of a new record of a sender are read although an earlier record had more of them", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const one = new Instance(kv, clock);
  assertEquals(await one.useAll(names(300)), 300);
  await clock.advance(KEPT_MS);
  await kv.delete(KEYS.sender(AGENT));
  const other = new Instance(kv, clock);
  assertEquals(await other.useAll(names(300)), 300);
  assertEquals(await one.useAll(names(300)), 0);
});

Deno.test("a sender with too many sealed parts to read is refused as if the store had failed", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  assertEquals(await new Instance(kv, clock).useAll(names(200)), 200);
  const part = (await kv.list({ prefix: KEYS.allSenderParts() }).next()).value;
  const list = async function* (_selector: Deno.KvListSelector, { limit = 0 }: Deno.KvListOptions) {
    assert(limit * LIMITS.senderPartNonces >= 1_000_000, "a sender with a high limit would be refused");
    for (let i = 0; i < limit; i++) yield await part;
  };
  kv.list = list as unknown as typeof kv.list;
  await assertRejects(() => new Instance(kv, clock).use("new"), StoreUnavailable);
});

Deno.test("after a commit that failed its nonce can be used, and after one that took effect unseen it cannot", async () => {
  for (const isLost of [false, true]) {
    using store = await FaultyKv.open();
    const one = new Instance(store.kv, new ManualClock());
    assertEquals(await one.use("before"), true);
    let isOver = false;
    const first = ({ method }: { method: string }) => !isOver && (isOver = method === "commit");
    if (isLost) store.faults.loses = first;
    else store.faults.fails = first;
    await assertRejects(() => one.use("nonce"), StoreUnavailable);
    store.faults = {};
    assertEquals([await one.use("nonce"), await one.use("nonce"), await one.use("before")], [!isLost, false, false]);
    assertEquals(await new Instance(store.kv, one.clock).useAll(["nonce", "before"]), 0);
  }
});

Deno.test("a nonce that another instance has used since it was reserved is refused at the commit", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const [one, other] = [new Instance(kv, clock), new Instance(kv, clock)];
  assertEquals(await one.use("before"), true);
  const use = await one.reserve("nonce");
  assertEquals(await other.use("nonce"), true);
  assertEquals(use && await one.commit(use), false);
});

Deno.test("a nonce that a request gave up and another one used is refused when the first claims it again", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  const use = await one.reserve("nonce");
  use?.sender.release(use);
  assertEquals(await one.use("nonce"), true);
  assertEquals(use && await one.commit(use), false);
});

Deno.test("a commit for a sender that was forgotten in between stores the nonces of the requests before and after", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  assert(await one.use("nonce-0"));
  const before = await one.reserve("nonce-1");
  one.forget();
  const after = await one.reserve("nonce-2");
  assert(before && after);
  assertEquals(await Promise.all([one.commit(before), one.commit(after)]), [true, true]);
  for (const instance of [one, new Instance(kv, one.clock)]) assertEquals(await instance.useAll(names(3)), 0);
});

Deno.test("any interleaving of requests, restarts and two instances accepts each nonce once", async () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ use: fc.nat(60), at: fc.nat(1), dated: fc.integer({ min: -299, max: 299 }) }) },
    { weight: 4, arbitrary: fc.record({ burst: fc.integer({ min: 1, max: 80 }), at: fc.nat(1) }) },
    { weight: 1, arbitrary: fc.record({ restart: fc.nat(1) }) },
    { weight: 1, arbitrary: fc.record({ forget: fc.nat(1) }) },
    { weight: 1, arbitrary: fc.record({ wait: fc.nat(2_000) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      using kv = await openTestKv();
      const clock = new ManualClock();
      const instances = [new Instance(kv, clock), new Instance(kv, clock)];
      const used = new Map<string, number>();
      let bursts = 0;
      const use = async (at: number, name: string, timestamp?: number) => {
        if (await instances[at]?.use(name, timestamp)) used.set(name, (used.get(name) ?? 0) + 1);
      };
      for (const one of steps) {
        if ("restart" in one) instances[one.restart] = new Instance(kv, clock);
        else if ("forget" in one) instances[one.forget]?.forget();
        else if ("wait" in one) await clock.advance(one.wait);
        else if ("burst" in one) {
          const fresh = names(one.burst, `burst-${++bursts}`);
          await Promise.all(fresh.flatMap((name) => [use(one.at, name), use(1 - one.at, name)]));
        } else {
          const now = unixSeconds(clock.now());
          await Promise.all([0, 1, 0].map((more) => use((one.at + more) % 2, `nonce-${one.use}`, now + one.dated)));
        }
      }
      for (const [name, times] of used) assertEquals(times, 1, name);
      for (const instance of instances) instance.forget();
      for (const name of used.keys()) await use(0, name);
      for (const name of used.keys()) await use(1, name);
      for (const [name, times] of used) assertEquals(times, 1, `${name} at the end`);
      const { value } = await kv.get(KEYS.sender(AGENT));
      if (value !== null) assert(unpackSender(value, "").nonces.length <= LIMITS.senderNonces * NONCE_BYTES);
    }),
    { seed: 1, numRuns: IS_REMOTE ? 3 : 20 },
  );
});

Deno.test("the first request after the store has deleted the record reads it again, and causes no conflict", async () => {
  const faulty = await FaultyKv.open(), clock = new ManualClock(), one = new Instance(faulty.kv, clock);
  let reads = 0, commits = 0;
  const count = ({ method, keys }: KvCall) => {
    if (!keys.some((key) => String(key) === String(KEYS.sender(AGENT)))) return;
    if (method === "commit") commits++;
    else reads++;
  };
  assert(await one.use("first-nonce-of-all"));
  faulty.faults = { before: count };
  clock.step(KEPT_MS - 1);
  assert(await one.reserve("a-nonce-just-before"));
  assertEquals([reads, commits], [0, 0]);
  clock.step(1);
  await faulty.kv.delete(KEYS.sender(AGENT));
  [reads, commits] = [0, 0];
  assert(await one.use("a-nonce-after-the-end"));
  assertEquals([reads, commits], [1, 1]);
  faulty[Symbol.dispose]();
});
