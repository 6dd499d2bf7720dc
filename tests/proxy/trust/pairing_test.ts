/**
 * Shows how two agents pair (D-26): one makes a ticket, the other confirms it, and both directions of the pair
 * exist or neither does.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { formatTicket, parseTicket } from "../../../shared/protocol/ticket.ts";
import { answered, countOf, outcome, refused, tally } from "../../support/registry_world.ts";
import { PROXY_URL, type TestAgent, type World } from "../../support/world.ts";
import { get, openProxy, post, PROFILE, restart } from "../proxy_world.ts";
import { inWorld } from "../cast.ts";

const THEIRS = { agentName: "beta", humanName: "Bob" };
const NOT_FOUND = "404 PROXY_PAIR_TICKET_NOT_FOUND";

interface Started {
  ticket: string;
  expiresAt: string;
}

async function start(w: World, agent: TestAgent, more: Record<string, unknown> = {}): Promise<Started> {
  return await answered(await post(w, agent, "/pair/start", { initiatorProfile: PROFILE, ...more }));
}

function confirm(w: World, agent: TestAgent, ticket: unknown, responderProfile: unknown = THEIRS): Promise<Response> {
  return post(w, agent, "/pair/confirm", { ticket, responderProfile });
}

function status(w: World, agent: TestAgent, ticket: unknown): Promise<Response> {
  return post(w, agent, "/pair/status", { ticket });
}

async function cast(): Promise<{ w: World; a: TestAgent; b: TestAgent; c: TestAgent }> {
  const w = await openProxy();
  return { w, a: await w.agent(), b: await w.agent(), c: await w.agent() };
}

const pairs = (w: World) => countOf(w, KEYS.pairs("x"));

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

test("paired agents can send to each other in both directions, and not before", async ({ w, a, b }) => {
  for (const agent of [a, b]) w.connect(agent);
  assertEquals(await outcome(await w.message(a, b)), "403 PROXY_AUTH_FORBIDDEN");
  const { ticket } = await start(w, a);
  assertEquals(await outcome(await w.message(a, b)), "403 PROXY_AUTH_FORBIDDEN");
  const answer = await answered(await confirm(w, b, ticket), 201);
  assertEquals(answer, {
    paired: true,
    initiatorAgentDid: a.agent.did,
    initiatorProfile: PROFILE,
    responderAgentDid: b.agent.did,
    responderProfile: THEIRS,
  });
  assertEquals([await outcome(await w.message(a, b)), await outcome(await w.message(b, a))], ["202", "202"]);
});

test("an agent without a pair may pair and connect, but not pair with itself or use another's pair", async ({ w, a, b, c }) => {
  const { ticket } = await start(w, a);
  assertEquals(await outcome(await status(w, a, ticket)), "200");
  assertEquals(await outcome(await get(w, a, "/v1/relay/connect")), "426 PROXY_RELAY_UPGRADE_REQUIRED");
  assertEquals(await outcome(await confirm(w, b, ticket)), "201");
  for (const [from, to] of [[a, a], [a, c], [c, a], [c, b]] as const) {
    assertEquals(await outcome(await w.message(from, to)), "403 PROXY_AUTH_FORBIDDEN");
  }
});

test("a ticket names its service; maker and expiry are in the answer", async ({ w, a }) => {
  w.clock.step(250);
  const answer: Record<string, unknown> = { ...await start(w, a) };
  const { ticket, ...rest } = answer;
  const expiresAt = new Date(w.clock.now() + 300_000).toISOString();
  assertEquals(rest, { expiresAt, initiatorAgentDid: a.agent.did, initiatorProfile: PROFILE });
  assert(typeof ticket === "string");
  assertMatch(ticket, /^svcpair1_[A-Za-z0-9_-]{22}\.-\./);
  assertEquals(parseTicket(ticket)?.authority, new URL(PROXY_URL).host);
});

test("ttlSeconds is an integer from 1 to 900; any other value makes no ticket", async ({ w, a }, t) => {
  for (const ttlSeconds of [1, 300, 900]) {
    const { expiresAt } = await start(w, a, { ttlSeconds });
    assertEquals(Date.parse(expiresAt), w.clock.now() + ttlSeconds * 1000);
  }
  for (const ttlSeconds of [901, 0, 1.5, "300", null]) {
    await t.step(JSON.stringify(ttlSeconds), async () => {
      const answer = await post(w, a, "/pair/start", { initiatorProfile: PROFILE, ttlSeconds });
      await refused(answer, "PROXY_PAIR_INVALID_BODY");
    });
  }
  assertEquals((await w.kv.get<unknown[]>(KEYS.openTickets(a.agent.did))).value?.length, 3);
});

test("profile names are 1 to 64 characters on both sides and are never stored raw", async ({ w, a, b }, t) => {
  const { ticket } = await start(w, a);
  for (const bad of [undefined, "", "x".repeat(65), "a\u202eb", ["a"]]) {
    await t.step(JSON.stringify(bad) ?? "missing", async () => {
      for (const profile of [{ ...PROFILE, agentName: bad }, { ...PROFILE, humanName: bad }]) {
        await refused(await post(w, a, "/pair/start", { initiatorProfile: profile }), "PROXY_PAIR_INVALID_BODY");
        await refused(await confirm(w, b, ticket, profile), "PROXY_PAIR_INVALID_BODY");
      }
    });
  }
  for (const profile of [null, "alpha", [], {}, undefined]) {
    await refused(await post(w, a, "/pair/start", { initiatorProfile: profile }), "PROXY_PAIR_INVALID_BODY");
  }
  const good = { agentName: "  \u{1f600}".padEnd(10, "x") + " ", humanName: "\u{1f600}".repeat(64) };
  const answer = await answered<{ responderProfile: unknown }>(await confirm(w, b, ticket, good), 201);
  assertEquals(answer.responderProfile, { ...good, agentName: good.agentName.trim() });
});

test("only the exact ticket is accepted; white space and backticks around it are ignored", async ({ w, a, b }, t) => {
  const { ticket } = await start(w, a);
  await t.step("any one character changed", async () => {
    const secondField = ticket.indexOf("-.");
    for (let i = 0; i < ticket.length; i += 4) {
      if (i === secondField) continue;
      const other = ticket[i] === "A" ? "B" : "A";
      assertEquals(
        await outcome(await status(w, a, ticket.slice(0, i) + other + ticket.slice(i + 1))),
        NOT_FOUND,
        `${i}`,
      );
    }
  });
  const bad: [name: string, ticket: string][] = [
    ["another number of the format", ticket.replace("svcpair1_", "svcpair2_")],
    ["10 KiB", ticket + "A".repeat(10_240)],
    ["cut short", ticket.slice(0, -1)],
    ["of another proxy", ticket.replace(new URL(PROXY_URL).host, "other.example")],
    ["of this proxy, made up", formatTicket(PROXY_URL, new Uint8Array(16))],
    ["another word", "svcpair1_"],
    ["junk", "junk"],
    ["white space inside", `${ticket.slice(0, 20)} ${ticket.slice(20)}`],
  ];
  for (const [name, text] of bad) {
    await t.step(name, async () => {
      assertEquals([await outcome(await confirm(w, b, text)), await outcome(await status(w, a, text))], [
        NOT_FOUND,
        NOT_FOUND,
      ]);
    });
  }
  for (const missing of [undefined, "", "   ", "```", " `\n` ", null, 7, [ticket]]) {
    await t.step(`not a ticket: ${JSON.stringify(missing)}`, async () => {
      await refused(await confirm(w, b, missing), "PROXY_PAIR_INVALID_BODY");
      await refused(await status(w, b, missing), "PROXY_PAIR_INVALID_BODY");
    });
  }
  assertEquals(await pairs(w), 0);
  assertEquals(
    await outcome(await status(w, a, ticket.replace("-.", `${"A".repeat(22)}.`))),
    "200",
    "a pair secret is dropped",
  );
  assertEquals(await outcome(await confirm(w, b, ` \`\`\`\n${ticket}\n\`\`\` `)), "201");
});

test("a ticket is valid until it expires, then 410 for one day, then unknown", async ({ w, a, b }) => {
  const { ticket } = await start(w, a, { ttlSeconds: 1 });
  w.clock.step(999);
  assertEquals(await outcome(await status(w, a, ticket)), "200");
  w.clock.step(1);
  const expired = "410 PROXY_PAIR_TICKET_EXPIRED";
  assertEquals([await outcome(await confirm(w, b, ticket)), await outcome(await status(w, a, ticket))], [
    expired,
    expired,
  ]);
  assertEquals(
    await outcome(await status(w, b, ticket)),
    NOT_FOUND,
    "only its participants learn that it was a ticket",
  );
  w.clock.step(86_400_000 - 1);
  assertEquals(await outcome(await confirm(w, b, ticket)), expired);
  w.clock.step(1);
  assertEquals([await outcome(await confirm(w, b, ticket)), await outcome(await status(w, a, ticket))], [
    NOT_FOUND,
    NOT_FOUND,
  ]);
});

test("both participants can read the status of a ticket before and after the confirmation", async ({ w, a, b, c }) => {
  const { ticket, expiresAt } = await start(w, a);
  const pending = { status: "pending", initiatorAgentDid: a.agent.did, initiatorProfile: PROFILE, expiresAt };
  assertEquals(await answered(await status(w, a, ticket)), pending);
  const text = await refused(await status(w, c, ticket), "PROXY_PAIR_TICKET_NOT_FOUND");
  assert(![PROFILE.agentName, PROFILE.humanName, a.agent.did].some((name) => text.includes(name)), text);
  assertEquals(await outcome(await status(w, b, ticket)), NOT_FOUND);
  w.clock.step(1000);
  await answered(await confirm(w, b, ticket), 201);
  const confirmed = {
    ...pending,
    status: "confirmed",
    responderAgentDid: b.agent.did,
    responderProfile: THEIRS,
    confirmedAt: new Date(w.clock.now()).toISOString(),
  };
  for (const agent of [a, b]) assertEquals(await answered(await status(w, agent, ticket)), confirmed);
  assertEquals(await outcome(await status(w, c, ticket)), NOT_FOUND);
  w.clock.step(300_000);
  assertEquals(await answered(await status(w, a, ticket)), confirmed, "a confirmed ticket does not expire");
  w.clock.step(86_400_000);
  assertEquals(await outcome(await status(w, a, ticket)), NOT_FOUND);
});

test("of 20 agents that confirm at once one is paired", async ({ w, a }) => {
  const { ticket } = await start(w, a);
  const owner = await w.person();
  const many: TestAgent[] = [];
  for (let i = 0; i < 20; i++) many.push(await w.agent(owner));
  assertEquals(await tally(many.map((agent) => confirm(w, agent, ticket))), {
    "201": 1,
    "409 PROXY_PAIR_TICKET_ALREADY_CONFIRMED": 19,
  });
  assertEquals(await pairs(w), 2);
  const { peers } = await answered<{ peers: { agentDid: string }[] }>(await get(w, a, "/pair/peers"));
  const [winner] = peers;
  const { responderAgentDid } = await answered<{ responderAgentDid: string }>(await status(w, a, ticket));
  assertEquals([peers.length, winner?.agentDid], [1, responderAgentDid]);
});

test("the same responder gets the same 201 again, also with concurrent requests, and one pair", async ({ w, a, b }) => {
  const socket = w.connect(a);
  const { ticket } = await start(w, a);
  assertEquals(await tally(Array.from({ length: 20 }, () => confirm(w, b, ticket))), { "201": 20 });
  w.clock.step(400_000);
  const again = await answered<{ responderProfile: unknown }>(await confirm(w, b, ticket, PROFILE), 201);
  assertEquals(again.responderProfile, THEIRS, "the profile of the confirmation");
  assertEquals(await pairs(w), 2);
  assertEquals(socket.frames.filter((frame) => frame.type === "paired").length, 1);
});

test("the initiator's newest connector receives the paired frame", async ({ w, a, b }) => {
  const sockets = [w.connect(a), w.connect(a)];
  const { ticket } = await start(w, a);
  await answered(await confirm(w, b, ticket), 201);
  const frames = sockets.map((socket) => socket.frames.filter((frame) => frame.type === "paired"));
  assertEquals(frames.map((all) => all.length), [0, 1]);
  const [frame] = frames[1] ?? [];
  assertEquals([frame?.peerAgentDid, frame?.profile], [b.agent.did, THEIRS]);
});

test("the 21st open ticket of an agent is refused until one is confirmed or expires", async ({ w, a, b }) => {
  const { ticket } = await start(w, a, { ttlSeconds: 10 });
  for (let i = 1; i < 20; i++) await start(w, a, { ttlSeconds: 900 });
  const full = await post(w, a, "/pair/start", { initiatorProfile: PROFILE });
  assertEquals(full.headers.get("retry-after"), "10");
  await refused(full, "PROXY_RATE_LIMIT_EXCEEDED");
  await start(w, b);
  await answered(await confirm(w, b, ticket), 201);
  await start(w, a, { ttlSeconds: 10 });
  await refused(await post(w, a, "/pair/start", { initiatorProfile: PROFILE }), "PROXY_RATE_LIMIT_EXCEEDED");
  w.clock.step(10_000);
  await start(w, a);
});

test("a restart between start and confirm changes nothing", async ({ w, a, b }) => {
  const { ticket } = await start(w, a);
  await restart(w);
  w.clock.step(299_000);
  assertEquals(await outcome(await confirm(w, b, ticket)), "201");
  await restart(w);
  w.connect(b);
  assertEquals(await outcome(await w.message(a, b)), "202");
});

test("a ticket is stored as its digest, never in clear text", async ({ w, a }) => {
  const { ticket } = await start(w, a);
  const secret = ticket.slice("svcpair1_".length, "svcpair1_".length + 22);
  const texts = (await Array.fromAsync(w.kv.list({ prefix: [] }))).map(({ key, value }) =>
    JSON.stringify([key, value])
  );
  assert(!texts.some((text) => text.includes(secret)));
  assert(!JSON.stringify(w.log).includes(secret));
});

Deno.test("a disk without the reserve takes no new ticket or pair, and answers for those that it has", async () => {
  const disk = { freeBytes: 1_000_000, totalBytes: 5_000_000 };
  await using w = await openProxy({ diskSpace: () => ({ ...disk }) });
  const [a, b] = [await w.agent(), await w.agent()];
  const { ticket } = await start(w, a), second = await start(w, a);
  disk.freeBytes = 499_000;
  await w.clock.stepWhenIdle(1_000);
  const noTicket = await refused(await post(w, a, "/pair/start", { initiatorProfile: PROFILE }), "SERVICE_UNAVAILABLE");
  assertStringIncludes(noTicket, "The disk of the proxy has no space left for tickets");
  const noPair = await refused(await confirm(w, b, ticket), "SERVICE_UNAVAILABLE");
  assertStringIncludes(noPair, "The disk of the proxy has no space left for pairs");
  disk.freeBytes = 1_000_000;
  await w.clock.stepWhenIdle(1_000);
  await answered(await confirm(w, b, ticket), 201);
  disk.freeBytes = 499_000;
  await w.clock.stepWhenIdle(1_000);
  await answered(await confirm(w, b, ticket), 201);
  await answered(await confirm(w, b, second.ticket), 201);
});

Deno.test("the agents of one owner share a limit of new tickets, and it stops no message", async () => {
  await using w = await openProxy({ proxy: { ownerRequests: 40 } });
  const { a, b } = await w.pairedAgents(), sibling = await w.agent(a.owner);
  w.connect(b);
  const tickets = await tally(
    Array.from({ length: 8 }, (_, n) => post(w, n % 2 ? a : sibling, "/pair/start", { initiatorProfile: PROFILE })),
  );
  assertEquals(tickets, { "200": 3, "429 PROXY_RATE_LIMIT_EXCEEDED": 5 });
  const message = await refused(
    await post(w, a, "/pair/start", { initiatorProfile: PROFILE }),
    "PROXY_RATE_LIMIT_EXCEEDED",
  );
  assertStringIncludes(message, "The agents of your account together have sent 4 pairing requests in a minute");
  assertEquals(await outcome(await w.message(a, b)), "202");
  await w.clock.stepWhenIdle(60_000);
  await start(w, sibling);
});

test("a ticket whose pair has ended is unknown to both, because neither may still send", async ({ w, a, b }) => {
  const { ticket } = await start(w, a);
  await answered(await confirm(w, b, ticket), 201);
  assertEquals(await outcome(await post(w, b, "/pair/remove", { peerAgentDid: a.agent.did })), "204");
  for (const agent of [a, b]) assertEquals(await outcome(await status(w, agent, ticket)), NOT_FOUND);
  // A later ticket pairs the two again, and does not make the earlier one say that it did.
  await answered(await confirm(w, b, (await start(w, a)).ticket), 201);
  assertEquals(await outcome(await confirm(w, b, ticket)), NOT_FOUND);
});
