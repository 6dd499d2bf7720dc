/**
 * Revocation takes effect quickly (D-64): a connected agent is checked again after each announcement, and closed with
 * its code.
 */
import { assertEquals } from "@std/assert";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, type TestSocket, World } from "../../support/world.ts";

const ENDINGS: [string, (w: World, agent: TestAgent) => Promise<unknown>][] = [
  ["agent deleted", (w, { owner, agent }) => w.client.deleteAgent(owner.apiKey, agent.id)],
  ["session revoked", (w, { owner, agent }) => w.ask("DELETE", `/v1/agents/${agent.id}/auth/revoke`, owner)],
  ["token reissued", (w, { owner, agent }) => w.ask("POST", `/v1/agents/${agent.id}/reissue`, owner)],
];

Deno.test("a connected agent is closed with 4401 and a reason as soon as it is no longer authorised", async (t) => {
  for (const [name, end] of ENDINGS) {
    await t.step(name, async () => {
      await using w = await World.open();
      await w.proxy.start();
      const { a, b, socket } = await w.story();
      const bystander = w.connect(a);
      await end(w, b);
      await until(() => socket.closed !== null);
      assertEquals(socket.closed?.code, 4401);
      assertEquals(socket.frames.at(-1)?.type, "revoked");
      assertEquals(bystander.closed, null);
      const code = name === "agent deleted" ? "PROXY_AUTH_FORBIDDEN" : "PROXY_RELAY_CONNECTOR_OFFLINE";
      assertEquals(await codeOf(await w.message(a, b)), code);
    });
  }
});

Deno.test("an agent reads that its owner is suspended, and not that its session has ended", async () => {
  await using w = await World.open();
  await w.proxy.start();
  const { b, socket } = await w.story(), { apiKey } = await w.admin();
  await w.ask("POST", `/v1/admin/people/${b.owner.id}/suspend`, { apiKey, body: {} });
  await until(() => socket.closed !== null);
  const last = socket.frames.at(-1);
  const reason = last?.type === "revoked" ? last.reason : null;
  assertEquals([socket.closed?.code, reason], [4401, "an admin has suspended the account of its owner"]);
});

Deno.test("a deleted agent's next message is refused as revoked after the announcement", async () => {
  await using w = await World.open();
  await w.proxy.start();
  const { a, b } = await w.story();
  await w.client.deleteAgent(a.owner.apiKey, a.agent.id);
  assertEquals((await w.message(a, b)).status, 401);
  // The list is fetched after the announcement.
  await until(async () => await codeOf(await w.message(a, b)) === "PROXY_AUTH_REVOKED");
});

Deno.test("the end of a pair refuses the next message and closes no socket", async () => {
  await using w = await World.open();
  await w.proxy.start();
  const { a, b, socket } = await w.story();
  await w.fetch(await w.signed(b, { target: "/pair/remove", body: JSON.stringify({ peerAgentDid: a.agent.did }) }));
  assertEquals(await codeOf(await w.message(a, b)), "PROXY_AUTH_FORBIDDEN");
  await flushTasks();
  assertEquals(socket.closed, null);
});

Deno.test("a socket is checked at the CRL interval and every five minutes without a shared store", async (t) => {
  const cases: [string, (typeof ENDINGS)[number][1], number][] = [
    ["agent deleted", ENDINGS[0]![1], 300_000],
    ["session revoked", ENDINGS[1]![1], 300_001],
  ];
  for (const [name, end, within] of cases) {
    await t.step(name, async () => {
      await using w = await World.open();
      // The regular rounds only: announcements are not watched.
      void w.proxy.deps.crl.refresh();
      w.proxy.deps.revalidation.start();
      const { b, socket } = await w.story();
      socket.alive = true;
      await end(w, b);
      await w.clock.advance(within);
      await until(() => socket.closed !== null);
      assertEquals(socket.closed?.code, 4401);
      w.proxy.deps.revalidation.stop();
    });
  }
});

Deno.test("a socket that opens with a token which was reissued meanwhile is closed at its first check", async () => {
  await using w = await World.open();
  const { b } = await w.story();
  await w.client.reissueAgent(b.owner.apiKey, b.agent.id);
  const { crl, connectedAgents, revalidation } = w.proxy.deps;
  await crl.refresh();
  const late = w.connect(b);
  await w.connected();
  for (const link of connectedAgents.links(b.agent.did)) await revalidation.check(link);
  assertEquals(late.closed?.code, 4401);
});

Deno.test("an unreachable registry closes no socket", async () => {
  await using w = await World.open();
  const { b, socket }: { b: TestAgent; socket: TestSocket } = await w.story();
  w.registryAnswer = () => new Response("gone", { status: 500 });
  await w.proxy.deps.revalidation.onTrustChange([b.agent.did], w.clock.now());
  assertEquals(socket.closed, null);
});

Deno.test("a socket whose agent is deleted or logged out is closed while the revocation list does not answer", async (t) => {
  for (const [name, end] of ENDINGS.slice(0, 2)) {
    await t.step(name, async () => {
      await using w = await World.open();
      await w.proxy.start();
      const { b, socket } = await w.story();
      const held = Promise.withResolvers<Response>();
      w.registryAnswer = ({ url }) => url.endsWith("/v1/crl") ? held.promise : null;
      await end(w, b);
      await until(() => socket.closed !== null);
      const closed = socket.closed;
      held.resolve(new Response(null, { status: 500 }));
      await flushTasks();
      assertEquals(closed?.code, 4401);
    });
  }
});
