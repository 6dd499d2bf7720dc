/** How long the status of the sender of a queued message is relied on. */
import { assertEquals } from "@std/assert";
import { SenderStatus } from "../../../proxy/relay/sender_status.ts";
import { ManualClock } from "../../support/manual_clock.ts";

Deno.test("the status of a sender counts for 30 s, and no longer after a step back of the clock", async () => {
  const clock = new ManualClock();
  let asked = 0;
  const ownership = () => {
    asked++;
    return Promise.resolve({ ownsAgent: true, agentStatus: "active", session: "active" } as const);
  };
  const senders = new SenderStatus({ ownership }, clock);
  const ask = async (stepMs: number) => {
    clock.step(stepMs);
    assertEquals(await senders.isActive({ agentDid: "agent", ownerDid: "owner" }), true);
    return asked;
  };
  assertEquals([await ask(0), await ask(29_999), await ask(1), await ask(-3_600_000)], [1, 1, 2, 3]);
});
