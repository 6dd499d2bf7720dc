/**
 * The conversion of a store of format 1 (D-261): used nonces and windows count on, an interruption at any call is repaired
 * by the next start, one start converts, and none while an instance uses the store.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FORMAT_1_KEYS, KEYS } from "../../../../proxy/schema/kv_keys.ts";
import { FROM_FORMAT_1 } from "../../../../proxy/schema/format_1.ts";
import { isUsedIn, PackedWindow, unpackPart, unpackSender } from "../../../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { unixSeconds } from "../../../../shared/protocol/time.ts";
import { digest, digestBytes } from "../../../../shared/server/crypto.ts";
import type { NonceRecord } from "../../../../shared/server/nonces.ts";
import { StoreRefused } from "../../../../shared/server/store/open_store.ts";
import {
  ConversionNeeded,
  convertStore,
  FORMER_FORMAT,
  readWithFormatCheck,
  STORE_FORMAT,
} from "../../../../shared/server/store/store_format.ts";
import { entriesOf } from "../../../support/window_entries.ts";
import { FaultyKv } from "../../../support/faulty_kv.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { openTestKv } from "../../../support/test_store.ts";

const FORMAT_KEY = ["store", "format"];
const [BUSY, QUIET, LIMITED] = ["A", "B", "C"].map((last) =>
  `did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAA${last}`
) as [
  string,
  string,
  string,
];
const BUSY_NONCES = 70;

/** Fills a store as format 1 did: a busy sender, one with an ended nonce, and one that has only a window. */
async function fill(kv: Deno.Kv, clock: ManualClock): Promise<void> {
  const now = clock.now();
  const nonce = (agent: string, name: string, timestamp: number) => {
    const expiresAt = Math.max((timestamp + LIMITS.nonceGraceSeconds) * 1000, now + LIMITS.nonceKeptSeconds * 1000);
    return kv.set([...FORMAT_1_KEYS.noncesOf(agent), digest(name)], { expiresAt, timestamp } satisfies NonceRecord);
  };
  await kv.set(FORMAT_KEY, FORMER_FORMAT);
  for (let i = 0; i < BUSY_NONCES; i++) await nonce(BUSY, `nonce-${i}`, unixSeconds(now) - 290 + 4 * i);
  await nonce(QUIET, "nonce-0", unixSeconds(now));
  await kv.set([...FORMAT_1_KEYS.noncesOf(QUIET), digest("ended")], { expiresAt: now - 300_000, timestamp: 1 });
  for (const agent of [BUSY, LIMITED]) await kv.set(FORMAT_1_KEYS.agentWindow(agent), [[now - 10, 2], [now, 1]]);
  await kv.set(KEYS.window("receipts", BUSY), [[now, 1]]);
  await kv.set(KEYS.delivery(QUIET, "request-1", BUSY), new Uint8Array([1]));
}

/** What the store holds of a sender: whether it rejects each name, and its window. */
async function held(kv: Deno.Kv, agent: string, names: readonly string[], clock: ManualClock): Promise<unknown> {
  const { value } = await kv.get(KEYS.sender(agent));
  if (value === null) return null;
  const record = unpackSender(value);
  const parts = await Array.fromAsync(kv.list({ prefix: KEYS.senderPart(agent, 0).slice(0, -1) }));
  const lists = [record.nonces, ...parts.map((part) => unpackPart(part.value))];
  assertEquals(parts.map(({ key }) => key.at(-1)), Array.from({ length: record.sealed }, (_, i) => i));
  const isUsed = (name: string) => lists.some((nonces) => isUsedIn(nonces, digestBytes(name), 1, clock.now()));
  return [
    names.map(isUsed),
    entriesOf(new PackedWindow(record.window)).map(([at, count]) => [at - clock.now(), count]),
  ];
}

/** Fails unless the store is converted, whole and without records of format 1. */
async function checkConverted(kv: Deno.Kv, clock: ManualClock): Promise<void> {
  await readWithFormatCheck(kv, []);
  const window = [[-10, 2], [0, 1]];
  const names = Array.from({ length: BUSY_NONCES }, (_, i) => `nonce-${i}`);
  assertEquals(await held(kv, BUSY, names, clock), [names.map(() => true), window]);
  assertEquals(await held(kv, QUIET, ["nonce-0", "ended", "other"], clock), [[true, false, false], []]);
  assertEquals(await held(kv, LIMITED, ["nonce-0"], clock), [[false], window]);
  const kinds = (await Array.fromAsync(kv.list({ prefix: ["proxy"] }))).map(({ key }) => String(key[1]));
  assertEquals([...new Set(kinds)].sort(), ["delivery", "sender", "sender_part", "window"]);
  assertEquals((await kv.get(KEYS.window("receipts", BUSY))).value, [[clock.now(), 1]]);
}

const convert = (kv: Deno.Kv, clock: ManualClock, { isExclusive = true, id = "one" } = {}) =>
  convertStore({ kv, isExclusive }, clock, id, FROM_FORMAT_1);

/** Runs a change of another process once, before the n-th commit. */
function beforeCommit({ faults }: FaultyKv, n: number, change: () => Promise<void>): void {
  let commits = 0;
  faults.before = async ({ method }) => {
    if (method === "commit" && ++commits === n) await change();
  };
}

Deno.test("a store of format 1 is refused until it is converted, and then has every nonce and window", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  await fill(kv, clock);
  const error = await assertRejects(() => readWithFormatCheck(kv, []), ConversionNeeded);
  assertStringIncludes(error.message, "The store has format 1. Start the server of this version once");
  await convert(kv, clock);
  await checkConverted(kv, clock);
  const before = await kv.get(FORMAT_KEY);
  await convert(kv, clock);
  assertEquals(await kv.get(FORMAT_KEY), before, "a converted store is not converted again");
});

Deno.test("a conversion that stops at any call of the store is completed by the next start", async (t) => {
  for (const kind of ["fails", "loses"] as const) {
    await t.step(kind, async () => {
      // Every call at the beginning, then every ninth.
      for (let stop = 1, isWhole = false; !isWhole; stop += stop < 20 ? 1 : 9) {
        using faulty = await FaultyKv.open();
        const clock = new ManualClock();
        await fill(faulty.kv, clock);
        let calls = 0;
        faulty.faults[kind] = ({ method }) => (kind === "fails" || method === "commit") && ++calls === stop;
        isWhole = await convert(faulty.kv, clock).then(() => true, () => false);
        faulty.faults = {};
        const format = (await faulty.kv.get(FORMAT_KEY)).value;
        if (format !== STORE_FORMAT) await assertRejects(() => readWithFormatCheck(faulty.kv, []), ConversionNeeded);
        else assertEquals((await faulty.kv.get(KEYS.sender(BUSY))).value === null, false);
        await convert(faulty.kv, clock, { id: "two" });
        // What an interruption leaves of the old records ends by itself.
        await FROM_FORMAT_1.clean(faulty.kv);
        await checkConverted(faulty.kv, clock);
        assert(stop < 400);
      }
    });
  }
});

Deno.test("a start that must convert is refused while an instance has a lease, and not by its end", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  await fill(kv, clock);
  const instance = "01KHYQ5H00GGGGGGGGGGGGGGGG";
  await kv.set(KEYS.instance(instance), { until: clock.now() + LIMITS.instanceLeaseMs, pid: 1 });
  const error = await assertRejects(() => convert(kv, clock, { isExclusive: false }), StoreRefused);
  assertStringIncludes(error.message, `must be converted, but instance ${instance} uses it. Stop every instance`);
  assertEquals((await kv.get(FORMAT_KEY)).value, FORMER_FORMAT);
  await clock.advance(LIMITS.instanceLeaseMs);
  await convert(kv, clock, { isExclusive: false });
  await kv.delete(KEYS.instance(instance));
  assertEquals((await kv.get(FORMAT_KEY)).value, STORE_FORMAT);
});

Deno.test("a file that this process alone has open is converted also after a crash of its server", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  await fill(kv, clock);
  await kv.set(KEYS.instance("crashed"), { until: clock.now() + LIMITS.instanceLeaseMs, pid: 1 });
  await kv.set(["store", "converter"], { by: "crashed", until: clock.now() + LIMITS.conversionLeaseMs });
  await convert(kv, clock);
  await kv.delete(KEYS.instance("crashed"));
  await checkConverted(kv, clock);
});

Deno.test("an instance that starts during the conversion keeps the store refused, and its nonces are converted", async () => {
  using faulty = await FaultyKv.open();
  const { kv } = faulty;
  const clock = new ManualClock();
  await fill(kv, clock);
  const late = [...FORMAT_1_KEYS.noncesOf(LIMITED), digest("late")];
  beforeCommit(faulty, 1, async () => {
    await kv.set(KEYS.instance("old"), { until: clock.now() + LIMITS.instanceLeaseMs, pid: 1 });
    await kv.set(late, { expiresAt: clock.now() + 301_000, timestamp: unixSeconds(clock.now()) });
  });
  await assertRejects(() => convert(kv, clock, { isExclusive: false }), StoreRefused, "instance old uses it");
  await assertRejects(() => readWithFormatCheck(kv, []), ConversionNeeded);
  await kv.set(KEYS.instance("old"), { until: 0, pid: 1 });
  await clock.advance(LIMITS.conversionLeaseMs);
  await convert(kv, clock, { isExclusive: false, id: "two" });
  const [used] = await held(kv, LIMITED, ["late", "other"], clock) as [boolean[]];
  assertEquals(used, [true, false]);
});

Deno.test("of several starts one converts, and the others are refused with their reason", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  await fill(kv, clock);
  const starts = await Promise.allSettled(
    Array.from({ length: 5 }, (_, i) => convert(kv, clock, { isExclusive: false, id: `start-${i}` })),
  );
  const refused = starts.filter((one) => one.status === "rejected");
  assert(refused.length >= 1 && refused.length <= 4, `${refused.length} refused`);
  for (const { reason } of refused) {
    assert(reason instanceof StoreRefused);
    assertStringIncludes(reason.message, "Another start converts the store to format 2. Start again in a minute.");
  }
  await checkConverted(kv, clock);
});

Deno.test("a start that was overtaken by another one writes nothing more", async () => {
  using faulty = await FaultyKv.open();
  const { kv } = faulty;
  const clock = new ManualClock();
  await fill(kv, clock);
  beforeCommit(faulty, 2, async () => {
    clock.step(LIMITS.conversionLeaseMs);
    await convert(kv, clock, { isExclusive: false, id: "two" });
  });
  await assertRejects(() => convert(kv, clock, { isExclusive: false }), StoreRefused, "Another start converts");
  assertEquals((await kv.get(FORMAT_KEY)).value, STORE_FORMAT);
  assertEquals((await kv.get(["store", "converter"])).value, null);
});
