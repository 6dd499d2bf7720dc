/** One person cannot fill the mailbox of another with many agents. */
import { assertEquals } from "@std/assert";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { outcome } from "../../support/registry_world.ts";
import { World } from "../../support/world.ts";

const ASYNC = { Prefer: "respond-async" };

Deno.test("the agents of one person leave room in a mailbox for the messages of others", async () => {
  await using w = await World.open({ proxy: { agentRequests: 1000 } });
  const [owner, b, c] = [await w.person(), await w.agent(), await w.agent()];
  await w.pair(c, b);
  const refused = new Set<string>();
  for (const a of await w.agents(LIMITS.mailboxPerRecipient / LIMITS.mailboxPerSender, owner)) {
    await w.pair(a, b);
    for (let i = 0; i < LIMITS.mailboxPerSender; i++) {
      refused.add(await outcome(await w.message(a, b, { headers: ASYNC })));
    }
  }
  assertEquals([...refused], ["202", "507 PROXY_RELAY_MAILBOX_FULL"]);
  assertEquals(await outcome(await w.message(c, b, { headers: ASYNC })), "202");
});
