/** The keys of `connector start`: what a person types and pastes. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Peers } from "../../../../cli/connector/peers/peers.ts";
import { CliError } from "../../../../cli/errors.ts";
import { textColumns } from "../../../../cli/terminal/text_width.ts";
import { ApiError } from "../../../../shared/client/errors.ts";
import { formatTicket, OWN_TICKET, withPairSecret } from "../../../../shared/protocol/ticket.ts";
import { until } from "../../../support/until.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { BETA, DID, ENTER, ESCAPE, listedPeer, OTHER, PAGE, Screen, TICKET } from "./screen.ts";

Deno.test("the head of several agents names their person and server, and no agent", async () => {
  await using screen = new Screen(80, ["alpha", "beta", "gamma"]);
  assertEquals(screen.lines, ["3 agents of Ada · svc.example.com", screen.lines[1], ""]);
});

Deno.test("the head names no keys where none are read, as in a job in the background", async () => {
  await using screen = new Screen(40, ["alpha"], false);
  const below = ["No keys are read here. Use svc send,", "svc inbox and svc reply in another", "terminal."];
  assertEquals(screen.lines, ["alpha of Ada · svc.example.com", ...below, ""]);
});

Deno.test("q works when the clock was set back after a paste, and when the line below the log could not be drawn", async () => {
  await using screen = new Screen();
  await screen.paste("a text");
  screen.clock.step(-3_600_000);
  screen.isBroken = true;
  await screen.press("?");
  screen.isBroken = false;
  assertStringIncludes(screen.lines.join("\n"), "the store is locked");
  await screen.press("q");
  assertEquals(screen.stops, 1);
});

Deno.test("the ticket of an agent pairs with another one of the same terminal, and not with itself", async () => {
  await using screen = new Screen(80, ["alpha", "beta"]);
  screen.talk.tickets.show("alpha", TICKET, new Date(screen.clock.now() + 300_000).toISOString());
  await screen.paste(TICKET);
  assertEquals(screen.lines.at(-1)?.slice(7), "This is your own ticket. Give it to the other person.");
  await screen.press("a", ..."beta", ENTER);
  await screen.paste(TICKET);
  assertEquals(screen.live(), "Pair beta with an agent of svc.example.com? [y/N] ");
});

Deno.test("r replies to the newest message, a number names another one, and space reads what was shown", async () => {
  await using screen = new Screen();
  await screen.arrive({ id: 11, text: "one" });
  await screen.arrive({ id: 12, text: "two" });
  assertStringIncludes(screen.lines.join("\n"), "beta of Bob asks");
  await screen.press("r", ..."8443");
  assertEquals(screen.live(), "to beta› 8443");
  await screen.press(ENTER, "1", "1", "r", ..."no", ENTER);
  assertEquals(screen.requests("/v1/outbound").map(({ to, replyTo, payload }) => [to, replyTo, payload]), [
    [DID, 12, { message: "8443" }],
    [DID, 11, { message: "no" }],
  ]);
  await screen.arrive({ id: 13, text: "three" });
  await screen.arrive({ id: 14, text: "four" });
  await screen.press(" ");
  assertEquals(screen.requests("/v1/inbox/read"), [{ ids: [13, 14] }]);
  await screen.press(" ");
  assertStringIncludes(screen.lines.slice(-2).join(" "), "No message that was shown is unread. u shows");
});

Deno.test("a key or a new pair that fails says why, and the next keys work; o shows the page's address whole", async () => {
  await using screen = new Screen();
  Object.defineProperty(screen, "peers", {
    get() {
      throw new CliError("CLI_FILE_INVALID", "peers.json is damaged");
    },
  });
  screen.talk.paired("alpha", OTHER);
  await screen.press("s", "h", "o");
  assertEquals(screen.lines.slice(3).filter((line) => line.includes("peers.json is damaged")).length, 3);
  assertEquals(screen.lines.at(-1), PAGE);
});

Deno.test("a terminal that is closed leaves no timer, also when its connector answers late or not at all", async () => {
  const down = new Screen(80, []), late = new Screen(80, []);
  Object.defineProperty(down, "inbox", {
    get() {
      throw new Error("down");
    },
  });
  down.add();
  const answered = Promise.withResolvers<void>();
  late.slow.set("/v1/sent?limit=100", answered.promise);
  late.sentState = "queued";
  late.add();
  await late.press("s", "x", ENTER);
  await late.clock.advance(2_000);
  assertEquals([down.clock.waiting, late.asked.at(-1)?.target], [1, "/v1/sent?limit=100"]);
  for (const screen of [down, late]) screen.talk.close();
  answered.resolve();
  await flushTasks();
  assertEquals([down.clock.waiting, late.clock.waiting], [0, 0]);
  await late.arrive({});
});

Deno.test("the line is edited with the usual keys, and only Enter sends it", async () => {
  await using screen = new Screen();
  await screen.press("s", ..."hallo world");
  await screen.press("\x1b[D", "\x7f", "\x01", "x", "\x05", "!", "\x17");
  assertEquals(screen.live(), "to beta› xhallo ");
  await screen.press("\x15", ..."first\\", ENTER, ..."second");
  assertEquals([screen.live(), screen.requests("/v1/outbound")], ["to beta› first⏎second", []]);
  await screen.press(ENTER);
  assertEquals(screen.requests("/v1/outbound").map(({ payload }) => payload), [{ message: "first\nsecond" }]);
  await screen.press("s", "\x1b[A");
  assertEquals(screen.live(), "to beta› first⏎second");
  await screen.press(ESCAPE);
  assertEquals([screen.talk.discard(), screen.requests("/v1/outbound").length], [false, 1]);
  await screen.press("s", "x");
  assertEquals([screen.talk.discard(), screen.talk.discard()], [true, false]);
  // A narrow terminal shows the part around the cursor.
  await screen.press("s", ..."界".repeat(60));
  assert(textColumns(screen.live()) < 80);
});

Deno.test("what a person writes to a peer with a long name is seen in a narrow window", async () => {
  await using screen = new Screen(40);
  screen.peers = { ["a".repeat(64)]: { did: DID, agentName: "a", humanName: "Bob" } };
  await screen.press("s", ..."which port");
  assertEquals(screen.live(), `to ${"a".repeat(21)}…› which port`);
});

Deno.test("a line that is not sent is there again after a look at earlier ones", async () => {
  await using screen = new Screen();
  const UP = "\x1b[A", DOWN = "\x1b[B";
  await screen.press("s", ..."first", ENTER, "s", ..."half", UP);
  assertEquals(screen.live(), "to beta› first");
  await screen.press(DOWN, DOWN);
  assertEquals(screen.live(), "to beta› half");
});

Deno.test("a paste is one message with its lines, Enter right after it is dropped, and a ticket in it is not sent", async () => {
  await using screen = new Screen();
  await screen.press("s");
  await screen.paste("a\r\nb\nc", 0);
  await screen.press(ENTER);
  assertEquals(screen.requests("/v1/outbound"), []);
  assertEquals(screen.live(), "to beta› a⏎b⏎c  Press Enter again.");
  await screen.press("d", "\x7f");
  assertEquals(screen.live(), "to beta› a⏎b⏎c");
  await screen.paste("e".repeat(80), 0);
  await screen.press(ENTER);
  assert(screen.live().endsWith("e  Press Enter again.") && textColumns(screen.live()) < 80);
  await screen.press(..."\x7f".repeat(80));
  await screen.clock.advance(500);
  await screen.press(ENTER);
  assertEquals(screen.requests("/v1/outbound").map(({ payload }) => payload), [{ message: "a\nb\nc" }]);
  await screen.press("s");
  await screen.paste(`my ticket: ${TICKET}`);
  assertEquals(screen.live(), "This is a pairing ticket, a secret. Pair with it instead? [y/N] ");
  await screen.press("n");
  assertEquals([screen.requests("/v1/pair"), screen.requests("/v1/outbound").length], [[], 1]);
  await screen.press(..."kept");
  await screen.paste("e".repeat(65_537));
  assertEquals(screen.live(), "to beta› kept");
  assertStringIncludes(screen.lines.at(-1) ?? "", "The pasted text is too long.");
});

Deno.test("a line that is being written is there again after the question about a pasted ticket", async () => {
  await using screen = new Screen();
  await screen.press("s", ..."half a l");
  for (const answer of ["n", ESCAPE, "y"]) {
    await screen.paste(TICKET);
    await screen.press(answer, ENTER);
    assertEquals(screen.live(), "to beta› half a l  Press Enter again.");
  }
  await screen.paste(TICKET);
  await screen.paste("i");
  await screen.press(..."ne", ENTER);
  assertEquals(screen.requests("/v1/pair"), [{ ticket: TICKET }]);
  assertEquals(screen.requests("/v1/outbound").map(({ to, payload }) => [to, payload]), [[DID, {
    message: "half a line",
  }]]);
});

Deno.test("a message that is being written is in the log when the terminal ends, because its connector has ended", async () => {
  const screen = new Screen();
  await screen.press("s", ..."half");
  await screen.paste(TICKET);
  await screen[Symbol.asyncDispose]();
  assertEquals(screen.lines.slice(-2), ["07:57  Not sent", "     │ half"]);
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

Deno.test("what a person agrees to during an action is done after it", async () => {
  await using screen = new Screen();
  const listed = Promise.withResolvers<void>();
  screen.slow.set("/v1/peers", listed.promise);
  await screen.press("l");
  await screen.paste(TICKET);
  await screen.press("y");
  listed.resolve();
  await flushTasks();
  assertEquals(screen.requests("/v1/pair"), [{ ticket: TICKET }]);
});

Deno.test("a key during an action is refused, and the text that was meant for it stops nothing", async () => {
  await using screen = new Screen();
  await screen.arrive({ id: 7, text: "Which port?" });
  const server = Promise.withResolvers<void>();
  screen.slow.set("/v1/pair/start", server.promise);
  await screen.press("p");
  await screen.clock.advance(1_000);
  assertStringIncludes(screen.live(), "waiting for an answer");
  await screen.press("r", ..."quit it");
  assertEquals(screen.stops, 0);
  assertStringIncludes(screen.lines.at(-1) ?? "", "An earlier key is still under way");
  server.resolve();
  await screen.clock.advance(500);
  assert(!screen.live().includes("waiting"), screen.live());
  await screen.press("r");
  assertStringIncludes(screen.live(), "to beta›");
});

Deno.test("the text after a reply that failed to begin stops nothing", async () => {
  await using screen = new Screen();
  const failing = Promise.reject(new Error("no such message"));
  failing.catch(() => {});
  screen.slow.set("/v1/inbox/99", failing);
  await screen.press("9", "9", "r", ..."quit it");
  assertEquals([screen.stops, screen.live()], [0, "alpha · online"]);
  await screen.clock.advance(500);
  await screen.press("q");
  assertEquals(screen.stops, 1);
});

Deno.test("a command in the advice about a failure names the agent of the terminal", async () => {
  await using screen = new Screen(120);
  const failing = Promise.reject(new ApiError(401, "AGENT_AUTH_REFRESH_REVOKED", "The session is revoked", null));
  failing.catch(() => {});
  screen.slow.set("/v1/pair/start", failing);
  await screen.press("p");
  assertStringIncludes(screen.lines.slice(-2).join(" "), "svc agent reissue alpha");
});

Deno.test("a message that is read late for a reply takes no line from a person who writes another one", async () => {
  await using screen = new Screen();
  const read = Promise.withResolvers<void>();
  screen.slow.set("/v1/inbox/12", read.promise);
  await screen.press("1", "2", "r", "s", ..."half");
  read.resolve();
  await flushTasks();
  await screen.press(..." a line", ENTER);
  const sent = screen.requests("/v1/outbound").map(({ to, replyTo, payload }) => [to, replyTo, payload]);
  assertEquals(sent, [[DID, undefined, { message: "half a line" }]]);
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

Deno.test("s, l, r and h say that a pair has ended, and open no prompt for it", async () => {
  await using screen = new Screen(120);
  await screen.arrive({ id: 11, text: "one" });
  const said = async (...keys: string[]) => {
    await screen.press(...keys);
    await screen.clock.advance(500);
    return [screen.lines.slice(-2).map((line) => line.trim()).join(" ").replace(/.*\d\d:\d\d +/, ""), screen.live()];
  };
  const end = "p makes a ticket for another person; paste one that you were given.";
  screen.peers = {};
  for (const key of ["s", "l", "h"]) assertEquals(await said(key), [`No peers yet. ${end}`, "alpha · online"]);
  screen.peers = { beta: { did: DID, agentName: "beta", humanName: "Bob", gone: true } };
  for (const key of ["s", "l", "h"]) {
    assertEquals(await said(key), [`No peers: all pairs have ended. ${end}`, "alpha · online"]);
  }
  const ended = "The pair with beta has ended. To pair: p, or paste a ticket of the other person.";
  assertEquals(await said("r"), [ended, "alpha · online"]);
  for (const name of ["c", "d"]) {
    screen.peers = { ...screen.peers, [name]: { did: OTHER, agentName: name, humanName: "C" } };
  }
  for (const key of ["s", "h"]) assertEquals(await said(key, ..."beta", ENTER), [ended, "alpha · online"]);
});

Deno.test("several agents share the terminal: each line names its agent, and a chooses for whom the keys are", async () => {
  await using screen = new Screen(80, ["alpha", "gamma"]);
  screen.unread = 1;
  assertEquals(screen.live(), "2 agents · 2 unread (space: all read)");
  await screen.arrive({ id: 3, text: "hi" }, "gamma");
  assertStringIncludes(screen.lines.join("\n"), "gamma · beta of Bob asks");
  await screen.press("a");
  assertEquals(screen.lines.at(-1)?.slice(7), "The agents are alpha, gamma. The keys are for alpha.");
  await screen.press("g", "\t", ENTER);
  assertEquals(screen.lines.at(-1)?.slice(7), "The keys are for gamma now.");
});

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

Deno.test("messages of two agents with the same number are read, shown and answered each for its own agent", async () => {
  await using screen = new Screen(80, ["alpha", "gamma"]);
  await screen.arrive({ id: 3, text: "for alpha" }, "alpha");
  await screen.arrive({ id: 3, text: "for gamma" }, "gamma");
  await screen.arrive({ id: 4, text: "only for gamma" }, "gamma");
  const answered = () => screen.asked.filter(({ target }) => target.startsWith("/v1/outbound")).at(-1);
  await screen.press("4", "r", ..."ok", ENTER);
  assertEquals([answered()?.agent, answered()?.body.replyTo], ["gamma", 4]);
  assertStringIncludes(screen.lines.join("\n"), "gamma · You to beta");
  await screen.press("a", "g", "\t", ENTER);
  await screen.press("3", "r", ..."ok", ENTER);
  assertEquals([answered()?.agent, answered()?.body.replyTo], ["gamma", 3]);
  await screen.press(" ");
  const read = screen.asked.filter(({ target }) => target === "/v1/inbox/read");
  assertEquals(read.map(({ agent, body }) => [agent, body.ids]), [["alpha", [3]]]);
});

Deno.test("u names the agent whose messages it looked at, and leaves the count of another agent", async () => {
  await using screen = new Screen(80, ["alpha", "gamma"]);
  for (let id = 1; id <= 8; id++) await screen.arrive({ id, text: "x" }, "gamma");
  await screen.press("u");
  assertEquals(screen.lines.at(-1)?.slice(7), "alpha · No unread messages.");
  assertStringIncludes(screen.live(), "gamma · beta: 3 more messages; u shows them");
  await screen.press("a", "g", "\t", ENTER, "u");
  assert(!screen.live().includes("more messages"), screen.live());
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
