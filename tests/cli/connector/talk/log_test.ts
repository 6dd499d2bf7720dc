/** The log of `connector start`: what a person sees. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gutterLines, sentenceLines } from "../../../../cli/connector/talk/log_text.ts";
import { pairedFields } from "../../../../cli/connector/events.ts";
import { CalmTexts } from "../../../../cli/connector/talk/event_texts.ts";
import { painted } from "../../../../cli/terminal/escapes.ts";
import { textColumns } from "../../../../cli/terminal/text_width.ts";
import { LocalDown } from "../../../../shared/client/errors.ts";
import { codePointsUpTo } from "../../../shared/protocol/arbitraries.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import fc from "fast-check";
import { DID, ENTER, listedPeer, OTHER, Screen, TICKET } from "./screen.ts";

const MOCKUPS: Record<number, string[]> = {
  80: [
    "alpha of Ada · svc.example.com",
    "s send  r reply  p pair  i invite  l peers  h history  ? all keys  q stop",
    "",
    "07:57  Paired with beta of Bob.",
    "07:58  You to beta                                                          9",
    "     │ Which port does the staging server use?",
    "07:58  beta replies                                                        12",
    "     │ 8443. It moves to 9443 on Friday; the firewall rule for it is already",
    "     │ open.",
    "08:20  The link is lost. Messages wait.",
    "08:20  Online again after 40 s. 2 messages of beta arrived meanwhile.",
    "alpha · online · 1 unread (space: all read)",
  ],
  40: [
    "alpha of Ada · svc.example.com",
    "? shows the keys",
    "",
    "07:57  Paired with beta of Bob.",
    "07:58  You to beta                    9",
    " │ Which port does the staging server",
    " │ use?",
    "07:58  beta replies                  12",
    " │ 8443. It moves to 9443 on Friday;",
    " │ the firewall rule for it is already",
    " │ open.",
    "08:20  The link is lost. Messages wait.",
    "08:20  Online again after 40 s. 2",
    "       messages of beta arrived",
    "       meanwhile.",
    "alpha · online · 1 unread",
  ],
};

for (const columns of [80, 40]) {
  Deno.test(`the log of a day in ${columns} columns`, async () => {
    await using screen = new Screen(columns);
    const texts = new CalmTexts();
    const event = (...[name, fields]: [Parameters<CalmTexts["of"]>[0], Parameters<CalmTexts["of"]>[1]]) => {
      const text = texts.of(name, fields, screen.clock.now());
      if (text !== null) screen.print(sentenceLines(screen.clock.now(), text, columns));
    };
    event("connected", {});
    await screen.paste(TICKET);
    await screen.press("y");
    await screen.clock.advance(60_000);
    await screen.press("s", ..."Which port does the staging server use?", ENTER);
    const text = "8443. It moves to 9443 on Friday; the firewall rule for it is already open.";
    await screen.arrive({ id: 12, text, isReply: true, inReplyTo: "request-9" });
    screen.unread = 1;
    await screen.clock.advance(22 * 60_000);
    event("disconnected", { code: 1006 });
    event("unreachable", { why: "http://x" });
    await screen.clock.advance(40_000);
    event("connected", {});
    event("received", { peer: "beta" });
    event("received", { peer: "beta" });
    assertEquals(texts.due(screen.clock.now()), null);
    await screen.clock.advance(1_000);
    screen.print(sentenceLines(screen.clock.now(), texts.due(screen.clock.now()) ?? "", columns));
    assertEquals([...screen.lines, screen.live()], MOCKUPS[columns]);
  });
}

Deno.test("tries that fail again for the same reason are told once, and again after the link was back", () => {
  const texts = new CalmTexts();
  const told = (name: "registry_unavailable" | "refused" | "clock_offset_refused" | "connected", why?: string) =>
    texts.of(name, why === undefined ? {} : { why }, 0) !== null;
  const night = () => [
    told("registry_unavailable", "x cannot be reached"),
    told("clock_offset_refused"),
    told("registry_unavailable", "x cannot be reached"),
    told("clock_offset_refused"),
    told("registry_unavailable", "the clock is 52 h off"),
    told("refused", "the clock is 52 h off"),
    told("refused", "the clock is 52 h off"),
  ];
  const expected = [true, true, false, false, true, true, false];
  assertEquals(night(), expected);
  assertEquals(told("connected"), false);
  assertEquals(night(), expected);
});

Deno.test("the log tells reasons without codes, and that a suspended person's connector goes on trying", () => {
  const cases = [
    [
      "refused",
      "PROXY_AGENT_ACCESS_INVALID: The token is over",
      "The server refused the connection: The token is over",
    ],
    [
      "refresh_failed",
      "ACCOUNT_SUSPENDED: Bob's account is suspended. Ask the administrator",
      "Bob's account is suspended. Ask the administrator. Trying every 2 min.",
    ],
    ["store_failed", "disk full", "The store could not be written: disk full"],
  ] as const;
  for (const [name, why, expected] of cases) assertEquals(new CalmTexts().of(name, { why }, 0), expected);
});

Deno.test("a refusal that a renewed session ends is not told, and the same one after that is", () => {
  const texts = new CalmTexts(), about = { code: "PROXY_AGENT_ACCESS_INVALID", why: "The token is over" };
  const told = () => texts.of("refused", about, 0) !== null;
  assertEquals([told(), told()], [false, true]);
  texts.of("connected", {}, 0);
  assertEquals(told(), false);
});

Deno.test("after an outage the log says who has written meanwhile, once what waited is there", () => {
  const cases: [string[], string][] = [
    [[], ""],
    [["beta"], " 1 message of beta arrived meanwhile."],
    [["beta", "gamma", "beta"], " 3 messages of beta and gamma arrived meanwhile."],
    [["a", "b", "c"], " 3 messages of a, b and c arrived meanwhile."],
    [["a", "b", "c", "d"], " 4 messages of 4 peers arrived meanwhile."],
  ];
  for (const [from, expected] of cases) {
    const texts = new CalmTexts();
    texts.of("connected", {}, 0);
    assertEquals(texts.due(60_000), null, "the first link is no news");
    texts.of("received", { peer: "beta" }, 60_000);
    assertEquals(texts.of("disconnected", {}, 100_000), "The link is lost. Messages wait.");
    texts.of("connected", {}, 120_000);
    // A link that ends at once again was not there.
    assertEquals(texts.of("disconnected", {}, 120_500), null);
    texts.of("connected", {}, 140_000);
    for (const [i, peer] of from.entries()) texts.of("received", { peer }, 140_000 + i * 900);
    const last = 140_000 + Math.max(0, from.length - 1) * 900;
    assertEquals(texts.due(last + 999), null);
    assertEquals(texts.due(last + 1_000), `Online again after 40 s.${expected}`);
    assertEquals(texts.due(last + 2_000), null);
  }
});

Deno.test("of a link that the server ends, because the agent may have none, no person reads that messages wait", () => {
  const texts = new CalmTexts();
  texts.of("connected", {}, 0);
  assertEquals(texts.of("disconnected", { code: 4401 }, 1_000), "The server has closed the link.");
  assertEquals(texts.of("unreachable", {}, 2_000), null);
});

Deno.test("a new peer is named by its alias where that is not the name that it gives itself", () => {
  const names = { agentName: "beta", humanName: "Bob" };
  const line = (alias: string) => new CalmTexts().of("paired", pairedFields(alias, names), 0);
  assertEquals(line("beta"), "Paired with beta of Bob.");
  for (const alias of ["contact-beta", "beta@b.example"]) {
    assertEquals(line(alias), `Paired with beta of Bob. It is called ${alias} here.`);
  }
});

Deno.test("the state of a sent message is a line unless it is the good one, and what was read is told once", async () => {
  await using screen = new Screen();
  screen.sentState = "queued";
  await screen.press("s", "x", ENTER);
  assertEquals(screen.lines.at(-1)?.slice(7), "9 to beta waits at the server until beta takes it.");
  Object.assign(screen.sent[0] ?? {}, { state: "delivered" });
  await screen.clock.advance(2_000);
  assertEquals(screen.lines.at(-1)?.slice(7), "beta has received 9.");
  Object.assign(screen.sent[0] ?? {}, { state: "processed" });
  await screen.clock.advance(2_000);
  assertEquals(screen.lines.at(-1)?.slice(7), "beta has read 9.");
  for (
    const [lastSeenAt, since] of [[new Date(2026, 1, 21, 7, 40), "07:40"], [
      new Date(2026, 1, 20, 18, 5),
      "20 Feb 18:05",
    ]]
  ) {
    screen.listed = [{ ...listedPeer("beta", DID), online: false, lastSeenAt }];
    await screen.press("s", "y", ENTER);
    await flushTasks();
    assertStringIncludes(
      screen.lines.slice(-2).join(" "),
      `to beta waits at the server: beta is offline since ${since}.`,
    );
  }
  screen.sent.length = 0;
  const count = screen.lines.length;
  await screen.clock.advance(10_000);
  assertEquals(screen.lines.length, count);
});

Deno.test("a message that the server does not take now says why in words, and when it is tried again", async () => {
  await using screen = new Screen();
  screen.sentState = "kept";
  screen.problem = "PROXY_RATE_LIMIT_EXCEEDED";
  await screen.press("s", "x", ENTER);
  const text = "Not sent yet: more messages than the server takes in a minute. Next try in 12 s.";
  assertEquals(screen.lines.slice(-2).map((line) => line.trim()).join(" ").slice(7), text);
  screen.problem = "PROXY_RATE_LIMIT_EXCEEDED: more than 60 messages a minute";
  await screen.press("s", "x", ENTER);
  assertEquals(
    screen.lines.at(-1)?.slice(7),
    "Not sent yet: more than 60 messages a minute. Next try in 12 s.",
  );
  screen.problem = "http://127.0.0.1:1 cannot be reached";
  await screen.press("s", "x", ENTER);
  assertStringIncludes(screen.lines.slice(-2).join(" "), "waits here: http://127.0.0.1:1 cannot be reached.");
  screen.problem = "ACCOUNT_SUSPENDED";
  screen.isFirst = false;
  await screen.press("s", "x", ENTER);
  assertEquals(screen.lines.at(-1)?.slice(7), "12 to beta waits here: an admin has suspended this account.");
});

Deno.test("a message whose connector has it and does not answer is not said to be unsent", async () => {
  for (const [wasSent, text] of [[true, "Unclear, beta may get it:"], [false, "Not sent to beta:"]] as const) {
    await using screen = new Screen();
    const failing = Promise.reject(new LocalDown("alpha", "does not answer", { wasSent }));
    failing.catch(() => {});
    screen.slow.set("/v1/outbound?wait=0", failing);
    await screen.press("s", ..."hello", ENTER);
    await screen.clock.advance(1_000);
    assertStringIncludes(screen.lines.join(" "), text);
  }
});

Deno.test("a ticket that is pasted while the connector does not answer is not dropped without a word", async () => {
  await using screen = new Screen();
  screen.isSilent = true;
  await screen.paste(TICKET);
  assertStringIncludes(screen.lines.slice(-2).join(" "), "so nothing is paired.");
});

Deno.test("a flood of one peer is counted in place, and another peer is still seen", async () => {
  await using screen = new Screen();
  const before = screen.lines.length;
  for (let id = 1; id <= 200; id++) await screen.arrive({ id, text: "x" });
  assertEquals(screen.lines.length - before, 10);
  assertStringIncludes(screen.live(), "beta: 195 more messages; u shows them");
  const { from } = screen.message({});
  await screen.arrive({ id: 1_001, text: "hello", from: { ...from as object, agentDid: OTHER, alias: "gamma" } });
  assertStringIncludes(screen.lines.at(-1) ?? "", "hello");
  await screen.clock.advance(10_000);
  const print = screen.print.bind(screen);
  screen.print = (lines) => {
    print(lines);
    assert(!screen.live().includes("more messages"), "what is in the log is not counted below it");
  };
  await screen.arrive({ id: 1_002, text: "later" });
  assertStringIncludes(screen.lines.join("\n"), "beta: 195 more messages; u shows them");
  assertStringIncludes(screen.lines.at(-1) ?? "", "later");
});

Deno.test("after the clock was set back messages are shown again", async () => {
  await using screen = new Screen();
  for (let id = 1; id <= 6; id++) await screen.arrive({ id, text: "x" });
  screen.clock.step(-3_600_000);
  await screen.arrive({ id: 7, text: "later" });
  assertStringIncludes(screen.lines.at(-1) ?? "", "later");
});

Deno.test("u shows unread messages, the newest first, then older ones, also those that a program holds", async () => {
  await using screen = new Screen(80, []);
  const wave = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, i) => screen.message({ id: from + i, text: `no ${from + i}.` }));
  screen.inbox = wave(1, 12);
  screen.add();
  await flushTasks();
  const shown = async (...keys: string[]) => {
    const before = screen.lines.length;
    await screen.press(...keys);
    return [...screen.lines.slice(before).join("\n").matchAll(/no (\d+)\./g)].map(([, id]) => Number(id));
  };
  assertStringIncludes(screen.lines.at(-1) ?? "", "There are older ones: u shows them.");
  assertEquals(await shown("u"), [3, 4, 5, 6, 7]);
  assertEquals(await shown("u"), [1, 2]);
  assert(!screen.lines.at(-1)?.includes("older"));
  assertEquals(await shown("u"), [8, 9, 10, 11, 12]);
  for (let id = 13; id <= 20; id++) await screen.arrive({ id, text: "x" });
  assertStringIncludes(screen.live(), "beta: 3 more messages; u shows them");
  screen.inbox = wave(1, 20);
  assertEquals(await shown("u"), [16, 17, 18, 19, 20]);
  assert(!screen.live().includes("more messages"), screen.live());
  assert(
    screen.asked.filter(({ target }) => target.startsWith("/v1/inbox?")).every(({ target }) =>
      target.includes("held=true")
    ),
  );
});

Deno.test("where several agents were started, a message names its own also while no other runs", async () => {
  await using screen = new Screen(80, ["alpha", "gamma"]);
  screen.talk.remove("gamma");
  await screen.arrive({ id: 3, text: "hi" });
  assertStringIncludes(screen.lines.join("\n"), "alpha · beta of Bob asks");
});

Deno.test("an unread message of an earlier day is shown with its day, and one of today without", async () => {
  await using screen = new Screen(80, []);
  const receivedAt = new Date(screen.clock.now() - 2 * 86_400_000).toISOString();
  screen.inbox = [
    screen.message({ id: 3, text: "Call me in 10 minutes.", receivedAt }),
    screen.message({ id: 4, text: "x" }),
  ];
  screen.add();
  await flushTasks();
  const headers = screen.lines.filter((line) => line.includes("beta")).map((line) => line.replace(/ {2,}/g, "  "));
  assertEquals(headers, ["07:57  beta of Bob asks on 19 Feb  3", "07:57  beta asks  4"]);
});

Deno.test("a message that comes back with a lower number is shown, and no older one that was there at the start", async () => {
  await using screen = new Screen(80, []);
  const of = (id: number) => screen.message({ id, text: `no ${id}.` });
  const inbox = [1, 2, 4, 5, 6, 7, 8].map(of);
  screen.inbox = inbox;
  screen.add();
  await flushTasks();
  const before = screen.lines.length;
  await screen.answerInbox(inbox);
  assert(screen.asked.at(-1)?.target.includes("after=8&"));
  await screen.answerInbox([]);
  assert(screen.asked.at(-1)?.target.includes("after=0&"));
  await screen.answerInbox([...inbox.slice(0, 2), of(3), ...inbox.slice(2)]);
  assertEquals(screen.lines.slice(before).join("\n").match(/no \d+\./g), ["no 3."]);
});

Deno.test("h shows what was written with a peer, oldest first, behind the gutter, and reads nothing", async () => {
  await using screen = new Screen(60);
  screen.written = [
    { kind: "received", ...screen.message({ id: 12, isReply: true, text: "8443\n\x1b[2J" }) },
    { kind: "sent", ...screen.row({ seq: 9, requestId: "request-9", text: "Which port?", state: "processed" }) },
  ];
  screen.lines.length = 0;
  await screen.press("h");
  assertEquals(screen.lines.map((line) => line.replaceAll(/  +/g, " ")), [
    "07:57 You to beta 9",
    " │ Which port?",
    "07:57 beta of Bob replies 12",
    " │ 8443",
    " │ \\u001b[2J",
  ]);
  assertEquals(screen.requests("/v1/inbox/read"), []);
  screen.written = [];
  await screen.press("h");
  assertStringIncludes(screen.lines.at(-1) ?? "", "No messages with beta.");
});

Deno.test("a long name of a peer does not hide that the server can read its message", async () => {
  await using screen = new Screen();
  const { from } = screen.message({});
  const long = { ...from as object, alias: "a".repeat(64), humanName: "字".repeat(64) };
  await screen.arrive({ id: 12, text: "hi", from: long, verified: "by-registry" });
  assertEquals(screen.lines.at(-2), `07:57  ${"a".repeat(36)}… asks (readable by the server) 12`);
  const read = screen.message({ kind: "received", id: 12, from: long, text: "hi", verified: "by-registry" });
  screen.written = [read];
  await screen.press("h");
  assertEquals(screen.lines.at(-2), `07:57  ${"a".repeat(36)}… asks (readable by the server) 12`);
});

Deno.test("no text of a peer leaves its gutter or the width, at any width", () => {
  const odd = fc.constantFrom(
    "\x1b[2J",
    "\x1b]0;t\x07",
    "\u202e",
    "\u200b",
    "界",
    "e\u0301",
    "\t",
    "\n",
    "\r",
    " ",
    "│",
    "a",
    "👩‍👩‍👧",
  );
  const text = fc.oneof(
    codePointsUpTo(400),
    fc.array(odd, { maxLength: 300 }).map((parts) => parts.join("")),
  );
  fc.assert(
    fc.property(text, fc.constantFrom(80, 60, 40), (text, columns) => {
      const lines = gutterLines(text.toWellFormed(), { columns, number: 12 }).map((line) => painted(line, false));
      assert(lines.length <= 13);
      for (const line of lines) {
        assert(line.startsWith(columns < 60 ? " │ " : "     │ "), JSON.stringify(line));
        assert(textColumns(line) < columns, JSON.stringify(line));
      }
    }),
    { seed: 1, numRuns: 500 },
  );
  assert(gutterLines("x".repeat(1_000_000), { columns: 80, number: 12 }).length <= 16);
});
