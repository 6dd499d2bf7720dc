/** Shows what is asked of another registry and how much of it is read (D-282). */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { isInside, Issuers } from "../../../proxy/federation/issuers.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { type AitGrant, signAit } from "../../../shared/protocol/signed/ait.ts";
import { expositionOf, Metrics } from "../../../shared/server/metrics/metrics.ts";
import { ForeignIssuer } from "../../support/foreign_issuer.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { openTestKv } from "../../support/test_store.ts";
import { longTest } from "../../support/trials.ts";
import { until } from "../../support/until.ts";

const B = "https://b.example";

async function open(federationPrivate = false, abroad: Partial<ForeignIssuer["abroad"]> = {}) {
  const metrics = new Metrics(),
    clock = new ManualClock(),
    b = await ForeignIssuer.open(clock),
    kv = await openTestKv();
  const lists: [string, number][] = [];
  const issuers = new Issuers({
    ...{ kv, clock, random: seededRandom(1), log: () => {}, metrics, ...b.abroad, ...abroad },
    config: { registryKeysTtlMs: 300_000, federationPrivate },
    onList: (authority, deleted) => lists.push([authority, deleted.size]),
  });
  return { clock, b, kv, issuers, lists, metrics, [Symbol.dispose]: () => kv.close() };
}

Deno.test("addresses inside a network are recognised, also within IPv6 ones", () => {
  const inside =
    "127.0.0.1 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 " +
    "255.255.255.255 ::1 :: fe80::1 fc00::1 fd12::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 " +
    "64:ff9b::a00:1 64:ff9b:1::1 64:ff9b::1 ::127.0.0.1 2002:7f00:1::1 2001:0:1::1 fe80::1%eth0 rubbish";
  for (const address of inside.split(" ")) {
    assertEquals(isInside(address), true, address);
  }
  const outside = "93.184.215.14 8.8.8.8 172.32.0.1 100.128.0.1 2606:2800:220:1::1 ::ffff:8.8.8.8 64:ff9b::808:808";
  for (const address of outside.split(" ")) {
    assertEquals(isInside(address), false, address);
  }
});

Deno.test("a registry with any address inside a network is not called, unless the operator allows it", async () => {
  for (const bad of ["127.0.0.1", "10.0.0.7", "169.254.169.254"]) {
    using t = await open();
    t.b.addresses = [{ address: "93.184.215.14", family: 4 }, { address: bad, family: 4 }];
    await assertRejects(() => t.issuers.of(B).keys.current(), ServiceError);
    assertEquals(t.b.asked, [], bad);
  }
  using t = await open();
  t.b.addresses = [];
  await assertRejects(() => t.issuers.of(B).keys.current(), ServiceError);
  assertEquals(t.b.asked, [], "a name without an address");
  t.b.addresses = [{ address: "127.0.0.1", family: 4 }];
  assertEquals((await t.issuers.of("http://127.0.0.1:8787").keys.current()).size, 1, "one of ENVIRONMENT=local");
  using allowed = await open(true);
  allowed.b.addresses = [{ address: "10.0.0.7", family: 4 }];
  assertEquals((await allowed.issuers.of(B).keys.current()).size, 1);
});

Deno.test("a name that this process may not look up is a problem of its permissions, not of the other registry", async () => {
  const refusal = Object.assign(new Error("getaddrinfo EPERM b.example"), { code: "EPERM" });
  using t = await open(false, { lookup: () => Promise.reject(refusal) });
  await assertRejects(() => t.issuers.of(B).keys.current(), ServiceError);
  const { problem = "" } = t.issuers.known.get(B) ?? {};
  assertStringIncludes(problem ?? "", "leave --allow-net out, or add b.example to it");
});

Deno.test("a registry is not asked while none of its agents comes", async () => {
  using t = await open();
  await t.issuers.of(B).crl.isRevoked("x");
  await t.clock.advance(300_000);
  assertEquals(t.b.asked, ["/.well-known/svc-keys.json", "/v1/crl"]);
});

Deno.test("after a failure an issuer is asked for less often, down to once in 5 min", async () => {
  using t = await open();
  t.b.answer = () => new Response("no", { status: 500 });
  const times: number[] = [], began = t.clock.now();
  for (let second = 0; second < 1_500; second++) {
    const before = t.b.asked.length;
    await t.issuers.of(B).keys.current().catch(() => {});
    if (t.b.asked.length > before) times.push((t.clock.now() - began) / 1000);
    t.clock.step(1_000);
  }
  assertEquals(times, [0, 10, 20, 40, 80, 160, 320, 620, 920, 1220]);
});

Deno.test("after a step back of the clock an issuer that failed before is asked", async () => {
  using t = await open();
  t.b.answer = () => new Response("no", { status: 500 });
  await assertRejects(() => t.issuers.of(B).keys.current(), ServiceError);
  t.b.answer = () => null;
  t.clock.step(-3_600_000);
  assertEquals((await t.issuers.of(B).keys.current()).size, 1);
  const { crl } = t.issuers.of(B), lists = () => t.b.asked.filter((path) => path === "/v1/crl").length;
  await crl.isRevoked("x");
  t.clock.step(-500_000);
  await crl.isRevoked("x");
  await until(() => lists() === 2);
});

Deno.test("after an answer the pauses of an issuer begin again with the shortest one", async () => {
  using t = await open();
  const fails = () => new Response("no", { status: 500 }), ask = () => t.issuers.of(B).keys.current().catch(() => {});
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await ask();
      t.clock.step(1_000);
    }
  };
  t.b.answer = fails;
  await pass(200);
  t.b.answer = () => null;
  await pass(200);
  assertEquals(t.issuers.known.get(B)?.problem, null, "an answer ends what is said about it");
  t.b.answer = fails;
  t.b.asked.splice(0);
  t.clock.step(301_000);
  await pass(21);
  assertEquals(t.b.asked.length, 3);
});

Deno.test("a registry that has revoked nothing yet, and one whose list is the same as before, count as answers", async () => {
  using t = await open();
  t.b.answer = (request) =>
    request.url.endsWith("/v1/crl")
      ? Response.json({ error: { code: "CRL_NOT_FOUND", message: "" } }, { status: 404 })
      : null;
  assertEquals(await t.issuers.of(B).crl.isRevoked("x"), false);
  const beta = await t.b.agent();
  t.b.revoke(beta);
  t.b.answer = null;
  const list = await t.b.abroad.send(new Request(`${B}/v1/crl`));
  const body = await list.text(), sent: (string | null)[] = [];
  t.b.answer = (request) => {
    if (!request.url.endsWith("/v1/crl")) return null;
    const known = request.headers.get("if-none-match");
    sent.push(known);
    const headers = { ETag: '"one"', "Content-Type": "application/json" };
    return known === null ? new Response(body, { headers }) : new Response(null, { status: 304, headers });
  };
  for (let n = 0; n < 3; n++) {
    t.clock.step(61_000);
    await t.issuers.of(B).crl.isRevoked("x");
    await until(() => t.issuers.of(B).list.ageSeconds === 0);
  }
  assertEquals(sent, [null, '"one"', '"one"']);
  const { problem, list: { ageSeconds } } = t.issuers.known.get(B) ?? t.issuers.of(B);
  assertEquals([problem, ageSeconds, await t.issuers.of(B).crl.isRevoked(beta.jti)], [null, 0, true]);
});

Deno.test("a list that does not count is asked for again after 5 s, and its registry's agents are told how long to wait", async () => {
  using t = await open();
  t.b.answer = (request) => request.url.endsWith("/v1/crl") ? Response.json({ crl: "no list" }) : null;
  const waits: (string | null)[] = [];
  for (let second = 0; second < 12; second++) {
    const { headers } = await assertRejects(() => t.issuers.of(B).crl.isRevoked("x"), ServiceError);
    waits.push(new Headers(headers).get("Retry-After"));
    t.clock.step(1_000);
  }
  assertEquals(waits.join(), "5,4,3,2,1,5,4,3,2,1,5,4");
  assertEquals(t.b.asked.filter((path) => path === "/v1/crl").length, 3);
});

Deno.test("keys over 64 KiB, a list over 8 MiB, a redirect and rubbish are refused", async () => {
  const big = (bytes: number) => new Response(new Uint8Array(bytes).fill(32));
  const keys: Record<string, () => Response> = {
    "too long": () => big(65_537),
    "a redirect": () => new Response(null, { status: 302, headers: { Location: "http://169.254.169.254/" } }),
    "rubbish": () => new Response("<html>"),
    "200 kids": () => Response.json({ keys: Array.from({ length: 200 }, () => ({})) }),
  };
  for (const [name, answer] of Object.entries(keys)) {
    using t = await open();
    t.b.answer = answer;
    await assertRejects(() => t.issuers.of(B).keys.current(), ServiceError, undefined, name);
  }
  for (const bytes of [8_388_609, 52_428_800]) {
    using t = await open();
    t.b.answer = (request) => request.url.endsWith("/v1/crl") ? big(bytes) : null;
    await assertRejects(() => t.issuers.of(B).crl.isRevoked("x"));
  }
});

Deno.test("an answer that comes a byte a second ends at its deadline", async () => {
  using t = await open();
  for (const [path, ms] of [["/.well-known/svc-keys.json", 3_000], ["/v1/crl", 10_000]] as const) {
    let isRead = true;
    t.b.answer = (request) =>
      !request.url.endsWith(path) ? null : new Response(
        new ReadableStream({
          pull: (controller) =>
            new Promise<void>((done) =>
              t.clock.after(1_000, () => done(isRead ? controller.enqueue(new Uint8Array([32])) : undefined))
            ),
          cancel: () => void (isRead = false),
        }),
      );
    const issuer = t.issuers.of(B);
    const asked = (path === "/v1/crl" ? issuer.crl.isRevoked("x") : issuer.keys.current()).then(
      () => "usable",
      () => "refused",
    );
    await flushTasks();
    await t.clock.advance(ms + 1_000);
    assertEquals(await Promise.race([asked, Promise.resolve("open")]), "refused", path);
    t.clock.step(400_000);
  }
});

Deno.test("a list that shrinks, a 404 after a list, and a list of another issuer keep the newest one that was seen", async () => {
  using t = await open();
  const beta = await t.b.agent();
  t.b.revoke(beta);
  assertEquals(await t.issuers.of(B).crl.isRevoked(beta.jti), true);
  const none = { error: { code: "CRL_NOT_FOUND", message: "" } };
  const later: [string, () => Response | null][] = [
    ["There is no revocation list, and number 2 was seen before", () => Response.json(none, { status: 404 })],
    ["The revocation list has number 1, and 2 was seen before", () => {
      t.b.seq = 1;
      t.b.revocations.splice(0);
      return null;
    }],
  ];
  for (const [problem, answer] of later) {
    t.b.answer = (request) => request.url.endsWith("/v1/crl") ? answer() : null;
    t.clock.step(200_000);
    assertEquals(await t.issuers.of(B).crl.isRevoked(beta.jti), true, problem);
    await flushTasks();
    // What svc admin issuers shows, because both servers answer and the agents are refused anyway.
    assertEquals(t.issuers.known.get(B)?.problem, problem);
  }
  Object.assign(t.b, { seq: 2, answer: null });
  t.clock.step(400_000);
  await t.issuers.of(B).crl.isRevoked(beta.jti);
  await flushTasks();
  assertEquals(t.issuers.known.get(B)?.problem, null);
  assertEquals((await t.kv.get<{ seq: number }>(KEYS.issuer("b.example"))).value?.seq, 2);
  assert(t.lists.every(([authority]) => authority === "b.example"));
});

Deno.test("what an issuer said of agents of another authority does not count", async () => {
  using t = await open();
  t.b.revocations.push({
    jti: "01KHYQ5H00HHHHHHHHHHHHHHHH",
    agentDid: "did:svc:a.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
    reason: "agent_deleted",
    revokedAt: 1,
  });
  assertEquals(await t.issuers.of(B).crl.isRevoked("01KHYQ5H00HHHHHHHHHHHHHHHH"), false);
});

Deno.test("a body that does not end counts among the 16 calls, and one that had to wait is asked as soon as there is room", async () => {
  using t = await open();
  t.b.answer = () => new Response(new ReadableStream({ pull: () => new Promise<void>(() => {}) }));
  const stuck = Array.from(
    { length: 16 },
    (_, i) => t.issuers.of(`https://h${i}.example`).keys.current().catch(() => "failed"),
  );
  await flushTasks();
  const late = t.issuers.of(B).keys.current().then(({ size }) => size);
  await t.clock.advance(2_999);
  assertEquals(t.b.asked.length, 16);
  t.b.answer = () => null;
  // The sixteen end at their deadline of 3 s, in the order in which they began, before the wait of the last one is over.
  await t.clock.advance(1);
  assertEquals([await late, new Set(await Promise.all(stuck))], [1, new Set(["failed"])]);
});

Deno.test("a registry whose keys cannot be read is named to its agents, with the time to wait", async () => {
  using t = await open();
  t.b.answer = () => new Response("no", { status: 500 });
  const issuer = t.issuers.of(B), { identity } = await t.b.agent();
  for (
    const asked of [
      () => issuer.keys.current(),
      () => issuer.aits.verify(identity.ait),
      () => issuer.crl.isRevoked("x"),
    ]
  ) {
    const { code, message, headers } = await assertRejects(asked, ServiceError);
    assertEquals([code, message, new Headers(headers).get("Retry-After")], [
      "PROXY_AUTH_DEPENDENCY_UNAVAILABLE",
      "The registry of the caller, https://b.example, cannot be asked about its agents",
      "5",
    ]);
  }
});

Deno.test("at most 16 calls run at once, and an issuer that is not used for an hour is let go", async () => {
  using t = await open();
  let running = 0, most = 0;
  const ends: (() => void)[] = [];
  t.b.answer = () =>
    new Promise((done) => {
      most = Math.max(most, ++running);
      ends.push(() => {
        running--;
        done(new Response("no", { status: 500 }));
      });
    });
  const all = Array.from(
    { length: 40 },
    (_, i) => t.issuers.of(`https://h${i}.example`).keys.current().catch(() => "failed"),
  );
  await flushTasks();
  while (ends.length > 0) {
    for (const end of ends.splice(0)) end();
    await flushTasks();
  }
  assertEquals(new Set(await Promise.all(all)), new Set(["failed"]));
  assertEquals(most, 16);
  t.clock.step(3_600_000);
  t.issuers.of(B);
  assertEquals([...t.issuers.known.keys()], [B]);
});

Deno.test("keys that their registry lets not be kept are asked for every 30 s", async () => {
  using t = await open();
  const { keys } = await (await t.b.abroad.send(new Request(`${B}/.well-known/svc-keys.json`))).json();
  t.b.asked.splice(0);
  t.b.answer = () => Response.json({ keys }, { headers: { "Cache-Control": "max-age=0" } });
  for (let second = 0; second < 60; second++) {
    await t.issuers.of(B).keys.current();
    t.clock.step(1_000);
  }
  assertEquals(t.b.asked.length, 2);
});

Deno.test("calls for keys and lists of other registries are counted by result", async () => {
  using t = await open();
  await t.issuers.of(B).crl.isRevoked("x");
  t.b.answer = () => new Response("no", { status: 500 });
  await t.issuers.of("https://c.example").keys.current().catch(() => {});
  const text = expositionOf(t.metrics);
  assert(
    /issuer_calls_total\{result="answered"\} 2\n/.test(text) && /issuer_calls_total\{result="failed"\} 1\n/.test(text),
  );
});

Deno.test("at most 10,000 verified tokens of all issuers together are remembered", async () => {
  const all: ForeignIssuer[] = [];
  const send = async (request: Request) =>
    await (all.find(({ origin }) => new URL(request.url).origin === origin) as ForeignIssuer).abroad.send(request);
  using t = await open(false, { send });
  const { publicKey } = await keyPairFromSeed(new Uint8Array(32).fill(5));
  const verify = async (b: ForeignIssuer, jti = b.newId()) => {
    const [agentDid, ownerDid] = ["agent", "human"].map((kind) => `did:svc:${b.authority}:${kind}:${"0".repeat(26)}`);
    const grant = { agentDid, ownerDid, name: "x", framework: "generic", publicKey, issuer: b.origin } as AitGrant;
    const token = await signAit({ ...grant, jti, issuedAtSeconds: 0, ttlDays: 30 }, b.key);
    return await t.issuers.of(b.origin).aits.verify(token);
  };
  for (let i = 0; i < 11; i++) all.push(await ForeignIssuer.open(t.clock, `https://h${i}.example`, 20 + i));
  const first = all[0] as ForeignIssuer, jti = first.newId(), kept = await verify(first, jti);
  assertEquals(await verify(first, jti) === kept, true);
  for (const b of all.slice(1)) for (let i = 0; i < 1_000; i++) await verify(b);
  assertEquals(await verify(first, jti) === kept, false);
});

Deno.test("all lists together stay within 64 MiB, with sizes that are said", () => manyLists(100));
longTest(
  "all lists together stay within 64 MiB, also those of one minute, and those that name one token",
  () => manyLists(),
);

/** Reads twelve lists of 30,000 entries that name one token, or of few entries that count as so many. */
async function manyLists(few?: number): Promise<void> {
  using t = await open();
  const jti = "01KHYQ5H00HHHHHHHHHHHHHHHH", count = 30_000;
  for (let i = 0; i < 12; i++) {
    const issuer = await ForeignIssuer.open(t.clock, `https://h${i}.example`);
    for (let n = 0; n < (few ?? count); n++) {
      const agentDid = `did:svc:h${i}.example:agent:01KHYQ5H00${String(n).padStart(16, "0")}`;
      issuer.revocations.push({ jti, agentDid, reason: "agent_deleted", revokedAt: 1 });
    }
    t.b.answer = (request) => issuer.abroad.send(request);
    const known = t.issuers.of(issuer.origin);
    assertEquals(await known.crl.isRevoked(jti), true);
    assertEquals(known.list.deletedAgents.size, few ?? count);
    if (few) Object.defineProperty(known.list, "deletedAgents", { value: { size: count } });
  }
  // Each list takes about 6 MiB, and the least used ones have gone. The size of the last one is said after its look.
  const kept = [...t.issuers.known.keys()];
  assertEquals(kept, Array.from({ length: few ? 11 : 10 }, (_, i) => `https://h${i + 12 - kept.length}.example`));
}
