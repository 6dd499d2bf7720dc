/**
 * The mailbox for offline agents (D-68): messages are kept in order, within limits, and end delivered or with a
 * receipt.
 */
import { assert, assertEquals, assertRejects, fail } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { MailboxState } from "../../../proxy/schema/records.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { StoreUnavailable } from "../../../shared/server/store/store_errors.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { countOf } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, World } from "../../support/world.ts";
import { inWorld, openPaired, type PairTest } from "../cast.ts";

const ASYNC = { headers: { Prefer: "respond-async" } };
const DAY_MS = 86_400_000;

async function queued(w: World, a: TestAgent, b: TestAgent, text: string, requestId?: string): Promise<Response> {
  return await w.message(a, b, {
    body: JSON.stringify({ message: text, n: text }),
    headers: { ...ASYNC.headers, ...(requestId ? { "x-request-id": requestId } : {}) },
  });
}

function texts(frames: { payload: string }[]): string[] {
  return frames.map((frame) => (JSON.parse(frame.payload) as { n: string }).n);
}

/** Waits until mailbox delivery and the store have no more work. */
async function rest(): Promise<void> {
  for (let i = 0; i < 3; i++) await flushTasks();
}

const keysBelow = (w: World, part: string) => countOf(w, ["proxy", part]);

const test = (name: string, run: PairTest) => Deno.test(name, inWorld(openPaired, run));

test("a message for an offline recipient is queued with Prefer, and refused without", async ({ w, a, b }) => {
  assertEquals(await codeOf(await w.message(a, b)), "PROXY_RELAY_CONNECTOR_OFFLINE");
  for (const other of ['foo="a, respond-async, b"', "respond-asynchronously", '"respond-async"']) {
    const answer = await w.message(a, b, { headers: { Prefer: other } });
    assertEquals(await codeOf(answer), "PROXY_RELAY_CONNECTOR_OFFLINE", other);
  }
  const response = await queued(w, a, b, "one");
  assertEquals(response.status, 202);
  assertEquals(response.headers.get("Preference-Applied"), "respond-async");
  const { expiresAt, requestId: _, ...answer } = await response.json();
  assertEquals(answer, { accepted: true, delivered: false, connectedSockets: 0, queued: true });
  assertEquals(Date.parse(expiresAt), w.clock.now() + DAY_MS);
});

test("queued messages are delivered in order when the recipient connects, and leave no records", async ({ w, a, b }) => {
  const sent = Array.from({ length: 12 }, (_, i) => `m${i}`);
  for (const text of sent) assertEquals((await queued(w, a, b, text)).status, 202);
  const socket = w.connect(b);
  await rest();
  assertEquals(texts(socket.delivered), sent);
  for (const part of ["mailbox", "mailbox_part", "mailbox_expiry"]) assertEquals(await keysBelow(w, part), 0, part);
});

test("a queued message survives a restart of the proxy", async ({ w, a, b }) => {
  await queued(w, a, b, "one");
  await w.start();
  const socket = w.connect(b);
  await rest();
  assertEquals(texts(socket.delivered), ["one"]);
});

test("a repeat of a message that was queued unseen makes a connected recipient get it", async ({ w, a, b }) => {
  await queued(w, a, b, "one", "request-0001");
  const { mailboxDelivery } = w.proxy.deps, deliverTo = mailboxDelivery.deliverTo.bind(mailboxDelivery);
  // As after a late commit: the recipient is connected, and no instance knows that a message waits for it.
  mailboxDelivery.deliverTo = () => {};
  const socket = w.connect(b);
  await w.connected();
  mailboxDelivery.deliverTo = deliverTo;
  assertEquals((await queued(w, a, b, "one", "request-0001")).status, 202);
  await until(() => socket.delivered.length === 1);
});

test("the same ID and body queued twice is one message; another body is refused", async ({ w, a, b }) => {
  const first = await (await queued(w, a, b, "one", "request-0001")).json();
  await w.clock.advance(60_000);
  assertEquals(await (await queued(w, a, b, "one", "request-0001")).json(), first);
  assertEquals(await codeOf(await queued(w, a, b, "two", "request-0001")), "PROXY_HOOK_REQUEST_ID_REUSED");
  const socket = w.connect(b);
  await rest();
  assertEquals(texts(socket.delivered), ["one"]);
});

test("the mailbox takes 100 messages of one sender and 500 in total, then answers 507", async ({ w, a, b }) => {
  const c = await w.agent();
  await w.pair(c, b);
  const fill = async (from: TestAgent, count: number) => {
    const answers = await Promise.all(Array.from({ length: count }, (_, n) => queued(w, from, b, `${n}`)));
    const refused = answers.filter(({ status }) => status !== 202);
    assertEquals([refused.length, refused[0]?.status], [1, 507]);
    assertEquals(await codeOf(refused[0] ?? fail()), "PROXY_RELAY_MAILBOX_FULL");
  };
  await fill(a, 101);
  const key = KEYS.mailboxState(b.agent.did);
  const setTotal = async (total: number) => {
    const { value } = await w.kv.get<MailboxState>(key);
    await w.kv.set(key, { ...value, total });
  };
  // As if others had sent as many.
  await setTotal(499);
  await fill(c, 2);
  await setTotal(101);
  const socket = w.connect(b);
  await until(() => socket.delivered.length === 101);
  await rest();
  assertEquals([socket.delivered.length, (await w.kv.get<MailboxState>(key)).value?.total], [101, 0]);
});

Deno.test("messages that wait take at most the space of the owner of the recipient, and of the sender's", async (t) => {
  /** Ten messages with their records. */
  const mailboxOwnerBytes = 36_000;
  const fill = async (w: World, pairs: [TestAgent, TestAgent][]) => {
    const answers: [number, string][] = [];
    for (let n = 0; n < 12; n++) {
      const [from, to] = pairs[n % pairs.length] ?? [];
      assert(from && to);
      const answer = await queued(w, from, to, String(n));
      const { error } = await answer.json();
      answers.push([answer.status, error?.message ?? ""]);
    }
    return answers;
  };
  await t.step("agents of one owner as recipients", async () => {
    await using w = await World.open({ proxy: { mailboxOwnerBytes } });
    const owner = await w.person();
    const [one, two] = [await w.agent(owner), await w.agent(owner)];
    const [a, b] = [await w.agent(), await w.agent()];
    await w.pair(a, one);
    await w.pair(b, two);
    const answers = await fill(w, [[a, one], [b, two]]);
    assertEquals(answers.slice(0, 10).map(([status]) => status), Array(10).fill(202));
    const full = "The messages that wait for the agents of the recipient's owner take up all their space";
    assertEquals(answers.slice(10), [[507, full], [507, full]]);
    await w.pair(a, b);
    assertEquals((await queued(w, a, b, "to another owner")).status, 202);
    w.connect(one);
    await rest();
    assertEquals((await queued(w, b, two, "after a delivery there is space")).status, 202);
    w.connect(two);
    w.connect(b);
    await rest();
    assertEquals(await keysBelow(w, "mailbox_bytes"), 0);
  });
  await t.step("agents of one owner as senders", async () => {
    await using w = await World.open({ proxy: { mailboxOwnerBytes } });
    const owner = await w.person();
    const [one, two] = [await w.agent(owner), await w.agent(owner)];
    const [a, b] = [await w.agent(), await w.agent()];
    await w.pair(one, a);
    await w.pair(two, b);
    const answers = await fill(w, [[one, a], [two, b]]);
    assertEquals(answers.map(([status]) => status), [...Array(10).fill(202), 507, 507]);
    assertEquals(
      answers.at(-1)?.[1],
      "The messages of your agents that wait for their recipients take up all your space",
    );
    await w.clock.advance(DAY_MS);
    await w.proxy.deps.mailboxDelivery.sweep();
    assertEquals(await keysBelow(w, "mailbox_bytes"), 0, "dead letters take no space");
  });
  await t.step("between two agents of one owner, and large payloads", async () => {
    await using w = await World.open({ proxy: { mailboxOwnerBytes: 100_000 } });
    const owner = await w.person();
    const [a, b] = [await w.agent(owner), await w.agent(owner)];
    await w.pair(a, b);
    assertEquals((await queued(w, a, b, "x".repeat(45_000))).status, 202);
    assertEquals((await queued(w, a, b, "y".repeat(45_000))).status, 507);
    assertEquals((await queued(w, a, b, "small")).status, 202);
    w.connect(b);
    await rest();
    assertEquals(await keysBelow(w, "mailbox_bytes"), 0);
  });
});

Deno.test("a disk without the reserve takes no message that waits, and takes all others", async () => {
  const disk = { freeBytes: 1_000_000, totalBytes: 5_000_000 };
  await using w = await World.open({ diskSpace: () => ({ ...disk }) });
  const { a, b } = await w.pairedAgents();
  assertEquals((await queued(w, a, b, "one")).status, 202);
  disk.freeBytes = 499_000;
  await w.clock.advance(1_000);
  const answer = await queued(w, a, b, "two");
  assertEquals([answer.status, (await answer.json()).error.message], [
    507,
    "The disk of the proxy has no space left for messages that wait",
  ]);
  const socket = w.connect(b);
  await rest();
  assertEquals((await w.message(a, b)).status, 202);
  assertEquals(socket.delivered.length, 2);
});

test("a message behind queued ones waits without Prefer and is queued with it", async ({ w, a, b }) => {
  await queued(w, a, b, "one");
  const socket = w.connect(b, "silent");
  await rest();
  assertEquals(texts(socket.delivered), ["one"]);
  const direct = w.message(a, b, { body: JSON.stringify({ n: "direct" }) });
  await rest();
  assertEquals((await (await queued(w, a, b, "two")).json()).queued, true);
  assertEquals(texts(socket.delivered), ["one"]);
  socket.behaviour = "ack";
  socket.ack(socket.delivered[0]?.id ?? "");
  const response = await direct;
  assertEquals([response.status, (await response.json()).delivered], [202, true]);
  await rest();
  assertEquals(texts(socket.delivered).sort(), ["direct", "one", "two"]);
  assertEquals(texts(socket.delivered)[0], "one");
});

Deno.test("an expired message becomes a dead letter, with the recipient offline or online", async (t) => {
  for (const comes of [true, false]) {
    await t.step(comes ? "comes" : "does not come", async () => {
      await using w = await World.open();
      const { a, b } = await w.pairedAgents();
      const { requestId } = await (await queued(w, a, b, "one")).json();
      w.clock.step(DAY_MS);
      if (comes) {
        const socket = w.connect(b);
        await rest();
        assertEquals(socket.delivered.length, 0);
      } else await w.proxy.deps.mailboxDelivery.sweep();
      await w.clock.advance(0);
      const reader = w.clientOf({ ...a.identity, accessToken: await freshAccess(w, a) });
      const { receipts } = await reader.receipts(requestId, b.agent.did);
      assertEquals(receipts.map((receipt) => receipt.status), ["dead_lettered"]);
      assertEquals(await keysBelow(w, "mailbox"), 0);
    });
  }
});

test("a message whose request ID was used before becomes a dead letter of its own", async ({ w, a, b }) => {
  for (let i = 0; i < 2; i++) {
    assertEquals((await queued(w, a, b, "one", "request-1")).status, 202);
    w.clock.step(DAY_MS);
    await w.proxy.deps.mailboxDelivery.sweep();
    await w.clock.advance(0);
    await w.renew(a);
    const { receipts } = await a.client.receipts("request-1", b.agent.did);
    assertEquals(receipts.map(({ receivedAt }) => receivedAt), [toIso(w.clock.now())]);
    w.clock.step(3_600_000);
    await w.renew(a);
  }
});

test("a refused message is retried after 1 s doubling and becomes a dead letter at the fifth refusal", async ({ w, a, b }) => {
  const { requestId } = await (await queued(w, a, b, "one")).json();
  const socket = w.connect(b, "nack");
  await rest();
  const tries = [socket.delivered.length];
  for (const wait of [1000, 2000, 4000, 8000]) {
    await w.clock.advance(wait - 1);
    await rest();
    const before = socket.delivered.length;
    await w.clock.advance(1);
    await rest();
    tries.push(socket.delivered.length - before);
  }
  assertEquals(tries, [1, 1, 1, 1, 1]);
  assertEquals(socket.delivered.map(({ attempt }) => attempt), [1, 2, 3, 4, 5]);
  const { receipts } = await a.client.receipts(requestId, b.agent.did);
  assertEquals(receipts.map((receipt) => receipt.status), ["dead_lettered"]);
  assertEquals(await keysBelow(w, "mailbox"), 0);
});

Deno.test("a message becomes a dead letter at delivery when its pair has ended or its sender is deleted", async (t) => {
  const endings: [string, (w: World, a: TestAgent, b: TestAgent) => Promise<unknown>][] = [
    ["pair removed", async (w, a, b) => {
      await w.fetch(await w.signed(b, { target: "/pair/remove", body: JSON.stringify({ peerAgentDid: a.agent.did }) }));
    }],
    ["sender deleted", async (w, a) => {
      await w.client.deleteAgent(a.owner.apiKey, a.agent.id);
      await w.proxy.deps.crl.refreshAgain();
    }],
  ];
  for (const [name, end] of endings) {
    await t.step(name, async () => {
      await using w = await World.open();
      const { a, b } = await w.pairedAgents();
      const { requestId } = await (await queued(w, a, b, "one")).json();
      await end(w, a, b);
      const socket = w.connect(b);
      await rest();
      assertEquals(socket.delivered.length, 0);
      const { receipts } = await b.client.receipts(requestId, b.agent.did);
      assertEquals(receipts.map((receipt) => receipt.status), ["dead_lettered"]);
    });
  }
});

/** Replaces the registry's answer about an agent's status. */
function onStatus(w: World, answer: (request: Request) => Response | null): { asked: number } {
  const seen = { asked: 0 };
  w.registryAnswer = (request) => {
    if (!request.url.endsWith("/identity/agent-ownership")) return null;
    seen.asked++;
    return answer(request);
  };
  return seen;
}

test("a queued message becomes a dead letter when its deleted sender is no longer in the CRL", async ({ w, a, b }) => {
  const { requestId } = await (await queued(w, a, b, "one")).json();
  // The CRL is empty: the registry knows of the deletion, and the list no longer names it.
  onStatus(w, () => Response.json({ ownsAgent: true, agentStatus: "revoked", session: null }));
  const socket = w.connect(b);
  await rest();
  assertEquals(socket.delivered.length, 0);
  const { receipts } = await b.client.receipts(requestId, b.agent.did);
  assertEquals(receipts.map((receipt) => receipt.status), ["dead_lettered"]);
});

test("a queued message waits while its sender's status is unknown and is delivered afterwards", async ({ w, a, b }) => {
  await queued(w, a, b, "one");
  const registry = onStatus(w, () => new Response(null, { status: 503 }));
  const socket = w.connect(b);
  await rest();
  assertEquals([socket.delivered.length, registry.asked, await keysBelow(w, "mailbox")], [0, 1, 1]);
  w.registryAnswer = null;
  await w.clock.advance(1_000);
  await rest();
  assertEquals([texts(socket.delivered), await keysBelow(w, "mailbox")], [["one"], 0]);
});

test("a sender's status counts for 30 s and all its messages, and no longer after a step back of the clock", async ({ w, a, b }) => {
  for (const text of ["one", "two", "three"]) await queued(w, a, b, text);
  const registry = onStatus(w, () => null);
  let socket = w.connect(b);
  await rest();
  assertEquals([texts(socket.delivered), registry.asked], [["one", "two", "three"], 1]);
  for (const [stepMs, asked] of [[29_999, 1], [1, 2], [-20_000, 3]] as const) {
    socket.link.lost();
    await rest();
    w.clock.step(stepMs);
    assertEquals((await (await queued(w, a, b, "later")).json()).queued, true);
    socket = w.connect(b);
    await rest();
    assertEquals([texts(socket.delivered), registry.asked], [["later"], asked], `after a step of ${stepMs} ms`);
  }
});

test("a sender's deletion takes effect at once when registry and proxy share a store", async ({ w, a, b }) => {
  await w.proxy.start();
  await queued(w, a, b, "one");
  const first = w.connect(b);
  await rest();
  assertEquals(texts(first.delivered), ["one"]);
  first.link.lost();
  await queued(w, a, b, "two");
  await w.client.deleteAgent(a.owner.apiKey, a.agent.id);
  await w.clock.advance(2_000);
  await rest();
  const second = w.connect(b);
  await rest();
  assertEquals(second.delivered.length, 0);
});

test("a queued message with a lost chunk becomes a dead letter and does not block the others", async ({ w, a, b }) => {
  const { requestId } = await (await queued(w, a, b, "one")).json();
  await queued(w, a, b, "two");
  await w.kv.delete(KEYS.mailboxPart(b.agent.did, 1, 0));
  const socket = w.connect(b);
  await rest();
  assertEquals(texts(socket.delivered), ["two"]);
  const { receipts } = await a.client.receipts(requestId, b.agent.did);
  assertEquals(receipts.map((receipt) => receipt.status), ["dead_lettered"]);
});

test("20 expired messages of one recipient all end with a receipt in one sweep", async ({ w, a, b }) => {
  for (let n = 0; n < 20; n++) await queued(w, a, b, `${n}`);
  w.clock.step(DAY_MS);
  await w.proxy.deps.mailboxDelivery.sweep();
  assertEquals([await keysBelow(w, "receipt"), await keysBelow(w, "mailbox")], [20, 0]);
  assertEquals((await w.kv.get<{ total: number }>(KEYS.mailboxState(b.agent.did))).value?.total, 0);
});

Deno.test("the records of a mailbox outlive 8 days without a server, and its counts end with its messages", async () => {
  const ends = new Map<string, number>();
  using store = await FaultyKv.open();
  await using w = await World.open({ kv: store.kv });
  const { a, b } = await w.pairedAgents();
  const { atomic } = store.kv;
  store.kv.atomic = () => {
    const operation = atomic.call(store.kv), { set } = operation;
    operation.set = (key, value, options) => {
      if (String(key[1]).startsWith("mailbox")) ends.set(String(key[1]), options?.expireIn ?? Infinity);
      return set.call(operation, key, value, options);
    };
    return operation;
  };
  await queued(w, a, b, "one");
  const nineDays = 9 * DAY_MS;
  const kinds = ["mailbox", "mailbox_bytes", "mailbox_expiry", "mailbox_part", "mailbox_state"];
  assertEquals([...ends].sort(), kinds.map((kind) => [kind, nineDays]));
});

Deno.test("a sweep whose store fails while it reads further messages is refused, and leaves no failure to the process", async () => {
  using store = await FaultyKv.open();
  await using w = await World.open({ kv: store.kv });
  const { a, b } = await w.pairedAgents();
  for (const text of ["one", "two"]) await queued(w, a, b, text);
  w.clock.step(DAY_MS);
  let read = 0;
  store.faults.fails = ({ method }) => method === "commit";
  store.faults.before = async ({ method, keys }) => {
    if (method === "get" && keys[0]?.[1] === "mailbox" && ++read === 2) await rest();
  };
  await assertRejects(() => w.proxy.deps.mailboxDelivery.sweep(), StoreUnavailable);
  store.faults = {};
  await w.proxy.deps.mailboxDelivery.sweep();
  assertEquals([await keysBelow(w, "receipt"), await keysBelow(w, "mailbox")], [2, 0]);
});

test("a message of a sender whose AIT was only reissued is delivered", async ({ w, a, b }) => {
  await queued(w, a, b, "one");
  await w.ask("POST", `/v1/agents/${a.agent.id}/reissue`, { apiKey: a.owner.apiKey });
  await w.proxy.deps.crl.refreshAgain();
  const socket = w.connect(b);
  await rest();
  assertEquals(texts(socket.delivered), ["one"]);
});

test("a socket lost during delivery loses no message: the next socket gets it again", async ({ w, a, b }) => {
  await queued(w, a, b, "one");
  const first = w.connect(b, "silent");
  await rest();
  assertEquals(texts(first.delivered), ["one"]);
  first.link.lost();
  const second = w.connect(b);
  for (let i = 0; i < 20 && second.delivered.length === 0; i++) {
    await w.clock.advance(500);
    await rest();
  }
  assertEquals(texts(second.delivered), ["one"]);
  assertEquals(second.delivered[0]?.requestId, first.delivered[0]?.requestId);
});

Deno.test("an acknowledged message is not sent again while the store cannot remove it, also over a new socket", async () => {
  using store = await FaultyKv.open();
  await using w = await World.open({ kv: store.kv });
  const { a, b } = await w.pairedAgents();
  for (const text of ["one", "two"]) assertEquals((await queued(w, a, b, text)).status, 202);
  let failed = 0;
  store.faults.fails = ({ method, keys }) =>
    method === "commit" && keys.some((key) => key[1] === "mailbox") && ++failed > 0;
  const first = w.connect(b);
  await rest();
  await w.clock.advance(1_000);
  await rest();
  first.close(1000, "");
  const second = w.connect(b);
  await rest();
  await w.clock.advance(2_000);
  await rest();
  assert(failed >= 3);
  assertEquals([texts(first.delivered), texts(second.delivered)], [["one"], []]);
  store.faults = {};
  await w.clock.advance(8_000);
  await rest();
  assertEquals(texts(second.delivered), ["two"]);
  assertEquals(await keysBelow(w, "mailbox"), 0);
});

test("a message queued while the recipient's mailbox is found empty is still delivered", async ({ w, a, b }) => {
  for (let round = 0; round < 4; round++) {
    const sending = queued(w, a, b, `r${round}`);
    const socket = w.connect(b);
    const answer = await (await sending).json();
    await rest();
    assert(answer.delivered || answer.queued);
    assertEquals(texts(socket.delivered), [`r${round}`], `round ${round}`);
    socket.link.lost();
    await rest();
  }
  assertEquals((await w.kv.get<{ total: number }>(KEYS.mailboxState(b.agent.did))).value?.total ?? 0, 0);
});

/** Access of an agent whose first token expired with the clock. */
async function freshAccess(w: World, agent: TestAgent): Promise<string> {
  return (await w.client.refresh(agent.identity, agent.agentAuth.refreshToken)).accessToken;
}
