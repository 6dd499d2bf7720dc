/** Pairing on the terminal: the ticket of an agent, a pasted one, and an agent that takes another one's place. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Peers } from "../../../../cli/connector/peers/peers.ts";
import { textColumns } from "../../../../cli/terminal/text_width.ts";
import { ApiError } from "../../../../shared/client/errors.ts";
import { formatTicket, OWN_TICKET, withPairSecret } from "../../../../shared/protocol/ticket.ts";
import { until } from "../../../support/until.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { BETA, DID, ENTER, listedPeer, OTHER, Screen, TICKET } from "./screen.ts";

Deno.test("the ticket of an agent pairs with another one of the same terminal, and not with itself", async () => {
  await using screen = new Screen(80, ["alpha", "beta"]);
  screen.talk.tickets.show("alpha", TICKET, new Date(screen.clock.now() + 300_000).toISOString());
  await screen.paste(TICKET);
  assertEquals(screen.lines.at(-1)?.slice(7), "This is your own ticket. Give it to the other person.");
  await screen.press("a", ..."beta", ENTER);
  await screen.paste(TICKET);
  assertEquals(screen.live(), "Pair beta with an agent of svc.example.com? [y/N] ");
});

Deno.test("a pasted ticket pairs after y, and nothing else does", async () => {
  await using screen = new Screen();
  for (const answer of ["n", "q", " ", ENTER]) {
    await screen.paste(TICKET);
    await screen.press(answer);
  }
  await screen.paste(TICKET);
  await screen.clock.advance(60_000);
  await screen.paste(TICKET, 0);
  await screen.press("y");
  assertEquals([screen.requests("/v1/pair"), screen.stops], [[], 0]);
  await screen.clock.advance(500);
  assertEquals(screen.live(), "Pair with an agent of svc.example.com? [y/N] ");
  await screen.press("y");
  assertEquals(screen.requests("/v1/pair"), [{ ticket: TICKET }]);
  const last = async (text: string) => {
    await screen.paste(text);
    return screen.lines.at(-1)?.slice(7);
  };
  assertEquals(await last("hello"), "No pairing ticket in the pasted text.");
  assertEquals(await last(TICKET.slice(0, 33)), "This ticket was cut off: copy it whole.");
  const other = formatTicket("https://b.example", new Uint8Array(16));
  assertEquals(await last(other), "for another one.");
  assertStringIncludes(screen.lines.at(-2) ?? "", "This ticket is from another server, b.example, and proves no key.");
  for (const origin of ["https://b.example:8443", "http://127.0.0.1:8787", "https://192.168.1.2"]) {
    const { host } = new URL(origin), ticket = withPairSecret(formatTicket(origin, new Uint8Array(16)), "A".repeat(22));
    const count = screen.lines.length;
    await screen.paste(ticket);
    const said = screen.lines.slice(count).map((line) => line.slice(7)).join(" ");
    const pairs = "Agents of two servers pair only if their host names differ, and both have https and no port.";
    assertEquals([said, screen.live()], [`This ticket is from another server, ${host}. ${pairs}`, "alpha · online"]);
  }
  const proving = withPairSecret(other, "A".repeat(22));
  await screen.paste(proving);
  assertEquals(screen.live(), "This ticket is from another server: b.example. Pair? [y/N] ");
  await screen.press("n");
  assertEquals(screen.requests("/v1/pair"), [{ ticket: TICKET }]);
  screen.talk.tickets.show("alpha", TICKET, new Date(screen.clock.now() + 300_000).toISOString());
  assertEquals(await last(TICKET), "This is your own ticket. Give it to the other person.");
});

Deno.test("an own ticket that another program has made is answered with what a person can do here", async () => {
  await using screen = new Screen();
  const confirmed = Promise.withResolvers<void>();
  screen.slow.set("/v1/pair/confirm", confirmed.promise);
  await screen.paste(TICKET);
  await screen.press("y");
  confirmed.reject(new ApiError(400, "PROXY_PAIR_INVALID_BODY", OWN_TICKET, null));
  await flushTasks();
  const said = screen.lines.slice(-2).map((line) => line.slice(7)).join(" ");
  assertStringIncludes(said, `${OWN_TICKET} To pair: p, or paste a ticket of the other person.`);
});

Deno.test("a new agent with the name of a peer takes its place when the person says so, and only then", async () => {
  await using screen = new Screen();
  screen.talk.paired("alpha", OTHER);
  assertEquals([screen.live().includes("[y/N]"), screen.requests("/v1/peers")], [false, []]);
  const names = { agentName: "beta", humanName: "Bob", how: "ticket" } as const;
  screen.peers = { beta: { did: DID, ...names }, "beta-2": { did: OTHER, ...names } };
  const later = "svc --profile work peers rename beta-2 beta --replaces --agent alpha";
  screen.withHere = (text) => text.replace("svc ", "svc --profile work ");
  screen.talk.paired("alpha", OTHER);
  assertEquals(screen.live(), "Is beta-2 the new agent of beta? The old one is then removed. [y/N] ");
  await screen.press("n");
  assertEquals([screen.lines.at(-1)?.slice(7), screen.requests("/v1/peers")], [later, []]);
  await screen.press("s");
  screen.talk.paired("alpha", OTHER);
  assertEquals([screen.live().includes("[y/N]"), screen.lines.at(-1)?.slice(7)], [false, later]);
  screen.talk.discard();
  screen.talk.paired("alpha", OTHER);
  await screen.press("y");
  assertEquals(screen.requests("/v1/peers/rename"), [{ peer: OTHER, alias: "beta", replaces: true }]);
  assertEquals(screen.lines.at(-1)?.slice(7), "beta is the new agent now. The pair with the old one has ended.");
});

Deno.test("a ticket waits on after an agent that did not prove it, because a relay can list any agent", async () => {
  await using screen = new Screen();
  const until = new Date(screen.clock.now() + 300_000).toISOString();
  const proving = withPairSecret(TICKET, "A".repeat(22));
  const gamma = { did: OTHER, agentName: "gamma", humanName: "Gus" };
  const waits = async (ticket: string, peers: Peers) => {
    screen.talk.tickets.show("alpha", ticket, until);
    screen.peers = peers;
    screen.talk.paired("alpha", OTHER);
    await screen.paste(ticket);
    const isOwn = screen.live() === "alpha · online";
    if (!isOwn) await screen.press("n");
    return isOwn;
  };
  assertEquals(await waits(proving, { ...BETA, "contact-gamma": gamma }), true);
  assertEquals(await waits(proving, { ...BETA, gamma: { ...gamma, how: "ticket" } }), false);
  assertEquals(await waits(TICKET, { ...BETA, "contact-gamma": gamma }), false);
});

Deno.test("a ticket is one line of 80 columns, and p again shows it as a code if there is room", async () => {
  for (const [columns, fits] of [[80, true], [60, false]] as const) {
    await using screen = new Screen(columns);
    const ticket = TICKET.replace(".-.", ".BwcHBwcHBwcHBwcHBwcHBw.");
    screen.lines.length = 0;
    screen.talk.tickets.show("alpha", ticket, new Date(screen.clock.now() + 300_000).toISOString());
    assertEquals(screen.lines.slice(-3), ["", ticket, ""]);
    assertEquals(ticket.length, 70 + "svc.example.com".length - 15);
    await screen.press("p");
    await new Promise((resolve) => setTimeout(resolve, 0));
    await flushTasks();
    const drawn = screen.lines.filter((line) => /[█▀▄]/.test(line));
    assertEquals(drawn.length > 0, fits);
    assert(drawn.length + 4 <= 24 && drawn.every((line) => line.length < columns));
  }
});

Deno.test("p makes a new ticket when an agent has used the open one, also without a proof of its key", async () => {
  await using screen = new Screen();
  const old = withPairSecret(TICKET, "A".repeat(22));
  screen.talk.tickets.show("alpha", old, new Date(screen.clock.now() + 300_000).toISOString());
  screen.ticketStatus = "confirmed";
  await screen.press("p");
  assertEquals(screen.requests("/v1/pair"), [{ ticket: old }, {}]);
  assertEquals(screen.lines.slice(-3), ["", TICKET, ""]);
});

Deno.test("p shows the open ticket after 3 s when the server does not tell its state", async () => {
  await using screen = new Screen();
  screen.talk.tickets.show("alpha", TICKET, new Date(screen.clock.now() + 300_000).toISOString());
  screen.slow.set("/v1/pair/status", new Promise(() => {}));
  await screen.press("p");
  const count = screen.lines.length;
  await screen.clock.advance(3_000);
  await until(() => screen.lines.length > count);
  assertEquals(screen.requests("/v1/pair"), [{ ticket: TICKET }]);
});

for (const columns of [80, 40]) {
  Deno.test(`l lists the peers in ${columns} columns, and a number before n, b or x acts on one of them`, async () => {
    await using screen = new Screen(columns);
    await screen.press("1", "x");
    assertStringIncludes(screen.lines.at(-1)?.trim() ?? "", columns === 80 ? "No peer has this number." : "numbers.");
    // The name that a person types next, with pauses between its letters: nothing of it acts as a key.
    const count = screen.lines.length;
    for (const key of ["b", "o", "q", "9", ENTER]) {
      await screen.clock.advance(400);
      await screen.press(key);
    }
    assertEquals([screen.lines.length - count, screen.stops, screen.live()], [0, 0, "alpha · online"]);
    await screen.clock.advance(500);
    const lastSeenAt = new Date(screen.clock.now() - 3 * 3_600_000).toISOString();
    screen.listed = [
      listedPeer("beta", DID),
      listedPeer("a-peer-with-a-name-that-is-long", OTHER, { online: false, lastSeenAt }),
    ];
    screen.lines.length = 0;
    await screen.press("l", "?");
    assert(screen.lines.every((line) => textColumns(line) < columns), screen.lines.join("\n"));
    assertStringIncludes(screen.lines.join("\n"), "beta");
    await screen.press("2", "n");
    assertStringIncludes(screen.live(), "new name of a-peer");
    await screen.press(..."ci", ENTER, "2", "b", "b", "2", "x", "n");
    assertEquals(screen.requests("/v1/pair/remove"), []);
    // The number stays that of the peer that the list has shown.
    screen.listed.reverse();
    await screen.press("2", "x", "y");
    assertEquals(
      ["rename", "block"].map((what) => screen.requests(`/v1/peers/${what}`)),
      [[{ peer: OTHER, alias: "ci" }], [{ peer: OTHER }]],
    );
    assertEquals(screen.requests("/v1/pair/remove"), [{ peerAgentDid: OTHER }]);
    assertStringIncludes(screen.lines.join("\n"), "The sound for new messages is");
    screen.listed = [listedPeer("beta", DID, { blocked: true })];
    await screen.press("l", "1", "b");
    assertEquals(screen.requests("/v1/peers/unblock"), [{ peer: DID }]);
  });
}

Deno.test("with two agents the question names the one that a pasted ticket would pair", async () => {
  await using screen = new Screen(80, ["alpha", "gamma"]);
  await screen.paste(TICKET);
  assertEquals(screen.live(), "Pair alpha with an agent of svc.example.com? [y/N] ");
  await screen.press("n");
  await screen.clock.advance(1_000);
  await screen.press("a", "g", "\t", ENTER);
  await screen.paste(withPairSecret(formatTicket("https://b.example", new Uint8Array(16)), "A".repeat(22)));
  assertEquals(screen.live(), "This ticket is from another server: b.example. Pair gamma? [y/N] ");
});

Deno.test("what svc says of a ticket and of a link is wrapped at words where a window is narrow", async () => {
  await using screen = new Screen(40);
  screen.talk.tickets.show("alpha", "svcpair1_x", new Date(screen.clock.now() + 300_000).toISOString());
  await screen.press("i");
  const text = screen.lines.map((line) => line.trim()).join(" ");
  assertStringIncludes(text, "It is a secret. They paste it into the terminal of their connector.");
  assertStringIncludes(text, "It is a secret, like a password. It makes an account and pairs with you.");
  await screen.paste(TICKET);
  const question = screen.live();
  assert(question.startsWith("Pair with an agent of ") && question.endsWith(" [y/N] ") && textColumns(question) < 40);
});
