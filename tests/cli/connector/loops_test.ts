/** Programs that pass every message on through the local API (D-113): a ring of them ends, also without any mark. */
import { assert, assertEquals } from "@std/assert";
import { LOOP_MESSAGES } from "../../../cli/link/loop_guard.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { Bench, MANY } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";

/** How a program passes a message on, beside its recipient. */
type PassOn = (message: { requestId: string; conversationId: string | null }, n: number) => Record<string, unknown>;

/** Lets agents pass a message on in a ring until none has another one. Returns what they sent. */
async function ring(world: World, size: number, passOn: PassOn): Promise<{ sent: number; refused: number }> {
  const agents: TestAgent[] = [];
  for (let n = 0; n < size; n++) {
    const agent = await world.agent();
    for (const other of agents) await world.pair(other, agent);
    agents.push(agent);
  }
  await using stack = new AsyncDisposableStack();
  const members: ReturnType<typeof asker>[] = [];
  for (const agent of agents) members.push(asker(stack.use(await Bench.open(world, agent, { platform: "inbox" }))));
  const next = (i: number) => agents[(i + 1) % size]?.agent.did ?? "";
  const count = { sent: 0, refused: 0 };
  const send = async (i: number, more: Record<string, unknown>) => {
    const { status, body } = await members[i]!("/v1/outbound", post({ to: next(i), text: "Pass it on", ...more }));
    if (status === 202) return assert(++count.sent <= 100, "it does not end");
    assertEquals([status, body.error.code], [429, "CONNECTOR_LOOP_GUARD"]);
    count.refused++;
  };
  await send(0, {});
  for (let isQuiet = false; !isQuiet;) {
    isQuiet = true;
    for (const [i, ask] of members.entries()) {
      const { body: { messages } } = await ask("/v1/inbox?limit=200");
      for (const message of messages) {
        await ask("/v1/inbox/read", post({ ids: [message.id] }));
        await send(i, passOn(message, count.sent));
      }
      isQuiet &&= messages.length === 0;
    }
  }
  return count;
}

Deno.test("two and three programs that pass everything on stop within 100 messages", async (t) => {
  const ways: [size: number, what: string, PassOn][] = [
    [2, "naming what they answer", ({ requestId }) => ({ auto: true, inReplyTo: requestId })],
    [3, "a new conversation in each turn", (_, n) => ({ auto: true, conversationId: `turn-${n}` })],
  ];
  for (const [size, what, passOn] of ways) {
    await t.step(`${size}: ${what}`, async () => {
      await using world = await World.open(MANY);
      const { sent, refused } = await ring(world, size, passOn);
      assert(sent <= size * LOOP_MESSAGES + 1 && refused === 1, `${sent} sent, ${refused} refused`);
    });
  }
});
