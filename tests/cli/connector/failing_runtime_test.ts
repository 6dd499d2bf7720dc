/** A runtime that fails for one message, conversation or peer, or while the machine sleeps: what the others get. */
import { assert, assertEquals } from "@std/assert";
import { DAY_MS } from "../../../shared/clock.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { accepts, isDown, MANY, passing, story } from "./bench.ts";

const body = (message: string) => JSON.stringify({ message });

Deno.test("a message that is refused as busy or late keeps its waits while other messages go through", async () => {
  await using world = await World.open(MANY);
  const { a, b, bench } = await story(world);
  const statuses = [["busy", 429], ["locked", 401], ["slow", 408]] as const;
  bench.behaviour = ({ body }) =>
    new Response(null, { status: statuses.find(([word]) => body.includes(word))?.[1] ?? 200 });
  const send = (text: string) => world.message(a, b, { body: body(text), headers: { "X-Svc-Conversation-Id": text } });
  for (const [word] of statuses) await send(word);
  for (let n = 0; n < 60; n++) {
    await send(`good${n}`);
    await world.clock.advance(5_000);
  }
  await until(() => bench.eventsOf("handed_over").length === 60);
  // After an answer that means an outage, a success of another one hands a message over again, but not each time.
  for (const [word, most] of [["busy", 15], ["slow", 15], ["locked", 30]] as const) {
    const tried = bench.handedOver.filter((text) => text.includes(word)).length;
    assert(tried <= most, `${word} was handed over ${tried} times in 5 min`);
  }
});

Deno.test("a message that an A2A agent answers in another form is tried no sooner when others succeed", async () => {
  await using world = await World.open(MANY);
  const { a, b, bench } = await story(world, { platform: "a2a" });
  const ok = { result: { message: { messageId: "m", role: "ROLE_AGENT", parts: [{ text: "ok" }] } } };
  bench.behaviour = ({ body }) =>
    body.includes("locked") ? new Response(null, { status: 401 }) : Response.json(body.includes("odd-form") ? {} : ok);
  const send = (text: string) => world.message(a, b, { body: body(text), headers: { "X-Svc-Conversation-Id": text } });
  for (const text of ["odd-form", "locked"]) await send(text);
  for (let n = 0; n < 60; n++) {
    await send(`good${n}`);
    await world.clock.advance(5_000);
  }
  await until(() => bench.eventsOf("handed_over").length === 60);
  const tried = bench.handedOver.filter((text) => text.includes("odd-form")).length;
  assert(tried <= 14, `it was handed over ${tried} times in 5 min`);
});

Deno.test("a message that ends the runtime each time is tried once a minute, and the others go through", async (t) => {
  await t.step("of other conversations", () => endsRuntime((text) => text));
  await t.step("of the same conversation", () => endsRuntime(() => "conversation"));
});

async function endsRuntime(conversationOf: (text: string) => string) {
  await using world = await World.open(MANY);
  const { a, b, bench } = await story(world);
  let upAt = 0, ends = 0;
  bench.behaviour = (call, n) => {
    if (world.clock.now() < upAt) return isDown(call, n);
    if (!call.body.includes("poison")) return accepts(call, n);
    ends++;
    upAt = world.clock.now() + 2_000;
    const cause = new Error("client error (SendRequest): connection closed before message completed");
    throw new TypeError("fetch failed", { cause });
  };
  const send = (text: string) =>
    world.message(a, b, { body: body(text), headers: { "X-Svc-Conversation-Id": conversationOf(text) } });
  await send("poison");
  for (let n = 0; n < 60; n++) {
    await send(`good${n}`);
    await world.clock.advance(5_000);
  }
  await until(() => bench.eventsOf("handed_over").length === 60);
  assert(ends <= 15, `the runtime ended ${ends} times in 5 min`);
  assertEquals(bench.eventsOf("handover_failed")[0]?.why, "the connection ended before the answer");
}

Deno.test("a runtime that starts after the machine slept for two days gets the messages from before", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { behaviour: isDown });
  await world.message(a, b);
  await until(() => bench.eventsOf("handover_failed").length >= 1);
  world.clock.step(2 * DAY_MS);
  await passing(world, 70, () => bench.eventsOf("handover_failed").length >= 5);
  bench.behaviour = accepts;
  await passing(world, 60, () => bench.eventsOf("handed_over").length === 1);
  assertEquals(bench.eventsOf("dead_letter"), []);
});
