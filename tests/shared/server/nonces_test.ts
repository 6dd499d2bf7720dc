/**
 * Shows how long a nonce is remembered and for which agent (D-25), also when the clock steps back, over a restart and
 * over instances. Nothing is stored before the claim.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { StoreUnavailable, wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import { type NonceRecord, nonceUpdate } from "../../../shared/server/nonces.ts";
import { isRefusal } from "../../../shared/server/store/batch.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { steps } from "../../support/steps.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

const keyOf = (agentDid: string, nonce: string) => ["nonce", agentDid, nonce];
const NONCE = "nonce-of-the-request";

/** One instance of a service, reduced to its nonces. */
class Instance {
  readonly commits: GroupCommit;

  constructor(kv: Deno.Kv, readonly clock: ManualClock) {
    this.commits = new GroupCommit(kv, MAX_CHECKS);
  }

  /** Uses a nonce as an admitted request does. True when it was accepted. */
  async use(timestamp: number, agentDid = "agent-a", nonce = NONCE): Promise<boolean> {
    const update = nonceUpdate(keyOf(agentDid, nonce), timestamp, this.clock.now());
    return (await this.commits.claim([update])).taken;
  }

  get nowSeconds(): number {
    return unixSeconds(this.clock.now());
  }
}

Deno.test("a nonce is remembered until timestamp + 301 s, and for 300 s at least", async (t) => {
  const cases: [name: string, datedSeconds: number, keptSeconds: number][] = [
    ["dated now", 0, 301],
    ["dated 300 s ahead", 300, 601],
    ["dated 300 s back", -300, 300],
    ["dated 1 s back", -1, 300],
    ["dated 2 s back", -2, 300],
  ];
  await steps(t, cases, async ([, datedSeconds, keptSeconds]) => {
    using kv = await openTestKv();
    const one = new Instance(kv, new ManualClock());
    const timestamp = one.nowSeconds + datedSeconds;
    assertEquals(await one.use(timestamp), true);
    await one.clock.advance(keptSeconds * 1000 - 1);
    assertEquals(await one.use(one.nowSeconds), false, "forgotten too early");
    await one.clock.advance(1);
    assertEquals(await one.use(one.nowSeconds), true, "kept too long");
  });
});

Deno.test("a request dated ahead is refused for as long as its own timestamp is within the skew", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  const timestamp = one.nowSeconds + 300;
  assertEquals(await one.use(timestamp), true);
  for (let second = 0; second <= 600; second += 60) {
    assertEquals(await one.use(timestamp), false);
    await one.clock.advance(60_000);
  }
});

Deno.test("the replay check is true until a record's expiry and false after it", async (t) => {
  const record: NonceRecord = { expiresAt: 1_000_000, timestamp: 699 };
  const cases: [name: string, timestamp: number, now: number, refuses: boolean][] = [
    ["before, another timestamp", 700, 999_999, true],
    ["before, the same timestamp", 699, 999_999, true],
    ["at expiry, another timestamp", 700, 1_000_000, false],
    ["at expiry, the same timestamp", 699, 1_000_000, true],
    ["long after, the same timestamp", 699, 9_000_000, true],
    ["long after, another timestamp", 8_999, 9_000_000, false],
    ["the clock stepped back", 400, 400_000, true],
  ];
  for (const [name, timestamp, now, refuses] of cases) {
    await t.step(name, () => {
      const change = nonceUpdate(keyOf("agent-a", NONCE), timestamp, now).next(record);
      assertEquals(isRefusal(change), refuses);
    });
  }
});

Deno.test("an expired record that is still present refuses only the request that made it", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  const timestamp = one.nowSeconds - 400;
  await kv.set(keyOf("agent-a", NONCE), { expiresAt: one.clock.now() - 1, timestamp } satisfies NonceRecord);
  assertEquals(await one.use(timestamp), false);
  assertEquals(await one.use(one.nowSeconds), true);
  assertEquals(await one.use(one.nowSeconds), false);
});

Deno.test("a clock that steps back does not revive a request, also past the expiry of its nonce", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  const timestamp = one.nowSeconds;
  assertEquals(await one.use(timestamp), true);
  for (const stepMs of [400_000, -400_000, -200_000, -100_000, 300_000, 10_000_000, -10_000_000]) {
    one.clock.step(stepMs);
    assertEquals(await one.use(timestamp), false, `after ${stepMs} ms`);
  }
});

Deno.test("the store keeps a nonce 300 s past its expiry", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, new ManualClock());
  for (const [datedSeconds, keptSeconds] of [[0, 301], [300, 601], [-300, 300]] as const) {
    const timestamp = one.nowSeconds + datedSeconds;
    const verdict = nonceUpdate(keyOf("agent-a", NONCE), timestamp, one.clock.now()).next(null);
    assert(typeof verdict === "object" && "value" in verdict);
    assertEquals(verdict.value, { expiresAt: one.clock.now() + keptSeconds * 1000, timestamp });
    assertEquals(verdict.expireInMs, (keptSeconds + 300) * 1000);
  }
});

Deno.test("of the same request made many times at once, one is accepted", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock(), one = new Instance(kv, clock), other = new Instance(kv, clock);
  const made = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? one : other).use(one.nowSeconds));
  assertEquals((await Promise.all(made)).filter((taken) => taken).length, 1);
});

Deno.test("a store that fails holds no nonce", async () => {
  using kv = await openTestKv();
  let broken = true;
  aroundCommits(kv, (commit) => broken ? Promise.reject(new Error("disk I/O error")) : commit());
  wrapStoreErrors(kv);
  const one = new Instance(kv, new ManualClock());
  await assertRejects(() => one.use(one.nowSeconds), StoreUnavailable);
  broken = false;
  assertEquals(await one.use(one.nowSeconds), true);
});
