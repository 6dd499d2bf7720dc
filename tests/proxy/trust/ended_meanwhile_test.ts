/**
 * No pair is made for an agent that is deleted or logged out while the registry is asked about the other agent. A pair
 * that the two had before stays.
 */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";

const ENDINGS: [string, (w: World, agent: TestAgent) => Promise<unknown>][] = [
  ["deleted", (w, { owner, agent }) => w.client.deleteAgent(owner.apiKey, agent.id)],
  ["logged out", (w, { owner, agent }) => w.ask("DELETE", `/v1/agents/${agent.id}/auth/revoke`, owner)],
];

for (const [name, end] of ENDINGS) {
  for (const [who, arePaired] of [["responder", false], ["initiator", false], ["initiator", true]] as const) {
    if (arePaired && name === "deleted") continue;
    const title = `a ticket ${arePaired ? "of two paired agents " : ""}is not confirmed once its ${who} is ${name}`;
    Deno.test(title, async () => {
      await using w = await World.open();
      await w.proxy.start();
      const a = await w.agent(), b = await w.agent();
      if (arePaired) await w.pair(a, b);
      const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
      // The last answer of the registry is made before the end of the agent, and arrives after it.
      const held = Promise.withResolvers<void>();
      let isHeld = false, asked = 0;
      w.registryAnswer = async (request) => {
        if (!request.url.includes("ownership") || ++asked < 2) return null;
        const answer = await w.registry.fetch(request, { from: "process" });
        isHeld = true;
        await held.promise;
        return answer;
      };
      const body = JSON.stringify({ ticket, responderProfile: { agentName: "b", humanName: "B" } });
      const confirming = w.fetch(await w.signed(b, { target: "/pair/confirm", body }));
      await until(() => isHeld);
      await end(w, who === "responder" ? b : a);
      await flushTasks();
      held.resolve();
      const { status } = await confirming;
      const pair = await w.kv.get(KEYS.pair(a.agent.did, b.agent.did));
      assertEquals([status === 201, pair.value === null], [false, !arePaired]);
    });
  }
}
