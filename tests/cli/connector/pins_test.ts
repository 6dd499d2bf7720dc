/** Keys that a ticket proves (D-145, D-146): two connectors pair next to both services, and a relay answers as it likes. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { didOf } from "../../../cli/connector/local_api/inbox_handlers.ts";
import { LocalError } from "../../../cli/local_errors.ts";
import { mergePeers, noPeer, type Peers, pinContact, PINS, pinTicket } from "../../../cli/connector/peers/peers.ts";
import { provePairKey } from "../../../shared/protocol/pair_key.ts";
import { parseTicket, withPairSecret } from "../../../shared/protocol/ticket.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { Bench } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { held, two } from "./two_connectors.ts";

type Json = Record<string, unknown>;

/** `fetch` through a relay that changes the answers of one route. */
function relay(world: World, path: string, change: (body: Json) => Json | Promise<Json>): typeof fetch {
  return (async (input: string, init?: RequestInit) => {
    const response = await world.fetch(input, init);
    if (!new URL(input).pathname.startsWith(path) || response.status >= 300) return response;
    return Response.json(await change(await response.json()), { status: response.status, headers: response.headers });
  }) as typeof fetch;
}

const pinsOf = ({ connector }: Bench) =>
  Object.entries(connector.peers.all).map(([alias, { key, how, removed }]) => [alias, key, removed ? "removed" : how]);

Deno.test("a ticket pins both keys, and a message of such a peer is proven from end to end", async () => {
  await using world = await World.open();
  const { a, b, one, other, ticketOf, confirm, pinned } = await two(world);
  const ticket = await ticketOf();
  assert(parseTicket(ticket)?.pairSecret);
  assertEquals((await confirm(ticket)).status, 201);
  await pinned();
  assertEquals(pinsOf(one), [["beta", b.keys.publicKey, "ticket"]]);
  assertEquals(pinsOf(other), [["alpha", a.keys.publicKey, "ticket"]]);
  assertEquals(one.connector.store.pairSecrets.open(world.clock.now()), []);
  assertEquals([one.eventsOf("contact_listed"), other.eventsOf("contact_listed")], [[], []]);
  await asker(other)("/v1/outbound", post({ to: "alpha", text: "hi" }));
  const [message] = one.connector.store.received.list({ unread: true, limit: 1 }).messages;
  assertEquals(message?.verified, "end-to-end");
});

Deno.test("a ticket's secret pins one agent, also when a list proves two keys, and lists at once those of others", async () => {
  await using world = await World.open();
  let proven: Json[][] = [], lists = 0;
  // The relay lists agents whose keys were proven with the secret of the ticket: two of them, then another one.
  const fetch = relay(world, "/pair/peers", (body) => {
    const peers = proven[lists++ % 3];
    return peers === undefined ? body : { ...body, peers };
  });
  const { one, ticketOf } = await two(world, { fetch });
  const secret = parseTicket(await ticketOf())?.pairSecret ?? "";
  const rows = ["mallory", "eve", "trudy"].map(async (name, i) => {
    const { agent: { did }, keys: { publicKey } } = await world.agent(undefined, name);
    const profile = { agentName: name, humanName: "Bob" };
    const peerKey = await provePairKey(secret, { role: "responder", did, profile }, publicKey);
    return {
      agentDid: did,
      profile,
      pairedAt: new Date(world.clock.now() - i).toISOString(),
      online: false,
      lastSeenAt: null,
      peerKey,
    };
  });
  const all = await Promise.all(rows);
  proven = [all.slice(0, 2), all.slice(2), all.slice(1, 2)];
  lists = 0;
  await Promise.all(Array.from({ length: 5 }, () => one.connector.updatePeers()));
  await one.connector.updatePeers();
  assertEquals(lists, 3);
  assertEquals(pinsOf(one).map(([alias, , how]) => [alias, how]), [
    ["contact-eve", undefined],
    ["contact-trudy", undefined],
    ["mallory", "ticket"],
  ]);
  assertEquals(one.connector.store.pairSecrets.open(world.clock.now()), []);
});

Deno.test("the first message to the peer of a ticket is sealed, also when the list with its key is still on the way", async () => {
  await using world = await World.open();
  const late = held(world, "/pair/peers");
  const { b, one, other, ticketOf, confirm } = await two(world, { fetch: late.fetch });
  assertEquals((await confirm(await ticketOf())).status, 201);
  const sent = asker(one)("/v1/outbound", post({ to: b.agent.did, text: "hi" }));
  await world.clock.advance(10);
  assertEquals(other.connector.store.received.list({ unread: true, limit: 1 }).messages, []);
  late.release();
  assertEquals((await sent).body.delivered, true);
  assertEquals(other.connector.store.received.list({ unread: true, limit: 1 }).messages[0]?.verified, "end-to-end");
});

Deno.test("a person whose machine is gone pairs a new agent, which takes the place of the old one", async () => {
  await using world = await World.open();
  const { b, one, ticketOf, confirm, pinned } = await two(world);
  await confirm(await ticketOf());
  await pinned();
  const again = await world.agent(b.owner, "beta");
  const third = await Bench.open(world, again, { platform: "inbox" });
  const ticket = await ticketOf();
  assertEquals((await asker(third)("/v1/pair/confirm", post({ ticket }))).status, 201);
  await until(() => one.connector.peers.of(again.agent.did)?.how === "ticket");
  const replace = (peer: string) => asker(one)("/v1/peers/rename", post({ peer, alias: "beta", replaces: true }));
  const refused = await replace("beta");
  assertEquals([refused.status, refused.body.error.code], [409, "CONNECTOR_ALIAS_TAKEN"]);
  assertEquals((await asker(one)("/v1/pair/peers")).body.peers.length, 2);
  assertEquals((await replace("beta-2")).body.agentDid, again.agent.did);
  assertEquals((await asker(one)("/v1/pair/peers")).body.peers.map(({ agentDid }: Json) => agentDid), [
    again.agent.did,
  ]);
  const { body } = await asker(one)("/v1/outbound", post({ to: "beta", text: "hi" }));
  assertEquals([body.delivered, one.connector.peers.all["beta-old"]?.removed], [true, true]);
  assertEquals(third.connector.store.received.list({ unread: true, limit: 1 }).messages[0]?.verified, "end-to-end");
});

Deno.test("no request of a pairing holds the pair secret", async () => {
  await using world = await World.open();
  const sent: string[] = [];
  const noting = (async (input: string, init?: RequestInit) => {
    sent.push(input, String(init?.body ?? ""));
    return await world.fetch(input, init);
  }) as typeof fetch;
  const { one, other, ticketOf, confirm } = await two(world, { fetch: noting }, { fetch: noting });
  const ticket = await ticketOf();
  await confirm(ticket);
  await asker(one)("/v1/pair/status", post({ ticket }));
  for (const [path, code] of [["status", "NOT_FOUND"], ["confirm", "ALREADY_CONFIRMED"]]) {
    const { body } = await asker(one)(`/v1/pair/${path}`, post({ ticket: `My ticket: ${ticket}` }));
    assertEquals(body.error.code, `PROXY_PAIR_TICKET_${code}`);
  }
  const secret = parseTicket(ticket)?.pairSecret ?? "";
  assertEquals([secret.length, sent.some((text) => text.includes(secret))], [22, false]);
  assertEquals(JSON.stringify([one.events, other.events]).includes(secret), false);
});

Deno.test("a relay that answers a confirmation with anything else makes no pin and no pair", async (t) => {
  type Change = (body: Json, mallory: TestAgent, secret: string) => Json | Promise<Json>;
  const rows: [name: string, change: Change][] = [
    ["another agent, of another server, with the secret of the ticket", async (body, mallory, secret) => {
      const did = String(body.initiatorAgentDid).replace(/^(did:svc:)[^:]+/, "$1c.example");
      const profile = body.initiatorProfile as { agentName: string; humanName: string };
      const initiatorKey = await provePairKey(secret, { role: "initiator", did, profile }, mallory.keys.publicKey);
      return { ...body, initiatorAgentDid: did, initiatorKey };
    }],
    ["no key", ({ initiatorKey: _key, ...body }) => body],
    ["another agent", (body, mallory) => ({ ...body, initiatorAgentDid: mallory.agent.did })],
    ["another agent name", (body) => ({ ...body, initiatorProfile: { agentName: "boss", humanName: "Somebody" } })],
    ["another human name", (body) => ({ ...body, initiatorProfile: { agentName: "alpha", humanName: "Boss" } })],
    [
      "another key",
      (body, mallory) => ({
        ...body,
        initiatorKey: { ...body.initiatorKey as Json, publicKey: mallory.keys.publicKey },
      }),
    ],
    ["another MAC", (body) => ({ ...body, initiatorKey: { ...body.initiatorKey as Json, mac: "A".repeat(43) } })],
  ];
  for (const [name, change] of rows) {
    await t.step(name, async () => {
      await using world = await World.open();
      const mallory = await world.agent(undefined, "mallory");
      let ticket = "";
      const { other, ticketOf, confirm } = await two(world, {}, {
        fetch: relay(world, "/pair/confirm", (body) => change(body, mallory, parseTicket(ticket)?.pairSecret ?? "")),
      });
      const { status, body } = await confirm(ticket = await ticketOf());
      assertEquals([status, body.error?.code], [409, "CONNECTOR_PEER_KEY_MISMATCH"]);
      assertEquals(pinsOf(other).filter(([, key]) => key !== undefined), []);
      if (!name.startsWith("another agent")) assertEquals((await asker(other)("/v1/pair/peers")).body.peers, []);
    });
  }
});

Deno.test("a ticket with a wrong letter in its pair secret makes no pair, and its maker reads that it is over", async () => {
  await using world = await World.open();
  const { one, other, ticketOf, confirm } = await two(world);
  const ticket = await ticketOf(), { plain } = parseTicket(ticket) ?? { plain: "" };
  const { status, body } = await confirm(withPairSecret(plain, "A".repeat(22)));
  assertEquals([status, body.error?.code], [409, "CONNECTOR_PEER_KEY_MISMATCH"]);
  assertEquals((await asker(other)("/v1/pair/peers")).body.peers, []);
  assertEquals((await asker(one)("/v1/pair/status", post({ ticket }))).body.error?.code, "PROXY_PAIR_TICKET_NOT_FOUND");
});

Deno.test("a ticket that proves another key of a pinned peer is refused, and its pin and pair stay", async () => {
  await using world = await World.open();
  const { a, other, ticketOf, confirm } = await two(world);
  assertEquals((await confirm(await ticketOf())).status, 201);
  const { keys: { publicKey } } = await world.agent();
  await other.connector.peers.change((peers) =>
    Object.fromEntries(Object.entries(peers).map(([alias, peer]) => [alias, { ...peer, key: publicKey }]))
  );
  const { status, body } = await confirm(await ticketOf());
  assertEquals([status, body.error?.code], [409, "CONNECTOR_PEER_KEY_MISMATCH"]);
  assertEquals(pinsOf(other), [["alpha", publicKey, "ticket"]]);
  assertEquals((await asker(other)("/v1/pair/peers")).body.peers.length, 1);
  assertEquals(other.eventsOf("peer_key_changed").map(({ from }) => from), [a.agent.did]);
});

Deno.test("a relay that lists anything else leaves a contact, and the ticket stays open", async (t) => {
  const rows: [name: string, change: (row: Json, mallory: TestAgent, other: string) => Json | Promise<Json>][] = [
    ["no key", ({ peerKey: _key, ...row }) => row],
    ["another agent", (row, mallory) => ({ ...row, agentDid: mallory.agent.did })],
    ["another name", (row) => ({ ...row, profile: { agentName: "boss", humanName: "Somebody" } })],
    [
      "another key",
      (row, mallory) => ({ ...row, peerKey: { ...row.peerKey as Json, publicKey: mallory.keys.publicKey } }),
    ],
    ["the MAC of another ticket", async (row, mallory, other) => {
      const profile = row.profile as { agentName: string; humanName: string };
      const side = { role: "responder", did: String(row.agentDid), profile } as const;
      return { ...row, peerKey: await provePairKey(other, side, mallory.keys.publicKey) };
    }],
  ];
  for (const [name, change] of rows) {
    await t.step(name, async () => {
      await using world = await World.open();
      const mallory = await world.agent(undefined, "mallory");
      const changed = (async (input: string, init?: RequestInit) => {
        const response = await world.fetch(input, init);
        if (!new URL(input).pathname.startsWith("/pair/peers")) return response;
        const body = await response.json();
        const peers = await Promise.all((body.peers as Json[]).map((row) => change(row, mallory, "A".repeat(22))));
        return Response.json({ ...body, peers }, { headers: response.headers });
      }) as typeof fetch;
      const { one, ticketOf, confirm } = await two(world, { fetch: changed });
      assertEquals((await confirm(await ticketOf())).status, 201);
      await until(() => one.eventsOf("contact_listed").length === 1);
      const [[alias, key, how] = []] = pinsOf(one);
      assertEquals([String(alias).startsWith("contact-"), key, how], [true, undefined, undefined]);
      assertEquals(one.connector.store.pairSecrets.open(world.clock.now()).length, 1);
      const { status, body } = await asker(one)("/v1/outbound", post({ to: "beta", text: "secret" }));
      assertEquals([status, body.error.code], [404, "CONNECTOR_PEER_UNKNOWN"]);
    });
  }
});

Deno.test("an agent that the relay lists under an expected name gets neither the name nor its message", async () => {
  await using world = await World.open();
  const { a, b, one, ticketOf, confirm, pinned } = await two(world);
  const mallory = await world.agent(undefined, "beta");
  await world.pair(a, mallory);
  await until(() => one.eventsOf("contact_listed").length === 1);
  await confirm(await ticketOf());
  await pinned();
  assertEquals(await didOf(one.connector, "beta"), b.agent.did);
  assertEquals(await didOf(one.connector, "contact-beta"), mallory.agent.did);
});

Deno.test("a plain ticket makes a contact, and a ticket with a secret makes the contact a peer", async () => {
  await using world = await World.open();
  const { b, one, other, ticketOf, confirm, pinned } = await two(world);
  const plain = await ticketOf({ plain: true });
  assertEquals(parseTicket(plain)?.pairSecret, null);
  await confirm(plain);
  await until(() => one.connector.peers.of(b.agent.did) !== null);
  assertEquals(pinsOf(one).map(([alias]) => alias), ["contact-beta"]);
  const { message } = noPeer("Beta", one.connector.peers.all);
  assertEquals(message, 'No peer has the alias "Beta". contact-beta did not prove your ticket.');
  await confirm(await ticketOf());
  await pinned();
  assertEquals(pinsOf(one), [["beta", b.keys.publicKey, "ticket"]]);
  assertEquals(pinsOf(other).map(([alias]) => alias), ["alpha"]);
});

Deno.test("a removed peer stays removed with any list of the relay, until another ticket", async () => {
  await using world = await World.open();
  const { a, b, one, other, ticketOf, confirm, pinned } = await two(world);
  await confirm(await ticketOf());
  await pinned();
  assertEquals((await asker(one)("/v1/pair/remove", post({ to: "beta" }))).status, 204);
  await world.pair(a, b);
  await until(() => one.eventsOf("paired").length === 2);
  await one.connector.updatePeers();
  assertEquals((await (await world.message(b, a)).json()).reason, "not_a_peer");
  await assertRejects(() => didOf(one.connector, "beta"), LocalError);
  await confirm(await ticketOf());
  await until(() => !one.connector.peers.of(b.agent.did)?.removed);
  assertEquals((await asker(other)("/v1/outbound", post({ to: "alpha", text: "hi" }))).body.delivered, true);
});

Deno.test("a key that a ticket proved is replaced by nothing", () => {
  const did = "did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
  const peer = { did, agentName: "beta", humanName: "Bob" };
  const key = (n: number) => "A".repeat(42) + "AEIMQ"[n];
  const first = pinTicket({}, peer, key(1), "2026-02-21T00:00:00.000Z");
  assertEquals(pinTicket(first, peer, key(2), "2026-02-22T00:00:00.000Z"), first);
  assertEquals(pinContact(first, did, key(2), "2026-02-22T00:00:00.000Z"), first);
  const listed = mergePeers(first, { peers: [] });
  assertEquals([listed.beta?.key, listed.beta?.gone], [key(1), true]);
  const back = mergePeers(listed, {
    peers: [{ agentDid: did, profile: { agentName: "x", humanName: "y" }, pairedAt: "" }],
  });
  assertEquals([back.beta?.key, back.beta?.how, back.beta?.gone], [key(1), "ticket", undefined]);
  // With the time of a later ticket, what was signed between the two would count without a seal.
  const again = pinTicket(back, peer, key(1), "2026-02-22T00:00:00.000Z");
  assertEquals(again.beta?.since, "2026-02-21T00:00:00.000Z");
});

Deno.test("a peer that the list shows at the agent's own server is no longer written to at another one", () => {
  const did = "did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
  const listed = { agentDid: did, profile: { agentName: "beta", humanName: "Bob" }, pairedAt: "" };
  const abroad = mergePeers({}, { peers: [{ ...listed, proxy: "https://b.example" }] });
  const [[alias = "", { proxy } = {}] = []] = Object.entries<Peers[string]>(abroad);
  assertEquals([proxy, mergePeers(abroad, { peers: [listed] })[alias]?.proxy], ["https://b.example", undefined]);
});

Deno.test("with a full book the contact whose pair ended first makes room, a ticket peer never, and then a new one is refused", async () => {
  const did = (n: number) => `did:svc:registry.example.test:agent:01KHYQ5H00${String(n).padStart(16, "0")}`;
  const names = { agentName: "x", humanName: "y" };
  const pin = { key: "A".repeat(43), since: "" };
  const full: Peers = Object.fromEntries(
    Array.from({ length: PINS }, (_, n) => {
      const gone = n === 7 || n === 8 ? { gone: true as const, endOrder: n === 7 ? 2 : 1 } : {};
      return [`p-${n}`, {
        did: did(n),
        ...names,
        ...pin,
        how: n === 9 ? "ticket" as const : "contact" as const,
        ...gone,
      }];
    }),
  );
  const withNew: Peers = { ...full, new: { did: did(PINS), ...names } };
  const next = pinContact(withNew, did(PINS), pin.key, "");
  assertEquals([next?.new?.how, next?.["p-8"], next?.["p-7"]?.gone], ["contact", undefined, true]);
  // Without its key, a relay could bring back a peer that was removed.
  const removed = { ...withNew, "p-8": { ...withNew["p-8"], removed: true } } as Peers;
  assertEquals(Object.keys(pinContact(removed, did(PINS), pin.key, "") ?? {}).includes("p-7"), false);
  assertEquals(pinContact(removed, did(PINS), pin.key, "")?.["p-8"]?.removed, true);
  const present = Object.fromEntries(
    Object.entries(withNew).map(([alias, { gone: _gone, ...peer }]) => [alias, peer]),
  ) as Peers;
  assertEquals(pinContact(present, did(PINS), pin.key, ""), null);
  const ofTicket = { ...present, "p-9": { ...present["p-9"], gone: true } } as Peers;
  assertEquals(pinContact(ofTicket, did(PINS), pin.key, ""), null);
  await using world = await World.open();
  const { a, b, one } = await two(world);
  await world.pair(a, b);
  // The list is read before it, because a reading would end the pairs of the book, of which the server knows none.
  await until(() => one.eventsOf("paired").length === 1);
  await one.connector.peers.change((known) => ({ ...present, ...known }));
  assertEquals((await (await world.message(b, a)).json()).reason, "pins_full");
  assertEquals(one.connector.store.received.list({ unread: true, limit: 1 }).messages, []);
});
