/** What an instance does with the news of a sender that arrive at a bad moment: none is lost, and none misleads. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type NonceUse, type Sender, SenderChange, Senders, type StoredSender } from "../../../proxy/message/sender.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { systemRandom } from "../../../shared/random.ts";
import { senderKeptMs } from "../../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { StoreLate, StoreUnavailable } from "../../../shared/server/store/store_errors.ts";
import { overlaid } from "../../support/faulty_kv.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

const AGENT = "did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const CLOCK = new ManualClock();

/** One instance of the proxy, with the calls of its own to the store. */
class Instance {
  readonly kv: Deno.Kv;
  readonly senders: Senders;
  readonly #commits: GroupCommit;
  /** Runs after a read of the store, before the instance gets the answer. */
  afterRead: (keys: readonly Deno.KvKey[]) => Promise<void> | void = () => {};
  reads = 0;

  constructor(real: Deno.Kv, name: string) {
    this.kv = overlaid(real, {
      getMany: (async (keys: readonly Deno.KvKey[]) => {
        const answer = await real.getMany([...keys]);
        this.reads++;
        await this.afterRead(keys);
        return answer;
      }) as typeof real.getMany,
    });
    const reads = new BatchedReads(this.kv);
    this.senders = new Senders({
      kv: this.kv,
      reads,
      clock: CLOCK,
      random: systemRandom,
      windowMs: LIMITS.agentWindowMs,
    });
    this.#commits = new GroupCommit(this.kv, MAX_CHECKS, { clock: CLOCK, markKey: ["mark", name] });
  }

  sender(agent = AGENT): Promise<Sender> | Sender {
    return this.senders.loaded(agent, CLOCK.now());
  }

  async reserve(nonce: string, agent = AGENT): Promise<NonceUse | null> {
    return (await this.sender(agent)).reserve(nonce, unixSeconds(CLOCK.now()), CLOCK.now());
  }

  async commit(use: NonceUse | null): Promise<boolean> {
    if (!use) return false;
    const live = new SenderChange(use.sender, CLOCK, use, null, null);
    return (await this.#commits.claim<unknown>([], { live })).taken;
  }

  async use(nonce: string): Promise<boolean> {
    return await this.commit(await this.reserve(nonce));
  }

  /** Learns what the store has now. */
  async learn(): Promise<void> {
    this.senders.learn(await stored(this.kv));
  }
}

async function stored(kv: Deno.Kv): Promise<StoredSender> {
  const { value, versionstamp } = await kv.get<Uint8Array>(KEYS.sender(AGENT));
  assert(value && versionstamp);
  return { agentDid: AGENT, value, versionstamp };
}

Deno.test("a commit that takes effect late is found when its result is told while its mark is read", async () => {
  for (const isUsed of [false, true]) {
    using kv = await openTestKv();
    const [one, other] = [new Instance(kv, "one"), new Instance(kv, "other")];
    assert(await one.use("before"));
    let late: (() => Promise<unknown>) | undefined, marks = 0;
    aroundCommits(one.kv, async (commit) => {
      if (late) return await commit();
      late = commit;
      throw new StoreUnavailable("The call fails");
    });
    one.afterRead = async ([key]) => {
      // The mark is read once after the error, and once more after the record was read again.
      if (key?.[0] !== "mark" || ++marks !== 2) return;
      await late?.();
      assert(await other.use("of other"));
      await one.learn();
      if (isUsed) await one.sender();
    };
    const uses = [await one.reserve("a"), await one.reserve("b")];
    assertEquals(await Promise.all(uses.map((use) => one.commit(use))), [true, true]);
    for (const instance of [one, other]) {
      for (const nonce of ["before", "a", "b", "of other"]) assertEquals(await instance.use(nonce), false, nonce);
    }
  }
});

Deno.test("a nonce whose commit is late is refused until it is known that the commit has failed", async () => {
  for (const fails of [true, false]) {
    using kv = await openTestKv();
    const one = new Instance(kv, "one"), begin = Promise.withResolvers<void>(), end = Promise.withResolvers<void>();
    let commits = 0;
    aroundCommits(one.kv, async (commit) => {
      if (++commits > 1) return await commit();
      begin.resolve();
      await end.promise;
      if (fails) throw new StoreUnavailable("The call fails");
      return await commit();
    });
    const use = await one.reserve("nonce");
    const answered = assertRejects(() => one.commit(use), StoreLate);
    await begin.promise;
    await CLOCK.advance(LIMITS.commitWaitMs);
    await answered;
    use?.sender.release(use);
    assertEquals(await one.reserve("nonce"), null);
    end.resolve();
    assertEquals([await one.use("later"), await one.use("nonce")], [true, fails]);
  }
});

Deno.test("news that arrive during a read, or overtake the answer to a commit, are used without a further read", async () => {
  using kv = await openTestKv();
  const [one, other] = [new Instance(kv, "one"), new Instance(kv, "other")];
  assert(await other.use("first"));
  let isOver = false;
  one.afterRead = async () => {
    if (isOver) return;
    isOver = true;
    assert(await other.use("during the read"));
    await one.learn();
  };
  assert(await one.reserve("during the read") === null);
  let isFirst = true, commits = 0;
  aroundCommits(one.kv, async (commit) => {
    commits++;
    const answer = await commit();
    if (isFirst) {
      isFirst = false;
      await other.sender();
      assert(await other.use("before the answer"));
      await one.learn();
    }
    return answer;
  });
  const { reads } = one;
  assert(await one.use("second"));
  assertEquals(await one.use("before the answer"), false);
  assert(await one.use("third"));
  assertEquals([one.reads - reads, commits], [0, 2]);
});

Deno.test("news that are older than what was read do not cause another read", async () => {
  using kv = await openTestKv();
  const [one, other] = [new Instance(kv, "one"), new Instance(kv, "other")];
  const told: StoredSender[] = [];
  for (const nonce of ["a", "b", "c"]) {
    assert(await other.use(nonce));
    told.push(await stored(kv));
  }
  const [oldest, older] = told as [StoredSender, StoredSender];
  one.afterRead = () => one.senders.learn(oldest);
  const sender = await one.sender();
  one.afterRead = () => {};
  one.senders.learn(older);
  assertEquals(await one.sender(), sender);
  assert(await one.use("d"));
  assertEquals(one.reads, 1);
});

Deno.test("2,000 told records are kept; a sender whose record was dropped is read from the store", async () => {
  using kv = await openTestKv();
  const one = new Instance(kv, "one");
  assert(await one.use("nonce"));
  const told = await stored(kv), agents = Array.from({ length: 2_001 }, (_, i) => `${AGENT}${i}`);
  for (const agentDid of agents) {
    one.senders.of(agentDid);
    one.senders.learn({ ...told, agentDid });
  }
  for (const [agent, reads] of [[agents[2_000], 0], [agents[1], 0], [agents[0], 1]] as const) {
    one.reads = 0;
    await one.sender(agent);
    assertEquals(one.reads, reads, agent);
  }
});

Deno.test("a sender that was forgotten is read again, because what was told of it may be old", async () => {
  using kv = await openTestKv();
  const [one, other] = [new Instance(kv, "one"), new Instance(kv, "other")];
  assertEquals([await one.use("1"), await other.use("2")], [true, true]);
  await one.learn();
  assert(await other.use("3"));
  for (let i = 0; i < 10_000; i++) one.senders.of(`${AGENT}${i}`);
  one.reads = 0;
  assertEquals([await one.reserve("3"), one.reads], [null, 1]);
});

Deno.test("a record that ended and was made again is taken over, and is read when it has sealed parts", async () => {
  for (const count of [10, 200]) {
    using kv = await openTestKv();
    const [one, other] = [new Instance(kv, "one"), new Instance(kv, "other")];
    for (let i = 0; i < 40; i++) assert(await (i % 2 ? one : other).use(`before-${i}`));
    CLOCK.step(senderKeptMs({ begun: [] }, LIMITS.agentWindowMs));
    await kv.delete(KEYS.sender(AGENT));
    for (let i = 0; i < count; i++) assert(await other.use(`after-${i}`));
    const { reads } = one;
    await one.learn();
    for (let i = 0; i < count; i++) assertEquals(await one.use(`after-${i}`), false);
    assert(await one.use("new"));
    assertEquals(one.reads - reads, count === 10 ? 0 : 1);
  }
});

Deno.test("a claim whose record changes before each commit ends after 10 s, and holds up no claim on another", async () => {
  using kv = await openTestKv();
  const [one, other] = [new Instance(kv, "one"), new Instance(kv, "other")];
  assert(await one.use("before"));
  assert(await other.use("of other"));
  await one.learn();
  const uses = [await one.reserve("contended"), await one.reserve("quiet", `${AGENT}2`)];
  let commits = 0;
  aroundCommits(one.kv, async (commit) => {
    assert(++commits < 100);
    await CLOCK.advance(500);
    assert(await other.use(`of other ${commits}`));
    await one.learn();
    return await commit();
  });
  let after = 0;
  await Promise.all([
    assertRejects(() => one.commit(uses[0] ?? null), StoreLate),
    one.commit(uses[1] ?? null).then((isAccepted) => {
      assert(isAccepted);
      after = commits;
    }),
  ]);
  assertEquals([after, commits], [2, 20]);
  assertEquals(await other.use("contended"), true);
});
