/**
 * Shows what a sender does with the versions of its record that another instance tells: they replace readings, and never
 * decide whether a nonce was accepted. Two instances on one store, whose messages the test carries.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { setImmediate } from "node:timers/promises";
import {
  type NonceUse,
  type Sender,
  SenderChange,
  type SenderRefusal,
  Senders,
  type StoredSender,
} from "../../../proxy/message/sender.ts";
import { systemRandom } from "../../../shared/random.ts";
import { MalformedRecord, NONCE_BYTES, unpackSender } from "../../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { fraction } from "../../../shared/random.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { IS_REMOTE, MAX_CHECKS, openTestKv } from "../../support/test_store.ts";
import { IS_LONG } from "../../support/trials.ts";

const AGENT = "did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const RULE = { name: "agent", requests: 10_000, windowMs: LIMITS.agentWindowMs };
/** How long a sender is told after another instance has written it. */
const SHARED_MS = 60_000;
/** More commits than any test makes. */
const COMMITS_MAX = 5_000;
const OTHER_AGENT = AGENT.replace(/A$/, "B");
const NEWEST = "f".repeat(20);

/** What the instances have asked of their store. */
interface Asked {
  /** Reads of the sender's record, of its parts and of marks. */
  reads: number;
  commits: number;
  conflicts: number;
}

/** One instance of the proxy, reduced to what uses up nonces and tells it. */
class Instance {
  readonly senders: Senders;
  /** What it has told, oldest first. */
  readonly told: StoredSender[] = [];
  readonly #commits: GroupCommit;

  constructor(kv: Deno.Kv, readonly clock: ManualClock, name: string) {
    this.#commits = new GroupCommit(kv, MAX_CHECKS, { clock, markKey: ["mark", name] });
    this.senders = new Senders({
      kv,
      reads: new BatchedReads(kv),
      clock,
      random: systemRandom,
      windowMs: LIMITS.agentWindowMs,
    });
    this.senders.onShared = (stored) => void this.told.push(...stored);
  }

  get newest(): StoredSender {
    const newest = this.told.at(-1);
    assert(newest, "nothing was told");
    return newest;
  }

  get sender(): Sender {
    return this.senders.of(AGENT);
  }

  /** Requests that the window counts. */
  get counted(): number {
    return this.sender.window.record().reduce((sum, [, count]) => sum + count, 0);
  }

  /** Uses a nonce as admission does. True when it was accepted. */
  async use(nonce: string, agentDid = AGENT): Promise<boolean> {
    const sender = await this.senders.loaded(agentDid, this.clock.now());
    const use = sender.reserve(nonce, unixSeconds(this.clock.now()), this.clock.now());
    if (!use) return false;
    return await this.#commit(sender, use);
  }

  /** Changes the record without a nonce, as the end of a delivery does. */
  async count(): Promise<boolean> {
    return await this.#commit(await this.senders.loaded(AGENT, this.clock.now()), null);
  }

  async #commit(sender: Sender, use: NonceUse | null): Promise<boolean> {
    const live = new SenderChange(sender, this.clock, use, RULE, null);
    return (await this.#commits.claim<SenderRefusal>([], { live })).taken;
  }

  async useAll(names: readonly string[]): Promise<boolean[]> {
    const accepted: boolean[] = [];
    for (const name of names) accepted.push(await this.use(name));
    return accepted;
  }
}

type Committed = Promise<Deno.KvCommitResult | Deno.KvCommitError>;

interface Pair {
  a: Instance;
  b: Instance;
  clock: ManualClock;
  asked: Asked;
  /** Replaces the next commit; gets the real one. */
  nextCommit: (around: (commit: () => Committed) => Committed) => void;
}

/** Runs a test with two instances that have a sender in common, and know its newest version. */
async function shared(run: (pair: Pair) => Promise<void>): Promise<void> {
  using kv = await openTestKv();
  const asked: Asked = { reads: 0, commits: 0, conflicts: 0 };
  const getMany = kv.getMany.bind(kv), list = kv.list.bind(kv);
  kv.getMany = ((keys: readonly Deno.KvKey[]) => {
    asked.reads++;
    return getMany([...keys]);
  }) as typeof kv.getMany;
  kv.list = ((selector, options) => {
    asked.reads++;
    return list(selector, options);
  }) as typeof kv.list;
  let next: Parameters<Pair["nextCommit"]>[0] | null = null;
  aroundCommits(kv, async (commit) => {
    const around = next;
    next = null;
    if (asked.commits > COMMITS_MAX) throw new Error("The commits do not end");
    const result = await (around ? around(commit) : commit());
    asked.commits++;
    if (!result.ok) asked.conflicts++;
    return result;
  });
  const clock = new ManualClock();
  const [a, b] = [new Instance(kv, clock, "a"), new Instance(kv, clock, "b")];
  assertEquals([await a.use("first"), await b.use("second"), await a.use("third")], [true, true, true]);
  assertEquals([a.told.length, b.told.length], [1, 0], "the one that has met the other tells it");
  b.senders.learn(a.newest);
  Object.assign(asked, { reads: 0, commits: 0, conflicts: 0 });
  await run({ a, b, clock, asked, nextCommit: (around) => void (next = around) });
}

Deno.test("a told version is used at once: its nonces are used, its requests count, and the next commit needs no read", () =>
  shared(async ({ a, b, asked }) => {
    assert(await a.use("elsewhere"));
    b.senders.learn(a.newest);
    assertEquals(await b.useAll(["first", "second", "third", "elsewhere"]), [false, false, false, false]);
    assertEquals(b.counted, 4);
    assert(await b.use("here"));
    a.senders.learn(b.newest);
    assertEquals([await a.use("here"), a.counted, await a.use("next"), a.counted], [false, 5, true, 6]);
    assertEquals(asked, { reads: 0, commits: 3, conflicts: 0 });
  }));

Deno.test("a told version that is older than the known one changes nothing", () =>
  shared(async ({ a, b, asked }) => {
    assert(await a.use("older"));
    assert(await a.use("newer"));
    const [, older, newer] = a.told as [StoredSender, StoredSender, StoredSender];
    b.senders.learn(newer);
    b.senders.learn(older);
    b.senders.learn(newer);
    assertEquals([await b.use("newer"), b.counted, await b.use("here")], [false, 5, true]);
    b.senders.learn(newer);
    assertEquals([b.counted, await b.use("here"), await b.use("more")], [6, false, true]);
    assertEquals(asked, { reads: 0, commits: 4, conflicts: 0 });
  }));

Deno.test("a version that is told while a commit is in flight replaces the reading after the conflict", () =>
  shared(async ({ a, b, asked, nextCommit }) => {
    nextCommit(async (commit) => {
      assert(await a.use("elsewhere"));
      b.senders.learn(a.newest);
      return await commit();
    });
    assert(await b.use("here"));
    assertEquals(asked, { reads: 0, commits: 3, conflicts: 1 });
    assertEquals([b.counted, await b.use("elsewhere"), await b.use("here")], [5, false, false]);
    assertEquals(noncesAt(b), 5);
  }));

Deno.test("a commit is tried again with each told version, beyond the limit of other conflicts", () =>
  shared(async ({ a, b, asked, nextCommit }) => {
    const rounds = 2 * LIMITS.commitRetries;
    const overtake = (round: number) =>
      nextCommit(async (commit) => {
        assert(await a.use(`elsewhere-${round}`));
        b.senders.learn(a.newest);
        if (round < rounds) overtake(round + 1);
        return await commit();
      });
    overtake(1);
    assert(await b.use("here"));
    assertEquals(asked, { reads: 0, commits: 2 * rounds + 1, conflicts: rounds });
    assertEquals([b.counted, await b.use("here"), await b.use(`elsewhere-${rounds}`)], [rounds + 4, false, false]);
  }));

Deno.test("requests of one sender that meet commits of another instance are tried again together", () =>
  shared(async ({ a, b, asked, nextCommit }) => {
    const rounds = 4;
    const overtake = (round: number) =>
      nextCommit(async (commit) => {
        assert(await a.use(`elsewhere-${round}`));
        if (round < rounds) overtake(round + 1);
        return await commit();
      });
    overtake(1);
    const uses = Array.from({ length: 8 }, (_, i) => b.use(`here-${i}`));
    assertEquals(await Promise.all(uses), uses.map(() => true));
    assertEquals([asked.commits, asked.conflicts], [2 * rounds + 1, rounds]);
  }));

Deno.test("a sender whose commit failed because of another one is not read again", () =>
  shared(async ({ a, b, asked, nextCommit }) => {
    assertEquals([await a.use("1", OTHER_AGENT), await b.use("2", OTHER_AGENT)], [true, true]);
    assert(await a.use("3", OTHER_AGENT));
    b.senders.learn(a.newest);
    assert(await b.use("4", OTHER_AGENT));
    Object.assign(asked, { reads: 0, commits: 0, conflicts: 0 });
    nextCommit(async (commit) => {
      assert(await a.use("elsewhere"));
      b.senders.learn(a.newest);
      return await commit();
    });
    assertEquals(await Promise.all([b.use("here"), b.use("here", OTHER_AGENT)]), [true, true]);
    assertEquals(asked, { reads: 0, commits: 4, conflicts: 1 });
    assertEquals([await b.use("4", OTHER_AGENT), await b.use("here", OTHER_AGENT)], [false, false]);
  }));

Deno.test("of two instances that use one nonce at the same time, the told version makes one a replay", () =>
  shared(async ({ a, b, nextCommit }) => {
    nextCommit(async (commit) => {
      assert(await a.use("same"));
      b.senders.learn(a.newest);
      return await commit();
    });
    assertEquals([await b.use("same"), await a.use("same"), b.counted], [false, false, 4]);
  }));

Deno.test("a commit that took effect unseen is accepted once, although a version that has its nonce was told", () =>
  shared(async ({ a, b, nextCommit }) => {
    // Deno sends a commit again when its answer was lost. Between, the other instance stores a version that has the nonce.
    nextCommit(async (commit) => {
      assert((await commit()).ok);
      assert(await a.use("elsewhere"));
      assertEquals(unpackSender(a.newest.value, "").nonces.length, 5 * NONCE_BYTES);
      b.senders.learn(a.newest);
      return await commit();
    });
    assert(await b.use("here"), "it was stored, so its request may not be refused as a replay");
    assertEquals([await b.use("here"), await a.use("here"), await b.use("elsewhere")], [false, false, false]);
    assertEquals([b.counted, noncesAt(b)], [5, 5]);
  }));

Deno.test("a commit without a nonce that took effect unseen counts once", () =>
  shared(async ({ a, b, nextCommit }) => {
    nextCommit(async (commit) => {
      assert((await commit()).ok);
      assert(await a.use("elsewhere"));
      b.senders.learn(a.newest);
      return await commit();
    });
    assertEquals([await b.count(), b.counted], [true, 5]);
  }));

Deno.test("a version that is told during a reading of a newer one does not prove that a commit took no effect", () =>
  shared(async ({ a, b, nextCommit }) => {
    assert(await a.use("older"));
    const older = a.newest;
    assert(await a.use("newer"));
    b.sender.drop();
    const reading = b.sender.load();
    b.senders.learn(older);
    await reading;
    nextCommit(async (commit) => {
      assert((await commit()).ok);
      return await commit();
    });
    assertEquals([await b.use("here"), await b.use("here"), await b.use("newer")], [true, false, false]);
    assertEquals([b.counted, noncesAt(b)], [6, 6]);
  }));

Deno.test("a version that follows sealed parts which are not known here leads to a reading, and no nonce is accepted again", () =>
  shared(async ({ a, b, asked, nextCommit }) => {
    const names = Array.from({ length: 3 * LIMITS.senderPartNonces }, (_, i) => `elsewhere-${i}`);
    assert((await a.useAll(names)).every((one) => one));
    assert(unpackSender(a.newest.value, "").sealed > 0);
    b.senders.learn(a.newest);
    assertEquals(asked.reads, 0);
    assertEquals((await b.useAll(names)).filter((one) => one).length, 0);
    assertEquals([asked.reads, b.counted], [2, names.length + 3], "the record and its parts");
    // In flight too.
    b.senders.learn(a.newest);
    const more = names.map((name) => `more-${name}`);
    nextCommit(async (commit) => {
      assert((await a.useAll(more)).every((one) => one));
      b.senders.learn(a.newest);
      return await commit();
    });
    const before = asked.reads;
    assert(await b.use("here"));
    assert(asked.reads > before);
    assertEquals((await b.useAll([...names, ...more, "here"])).filter((one) => one).length, 0);
  }));

Deno.test("versions that are told one after the other need no reading when nonces are sealed", () =>
  shared(async ({ a, b, asked }) => {
    const names = Array.from({ length: 4 * LIMITS.senderPartNonces }, (_, i) => `nonce-${i}`);
    for (const [i, name] of names.entries()) {
      const [one, other] = i % 2 ? [a, b] : [b, a];
      assert(await one.use(name));
      other.senders.learn(one.newest);
    }
    assert(unpackSender(a.newest.value, "").sealed > 1);
    assertEquals((await a.useAll(names)).concat(await b.useAll(names)).filter((one) => one).length, 0);
    assertEquals(asked, { reads: 0, commits: names.length, conflicts: 0 });
  }));

Deno.test("a malformed version is refused and changes nothing: at rest, in flight and while the sender is not loaded", () =>
  shared(async ({ a, b, asked, nextCommit }) => {
    const learnMalformed = () => {
      for (const value of [a.newest.value.slice(0, -1), new Uint8Array(), new Uint8Array(40).fill(255)]) {
        const malformed = { agentDid: AGENT, versionstamp: NEWEST, value };
        assertThrows(() => b.senders.learn(malformed), MalformedRecord);
      }
    };
    learnMalformed();
    assert(await b.use("at rest"));
    nextCommit(async (commit) => {
      learnMalformed();
      a.senders.learn(b.newest);
      assert(await a.use("elsewhere"));
      return await commit();
    });
    assert(await b.use("in flight"));
    assert(asked.reads > 0);
    b.sender.drop();
    learnMalformed();
    assert(await b.use("not loaded"));
    assertEquals(asked.conflicts, 1);
    assertEquals((await b.useAll(["at rest", "elsewhere", "in flight", "not loaded"])).some((one) => one), false);
  }));

Deno.test("a sender is told for 60 s after another instance wrote it, and not longer", () =>
  shared(async ({ a, b, clock }) => {
    const isTold = async (instance: Instance, nonce: string) => {
      const before = instance.told.length;
      assert(await instance.use(nonce));
      return instance.told.length > before;
    };
    await clock.advance(SHARED_MS - 1);
    assert(await isTold(a, "last told"), "a found the record changed");
    b.senders.learn(a.newest);
    await clock.advance(1);
    assertEquals([await isTold(a, "a alone"), await isTold(a, "a alone still")], [false, false]);
    // It was told 1 ms ago, meets the untold version, and so tells for another 60 s.
    assert(await isTold(b, "b met a"));
    a.senders.learn(b.newest);
    assert(await isTold(a, "a was told"));
    await clock.advance(SHARED_MS);
    assertEquals([await isTold(a, "a alone at last"), await isTold(a, "and later")], [false, false]);
  }));

Deno.test("each nonce is accepted and counts once when versions are told late, twice or never, and answers are lost", async () => {
  const step = fc.record({ fresh: fc.integer({ min: 1, max: 40 }), where: fc.nat(3), ms: fc.nat(200) });
  const trial = fc.asyncProperty(
    fc.array(step, { minLength: 3, maxLength: 12 }),
    fc.nat(),
    async (steps, seed) => {
      using kv = await openTestKv();
      const random = seededRandom(seed), chance = (share: number) => fraction(random) < share;
      const clock = new ManualClock(), both = [new Instance(kv, clock, "a"), new Instance(kv, clock, "b")] as const;
      const onTheWay: (() => void)[] = [];
      both.forEach((instance, i) => {
        instance.senders.onShared = (told) => {
          const copies = chance(0.2) ? 0 : chance(0.2) ? 2 : 1;
          for (let n = 0; n < copies; n++) {
            onTheWay.push(() => told.forEach((stored) => both[1 - i]?.senders.learn(stored)));
          }
        };
      });
      const arrive = () => {
        while (onTheWay.length > 0 && chance(0.7)) {
          onTheWay.splice(Math.floor(fraction(random) * onTheWay.length), 1)[0]?.();
        }
      };
      const wait = async () => {
        arrive();
        for (let turns = Math.floor(fraction(random) * 4); turns > 0; turns--) await setImmediate();
        arrive();
      };
      let commits = 0;
      aroundCommits(kv, async (commit) => {
        if (++commits > COMMITS_MAX) throw new Error("The commits do not end");
        await wait();
        const result = await commit();
        await wait();
        if (result.ok && chance(0.1)) throw new Error("The answer was lost");
        return chance(0.15) ? await commit() : result;
      });
      const used: string[] = [];
      for (const { fresh, where, ms } of steps) {
        const names = Array.from({ length: fresh }, (_, i) => `nonce-${used.length + i}`);
        // At one, at the other, or at both.
        const at = both.filter((_, i) => where >= 2 || where === i);
        const accepted = await Promise.all(
          names.map(async (name) => (await Promise.all(at.map((one) => one.use(name)))).filter((one) => one).length),
        );
        assertEquals(accepted, names.map(() => 1));
        used.push(...names);
        await clock.advance(ms);
        if (chance(0.2)) both[where % 2]?.sender.drop();
      }
      for (const instance of [...both, new Instance(kv, clock, "c")]) {
        assertEquals((await instance.useAll(used)).filter((one) => one).length, 0);
        instance.sender.drop();
        await instance.sender.load();
        assertEquals(instance.counted, used.length);
      }
    },
  );
  await fc.assert(trial, { seed: 1, numRuns: IS_REMOTE ? 3 : IS_LONG ? 200 : 20 });
});

/** Stored nonces at an instance. */
function noncesAt({ sender }: Instance): number {
  return sender.known.size;
}
