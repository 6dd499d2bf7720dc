/** A process of another user at the runtime's port (D-397): nothing is sent to it, and the message waits. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { thisMachine } from "../../../cli/platforms/local_machine.ts";
import { PLATFORMS } from "../../../cli/platforms/table.ts";
import { Runtime } from "../../../cli/connector/runtime/runtime.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { LocalClient } from "../../../shared/client/local_client.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { passing, RUNTIME_URL, story } from "./bench.ts";
import { contextOf } from "./context.ts";
import { machineWithAlpha } from "./local_machine.ts";

Deno.test("a message waits while another user has the port of the runtime, and is handed over afterwards", async () => {
  await using world = await World.open();
  let isOther = true;
  const { a, b, bench } = await story(world, {
    target: { hookToken: "hook-token" },
    isOfOtherUser: (url) => Promise.resolve(isOther && url === RUNTIME_URL),
  });
  assertEquals((await (await world.message(a, b)).json()).delivered, true);
  await until(() => bench.eventsOf("handover_failed").length === 1);
  const { runtime, inbox } = bench.connector.status();
  assertEquals([runtime.reachable, inbox.waiting, bench.calls], [false, 1, []]);
  assertStringIncludes(runtime.problem ?? "", "runtime_of_other_user");
  isOther = false;
  await passing(world, 60, () => bench.handedOver.length === 1);
  assertEquals(bench.connector.status().runtime.reachable, true);
});

Deno.test("a check of the runtime's health is not sent to another user", async (t) => {
  for (const platform of [PLATFORMS.openclaw, PLATFORMS.hermes, PLATFORMS.generic]) {
    await t.step(platform.id, async () => {
      await using world = await World.open();
      const target = { platform: platform.id, baseUrl: RUNTIME_URL, hookPath: "/in", hookToken: "t", replies: false };
      const refuse = () => Promise.reject(new Error("a request was sent"));
      const deps = { fetch: refuse, reach: refuse, clock: world.clock, isOfOtherUser: () => Promise.resolve(true) };
      const problem = await new Runtime(deps, platform, target).problem();
      assertEquals(problem?.split(":")[0], "runtime_of_other_user");
    });
  }
});

Deno.test("a runtime of another user is not found", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const ask = (isOther: boolean) => {
    const isOfOtherUser = (url: string) => Promise.resolve(isOther && url === RUNTIME_URL);
    const answer = () => Promise.resolve(new Response("ok"));
    return thisMachine({ ...contextOf(world, machine), fetch: answer, isOfOtherUser }).ask(RUNTIME_URL);
  };
  assertEquals([await ask(false), await ask(true)], [{ status: 200, body: "ok" }, null]);
});

Deno.test("each hand-over looks again at who has the port", async () => {
  await using world = await World.open();
  let looks = 0;
  const { a, b, bench } = await story(world, { isOfOtherUser: () => Promise.resolve(++looks < 0) });
  await until(() => looks === 1);
  for (let n = 1; n <= 3; n++) {
    await world.message(a, b, { headers: { "x-request-id": `request-${n}` } });
    await until(() => bench.eventsOf("handed_over").length === n);
    assertEquals(looks, n + 1);
  }
});

const file = { url: "http://127.0.0.1:1", port: 1, token: "t", pid: 1, agentDid: "did", startedAt: "" };
const fetch = () => Promise.reject(new Error("a request was sent"));

Deno.test("a token of the local API is not sent to another user", async () => {
  await using world = await World.open();
  const [find, isOfOtherUser] = [() => Promise.resolve(file), () => Promise.resolve(true)];
  const client = new LocalClient("alpha", { fetch, clock: world.clock, find, isOfOtherUser });
  const send = () => client.send({ method: "GET", target: "/v1/status" });
  assertEquals((await assertRejects(send, LocalDown, "another user")).wasSent, false);
});

Deno.test("no token is sent when the connector ends while the owner of its port is looked up", async () => {
  await using world = await World.open();
  let isUp = true;
  const find = () => Promise.resolve(isUp ? file : null);
  const isOfOtherUser = () => Promise.resolve(isUp = false);
  const client = new LocalClient("alpha", { fetch, clock: world.clock, find, isOfOtherUser });
  await assertRejects(() => client.send({ method: "GET", target: "/v1/status" }), LocalDown, "has ended");
});
