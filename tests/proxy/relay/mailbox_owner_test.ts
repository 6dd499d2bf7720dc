/**
 * How people share a mailbox: one cannot fill that of another with many agents, and 500 can write one message each. A
 * queued message ends once.
 */
import { assert, assertEquals } from "@std/assert";
import { authorityOf, type DidKind, formatDid } from "../../../shared/protocol/did.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { MailboxState } from "../../../proxy/schema/records.ts";
import { countOf, outcome } from "../../support/registry_world.ts";
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

Deno.test("a person's own agents may fill the mailbox of another one", async () => {
  await using w = await World.open({ proxy: { agentRequests: 1000 } });
  const b = await w.agent(), answers = new Set<string>();
  for (const a of await w.agents(3, b.owner)) {
    await w.pair(a, b);
    for (let i = 0; i < LIMITS.mailboxPerSender; i++) {
      answers.add(await outcome(await w.message(a, b, { headers: ASYNC })));
    }
  }
  assertEquals([...answers], ["202"]);
});

Deno.test("of twenty ends of one queued message at the same time one counts, and a late refusal does not bring it back", async () => {
  await using w = await World.open();
  const { a, b } = await w.pairedAgents();
  for (let i = 0; i < 2; i++) assertEquals(await outcome(await w.message(a, b, { headers: ASYNC })), "202");
  const { mailbox } = w.proxy.deps, told: string[] = [];
  mailbox.onOutcome = (_id, { state }) => told.push(state);
  const [entry, other] = await mailbox.after(b.agent.did, 0);
  assert(entry && other);
  await Promise.all(
    Array.from({ length: 20 }, (_, i) => i % 2 === 0 ? mailbox.remove(entry) : mailbox.deadLetter(entry)),
  );
  await mailbox.noteNack(entry, false);
  const state = (await w.kv.get<MailboxState>(KEYS.mailboxState(b.agent.did))).value;
  const receipts = await countOf(w, ["proxy", "receipt"]);
  assertEquals([told.length, state?.total, receipts], [1, 1, told[0] === "dead_lettered" ? 1 : 0]);
  assertEquals(await mailbox.after(b.agent.did, 0), [other]);
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
