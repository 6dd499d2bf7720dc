/** A queued message reaches its recipient only while the two agents are paired. */
import { assertEquals } from "@std/assert";
import { endPair } from "../../../proxy/trust/store.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { inWorld, openPaired } from "../cast.ts";

Deno.test(
  "a queued message is not delivered when its pair ends while the registry is asked about its sender",
  inWorld(openPaired, async ({ w, a, b }) => {
    await answered(await w.message(a, b, { headers: { Prefer: "respond-async" } }), 202);
    const { registry } = w.proxy.deps, ownership = registry.ownership.bind(registry);
    const asked = Promise.withResolvers<void>(), mayAnswer = Promise.withResolvers<void>();
    registry.ownership = async (ownerDid, agentDid) => {
      const answer = await ownership(ownerDid, agentDid);
      if (agentDid !== a.agent.did) return answer;
      asked.resolve();
      await mayAnswer.promise;
      return answer;
    };
    const socket = w.connect(b);
    await asked.promise;
    // As on another instance, which dead-letters what is queued only after this.
    await endPair(w.proxy.deps.changes, b.agent.did, a.agent.did);
    mayAnswer.resolve();
    await until(() => w.proxy.deps.mailboxDelivery.inProgress(b.agent.did, a.agent.did) === undefined);
    await flushTasks();
    assertEquals(socket.delivered.length, 0);
  }),
);
