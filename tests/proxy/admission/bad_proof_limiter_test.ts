/** Shows the limiter of bad proofs: it refuses the client that floods, and no other client. */
import { assertEquals, assertThrows } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { noncesOf } from "../../support/sender_counts.ts";
import { BAD_PROOFS_MAX, BadProofLimiter } from "../../../proxy/admission/bad_proof_limiter.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import type { RequestContext } from "../../../shared/server/http/route.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { codeOf, PROXY_URL, type TestAgent, World } from "../../support/world.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";
import { withAit } from "../proxy_world.ts";
import { connected, sharedStore, two } from "../relay/two_instances.ts";

const FAILING = { ownerDid: "did:svc:registry.example.test:human:01KHYQ5H00AAAAAAAAAAAAAAAA", isProven: false };
const NO_BODIES = { bodyWaitMs: () => 0 };
const BAD = { signed: { method: "PUT" } };

/** A request with a token, from one address. */
const exchangeOf = (token: string) =>
  ({
    ip: "192.0.2.1",
    request: new Request(PROXY_URL, { headers: { Authorization: `Svc ${token}` } }),
  }) as RequestContext;

/** Counts refused requests of an agent as the checks do, without sending each of them. */
function failed(w: World, { identity, owner }: TestAgent, times: number, isProven = false): void {
  const exchange = exchangeOf(identity.ait);
  for (let i = 0; i < times; i++) w.proxy.deps.guard.recordFailure(exchange, { ownerDid: owner.did, isProven });
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("the same token from the same address is refused without verification after 200 bad proofs in 10 s", async ({ w, a, b }) => {
  failed(w, a, BAD_PROOFS_MAX - 3);
  for (let i = 0; i < 3; i++) assertEquals(await codeOf(await w.message(a, b, BAD)), "PROXY_AUTH_INVALID_PROOF");
  const refused = await w.message(a, b, BAD);
  assertEquals(refused.status, 429);
  assertEquals(refused.headers.get("Retry-After"), "10");
  assertEquals(await codeOf(refused), "PROXY_RATE_LIMIT_EXCEEDED");

  w.peer = { from: "socket", address: "192.0.2.2" };
  assertEquals((await w.message(a, b)).status, 202, "the same agent from another address");
  w.peer = { from: "socket", address: "192.0.2.1" };
  const c = await w.agent();
  await w.pair(c, b);
  assertEquals((await w.message(c, b)).status, 202, "another agent at the same address");

  await w.clock.advance(10_000);
  assertEquals((await w.message(a, b)).status, 202, "the same agent, later");
});

Deno.test("requests over the rate limit are refused before their nonce is written when they go on", async () => {
  await using w = await World.open({ proxy: { agentRequests: 5 } });
  const { a, b } = await w.story();
  const nonces = async () => noncesOf((await w.kv.get(KEYS.sender(a.agent.did))).value);
  failed(w, a, BAD_PROOFS_MAX - 3);
  for (let i = 0; i < 10; i++) await w.message(a, b);
  const before = await nonces();
  for (let i = 0; i < 10; i++) assertEquals((await w.message(a, b)).status, 429);
  assertEquals(await nonces(), before);
});

test("replays count like bad proofs, also those that only the store knows after a restart", async ({ w, a, b }) => {
  const signed = await Promise.all(
    Array.from({ length: 3 }, () => w.signed(a, { recipient: b.agent.did, body: "{}" })),
  );
  for (const request of signed) assertEquals((await w.fetch(request.clone())).status, 202);
  await w.start();
  w.connect(b);
  failed(w, a, BAD_PROOFS_MAX - 6);
  for (let i = 0; i < 6; i++) {
    const request = signed[i % signed.length] as Request;
    assertEquals(await codeOf(await w.fetch(request.clone())), "PROXY_AUTH_REPLAY");
  }
  const [first] = signed as [Request];
  assertEquals(await codeOf(await w.fetch(first.clone())), "PROXY_RATE_LIMIT_EXCEEDED");
  await w.clock.advance(10_000);
  assertEquals(await codeOf(await w.fetch(first)), "PROXY_AUTH_REPLAY");
});

test("after 1,000 refused requests of an owner's agents all of them are refused unread, at every address if signed", async ({ w, a, b }) => {
  const siblings = await Promise.all(Array.from({ length: 7 }, () => w.agent(a.owner)));
  for (const sibling of siblings.slice(0, 6)) failed(w, sibling, 160, true);
  const limited = async (agent: TestAgent) => (await (await w.message(agent, b)).json()).error.message as string;
  // Without a pair each is refused after its nonce, so it costs a commit.
  for (let i = 0; i < 40; i++) assertEquals((await w.message(siblings[i % 6] as TestAgent, b)).status, 403);
  const text = "Too many refused requests of the agents of your account";
  assertEquals(await limited(siblings[0] as TestAgent), text);
  w.peer = { from: "socket", address: "192.0.2.2" };
  assertEquals(
    (await w.message(siblings[6] as TestAgent, b)).status,
    403,
    "a token without a failure is looked at once",
  );
  assertEquals(await limited(siblings[6] as TestAgent), text);
  assertEquals((await w.message(b, a)).status, 502, "another owner");
  await w.clock.advance(10_000);
  assertEquals((await w.message(siblings[0] as TestAgent, b)).status, 403);
});

test("requests that an owner's agents did not sign count for their address only", async ({ w, a, b }) => {
  const siblings = await Promise.all(Array.from({ length: 6 }, () => w.agent(a.owner)));
  for (const sibling of siblings) await w.pair(sibling, b);
  for (const sibling of siblings) failed(w, sibling, 160);
  for (let i = 0; i < 40; i++) await w.message(siblings[i % 6] as TestAgent, b, BAD);
  assertEquals((await w.message(siblings[0] as TestAgent, b)).status, 429);
  w.peer = { from: "socket", address: "192.0.2.2" };
  // A token without a failure at this address is not looked at.
  assertEquals((await w.message(siblings[0] as TestAgent, b, BAD)).status, 401);
  assertEquals((await w.message(siblings[0] as TestAgent, b)).status, 202);
});

Deno.test("a replay that only the commit finds does not count for all agents of its owner", async () => {
  await two(sharedStore, async (w1, w2, a, b) => {
    const socket = await connected(w1, b);
    assertEquals((await w2.message(a, b)).status, 202);
    const request = await w1.signed(a, { recipient: b.agent.did, body: "{}" });
    assertEquals((await w1.fetch(request.clone())).status, 202);
    // Other tokens of the owner, at another address.
    const others = Array.from({ length: 9 }, (_, i) => withAit(a, `token-${i}`));
    for (const other of others) failed(w2, other, 111, true);
    w2.peer = { from: "socket", address: "192.0.2.2" };
    assertEquals(await codeOf(await w2.fetch(request)), "PROXY_AUTH_REPLAY");
    assertEquals((await w2.message(a, b)).status, 202);
    assertEquals(socket.delivered.length, 3);
  });
});

Deno.test("an owner who goes on to send too many bytes has large messages refused unread, and small ones still pass", async () => {
  await using w = await World.open({ proxy: { ownerRequests: 1_200 } });
  const { a, b } = await w.story();
  const body = JSON.stringify({ message: "x".repeat(250_000) });
  const large = { body, headers: { "content-length": String(body.length) } };
  const nonces = async () => noncesOf((await w.kv.get(KEYS.sender(a.agent.did))).value);
  for (let n = 0; n < 28; n++) assertEquals((await w.message(a, b, large)).status, n < 8 ? 202 : 429);
  const before = await nonces();
  for (const message of [large, { body }]) {
    const refused = await w.message(a, b, message);
    assertEquals((await refused.json()).error.message, "The agents of your account together send too many bytes");
  }
  assertEquals(await nonces(), before);
  assertEquals((await w.message(a, b, { headers: { "content-length": "2" }, body: "{}" })).status, 202);
  await w.clock.stepWhenIdle(1_000);
  assertEquals((await w.message(a, b, large)).status, 202);
});

test("the limiter refuses every spelling of the token's header after 200 bad proofs", async ({ w, a, b }) => {
  const spelling = (i: number) => ({ ...BAD, headers: { Authorization: `Svc${" ".repeat(1 + i)}${a.identity.ait}` } });
  failed(w, a, BAD_PROOFS_MAX - 5);
  for (let i = 0; i < 5; i++) {
    assertEquals(await codeOf(await w.message(a, b, spelling(i))), "PROXY_AUTH_INVALID_PROOF");
  }
  const others = [spelling(500), { ...BAD, headers: { Authorization: `sVC ${a.identity.ait}` } }];
  for (const parts of others) assertEquals((await w.message(a, b, parts)).status, 429);
});

Deno.test("a client that ignores its lock waits a second for each refusal, at most 256 at once", async () => {
  const clock = new ManualClock(), guard = new BadProofLimiter(clock, NO_BODIES);
  for (let i = 0; i < BAD_PROOFS_MAX; i++) guard.recordFailure(exchangeOf("loud"), FAILING);
  for (let i = 0; i < 20; i++) assertThrows(() => guard.rejectIfOver(exchangeOf("loud")), ServiceError);
  let late = 0;
  const refusals = Array.from({ length: 256 }, () =>
    guard.rejectIfOver(exchangeOf("loud"))?.catch((error) => {
      assertEquals(error.code, "PROXY_RATE_LIMIT_EXCEEDED");
      late++;
    }));
  assertThrows(() => guard.rejectIfOver(exchangeOf("loud")), ServiceError);
  await clock.advance(999);
  assertEquals(late, 0);
  await clock.advance(1);
  await Promise.all(refusals);
  assertEquals(late, 256);
  const again = guard.rejectIfOver(exchangeOf("loud"))?.catch(() => late++);
  await clock.advance(1_000);
  await again;
  assertEquals(late, 257, "the places are free again");
  assertEquals(guard.rejectIfOver(exchangeOf("quiet")), undefined);
});

Deno.test("the limiter keeps the newest counts when it receives a flood of tokens", () => {
  const guard = new BadProofLimiter(new ManualClock(), NO_BODIES);
  const noted = (token: string) => {
    const exchange = exchangeOf(token);
    for (let i = 0; i < BAD_PROOFS_MAX; i++) guard.recordFailure(exchange, FAILING);
  };
  for (let i = 0; i < 5_000; i++) guard.recordFailure(exchangeOf(`first-${i}`), null);
  noted("attacker");
  for (let i = 0; i < 9_000; i++) guard.recordFailure(exchangeOf(`second-${i}`), null);
  assertThrows(() => guard.rejectIfOver(exchangeOf("attacker")), ServiceError);
});

Deno.test("once the counts are over, no request is read for them until another one fails", async () => {
  const clock = new ManualClock(), guard = new BadProofLimiter(clock, NO_BODIES);
  let reads = 0;
  const watched = (token: string) => {
    const exchange = exchangeOf(token), { request } = exchange;
    return Object.defineProperty(exchange, "request", { get: () => (reads++, request) });
  };
  const asked = () => [guard.rejectIfOver(watched("honest")), reads];
  assertEquals(asked(), [undefined, 0]);
  guard.recordFailure(exchangeOf("other"), FAILING);
  assertEquals(asked(), [undefined, 1]);
  await clock.advance(9_999);
  assertEquals(asked(), [undefined, 2]);
  await clock.advance(1);
  assertEquals(asked(), [undefined, 2]);
  guard.recordFailure(exchangeOf("other"), FAILING);
  assertEquals(asked(), [undefined, 3]);
});
