/**
 * Shows that instances which tell each other what they have stored of a sender accept each nonce once, in any order of
 * store calls and news. Each call and each note waits until the test lets it happen, so a seed always gives one order.
 */
import { assert } from "@std/assert";
import { setImmediate } from "node:timers/promises";
import {
  type NonceUse,
  SenderChange,
  type SenderRefusal,
  Senders,
  type StoredSender,
} from "../../../proxy/message/sender.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { systemRandom } from "../../../shared/random.ts";
import { type NonceName, nonceName, noncesIn, unpackPart, unpackSender } from "../../../proxy/schema/sender_record.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { hexDigest } from "../../../shared/server/crypto.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { StoreLate, StoreUnavailable } from "../../../shared/server/store/store_errors.ts";
import { overlaid } from "../../support/faulty_kv.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { numbersFrom } from "../../support/seeded_random.ts";
import { IS_REMOTE, openTestKv } from "../../support/test_store.ts";

const WINDOW_MS = 60_000;
/** Longer than a claim may wait. */
const WAIT_MS = 11_000;

interface Story {
  instances: number;
  agents: number;
  inFlight: number;
  /** Share of the commits that fail, are late, or whose answer is lost. */
  faults: number;
  /** Share of the commits that Deno sends again after their effect, so that the second answer is a conflict. */
  repeats: number;
  /** Share of the news that no instance gets. */
  lost: number;
  /** Share of the steps that make an instance forget its senders. */
  forgets: number;
  /** Requests of one sender in a window. */
  limit: number;
}

type Outcome = "accepted" | "replay" | "full" | "error";

interface Request {
  agent: string;
  nonce: string;
  outcome?: Outcome;
  /** False for a request that takes no place in the window of its sender. */
  isCounted: boolean;
  /** True after a commit whose effect is not known. */
  isInDoubt: boolean;
}

/** All instances, and what waits to happen. */
class Play {
  readonly clock = new ManualClock();
  readonly requests: Request[] = [];
  readonly random: () => number;
  readonly #waiting: (() => Promise<void> | void)[] = [];
  readonly #instances: Instance[];
  faults: number;
  repeats: number;
  /** The instance that gets most requests now. */
  #busiest = 0;

  constructor(readonly kv: Deno.Kv, readonly story: Story, seed: number) {
    this.random = numbersFrom(seed);
    this.faults = story.faults;
    this.repeats = story.repeats;
    this.#instances = Array.from({ length: story.instances }, (_, i) => new Instance(this, i));
  }

  pick(count: number): number {
    return Math.floor(this.random() * count);
  }

  /** Makes a call when its turn comes. */
  hold<T>(call: () => Promise<T> | T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.push(() => Promise.try(call).then(resolve, reject));
    return promise;
  }

  tell(from: Instance, stored: readonly StoredSender[]): void {
    for (const to of this.#instances) {
      if (to === from || this.random() < this.story.lost) continue;
      this.#waiting.push(() => stored.forEach((one) => to.senders.learn({ ...one, value: one.value.slice() })));
    }
  }

  async run(steps: number): Promise<void> {
    for (let i = 0; i < steps; i++) {
      const dice = this.random();
      if (dice < 0.3) this.#request();
      else if (dice < 0.33) await this.clock.advance(1 + this.pick(30), settled);
      else if (dice < 0.332) this.clock.step(-this.pick(2_500));
      else if (dice < 0.332 + this.story.forgets) this.#instances[this.pick(this.#instances.length)]?.forget();
      else await this.#next();
      await settled();
    }
    this.faults = this.repeats = 0;
    for (let i = 0; this.requests.some(({ outcome }) => !outcome); i++) {
      assert(i < 10_000, "a claim gets no result");
      if (this.#waiting.length > 0) await this.#next();
      else await this.clock.advance(WAIT_MS, settled);
      await settled();
    }
    while (this.#waiting.length > 0) {
      await this.#next();
      await settled();
    }
  }

  async #next(): Promise<void> {
    const [next] = this.#waiting.splice(this.pick(this.#waiting.length), 1);
    await next?.();
  }

  /** Begins a request, or the same one at two instances. */
  #request(): void {
    const agent = `did:svc:a.test:agent:${this.pick(this.story.agents)}`;
    const earlier = this.requests.at(-1 - this.pick(this.random() < 0.5 ? 10 : 200));
    if (this.random() < 0.02) this.#busiest = this.pick(this.#instances.length);
    const [owner, nonce] = earlier && this.random() < 0.3
      ? [earlier.agent, earlier.nonce]
      : [agent, `n${this.requests.length}`];
    for (let times = this.random() < 0.1 ? 2 : 1; times > 0; times--) {
      const request: Request = { agent: owner, nonce, isCounted: this.random() < 0.9, isInDoubt: false };
      this.requests.push(request);
      const at = this.random() < 0.8 ? this.#busiest : this.pick(this.#instances.length);
      void this.#instances[at]?.answer(request);
    }
  }
}

class Instance {
  senders: Senders;
  readonly #kv: Deno.Kv;
  readonly #commits: GroupCommit;

  constructor(private readonly play: Play, number: number) {
    this.#kv = this.#heldStore(play.kv);
    const { inFlight } = play.story;
    this.#commits = new GroupCommit(this.#kv, 10, { clock: play.clock, markKey: ["mark", number], inFlight });
    this.senders = this.#newSenders();
  }

  forget(): void {
    this.senders = this.#newSenders();
  }

  /** Answers a request as admission does. */
  async answer(request: Request): Promise<void> {
    const { clock } = this.play;
    let use: NonceUse | null;
    try {
      const sender = await this.senders.loaded(request.agent, clock.now());
      use = sender.reserve(request.nonce, unixSeconds(clock.now()), clock.now());
    } catch {
      request.outcome = "error";
      return;
    }
    if (!use) {
      request.outcome = "replay";
      return;
    }
    if (this.play.random() < 0.5) await this.play.hold(() => {});
    request.outcome = await this.#commit(request, use);
    if (request.outcome === "error" && this.play.random() < 0.3) request.outcome = await this.#commit(request, use);
  }

  async #commit(request: Request, use: NonceUse): Promise<Outcome> {
    const { clock, story } = this.play;
    const rule = { name: "agent", requests: story.limit, windowMs: WINDOW_MS };
    const live = new SenderChange(use.sender, clock, use, request.isCounted ? rule : null, null);
    try {
      const result = await this.#commits.claim<SenderRefusal>([], { live });
      if (result.taken) return "accepted";
      use.sender.release(use);
      return result.refused === "replay" ? "replay" : "full";
    } catch {
      use.sender.release(use);
      request.isInDoubt = true;
      return "error";
    }
  }

  #newSenders(): Senders {
    const kv = this.#kv, { clock } = this.play;
    const senders = new Senders({ kv, reads: new BatchedReads(kv), clock, random: systemRandom, windowMs: WINDOW_MS });
    senders.onShared = (stored) => this.play.tell(this, stored);
    return senders;
  }

  #heldStore(real: Deno.Kv): Deno.Kv {
    const { play } = this;
    const kv = overlaid(real, {
      getMany: ((keys: readonly Deno.KvKey[]) => play.hold(() => real.getMany([...keys]))) as typeof real.getMany,
      list: <T>(selector: Deno.KvListSelector, options?: Deno.KvListOptions) => {
        const entries = real.list<T>(selector, options), next = entries.next.bind(entries);
        entries.next = () => play.hold(next);
        return entries;
      },
    });
    aroundCommits(kv, async (commit) => {
      if (play.random() < play.repeats) {
        await play.hold(commit);
        for (let i = play.pick(20); i > 0; i--) await play.hold(() => {});
        return await play.hold(commit);
      }
      if (play.random() >= play.faults) return await play.hold(commit);
      const fail = (error: Error) => {
        throw error;
      };
      switch (play.pick(4)) {
        case 0:
          return await play.hold(() => fail(new StoreUnavailable("fails")));
        case 1:
          await play.hold(commit);
          return fail(new StoreUnavailable("lost"));
        case 2:
          void play.hold(commit);
          return await play.hold(() => fail(new StoreUnavailable("may take effect later")));
        default:
          void play.hold(commit);
          return await play.hold(() => fail(new StoreLate("late")));
      }
    });
    return kv;
  }
}

/** Resolves when all has happened that follows from the last step. */
async function settled(): Promise<void> {
  await setImmediate();
}

/** Returns the stored nonces of an agent, those of its parts first. */
async function storedNonces(kv: Deno.Kv, agent: string, limit: number): Promise<string[]> {
  const { value } = await kv.get<Uint8Array>(KEYS.sender(agent));
  if (value === null) return [];
  const { sealed, nonces, window } = unpackSender(value, "");
  assert(window.record().reduce((sum, [, count]) => sum + count, 0) <= limit, "a window is over its limit");
  const parts: Uint8Array[] = [];
  for (let i = 0; i < sealed; i++) {
    parts.push(unpackPart((await kv.get(KEYS.senderPart(agent, i))).value));
  }
  return [...parts, nonces].flatMap((packed) => noncesIn(packed).map(({ name }) => textOf(name)));
}

function textOf({ a, b, c }: NonceName): string {
  return `${a} ${b} ${c}`;
}

async function tellStory(story: Story, seed: number): Promise<void> {
  using kv = await openTestKv();
  const play = new Play(kv, story, seed);
  await play.run(900);
  const asked = Map.groupBy(play.requests, ({ agent, nonce }) => `${agent} ${nonce}`);
  const stored = new Map<string, Set<string>>();
  for (const { agent } of play.requests) {
    if (!stored.has(agent)) stored.set(agent, new Set(await storedNonces(kv, agent, story.limit)));
  }
  for (const [id, requests] of asked) {
    const about = `seed ${seed}: ${id}`;
    const { agent, nonce } = requests[0] as Request;
    const accepted = requests.filter(({ outcome }) => outcome === "accepted").length;
    assert(accepted <= 1, `${about} is accepted twice`);
    if (accepted === 1) assert(stored.get(agent)?.has(textOf(nonceName(hexDigest(nonce)))), `${about} is not stored`);
    // During a fault, a copy of a request may reserve the nonce of one whose commit then takes effect late.
    const isInDoubt = requests.some((one) => one.isInDoubt) || story.faults > 0 && requests.length > 1;
    assert(isInDoubt || requests.some(({ outcome }) => outcome !== "replay"), `${about} is refused as a replay`);
    // Without the news of each version, a request may meet ten conflicts. The requests of a forgotten sender get none.
    if (story.faults + story.forgets + story.lost === 0) {
      assert(requests.every(({ outcome }) => outcome !== "error"), `${about} fails`);
    }
  }
  if (story.limit < 100) {
    const accepted = play.requests.filter(({ isCounted, outcome }) => isCounted && outcome === "accepted").length;
    assert(accepted <= story.limit * story.agents, `seed ${seed}: ${accepted} accepted`);
  }
}

const QUIET: Story = {
  instances: 2,
  agents: 1,
  inFlight: 1,
  faults: 0,
  repeats: 0,
  lost: 0,
  forgets: 0,
  limit: 100_000,
};
const SEEDS = IS_REMOTE ? 1 : 6;
const STORIES: Record<string, Partial<Story>> = {
  "two instances": {},
  "four instances that commit several senders at a time": { instances: 4, inFlight: 3, agents: 3 },
  "news that are lost": { lost: 0.3, inFlight: 2 },
  "news that are mostly lost": { lost: 0.9 },
  "commits that are sent twice": { repeats: 0.3 },
  "commits that fail or are late": { faults: 0.1, inFlight: 2, agents: 3 },
  "faults and lost news": { faults: 0.2, lost: 0.2, instances: 3 },
  "a full window": { limit: 20, faults: 0.05, instances: 3 },
  "senders that are forgotten": { forgets: 0.02 },
  "everything": { faults: 0.1, repeats: 0.05, lost: 0.1, forgets: 0.02, instances: 3, agents: 3, inFlight: 3 },
};

for (const [name, change] of Object.entries(STORIES)) {
  Deno.test(`each nonce is accepted once, and each claim ends: ${name}`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) await tellStory({ ...QUIET, ...change }, seed);
  });
}
