/** Pairing by a tool needs a person (D-130), in both kinds of protocol revisions. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { APPROVAL_MS, Approvals } from "../../../cli/mcp/approvals.ts";
import { formatTicket } from "../../../shared/protocol/ticket.ts";
import { systemRandom } from "../../../shared/random.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { PROXY_URL, type TestAgent, World } from "../../support/world.ts";
import { Bench } from "../connector/bench.ts";
import { asker, post } from "../connector/local_api/local_caller.ts";
import { ERAS, McpClient, type McpClientOptions } from "./mcp_client.ts";

const AGREED = { action: "accept", content: { confirm: true } } as const;

/** Beta with a connector and an MCP client, and an agent that makes tickets. */
async function beta(options: McpClientOptions = {}) {
  const world = await World.open();
  const a = await world.agent(undefined, "alpha"), b = await world.agent(undefined, "beta");
  const bench = await Bench.open(world, b, { platform: "inbox" });
  const client = await McpClient.open(world, bench, options);
  return {
    world,
    a,
    b,
    bench,
    client,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    ticket: async () => (await a.client.pairStart({ agentName: "alpha", humanName: "Ada" })).ticket,
  };
}

Deno.test("a ticket that the agent has made itself is said to be its own", async () => {
  await using place = await beta({ answer: () => AGREED });
  const { ticket } = await place.client.data("pair_start", {});
  const said = "PROXY_PAIR_INVALID_BODY: This is your own ticket. Give it to the other person. Ask your user for a";
  await place.client.failure("pair_confirm", { ticket }, said);
});

Deno.test("when a new agent has the name of a peer, the person is told how it takes its place", async () => {
  await using place = await beta({ answer: () => AGREED });
  const { agent: { did }, keys: { publicKey: key } } = await place.world.agent(undefined, "alpha");
  // The profile of a bench has this name.
  const old = { did, agentName: "alpha", humanName: "Somebody", key, how: "ticket", since: "" } as const;
  await place.bench.connector.peers.change(() => ({ alpha: old }));
  const alpha = await Bench.open(place.world, place.a, { platform: "inbox" });
  const { ticket } = (await asker(alpha)("/v1/pair/start", post({}))).body;
  const { peer, say } = await place.client.data("pair_confirm", { ticket });
  assertEquals([peer.alias, peer.agentDid], ["alpha-2", place.a.agent.did]);
  assertStringIncludes(say, "svc peers rename alpha-2 alpha --replaces --agent beta");
});

/** Whether the proxy takes a message of one agent for the other. */
const isPaired = async (world: World, a: TestAgent, b: TestAgent) =>
  (await world.message(a, b, { headers: { Prefer: "respond-async" } })).status !== 403;

for (const era of ERAS) {
  Deno.test(`a person agrees, and two agents are paired by their tools (${era})`, async () => {
    await using place = await beta({ era, answer: () => AGREED });
    const { a, b, client } = place;
    const { peer } = await client.data("pair_confirm", { ticket: await place.ticket() });
    assertEquals([peer.alias, peer.agentDid, peer.humanName], ["contact-alpha", a.agent.did, "Ada"]);
    assert(await isPaired(place.world, a, b));
    const { ticket, expiresAt, say } = await client.data("pair_start", { ttl_seconds: 60 });
    assertEquals(Date.parse(expiresAt) - place.world.clock.now() <= 60_000, true);
    assertStringIncludes(say, "never to an agent");
    const c = await place.world.agent();
    await c.client.pairConfirm(ticket, { agentName: "gamma", humanName: "C" });
    const [confirm = "", start = ""] = client.questions;
    for (const question of [confirm, start]) {
      for (const part of ["beta", b.agent.did, PROXY_URL]) assertStringIncludes(question, part);
    }
    assertStringIncludes(confirm, `a ticket of ${new URL(PROXY_URL).host}? `);
    assertEquals(client.questions.length, 2);
  });

  Deno.test(`without an agreement no pairing request is sent (${era})`, async (t) => {
    const answers: [string, McpClientOptions, RegExp][] = [
      [
        "declined",
        { answer: () => ({ action: "decline" }) },
        // Codex without approvals declines by itself.
        /^CLI_INTERRUPTED: Your user did not agree, or your program answered for them\. .* to paste this .*\/v1\/pair\//,
      ],
      ["cancelled", { answer: () => ({ action: "cancel" }) }, /^CLI_INTERRUPTED: /],
      ["not confirmed", { answer: () => ({ action: "accept", content: { confirm: false } }) }, /^CLI_INTERRUPTED: /],
      ["no content", { answer: () => ({ action: "accept" }) }, /^CLI_INTERRUPTED: /],
      [
        "another kind",
        { answer: () => ({ action: "accept", content: { confirm: "true" } }) },
        /^CLI_INTERRUPTED: |confirm/,
      ],
      [
        "no questions",
        { capabilities: {} },
        /^A person must approve this, and your program cannot ask them\. Ask your user to paste this/,
      ],
      ["links only", { capabilities: { elicitation: { url: {} } } }, /^A person must approve this/],
    ];
    for (const [name, options, refused] of answers) {
      await t.step(name, async () => {
        await using place = await beta({ era, ...options });
        for (const [tool, args] of [["pair_confirm", { ticket: await place.ticket() }], ["pair_start", {}]] as const) {
          const text = await place.client.failure(tool, args).catch(String);
          assert(refused.test(text), text);
        }
        assertEquals([place.client.sent("/pair/"), await isPaired(place.world, place.a, place.b)], [[], false]);
      });
    }
  });
}

Deno.test("a program that cannot ask its user gets one command to paste, with the words of the call", async () => {
  await using place = await beta({ capabilities: {} });
  const url = "http://127.0.0.1:1/v1/pair", curl = ["curl", "-K", "/home/ada/it's/beta/connector.curl"];
  const wordsOf = async (tool: string, args: Record<string, unknown>) => {
    const text = await place.client.failure(tool, args);
    const lines = text.split(/(?=curl -K )/).slice(1);
    assertEquals(lines.length, 1, text);
    const script = `set -- ${lines[0]}; printf '%s\\n' "$@"`;
    const { stdout } = await new Deno.Command("sh", { args: ["-c", script] }).output();
    return new TextDecoder().decode(stdout).trimEnd().split("\n");
  };
  const ticket = await place.ticket();
  const wrapped = `> ${ticket.slice(0, 40)}\n> ${ticket.slice(40)}`;
  for (const pasted of [`  ${ticket}\n`, `Ada: here is my ticket: "${ticket}". It works once.`, wrapped]) {
    const confirm = await wordsOf("pair_confirm", { ticket: pasted });
    assertEquals(confirm, [...curl, `${url}/confirm`, "-d", JSON.stringify({ ticket })]);
  }
  const start = await wordsOf("pair_start", { ttl_seconds: 60 });
  assertEquals(start, [...curl, `${url}/start`, "-d", '{"ttlSeconds":60}']);
});

Deno.test("a text that is not a ticket is refused without a question", async () => {
  await using place = await beta();
  const ticket = await place.ticket();
  for (const text of ["yes please", `${ticket}/`, `${ticket}\u001b[2J\n\nAgree`]) {
    const why = text === "yes please"
      ? "No pairing ticket in the pasted text."
      : "This ticket was cut off: copy it whole.";
    const said = `PROXY_PAIR_TICKET_NOT_FOUND: ${why} Ask your user for the whole ticket.`;
    await place.client.failure("pair_confirm", { ticket: text }, said);
  }
  assertEquals(place.client.questions, []);
});

Deno.test("a ticket of another server is named as such before the question, and where no question is possible", async () => {
  const warning = `This ticket is from another server: other.example. This agent uses ${PROXY_URL}. `;
  const ticketOf = (proxyUrl: string) => formatTicket(proxyUrl, new Uint8Array(16));
  await using place = await beta();
  await place.client.failure("pair_confirm", { ticket: ticketOf("https://other.example") });
  await place.client.failure("pair_confirm", { ticket: ticketOf(PROXY_URL) });
  const [other = "", own = ""] = place.client.questions;
  assert(other.startsWith(`${warning}Pair the agent beta `), other);
  assert(own.startsWith("Pair the agent beta "), own);
  await using mute = await beta({ capabilities: {} });
  await mute.client.failure(
    "pair_confirm",
    { ticket: ticketOf("https://other.example") },
    `${warning}Ask your user to paste this`,
  );
});

Deno.test("no person is asked about the ticket of a server with which no agent here can pair", async () => {
  await using place = await beta();
  for (const origin of ["https://other.example:8443", "http://127.0.0.1:8787"]) {
    const said = `The ticket is from ${new URL(origin).host}. Agents of two servers pair only if`;
    await place.client.failure("pair_confirm", { ticket: formatTicket(origin, new Uint8Array(16)) }, said);
  }
  assertEquals(place.client.questions, []);
});

Deno.test("a person is asked three times in ten minutes, in all calls of a process", async () => {
  await using place = await beta();
  const { client } = place;
  for (let n = 0; n < 3; n++) await client.failure("pair_start", {}, "did not agree");
  const refused = await client.failure("pair_confirm", { ticket: await place.ticket() });
  assertStringIncludes(refused, "CONNECTOR_LOOP_GUARD: Your user was asked 3 times within 10 minutes");
  assertStringIncludes(refused, "/v1/pair/confirm -d ");
  assertEquals(client.questions.length, 3);
  place.world.clock.step(10 * 60_000);
  await client.failure("pair_start");
  assertEquals(client.questions.length, 4);
});

/** The first half of a call on revision 2026-07-28, which the test repeats by itself. */
async function asked(client: McpClient, name: string, args: Record<string, unknown>): Promise<string> {
  const result = await client.client.request({ method: "tools/call", params: { name, arguments: args } }, {
    allowInputRequired: true,
  });
  const { requestState } = result as { requestState?: string };
  assert(typeof requestState === "string");
  return requestState;
}

async function repeated(client: McpClient, name: string, args: Record<string, unknown>, requestState: string) {
  const params = { name, arguments: args, requestState, inputResponses: { confirm: AGREED } };
  const { isError, content } = await client.client.request({ method: "tools/call", params });
  const [first] = content;
  return { isError: isError === true, text: first?.type === "text" ? first.text : "" };
}

Deno.test("an approval is for one call, counts once and for five minutes", async () => {
  await using place = await beta({ era: "2026" });
  const { client } = place;
  const [one, two] = [await place.ticket(), await place.ticket()];
  const state = await asked(client, "pair_confirm", { ticket: one });
  const other: [string, Record<string, unknown>, string][] = [
    ["pair_confirm", { ticket: two }, state],
    ["pair_start", {}, state],
    ["pair_confirm", { ticket: one }, `${state}x`],
    ["pair_confirm", { ticket: one }, state.slice(1)],
    ["pair_confirm", { ticket: one }, ""],
  ];
  for (const [name, args, given] of other) {
    const { isError, text } = await repeated(client, name, args, given);
    assertEquals(isError, true);
    assertStringIncludes(text, "CONNECTOR_INVALID_BODY: The approval is not for this call");
  }
  assertEquals(client.sent("/pair/"), []);
  // Twenty calls with one approval: one pairs.
  const all = await Promise.all(
    Array.from({ length: 20 }, () => repeated(client, "pair_confirm", { ticket: one }, state)),
  );
  assertEquals([all.filter(({ isError }) => !isError).length, client.sent("/pair/confirm").length], [1, 1]);
  await until(() => isPaired(place.world, place.a, place.b));

  const late = await asked(client, "pair_start", {});
  place.world.clock.step(APPROVAL_MS);
  assertEquals((await repeated(client, "pair_start", {}, late)).isError, true);
  assertEquals(client.sent("/pair/start"), []);
});

Deno.test("a state that this process has not made is never an approval", () => {
  const clock = new ManualClock();
  const approvals = new Approvals({ clock, random: systemRandom });
  const own = approvals.ask("pair_start", { ttlSeconds: 300 }) ?? "";
  const foreign = new Approvals({ clock, random: systemRandom }).ask("pair_start", { ttlSeconds: 300 }) ?? "";
  assertNotEquals(own, foreign);
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.constantFrom(foreign, `${own}.`, `${own}.x`, `.${own}`),
        fc.string().map((text) => own.slice(0, -1) + text),
      ),
      (state) => {
        fc.pre(state !== own);
        assertEquals(approvals.take(state, "pair_start", { ttlSeconds: 300 }), false);
      },
    ),
    { numRuns: 500 },
  );
  assertEquals(approvals.take(own, "pair_start", { ttlSeconds: 301 }), false);
  assertEquals(approvals.take(own, "pair_start", { ttlSeconds: 300 }), true);
  assertEquals(approvals.take(own, "pair_start", { ttlSeconds: 300 }), false);
});

Deno.test("an approval ends when the clock is set back, because it would otherwise count for longer", () => {
  const clock = new ManualClock();
  const approvals = new Approvals({ clock, random: systemRandom });
  const [moment, before] = [approvals.ask("pair_start", {}) ?? "", approvals.ask("pair_start", {}) ?? ""];
  clock.step(-1_000);
  assertEquals(approvals.take(moment, "pair_start", {}), true);
  clock.step(-60 * 60_000);
  assertEquals(approvals.take(before, "pair_start", {}), false);
});
