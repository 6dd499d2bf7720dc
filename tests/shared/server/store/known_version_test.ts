/**
 * Shows what group commit does when a live record knows the version that a commit met: nothing is read, and only the
 * claims on that record are tried again.
 */
import { assertEquals, assertRejects } from "@std/assert";
import type { LiveChange, LiveRecord } from "../../../../shared/server/store/batch.ts";
import { GroupCommit } from "../../../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../../../shared/server/store/store_errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { absent, idOf } from "../../../../shared/server/store/batch.ts";
import { add, KEPT_MS } from "../../../support/claims.ts";
import { FaultyKv, type KvCall } from "../../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";

/** A record that another instance changes before each of its commits, and whose newest version is always told. */
class Told implements LiveRecord {
  readonly key: Deno.KvKey;
  readonly id: string;
  isLoaded = true;
  versionstamp: string | null = null;
  undone = 0;

  constructor(name: string) {
    this.key = ["live", name];
    this.id = idOf(this.key);
  }

  load(): Promise<void> {
    this.isLoaded = true;
    return Promise.resolve();
  }

  drop(): void {
    throw new Error("It was dropped, so it would be read again");
  }

  undo(): boolean {
    this.undone++;
    this.isLoaded = false;
    return true;
  }

  pack() {
    return { value: 1, expireInMs: KEPT_MS, also: [] };
  }

  committed(versionstamp: string): void {
    this.versionstamp = versionstamp;
  }
}

const change = (record: Told): LiveChange<never> => ({ record, take: () => [] });

/** A store whose commits on the records `met` wait, and then meet another version while `conflicts` is true. */
async function conflicting(run: (store: Conflicting) => Promise<void>): Promise<void> {
  const clock = new ManualClock(), held: (() => void)[] = [];
  using faulty = await FaultyKv.open();
  const isMet = ({ keys }: KvCall) => keys.some(([first]) => first === "live");
  const store: Conflicting = {
    clock,
    kv: faulty.kv,
    commits: new GroupCommit(faulty.kv, 10, { clock, markKey: ["mark"] }),
    isConflict: true,
    reads: 0,
    async release() {
      await until(() => held.length === 1);
      held.shift()?.();
      await flushTasks();
    },
    get held() {
      return held.length;
    },
  };
  faulty.faults.before = (call) => {
    if (call.method !== "commit") store.reads++;
    else if (isMet(call)) return new Promise((resolve) => held.push(resolve));
  };
  faulty.faults.conflicts = (call) => store.isConflict && isMet(call);
  await run(store);
}

interface Conflicting {
  clock: ManualClock;
  kv: Deno.Kv;
  commits: GroupCommit;
  isConflict: boolean;
  /** Calls that read. */
  reads: number;
  /** Lets the commit that waits go on. */
  release(): Promise<void>;
  /** Commits that wait. */
  readonly held: number;
}

const other = (key: string) => add(key, 1, Infinity, absent([key]));

Deno.test("a claim that meets a told version delays no other claim of its batch, and is tried until its deadline", () =>
  conflicting(async (store) => {
    const { clock, commits } = store, record = new Told("a");
    const done: string[] = [];
    const others = ["x", "y"].map((key) => commits.claim([other(key)]).then(() => done.push(key)));
    const late = assertRejects(() => commits.claim([other("with")], { live: change(record) }), StoreUnavailable);
    others.push(commits.claim([other("z")]).then(() => done.push("z")));
    await store.release();
    assertEquals([done, store.held], [["x", "y", "z"], 1], "the others do not wait until it wins");
    const most = 3 * LIMITS.commitRetries;
    for (let n = 1; n < most; n++) await store.release();
    assertEquals([record.undone, store.reads, store.held], [most, 0, 1]);
    await clock.advance(LIMITS.commitWaitMs);
    await late;
    await store.release();
    await Promise.all(others);
    assertEquals([store.held, store.reads], [0, 0], "no further commits after its deadline");
    store.isConflict = false;
    const again = commits.claim([other("with")], { live: change(record) });
    await store.release();
    assertEquals(await again, { taken: true }, "the slot is free");
  }));

Deno.test("a claim that met told versions is taken once when its commit takes effect", () =>
  conflicting(async (store) => {
    const { commits, kv } = store;
    const claims = ["a", "b"].map((name) => commits.claim([other(name)], { live: change(new Told(name)) }));
    for (let n = 0; n < 3; n++) await store.release();
    store.isConflict = false;
    await store.release();
    assertEquals(await Promise.all(claims), [{ taken: true }, { taken: true }]);
    assertEquals(store.reads, 0);
    assertEquals([(await kv.get(["a"])).value, (await kv.get(["b"])).value], [1, 1]);
  }));
