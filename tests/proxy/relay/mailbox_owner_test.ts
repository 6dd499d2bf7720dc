/** How people share a mailbox: one cannot fill that of another with many agents, and 500 can write one message each. */
import { assertEquals } from "@std/assert";
import { authorityOf, type DidKind, formatDid } from "../../../shared/protocol/did.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { outcome } from "../../support/registry_world.ts";
import { PROXY_URL, World } from "../../support/world.ts";

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

Deno.test("a mailbox has room for one message each of 500 agents of 500 people", async () => {
  const registryUrl = `https://${"name-of-the-registry.".repeat(4)}example.test`;
  await using w = await World.open({ at: { registryUrl, proxyUrl: PROXY_URL } });
  const { commits, mailbox } = w.proxy.deps;
  const [a, b] = [await w.agent(), await w.agent()];
  await w.pair(a, b);
  const nextDid = (kind: DidKind) => formatDid({ authority: authorityOf(registryUrl) ?? "", kind, id: w.newId() });
  for (let i = 1; i < LIMITS.mailboxPerRecipient; i++) {
    const agentDid = nextDid("agent"), ownerDid = nextDid("human"), requestId = w.newId();
    const identity = { agentDid, ownerDid, issuer: registryUrl, aitJti: w.newId(), name: "a" };
    const proof = { ait: "", timestamp: "", nonce: "", origin: "", target: "", signature: "", context: {} };
    const message = { requestId, fromAgentDid: agentDid, toAgentDid: b.agent.did, identity, contentType: "", proof };
    const updates = mailbox.enqueue({ ...message, payload: "{}" }, nextDid("human"), mailbox.expiry());
    assertEquals(await commits.claim(updates), { taken: true });
  }
  assertEquals(await outcome(await w.message(a, b, { headers: ASYNC })), "202");
});
