/**
 * Shows that each nonce of a sender is accepted once (D-25, D-261): over restarts, on two instances, in bursts, when the
 * clock steps, and after its sender's record was deleted.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { LOOK_AGAIN, Senders } from "../../../proxy/admission/senders.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { newSender, NONCE_BYTES, senderKeptMs, unpackSender } from "../../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { Nonces } from "../../../shared/server/nonces.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../../shared/server/store/store_errors.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { IS_REMOTE, MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

const AGENT = "did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const WINDOW_MS = LIMITS.agentWindowMs;
const KEPT_MS = senderKeptMs(newSender(0), WINDOW_MS);

/** One instance of the proxy, reduced to what uses up nonces. */
class Instance {
  #nonces: Nonces;
  readonly #senders: Senders;
  readonly #commits: GroupCommit;
  /** Claims that had to look at the record again. */
  again = 0;

  constructor(readonly kv: Deno.Kv, readonly clock: ManualClock) {
    this.#nonces = new Nonces(clock);
    this.#senders = new Senders({ kv, clock, windowMs: WINDOW_MS });
    this.#commits = new GroupCommit(kv, MAX_CHECKS);
  }

  /** Forgets the nonces of its own requests, as after many others. */
  forget(): void {
    this.#nonces = new Nonces(this.clock);
  }

  /** Uses a nonce as admission does. True when it was accepted. */
  async use(nonce: string, timestamp = unixSeconds(this.clock.now())): Promise<boolean> {
    const reservation = this.#nonces.reserve(AGENT, nonce, timestamp);
    if (!reservation) return false;
    let fate: "used" | "replayed" | "unused" = "unused";
    try {
      for (let tries = 1;; tries++) {
        const key = KEYS.sender(AGENT);
        const known = tries === 1 ? this.#commits.cachedRecord(key) : undefined;
        const seen = known ?? await this.kv.get(key);
        await this.#senders.look(AGENT, seen);
        const change = { count: undefined, beginning: undefined };
        const result = await this.#commits.claim([this.#senders.update(AGENT, seen, reservation, change)]);
        if (!result.taken && result.refused === LOOK_AGAIN) {
          assert(++this.again < 10_000 && tries < LIMITS.commitRetries);
          continue;
        }
        fate = result.taken ? "used" : "replayed";
        return result.taken;
      }
    } finally {
      reservation.release(fate);
    }
  }

  /** Uses nonces one after the other. Returns how many were accepted. */
  async useAll(names: readonly string[]): Promise<number> {
    let accepted = 0;
    for (const name of names) if (await this.use(name)) accepted++;
    return accepted;
  }
}

function names(count: number, prefix = "nonce"): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
}

async function parts(kv: Deno.Kv): Promise<number> {
  return (await Array.fromAsync(kv.list({ prefix: KEYS.allSenderParts() }))).length;
}

Deno.test("used nonces are refused by the same instance, after a restart and by another instance", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const one = new Instance(kv, clock), other = new Instance(kv, clock);
  assertEquals(await other.use("first of all"), true);
  assertEquals(await one.useAll(names(300)), 300);
  assertEquals(await parts(kv), 8);
  for (const instance of [one, other, new Instance(kv, clock)]) {
    assertEquals(await instance.useAll([...names(300), "first of all"]), 0);
  }
  assertEquals(one.again, 0);
});

Deno.test("the claims of a burst on one instance do not have to look at the record again", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  for (const burst of ["first", "second", "third"]) {
    const accepted = await Promise.all(names(150, burst).map((name) => one.use(name)));
    assertEquals(accepted.filter((isTaken) => isTaken).length, 150);
  }
  assertEquals(one.again, 0);
  one.forget();
  for (const burst of ["first", "second", "third"]) assertEquals(await one.useAll(names(150, burst)), 0);
});

Deno.test("two instances in turns accept each nonce once", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const both = [new Instance(kv, clock), new Instance(kv, clock)];
  for (const [i, name] of names(300).entries()) assertEquals(await both[i % 2]?.use(name), true);
  for (const instance of both) assertEquals(await instance.useAll(names(300)), 0);
});

Deno.test("of a burst on two instances each nonce is accepted once, and the record stays small", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const both = [new Instance(kv, clock), new Instance(kv, clock)];
  const all = names(IS_REMOTE ? 100 : 700);
  const accepted = await Promise.all(both.flatMap((instance) => all.map((name) => instance.use(name))));
  assertEquals(accepted.filter((one) => one).length, all.length);
  const { value } = await kv.get<Uint8Array>(KEYS.sender(AGENT));
  assert((value?.length ?? 0) < 2 * LIMITS.senderNoncesMax * NONCE_BYTES);
  assertEquals(await new Instance(kv, clock).useAll(all), 0);
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
    for (let i = 0; i < limit; i++) yield await part;
  };
  kv.list = list as unknown as typeof kv.list;
  await assertRejects(() => new Instance(kv, clock).use("new"), StoreUnavailable);
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
      if (value !== null) assert(unpackSender(value).nonces.length <= LIMITS.senderNoncesMax * NONCE_BYTES);
    }),
    { seed: 1, numRuns: IS_REMOTE ? 3 : 60 },
  );
});
