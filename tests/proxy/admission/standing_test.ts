/**
 * Shows what a message relies on that an earlier one has proven, and that each end of it is refused with its own code: with
 * the services in one process, where a standing is kept.
 */
import { assertEquals } from "@std/assert";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { ProxyConfig } from "../../../proxy/config.ts";
import { answered, outcome } from "../../support/registry_world.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { openProxy, post, restart } from "../proxy_world.ts";
import { until } from "../../support/until.ts";

/** Two paired agents, and the number of identity tokens that admission has verified. */
async function cast(proxy: Partial<ProxyConfig> = {}) {
  const w = await openProxy({ sharedProcess: true, proxy });
  const { a, b } = await w.story();
  const { aits } = w.proxy.deps, verify = aits.verify.bind(aits);
  const count = { verified: 0 };
  aits.verify = (token) => {
    count.verified++;
    return verify(token);
  };
  return { w, a, b, count };
}

type End = (w: World, a: TestAgent, b: TestAgent) => Promise<unknown>;

const ENDS: Readonly<Record<string, [end: End, refusal: string]>> = {
  "the pair ends": [
    (w, a, b) => post(w, b, "/pair/remove", { peerAgentDid: a.agent.did }),
    "403 PROXY_AUTH_FORBIDDEN",
  ],
  "the session is revoked": [
    (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey }),
    "401 PROXY_AGENT_ACCESS_INVALID",
  ],
  "the sender is deleted": [
    (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}`, { apiKey: a.owner.apiKey }),
    "401 PROXY_AUTH_REVOKED",
  ],
  "the recipient is deleted": [
    (w, _a, b) => w.ask("DELETE", `/v1/agents/${b.agent.id}`, { apiKey: b.owner.apiKey }),
    "403 PROXY_AUTH_FORBIDDEN",
  ],
  "the sender gets another identity token": [
    (w, a) => w.client.reissueAgent(a.owner.apiKey, a.agent.id),
    "401 PROXY_AGENT_ACCESS_INVALID",
  ],
  "the owner is suspended": [
    async (w, a) => {
      const { apiKey } = await w.admin();
      await w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey, body: { reason: "a test" } });
    },
    "401 PROXY_AGENT_ACCESS_INVALID",
  ],
  // Its last second is one in which the list is fresh and the session good, so that nothing else can refuse it.
  "the identity token expires": [
    async (w, a, b) => {
      await w.clock.stepWhenIdle(Date.parse(a.agent.expiresAt) - w.clock.now() - 1_000);
      await w.renew(a);
      assertEquals(await outcome(await w.message(a, b)), "202");
      await w.clock.stepWhenIdle(1_000);
    },
    "401 PROXY_AUTH_INVALID_AIT",
  ],
  "the registry withdraws the key of its tokens": [
    async (w) => {
      const { keys } = await w.registry.deps.signing.document();
      const { publicKey: x } = await keyPairFromSeed(w.random.bytes(32));
      const others = keys.map((key) => ({ ...key, kid: "key-2", x }));
      w.registryAnswer = ({ url }) => url.endsWith("/svc-keys.json") ? Response.json({ keys: others }) : null;
      await w.clock.stepWhenIdle(301_000);
    },
    "401 PROXY_AUTH_INVALID_AIT",
  ],
  "the access token expires": [(w) => w.clock.stepWhenIdle(900_000), "401 PROXY_AGENT_ACCESS_INVALID"],
};

for (const [name, [end, refusal]] of Object.entries(ENDS)) {
  Deno.test(`a message that relies on an earlier one is refused once ${name}`, async () => {
    const { w, a, b, count } = await cast();
    await using _ = w;
    for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(a, b)), "202");
    assertEquals(count.verified, 1);
    await end(w, a, b);
    w.passRelied();
    for (let i = 0; i < 2; i++) assertEquals(await outcome(await w.message(a, b)), refusal);
  });
}

Deno.test("a message that was refused because its pair had ended is a replay, also once there is another pair", async () => {
  const { w, a, b } = await cast();
  await using _ = w;
  assertEquals(await outcome(await w.message(a, b)), "202");
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
  await post(w, b, "/pair/remove", { peerAgentDid: a.agent.did });
  w.passRelied();
  assertEquals(await outcome(await w.fetch(request.clone())), "403 PROXY_AUTH_FORBIDDEN");
  await w.pair(a, b);
  assertEquals(await outcome(await w.fetch(request)), "401 PROXY_AUTH_REPLAY");
});

Deno.test("a message over the rate limit is refused for what has ended, because checks 7 and 8 come before check 9", async (t) => {
  for (const name of ["the pair ends", "the session is revoked", "the sender is deleted"]) {
    await t.step(name, async () => {
      const { w, a, b } = await cast({ agentRequests: 6 });
      await using _ = w;
      while (await outcome(await w.message(a, b)) === "202");
      assertEquals(await outcome(await w.message(a, b)), "429 PROXY_RATE_LIMIT_EXCEEDED");
      const [end, refusal] = ENDS[name]!;
      await end(w, a, b);
      w.passRelied();
      const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
      assertEquals(await outcome(await w.fetch(request.clone())), refusal);
      assertEquals(await outcome(await w.message(a, b)), refusal);
      await restart(w);
      assertEquals(await outcome(await w.fetch(request)), "401 PROXY_AUTH_REPLAY");
    });
  }
});

Deno.test("a message relies on nothing that an earlier one has not proven", async (t) => {
  const { w, a, b, count } = await cast();
  await using _ = w;
  const c = await w.agent();
  await w.pair(a, c);
  w.connect(c);
  count.verified = 0;
  await answered(await w.message(a, b), 202);
  await t.step("another recipient", async () => {
    await answered(await w.message(a, c), 202);
    assertEquals(count.verified, 2);
  });
  await t.step("another access token", async () => {
    w.clock.step(5_000);
    const { accessToken } = await w.client.refresh(a.identity, a.agentAuth.refreshToken);
    w.passRelied();
    assertEquals(await outcome(await w.message(a, b)), "401 PROXY_AGENT_ACCESS_INVALID");
    a.identity.accessToken = accessToken;
    const before = count.verified;
    await answered(await w.message(a, b), 202);
    assertEquals(count.verified, before + 1);
  });
  await t.step("a clock that stepped back", async () => {
    const before = count.verified;
    w.clock.step(-1_000);
    await answered(await w.message(a, b), 202);
    assertEquals(count.verified, before + 1);
  });
  await t.step("a bad proof", async () => {
    const other = { ...a, identity: { ...a.identity, privateKey: b.identity.privateKey } };
    assertEquals(await outcome(await w.message(other, b)), "401 PROXY_AUTH_INVALID_PROOF");
  });
});

Deno.test("a message relies on no keys whose grace has ended", async () => {
  const { w, a, b } = await cast();
  await using _ = w;
  await answered(await w.message(a, b), 202);
  w.registryAnswer = ({ url }) => url.endsWith("/svc-keys.json") ? new Response(null, { status: 500 }) : null;
  for (const ms of [301_000, 898_000]) {
    await w.clock.stepWhenIdle(ms);
    await w.proxy.deps.crl.refresh();
    await w.renew(a);
    await answered(await w.message(a, b), 202);
  }
  await w.clock.stepWhenIdle(2_000);
  assertEquals(await outcome(await w.message(a, b)), "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE");
});

Deno.test("a message that was acknowledged is delivered for its sender, also when the pair has ended meanwhile", async () => {
  const w = await openProxy({ sharedProcess: true });
  await using _ = w;
  const { a, b, socket } = await w.story();
  socket.behaviour = "silent";
  const sending = w.message(a, b);
  await until(() => socket.delivered.length === 1);
  await post(w, b, "/pair/remove", { peerAgentDid: a.agent.did });
  w.passRelied();
  socket.ack(socket.delivered[0]?.id ?? "");
  const { delivered } = await answered<{ delivered: boolean }>(await sending, 202);
  assertEquals(delivered, true);
});
