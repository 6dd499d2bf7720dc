/** The keys of `connector start` (D-122): what each does, and that only an answer to the question confirms a ticket. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { ConsoleKeys } from "../../../cli/connector/console_keys.ts";
import type { Peers } from "../../../cli/connector/peers.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { formatTicket } from "../../../shared/protocol/ticket.ts";
import { ManualClock } from "../../support/manual_clock.ts";

const PROXY = "https://proxy.example";
const DID = "did:svc:registry.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const PAIRED = {
  paired: true,
  initiatorAgentDid: DID,
  initiatorProfile: { agentName: "beta", humanName: "Bob" },
  responderAgentDid: DID,
  responderProfile: { agentName: "alpha", humanName: "Ann" },
};
const QUESTION = "Pair with the agent behind this ticket? [y/N]";

/** Keys of a connector that records the calls of its local API. */
class TestKeys {
  readonly clock = new ManualClock();
  readonly shown: string[] = [];
  readonly calls: unknown[][] = [];
  peers: Peers = {};
  unread: string[][] = [];
  stops = 0;
  answer: (target: string) => Promise<unknown> = () => Promise.resolve(PAIRED);
  readonly keys = new ConsoleKeys({
    clock: this.clock,
    show: (lines) => void this.shown.push(...lines),
    call: (method, target, body) => {
      this.calls.push([method, target, body]);
      return this.answer(target);
    },
    peers: () => this.peers,
    unread: (limit) => Promise.resolve(this.unread.slice(0, limit)),
    nextLines: (peer) => [`next: ${peer}`],
    proxyOrigin: PROXY,
    stop: () => void this.stops++,
  });

  ticket(fields: Partial<{ iss: string; exp: number }> = {}): string {
    const exp = Math.floor(this.clock.now() / 1000) + 300;
    return formatTicket({ iss: PROXY, id: "01KHYQ5H00AAAAAAAAAAAAAAAA", exp, ...fields }, new Uint8Array(24));
  }

  async type(text: string): Promise<void> {
    this.keys.receive(new TextEncoder().encode(text));
    await this.clock.advance(0);
  }

  /** Pastes a text, and waits until keys are read again. */
  async paste(text: string, waitMs = 500): Promise<void> {
    await this.type(`\x1b[200~${text}\x1b[201~`);
    await this.clock.advance(waitMs);
  }

  /** What was shown since the last call. */
  take(): string[] {
    return this.shown.splice(0);
  }
}

Deno.test("p makes a ticket, l lists the peers, ? helps, q stops, and other keys do nothing", async () => {
  const world = new TestKeys();
  await world.type("p");
  assertEquals(world.calls, [["POST", "/v1/pair/start", {}]]);
  await world.type("l");
  assertEquals(world.take(), ["No peers."]);
  world.peers = { "beta-2": { did: DID, agentName: "beta", humanName: "Bob" } };
  await world.type("l");
  assertEquals(world.take()[1]?.split(/  +/), ["beta-2", "beta", "Bob", DID]);
  await world.type("?");
  assertEquals(world.take().map((line) => line.trim().charAt(0)), ["p", "l", "u", "?", "q", "A"]);
  for (const key of ["x", "y", "P", "\r", "\x04"]) await world.type(key);
  assertEquals([world.take(), world.calls.length, world.stops], [[], 1, 0]);
  await world.type("q");
  assertEquals(world.stops, 1);
});

Deno.test("u shows the unread messages, at most 20 and 2,000 characters of each", async () => {
  const world = new TestKeys();
  await world.type("u");
  assertEquals(world.take(), ["No unread messages."]);
  world.unread = [["1  now  beta", "    hi", "    there"], ["2  now  beta", "x".repeat(2_000), "    more"]];
  await world.type("u");
  assertEquals(world.take(), [...world.unread[0] ?? [], "2  now  beta", `${"x".repeat(2_000 - 12)}…`]);
  world.unread = Array.from({ length: 30 }, (_, n) => [`${n}`]);
  await world.type("u");
  assertEquals(world.take().slice(-2), ["19", "There may be more: svc inbox lists them."]);
});

Deno.test("a pasted ticket is shown with proxy and expiry, and y pairs and says with whom", async () => {
  const world = new TestKeys();
  const ticket = world.ticket();
  await world.paste(`Here is the ticket:\r\n  \`${ticket}\`, it works once.\n`);
  assertEquals(world.take(), [`Ticket of ${PROXY}, valid until 2026-02-21T00:06:00.000Z (in 5 min).`, QUESTION]);
  assertEquals(world.calls, []);
  world.peers = { "beta-2": { did: DID, agentName: "beta", humanName: "Bob" } };
  await world.type("y");
  assertEquals(world.calls, [["POST", "/v1/pair/confirm", { ticket }]]);
  assertEquals(world.take(), [`Paired with beta of Bob, alias beta-2 (${DID}).`, "next: beta-2"]);
  await world.type("y");
  assertEquals(world.calls.length, 1);
});

Deno.test("a pasted ticket sends nothing after another key, another paste, or a minute without an answer", async () => {
  const world = new TestKeys();
  for (const key of ["n", "q", "p", " ", "l"]) {
    await world.paste(world.ticket());
    await world.type(key);
    assertEquals(world.take().slice(-2), [QUESTION, "Not paired."]);
  }
  await world.paste(world.ticket());
  await world.paste("something else");
  assertEquals(world.take().slice(-2), ["Not paired.", "The pasted text has no pairing ticket, or more than one."]);
  await world.paste(world.ticket());
  await world.clock.advance(60_000);
  assertEquals(world.take().at(-1), "Not paired: no answer.");
  await world.type("y");
  assertEquals([world.calls, world.stops, world.clock.waiting], [[], 0, 0]);
});

Deno.test("keys that arrive within 500 ms of a paste are dropped and answer nothing", async () => {
  const world = new TestKeys();
  await world.type(`\x1b[200~${world.ticket()}\x1b[201~y`);
  await world.clock.advance(499);
  await world.type("y");
  assertEquals([world.take().at(-1), world.calls], [QUESTION, []]);
  await world.clock.advance(1);
  await world.type("y");
  assertEquals(world.calls.length, 1);
});

Deno.test("a text that is not a ticket is refused: too long, another origin or time than can be shown", async () => {
  const world = new TestKeys();
  const texts = [
    "x".repeat(3_000),
    "svcpair1_AAAA",
    world.ticket({ iss: "https://proxy.example, which you trust" }),
    world.ticket({ iss: "javascript:alert(1)" }),
    world.ticket({ exp: Number.MAX_SAFE_INTEGER }),
    `${world.ticket()} ${world.ticket({ exp: 1 })}`,
  ];
  for (const text of texts) {
    await world.paste(text);
    assertEquals(world.take(), ["The pasted text has no pairing ticket, or more than one."]);
  }
  await world.type("y");
  assertEquals(world.calls, []);
});

Deno.test("a ticket of another proxy, and an expired one, are shown as such", async () => {
  const world = new TestKeys();
  await world.paste(world.ticket({ iss: "https://other.example", exp: 1_000_000_000 }));
  assertEquals(world.take(), [
    "Ticket of https://other.example, valid until 2001-09-09T01:46:40.000Z (EXPIRED).",
    `This agent uses another proxy: ${PROXY}.`,
    QUESTION,
  ]);
  await world.type("n");
});

Deno.test("a refusal is shown, and one action runs at a time", async () => {
  const world = new TestKeys();
  const gate = Promise.withResolvers<unknown>();
  world.answer = () => gate.promise;
  for (const key of ["p", "p", "l"]) await world.type(key);
  assertEquals([world.calls.length, world.take()], [1, []]);
  gate.reject(new ApiError(410, "PROXY_PAIR_TICKET_EXPIRED", "The ticket has expired", null));
  await world.clock.advance(0);
  const [cause, fix] = world.take();
  assertEquals(cause, "The ticket has expired");
  assertStringIncludes(fix ?? "", "press p");
  await world.type("l");
  assertEquals(world.take(), ["No peers."]);
});

Deno.test("a paste whose end is lost is forgotten after two seconds, and keys work again", async () => {
  const world = new TestKeys();
  await world.type(`\x1b[200~${world.ticket()}`);
  await world.type("q");
  assertEquals(world.stops, 0);
  await world.clock.advance(2_000);
  await world.type("q");
  assertEquals([world.stops, world.take()], [1, []]);
});
