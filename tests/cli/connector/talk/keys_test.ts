/** The keys of `connector start`: what a person types and pastes. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { CliError } from "../../../../cli/errors.ts";
import { textColumns } from "../../../../cli/terminal/text_width.ts";
import { ApiError } from "../../../../shared/client/errors.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { DID, ENTER, ESCAPE, OTHER, PAGE, Screen, TICKET } from "./screen.ts";

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
