/** A slow peer or server holds up the kept messages to itself only, with bounds on what is under way (D-287). */
import { assert, assertEquals } from "@std/assert";
import { KeptSender } from "../../../../cli/connector/sending/sending_loop.ts";
import type { Parts } from "../../../../cli/connector/parts.ts";
import { MessageSender } from "../../../../cli/connector/sending/message_sender.ts";
import { LoopGuard } from "../../../../cli/link/loop_guard.ts";
import type { ProxyRequest } from "../../../../cli/link/proxy_caller.ts";
import { UnreachableError } from "../../../../shared/client/errors.ts";
import { sleep } from "../../../../shared/clock.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { seededRandom } from "../../../support/seeded_random.ts";
import { ALPHA, Disk, PAYLOAD } from "../store/disk.ts";

const HOME = "home.example", SLOW_MS = 29_000;
const didOf = (host: string, n: number) => `did:svc:${host}:agent:01KHYQ5H00${String(n).padStart(16, "0")}`;
const hostOf = (did: string) => did.split(":")[2] ?? "";

/** A sender of kept messages. `behave` decides how the server of a recipient answers. */
function senderOn(disk: Disk, behave: (to: string, requestId: string) => Promise<unknown>) {
  const clock = new ManualClock(), parts = disk.open("pull"), { store: { sent } } = parts;
  const arrived: string[] = [], underWay: string[] = [];
  let most = 0, mostOfOne = 0;
  const call = async ({ recipient: to = "", headers }: ProxyRequest) => {
    const requestId = new Headers(headers).get("x-request-id") ?? "";
    underWay.push(to);
    most = Math.max(most, underWay.length);
    mostOfOne = Math.max(mostOfOne, underWay.filter((did) => hostOf(did) === hostOf(to)).length);
    try {
      await behave(to, requestId);
    } finally {
      underWay.splice(underWay.indexOf(to), 1);
    }
    arrived.push(requestId);
    const text = JSON.stringify({ accepted: true, delivered: true, connectedSockets: 1, requestId });
    return { status: 202, headers: new Headers(), text };
  };
  const deps = {
    ...parts,
    clock,
    guard: new LoopGuard(),
    random: seededRandom(),
    did: ALPHA,
    peers: { of: () => null, sealTo: () => null, isBlocked: () => false },
    strict: false,
    newId: () => "01KHYQ5H00AAAAAAAAAAAAAAAA",
    proxies: { hostOf: (did: string) => hostOf(did) === HOME ? null : hostOf(did), of: () => ({ call }) },
    emit: () => {},
  } as unknown as Parts;
  const sender = new KeptSender(deps, new MessageSender(deps));
  const keep = (toDid: string, requestId: string) =>
    sent.add(
      { toDid, requestId, conversationId: null, inReplyTo: null, auto: false, origin: "runtime", payload: PAYLOAD },
      clock.now(),
    );
  return { clock, sent, sender, keep, arrived, most: () => ({ most, mostOfOne }) };
}

Deno.test("a server that answers each message after 29 s holds up no message to another server, nor to its own", async () => {
  await using disk = await Disk.make();
  const slow = didOf("slow.example", 1), other = didOf("other.example", 1), home = didOf(HOME, 1);
  const { clock, sender, keep, arrived } = senderOn(disk, (to) => to === slow ? sleep(clock, SLOW_MS) : atOnce());
  for (let n = 1; n <= 5; n++) {
    for (const [name, did] of Object.entries({ slow, other, home })) keep(did, `${name}-message-${n}`);
  }
  const of = (name: string) => arrived.filter((id) => id.startsWith(name)).map((id) => Number(id.split("-").at(-1)));
  sender.wake();
  await clock.advance(1_000);
  assertEquals([of("other"), of("home"), of("slow")], [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5], []]);
  keep(home, "home-message-6");
  sender.wake();
  await clock.advance(1_000);
  assertEquals(of("home").at(-1), 6);
  await clock.advance(5 * SLOW_MS);
  assertEquals(of("slow"), [1, 2, 3, 4, 5]);
  assertEquals(arrived.length, new Set(arrived).size);
  sender.end();
});

Deno.test("a peer whose messages take 10 s holds up no other peer of the same server", async () => {
  await using disk = await Disk.make();
  const slow = didOf(HOME, 1), other = didOf(HOME, 2);
  const { clock, sender, keep, arrived } = senderOn(disk, (to) => to === slow ? sleep(clock, 10_000) : atOnce());
  for (let n = 1; n <= 5; n++) for (const did of [slow, other]) keep(did, `message-${n}-of-${did === slow}`);
  sender.wake();
  await clock.advance(1_000);
  assertEquals(arrived, [1, 2, 3, 4, 5].map((n) => `message-${n}-of-false`));
  await clock.advance(50_000);
  assertEquals(arrived.slice(5), [1, 2, 3, 4, 5].map((n) => `message-${n}-of-true`));
  sender.end();
});

Deno.test("while the own server is away, what is for another server leaves, also if much waits for the own", async () => {
  await using disk = await Disk.make();
  const other = didOf("other.example", 1);
  let tries = 0;
  const { clock, sender, keep, arrived } = senderOn(disk, (to) => {
    if (to === other) return atOnce();
    tries++;
    return Promise.reject(new UnreachableError("the server cannot be reached", { cause: new Error("refused") }));
  });
  for (let n = 1; n <= 120; n++) keep(didOf(HOME, n), `home-message-${n}`);
  for (let n = 1; n <= 5; n++) keep(other, `other-message-${n}`);
  sender.wake();
  await clock.advance(1_000);
  assertEquals(arrived.length, 5);
  for (let s = 0; s < 3_600; s += 30) await clock.advance(30_000);
  assert(tries <= 8 * 70, `${tries} requests in an hour`);
  sender.end();
});

Deno.test("at most 8 requests to a server are under way, and 32 to all servers of others", async () => {
  await using disk = await Disk.make();
  const { clock, sender, keep, arrived, most } = senderOn(disk, () => sleep(clock, SLOW_MS));
  for (let host = 1; host <= 10; host++) {
    for (let n = 1; n <= 12; n++) keep(didOf(`s${host}.example`, n), `message-${host}-${n}`);
  }
  sender.wake();
  await clock.advance(1_000);
  assertEquals(most(), { most: 32, mostOfOne: 8 });
  for (let n = 1; n <= 12; n++) keep(didOf(HOME, n), `message-of-home-${n}`);
  sender.wake();
  await clock.advance(200_000);
  assertEquals(most(), { most: 40, mostOfOne: 8 });
  assertEquals([arrived.length, new Set(arrived).size], [132, 132]);
  sender.end();
});

Deno.test("a server whose agents write all the time makes no message to another server be sent more often", async () => {
  await using disk = await Disk.make();
  let tries = 0;
  const { clock, sender, keep } = senderOn(disk, (to) => {
    if (hostOf(to) === HOME) tries++;
    return Promise.reject(new UnreachableError("the server cannot be reached", { cause: new Error("refused") }));
  });
  keep(didOf(HOME, 1), "home-message-1");
  keep(didOf("bad.example", 1), "message-1-of-bad");
  sender.wake();
  for (let s = 0; s < 600; s += 6) {
    await clock.advance(6_000);
    sender.tryNow("bad.example");
  }
  assert(tries <= 16, `${tries} requests in 10 minutes`);
  sender.end();
});

Deno.test("news of a server does not make its first pause longer", async () => {
  await using disk = await Disk.make();
  let tries = 0;
  const { clock, sender, keep } = senderOn(disk, () => {
    tries++;
    return Promise.reject(new UnreachableError("the server cannot be reached", { cause: new Error("refused") }));
  });
  keep(didOf("bad.example", 1), "message-1-of-bad");
  sender.wake();
  await clock.advance(0);
  sender.tryNow("bad.example");
  await clock.advance(1_000);
  assertEquals(tries, 2);
  sender.end();
});

Deno.test("the next try of a message to a server that is away comes when it was said, also after long pauses", async () => {
  await using disk = await Disk.make();
  const tries: number[] = [], said = new Set<number>();
  const { clock, sent, sender, keep } = senderOn(disk, () => {
    tries.push(clock.now());
    return Promise.reject(new UnreachableError("the server cannot be reached", { cause: new Error("refused") }));
  });
  const { seq } = keep(didOf("bad.example", 1), "message-1-of-bad");
  sender.wake();
  for (let s = 0; s < 3_600; s += 5) {
    await clock.advance(5_000);
    said.add(sent.one(seq)?.nextAt ?? 0);
  }
  const later = tries.filter((at) => at - (tries[0] ?? 0) > 60_000);
  assert(later.length > 4, `${later.length} tries`);
  assertEquals(later.filter((at) => !said.has(at)), []);
  assertEquals([...said].filter((at) => at > (later[0] ?? 0) && at <= clock.now() && !tries.includes(at)), []);
  sender.end();
});

Deno.test("a server that does not answer is tried with one message at a time", async () => {
  await using disk = await Disk.make();
  const underWay = new Set<string>();
  let hasFailed = false, most = 0;
  const { clock, sender, keep } = senderOn(disk, async (to) => {
    underWay.add(to);
    if (hasFailed) most = Math.max(most, underWay.size);
    await sleep(clock, SLOW_MS);
    underWay.delete(to);
    hasFailed ||= underWay.size === 0;
    throw new UnreachableError("the server did not answer");
  });
  for (let n = 1; n <= 20; n++) keep(didOf("silent.example", n), `message-${n}`);
  sender.wake();
  for (let s = 0; s < 1_800; s += 30) await clock.advance(30_000);
  assertEquals(most, 1);
  sender.end();
});

/** An answer at once. */
const atOnce = () => Promise.resolve();
