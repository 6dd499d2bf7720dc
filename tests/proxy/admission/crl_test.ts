/**
 * Shows how the proxy caches the CRL: it refreshes the list, never installs an older one, and refuses every request
 * when it has no usable list.
 */
import { assert, assertEquals } from "@std/assert";
import { type CrlGrant, type Revocation, signCrl } from "../../../shared/protocol/signed/crl.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { SigningKey } from "../../../shared/protocol/signed/jws.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import type { ProxyConfig } from "../../../proxy/config.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { outcome, tally } from "../../support/registry_world.ts";
import { REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";
import { signedToken } from "../../support/tokens.ts";
import { endsAfter, get, openProxy, RegistryCalls, registryKey, restart, withAit } from "../proxy_world.ts";
import { until } from "../../support/until.ts";
import { inWorld } from "../cast.ts";

/** The CRL requests of the proxy. */
class Lists extends RegistryCalls {
  constructor(w: World) {
    super(w, "/v1/crl");
  }

  /** A list that the registry could have signed now; `changes` replaces claims. */
  async signed(grant: Partial<CrlGrant> = {}, key?: SigningKey): Promise<string> {
    const { clock, newId } = this.w;
    const issuedAtSeconds = unixSeconds(clock.now());
    const whole = { issuer: REGISTRY_URL, jti: newId(), issuedAtSeconds, seq: 1, revocations: [], ...grant };
    return await signCrl(whole, key ?? await registryKey(this.w));
  }

  /** Answers with this list from now on. */
  publish(crl: unknown, headers: Record<string, string> = {}): void {
    this.answer = () => Response.json({ crl }, { headers });
  }

  /** Fetches as the background work does, and waits until it ends. */
  async refresh(): Promise<void> {
    await this.w.proxy.deps.crl.refresh();
  }
}

async function cast(
  proxy: Partial<ProxyConfig> = {},
): Promise<{ w: World; a: TestAgent; lists: Lists; entry: Revocation }> {
  const w = await openProxy({ proxy });
  const lists = new Lists(w);
  const a = await w.agent();
  const { currentJti: jti, did: agentDid } = a.agent;
  return { w, a, lists, entry: { jti, agentDid, reason: "reissued", revokedAt: unixSeconds(w.clock.now()) } };
}

async function ask(w: World, agent: TestAgent): Promise<string> {
  return await outcome(await get(w, agent, "/pair/peers"));
}

const UNAVAILABLE = "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE";
const REVOKED = "401 PROXY_AUTH_REVOKED";
const notFound = (code: string) => () => Response.json({ error: { code, message: "no" } }, { status: 404 });

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

Deno.test("a revoked AIT is refused within one refresh interval, and its access token at once", async () => {
  const { w, a } = await cast({ crlRefreshIntervalMs: 2_000 });
  await using _ = w;
  const b = await w.agent();
  await w.pair(a, b);
  assertEquals([await ask(w, a), await ask(w, b)], ["200", "200"]);
  await w.client.deleteAgent(a.owner.apiKey, a.agent.id);
  assertEquals(await outcome(await w.message(a, b)), "401 PROXY_AGENT_ACCESS_INVALID");
  await w.clock.advance(2_000);
  for (let i = 0; i < 3; i++) await flushTasks();
  assertEquals([await ask(w, a), await ask(w, b)], [REVOKED, "200"]);
});

test("the old AIT of a reissued agent is refused and its new one accepted", async ({ w, a, lists }) => {
  const answer = await w.ask("POST", `/v1/agents/${a.agent.id}/reissue`, { apiKey: a.owner.apiKey });
  const { ait } = await answer.json();
  await lists.refresh();
  assertEquals([await ask(w, a), await ask(w, withAit(a, ait))], [REVOKED, "200"]);
});

Deno.test("a list that is not this registry's newest is not installed, and the older valid list stays", async (t) => {
  const stranger = { kid: "stranger", privateKey: (await keyPairFromSeed(new Uint8Array(32).fill(3))).privateKey };
  const SEQ = 7;
  type Make = (lists: Lists, now: number, key: SigningKey) => Promise<unknown> | Response;
  const bad: [name: string, make: Make][] = [
    ["past its exp", (lists, now) => lists.signed({ seq: 9, issuedAtSeconds: now - 900 })],
    ["61 s ahead", (lists, now) => lists.signed({ seq: 9, issuedAtSeconds: now + 61 })],
    ["an hour ahead", (lists, now) => lists.signed({ seq: 9, issuedAtSeconds: now + 3600 })],
    ["of another registry", (lists) => lists.signed({ seq: 9, issuer: "https://other.example" })],
    ["signed with an unknown key", (lists) => lists.signed({ seq: 9 }, stranger)],
    ["signed by a stranger under our kid", (lists, _, { kid }) => lists.signed({ seq: 9 }, { ...stranger, kid })],
    ["of a lower seq", (lists) => lists.signed({ seq: SEQ - 1 })],
    ["of the same seq, issued earlier", (lists, now) => lists.signed({ seq: SEQ, issuedAtSeconds: now - 1 })],
    ["without a seq", (lists) => lists.signed({ seq: undefined as unknown as number })],
    ["with a typ that is not CRL", async (lists, _, { kid, privateKey }) => {
      const [, payload = ""] = (await lists.signed({ seq: 9 })).split(".");
      return await signedToken(
        { alg: "EdDSA", typ: "AIT", kid },
        atob(payload.replaceAll("-", "+").replaceAll("_", "/")),
        privateKey,
      );
    }],
    ["with a changed signature", async (lists) => (await lists.signed({ seq: 9 })).slice(0, -4) + "AAAA"],
    ["that is not text", () => Promise.resolve(1)],
    ["that is missing", () => Response.json({})],
    ["with status 201", () => Response.json({ crl: "x" }, { status: 201 })],
    ["that is HTML", () => new Response("<!doctype html>")],
    ["a redirect", () => new Response(null, { status: 302, headers: { Location: "https://canary.example" } })],
    ["500 CRL_BUILD_FAILED", () => Response.json({ error: { code: "CRL_BUILD_FAILED" } }, { status: 500 })],
    ["429", () => Response.json({ error: { code: "RATE_LIMIT_EXCEEDED" } }, { status: 429 })],
    ["a forged 404", () => notFound("CRL_NOT_FOUND")()],
    ["any other 404", () => notFound("NOT_FOUND")()],
    ["a 304 that was not asked for", () => new Response(null, { status: 304 })],
  ];
  const { w, a, lists, entry } = await cast();
  await using _ = w;
  for (const [name, make] of bad) {
    await t.step(name, async () => {
      lists.publish(await lists.signed({ seq: SEQ, revocations: [entry] }));
      await lists.refresh();
      assertEquals(await ask(w, a), REVOKED);
      const made = await make(lists, unixSeconds(w.clock.now()), await registryKey(w));
      if (made instanceof Response) lists.answer = () => made.clone();
      else lists.publish(made);
      await lists.refresh();
      assertEquals(await ask(w, a), REVOKED, "the older list is kept");
      w.clock.step(900_000);
      assertEquals(await ask(w, a), UNAVAILABLE, "until its age ends");
    });
  }
});

Deno.test("a list that is newer by seq or by iat replaces the older one", async (t) => {
  const newer: [name: string, more: number, laterSeconds: number][] = [
    ["a higher seq", 1, 0],
    ["a higher seq, issued earlier", 1, -30],
    ["the same seq, issued later", 0, 60],
    ["the very same", 0, 0],
  ];
  const { w, a, lists, entry } = await cast();
  await using _ = w;
  for (const [i, [name, more, laterSeconds]] of newer.entries()) {
    await t.step(name, async () => {
      const seq = 10 * i + more;
      lists.publish(await lists.signed({ seq: 10 * i, revocations: [entry] }));
      await lists.refresh();
      assertEquals(await ask(w, a), REVOKED);
      lists.publish(await lists.signed({ seq, issuedAtSeconds: unixSeconds(w.clock.now()) + laterSeconds }));
      await lists.refresh();
      assertEquals(await ask(w, a), "200");
    });
  }
});

test("an older list is refused and logged, also after a restart", async ({ w, a, lists, entry }) => {
  lists.publish(await lists.signed({ seq: 7, revocations: [entry] }));
  assertEquals(await ask(w, a), REVOKED);
  lists.publish(await lists.signed({ seq: 6 }));
  await lists.refresh();
  assertEquals(w.log.filter((line) => line.event === "crl_rollback").map((line) => line.level), ["error"]);
  await restart(w);
  assertEquals(await ask(w, a), UNAVAILABLE);
  assertEquals(w.log.filter((line) => line.event === "crl_rollback").length, 2);
  lists.publish(await lists.signed({ seq: 8, revocations: [entry] }));
  await lists.refresh();
  assertEquals(await ask(w, a), REVOKED);
});

test("the list of another instance of the registry, signed earlier, counts after a restart", async ({ w, a, lists, entry }) => {
  const seq = 7, now = unixSeconds(w.clock.now());
  lists.publish(await lists.signed({ seq, issuedAtSeconds: now }));
  assertEquals(await ask(w, a), "200");
  lists.publish(await lists.signed({ seq, issuedAtSeconds: now - 400, revocations: [entry] }));
  await restart(w);
  assertEquals(await ask(w, a), REVOKED);
  assertEquals(w.log.filter((line) => line.event === "crl_rollback"), []);
});

test("CRL_NOT_FOUND means an empty list only until a signed list was seen, also after a restart", async ({ w, a, lists, entry }) => {
  lists.answer = notFound("CRL_NOT_FOUND");
  assertEquals(await ask(w, a), "200");
  await restart(w);
  assertEquals(await ask(w, a), "200");
  lists.publish(await lists.signed({ seq: 1, revocations: [entry] }));
  await lists.refresh();
  assertEquals(await ask(w, a), REVOKED);
  lists.answer = notFound("CRL_NOT_FOUND");
  await lists.refresh();
  assertEquals(await ask(w, a), REVOKED);
  await restart(w);
  assertEquals(await ask(w, a), UNAVAILABLE, "a forged 404 changes nothing");
});

test("a list that a new key has signed counts at once", async ({ w, a, lists, entry }) => {
  assertEquals(await ask(w, a), "200");
  const { publicKey: x, privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(9));
  const { keys: [own] } = await w.registry.deps.signing.document(), ofList = w.registryAnswer;
  const keys = [{ ...own, kid: "new", x }, { ...own, status: "retired" }];
  w.registryAnswer = (request) =>
    request.url.endsWith("svc-keys.json") ? Response.json({ keys }) : ofList?.(request) ?? null;
  lists.publish(await lists.signed({ seq: 2, revocations: [entry] }, { kid: "new", privateKey }));
  await lists.refresh();
  assertEquals(await ask(w, a), REVOKED);
});

test("a change is not hidden by a request for the list that was sent before it", async ({ w, a, lists, entry }) => {
  assertEquals(await ask(w, a), "200");
  const older = await lists.signed({ seq: 1 }), sent = Promise.withResolvers<Response>();
  lists.answer = () => sent.promise;
  const refreshing = lists.refresh();
  await until(() => lists.asked.length === 2);
  const again = w.proxy.deps.crl.refreshAgain();
  lists.publish(await lists.signed({ seq: 2, revocations: [entry] }));
  sent.resolve(Response.json({ crl: older }));
  await Promise.all([refreshing, again]);
  assertEquals(await ask(w, a), REVOKED);
});

test("what a deleted agent sent with a token that was only replaced is not delivered either", async ({ w, a, lists, entry }) => {
  const { crl } = w.proxy.deps,
    { did } = a.agent,
    deleted: Revocation = { ...entry, jti: w.newId(), reason: "agent_deleted" };
  for (const [seq, revocations, isOver] of [[1, [entry], false], [2, [deleted, entry], true]] as const) {
    lists.publish(await lists.signed({ seq, revocations: [...revocations] }));
    await lists.refresh();
    assertEquals(await crl.isSenderRevoked(did, entry.jti), isOver);
  }
});

test("any other 404 is not a list", async ({ w, a, lists }) => {
  for (const answer of [notFound("NOT_FOUND"), () => new Response("not here", { status: 404 })]) {
    lists.answer = answer;
    assertEquals(await ask(w, a), UNAVAILABLE);
  }
});

Deno.test("a list is used CRL_MAX_AGE_MS after its last confirmation, also by 304 or CRL_NOT_FOUND", async (t) => {
  const confirmations: [name: string, confirm: () => Response, empty: boolean][] = [
    ["304", () => new Response(null, { status: 304 }), false],
    ["CRL_NOT_FOUND", notFound("CRL_NOT_FOUND"), true],
  ];
  for (const [name, confirm, empty] of confirmations) {
    await t.step(name, async () => {
      const { w, a, lists } = await cast({ crlMaxAgeMs: 100_000 });
      await using _ = w;
      if (empty) lists.answer = confirm;
      else lists.publish(await lists.signed(), { ETag: '"the-tag"' });
      assertEquals(await ask(w, a), "200");
      lists.answer = confirm;
      for (let i = 0; i < 3; i++) {
        w.clock.step(100_000);
        assertEquals(await ask(w, a), "200");
        await lists.refresh();
      }
      if (!empty) assertEquals(lists.asked.at(-1)?.headers.get("if-none-match"), '"the-tag"');
      lists.answer = () => new Response(null, { status: 500 });
      w.clock.step(90_000);
      await lists.refresh();
      assertEquals(await ask(w, a), "200");
      w.clock.step(10_001);
      assertEquals(await ask(w, a), UNAVAILABLE);
      lists.answer = confirm;
      await lists.refresh();
      assertEquals(await ask(w, a), "200");
    });
  }
});

Deno.test("a step back of the clock beyond CRL_MAX_AGE_MS ends the use of a list until it is confirmed", async () => {
  const { w, a, lists } = await cast({ crlMaxAgeMs: 100_000 });
  await using _ = w;
  w.clock.step(200_000);
  lists.publish(await lists.signed());
  assertEquals(await ask(w, a), "200");
  lists.answer = () => new Response(null, { status: 500 });
  await lists.refresh();
  assertEquals(await ask(w, a), "200");
  w.clock.step(-100_001);
  assertEquals(await ask(w, a), UNAVAILABLE);
  lists.publish(await lists.signed({ seq: 2 }));
  await lists.refresh();
  assertEquals(await ask(w, a), "200");
});

test("after a clock that was an hour ahead is set back, the list is installed again, and an older one still refused", async ({ w, a, lists, entry }) => {
  w.clock.step(3_600_000);
  lists.publish(await lists.signed({ seq: 7, revocations: [entry] }));
  assertEquals(await ask(w, a), REVOKED);
  w.clock.step(-3_600_000);
  for (const [seq, answer] of [[6, UNAVAILABLE], [7, REVOKED]] as const) {
    lists.publish(await lists.signed({ seq, revocations: [entry] }));
    await lists.refresh();
    assertEquals(await ask(w, a), answer, `a list of the number ${seq}`);
  }
});

test("a list is not used after its exp, even when 304 confirms it", async ({ w, a, lists }) => {
  lists.publish(await lists.signed(), { ETag: '"the-tag"' });
  assertEquals(await ask(w, a), "200");
  lists.answer = () => new Response(null, { status: 304 });
  for (let i = 0; i < 2; i++) {
    w.clock.step(449_000);
    await lists.refresh();
    assertEquals(await ask(w, a), "200");
  }
  w.clock.step(2_000);
  await lists.refresh();
  const { length } = lists.asked;
  for (let i = 0; i < 3; i++) assertEquals(await ask(w, a), UNAVAILABLE);
  assertEquals(lists.asked.length, length, "requests do not ask the registry again");
  assertEquals(lists.asked.at(-1)?.headers.get("if-none-match"), null);
});

test("every request is refused until the first list arrives, and retries wait 10 s doubling to 60 s", async ({ w, a, lists }) => {
  lists.answer = () => Promise.reject(new TypeError("connection refused"));
  for (let i = 0; i < 3; i++) assertEquals(await ask(w, a), UNAVAILABLE);
  assertEquals(lists.asked.length, 1);
  for (const [i, seconds] of [10, 20, 40, 60, 60].entries()) {
    await w.clock.advance(seconds * 1000 - 1);
    assertEquals(lists.asked.length, i + 1, `before ${seconds} s`);
    await w.clock.advance(1);
    assertEquals(lists.asked.length, i + 2, `at ${seconds} s`);
    assertEquals(await ask(w, a), UNAVAILABLE);
  }
  lists.publish(await lists.signed());
  await w.clock.advance(60_000);
  await flushTasks();
  assertEquals(await ask(w, a), "200");
});

Deno.test("the list is fetched every CRL_REFRESH_INTERVAL_MS minus up to 10 %", async () => {
  const { w, a, lists } = await cast({ crlRefreshIntervalMs: 20_000 });
  await using _ = w;
  lists.publish(await lists.signed());
  assertEquals(await ask(w, a), "200");
  const waits: number[] = [];
  for (let i = 0; i < 5; i++) {
    const before = lists.asked.length;
    let waited = 17_999;
    await w.clock.advance(waited);
    for (; lists.asked.length === before; waited += 100) await w.clock.advance(100);
    waits.push(waited);
  }
  assert(waits.every((ms) => ms >= 18_000 && ms <= 22_000), `${waits}`);
  assert(Math.min(...waits) < 19_500, `${waits}: all instances would fetch at the same time`);
});

test("concurrent requests cause one fetch and do not wait for it while a list is usable", async ({ w, a, lists }) => {
  assertEquals(await tally(Array.from({ length: 20 }, () => get(w, a, "/pair/peers"))), { "200": 20 });
  assertEquals(lists.asked.length, 1);
  lists.answer = () => new Promise(() => {});
  const refreshing = lists.refresh();
  assertEquals(await ask(w, a), "200");
  await w.clock.advance(5_000);
  await refreshing;
  assertEquals(await ask(w, a), "200");
});

Deno.test("the list request carries the service credential and no data of an agent", async () => {
  const serviceCredential = { id: "01KHYQ5H00AAAAAAAAAAAAAAAA", secret: "svc_srv_test" };
  const { w, a, lists } = await cast({ serviceCredential });
  await using _ = w;
  assertEquals(await ask(w, a), "200");
  const [request] = lists.asked;
  assertEquals([request?.method, request?.redirect, request?.headers.get("authorization")], ["GET", "manual", null]);
  assertEquals(request?.headers.get(HEADERS.serviceId), serviceCredential.id);
  assertEquals(request?.headers.get(HEADERS.serviceSecret), serviceCredential.secret);
});

test("a CRL request that hangs causes 503 within 5 s of the clock", async ({ w, a, lists }) => {
  lists.answer = () => new Promise(() => {});
  const asking = ask(w, a);
  for (let i = 0; i < 3; i++) await flushTasks();
  assertEquals([await endsAfter(w, 5_000, asking), lists.asked.length], [UNAVAILABLE, 1]);
});

test("the proxy keeps the older list when the registry cannot build a new one", async ({ w, a, lists }) => {
  const b = await w.agent();
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  await lists.refresh();
  assertEquals([await ask(w, a), await ask(w, b)], ["200", REVOKED]);
  const [record] = await Array.fromAsync(w.kv.list({ prefix: ["registry", "revocation"] }));
  assert(record, "the registry's revocations are in an unexpected place");
  await w.kv.set(record.key, { ...(record.value as object), revokedAt: "yesterday" });
  await w.client.deleteAgent(a.owner.apiKey, a.agent.id);
  await lists.refresh();
  // The older list admits the request; the registry knows that the agent is deleted.
  assertEquals([await ask(w, a), await ask(w, b)], ["403 PROXY_PAIR_OWNERSHIP_FORBIDDEN", REVOKED]);
});

test("a long list is read in slices and installed as a whole", async ({ w, a, lists, entry }) => {
  const others = Array.from(
    { length: 5_000 },
    (_, i) => ({ ...entry, jti: `01KHYQ5H00${String(i).padStart(16, "0")}` }),
  );
  const crl = await lists.signed({ revocations: [...others, entry] });
  assertEquals(await ask(w, a), "200");
  let turns = 0;
  const counting = setInterval(() => turns++, 0);
  lists.publish(crl);
  await lists.refresh();
  clearInterval(counting);
  assert(turns > 3, `${turns} turns for others`);
  assertEquals(await ask(w, a), REVOKED);
  // A long answer in another form is not a list.
  lists.answer = () => new Response(`{"crl": "${crl}"}`);
  await lists.refresh();
  assertEquals(w.log.at(-1)?.event, "crl_refresh_failed");
});

test("a list is read for at most 10 s when its body takes longer than its head", async ({ w, a, lists, entry }) => {
  const text = JSON.stringify({ crl: await lists.signed({ revocations: [entry] }) });
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  lists.answer = () => new Response(new ReadableStream<Uint8Array>({ start: (own) => void (controller = own) }));
  const slow = lists.refresh();
  await until(() => controller !== undefined);
  await flushTasks();
  await w.clock.advance(9_000);
  controller?.enqueue(new TextEncoder().encode(text));
  controller?.close();
  await slow;
  assertEquals(await ask(w, a), REVOKED);
  const before = lists.asked.length;
  const endless = lists.refresh();
  await until(() => lists.asked.length !== before);
  await flushTasks();
  await w.clock.advance(10_000);
  await endless;
  assertEquals(w.log.at(-1)?.event, "crl_refresh_failed");
});

test("a list over 32 MiB is refused by its length before its body is read", async ({ w, lists }) => {
  let pulled = 0, cancelled = false;
  const body = () =>
    new ReadableStream({
      pull: (controller) => {
        pulled++;
        controller.enqueue(new Uint8Array(65_536));
      },
      cancel: () => void (cancelled = true),
    }, { highWaterMark: 0 });
  lists.answer = () => new Response(body(), { headers: { "Content-Length": "33554433" } });
  await lists.refresh();
  assertEquals([pulled, cancelled, w.proxy.deps.crl.ready], [0, true, false]);
  lists.answer = () => new Response(body());
  await lists.refresh();
  assertEquals([pulled <= 33_554_432 / 65_536 + 2, cancelled, w.proxy.deps.crl.ready], [true, true, false]);
});
