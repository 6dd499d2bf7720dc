/** The log and the keys of `connector start`: what a person sees, types and pastes. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { ConsoleView } from "../../../cli/connector/talk/view.ts";
import type { Peers } from "../../../cli/connector/peers/peers.ts";
import type { Status } from "../../../cli/connector/status.ts";
import { CliError } from "../../../cli/errors.ts";
import { Notifier } from "../../../cli/connector/talk/notifier.ts";
import { NOTIFY, type Notify, parseNotify } from "../../../cli/files/profile.ts";
import { Talk } from "../../../cli/connector/talk/talk.ts";
import type { TalkAgent } from "../../../cli/connector/talk/talk_agent.ts";
import { gutterLines, sentenceLines } from "../../../cli/connector/talk/log_text.ts";
import { CalmTexts } from "../../../cli/connector/talk/event_texts.ts";
import { type Line, painted } from "../../../cli/terminal/escapes.ts";
import { textColumns } from "../../../cli/terminal/text_width.ts";
import { NOT_KEPT } from "../../../shared/client/local_shapes.ts";
import { formatTicket, withPairSecret } from "../../../shared/protocol/ticket.ts";
import { codePointsUpTo } from "../../shared/protocol/arbitraries.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import fc from "fast-check";

const SERVER = "https://svc.example.com";
const DID = "did:svc:registry.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const OTHER = "did:svc:registry.example:agent:01KHYQ5H00BBBBBBBBBBBBBBBB";
const BETA: Peers = { beta: { did: DID, agentName: "beta", humanName: "Bob" } };
const PAGE = `http://127.0.0.1:41234/page/open?code=${"c".repeat(80)}`;
const ENTER = "\r", ESCAPE = "\x1b";

interface Asked {
  agent: string;
  method: string;
  target: string;
  body: Record<string, unknown>;
}

/** A terminal with one or more agents, whose local API the test plays. */
class Screen {
  readonly clock: ManualClock;
  mayInvite = true;
  /** The line below the log cannot be drawn. */
  isBroken = false;
  readonly lines: string[] = [];
  readonly asked: Asked[] = [];
  peers: Peers = BETA;
  ended: Peers = {};
  replaced: string | null = null;
  stops = 0;
  unread = 0;
  sentState = "processed";
  problem: string | null = null;
  /** Rows of `GET /v1/sent`. */
  readonly sent: Record<string, unknown>[] = [];
  /** Rows of `GET /v1/peers`. */
  listed: Record<string, unknown>[] = [];
  /** Rows of `GET /v1/log`. */
  written: Record<string, unknown>[] = [];
  readonly #arriving = new Map<string, (messages: unknown[]) => void>();
  readonly talk: Talk;
  #seq = 8;

  constructor(readonly columns = 80, at = new Date(2026, 1, 21, 7, 57).getTime(), agents = 1) {
    this.clock = new ManualClock(at);
    const view: ConsoleView = {
      event: () => {},
      show: (lines) => this.print(lines),
      redraw: () => {
        if (this.isBroken) throw new Error("the store is locked");
      },
      signal: () => {},
      isVerbose: false,
      columns,
      rows: 24,
      stop: () => {},
    };
    this.talk = new Talk({
      clock: this.clock,
      view,
      newId: () => `request-${++this.#seq}`,
      agents,
      arrived: () => {},
      stop: () => void this.stops++,
    });
  }

  print(lines: readonly Line[]): void {
    this.lines.push(...lines.map((line) => painted(line, false)));
  }

  add(name = "alpha"): void {
    const agent: TalkAgent = {
      name,
      humanName: "Ada",
      peers: () => this.peers,
      ended: () => this.ended,
      perhapsReplaced: () => this.replaced,
      status: () => this.status(name),
      openPage: () => Promise.resolve([PAGE]),
      invite: () => Promise.resolve(this.mayInvite ? "svc join 'https://x.test/join#svc_inv_x.a.b' --start" : null),
      calls: {
        agentName: name,
        send: async ({ method, target, body }) => {
          this.asked.push({ agent: name, method, target, body: body === undefined ? {} : JSON.parse(body) });
          const answer = await this.#answer(name, target, body === undefined ? {} : JSON.parse(body));
          return { status: 200, headers: new Headers(), text: JSON.stringify(answer) };
        },
      },
    };
    this.talk.add(agent);
  }

  status(name: string): Status {
    const connection = { state: "connected", nextTryAt: null };
    const runtime = { url: null, reachable: true };
    const inbox = { waiting: this.unread };
    return { agent: { name }, proxy: { origin: SERVER }, connection, runtime, inbox, deadLetters: 0 } as never;
  }

  #answer(name: string, target: string, body: Record<string, unknown>): unknown {
    if (target.startsWith("/v1/inbox?newest")) return { messages: [], more: false };
    if (target.startsWith("/v1/inbox?after")) {
      return new Promise((resolve) => this.#arriving.set(name, (messages) => resolve({ messages, more: false })));
    }
    if (target === "/v1/peers") return { peers: this.listed };
    if (target.startsWith("/v1/peers/")) {
      const peer = this.listed.find(({ agentDid }) => agentDid === body.peer) ?? listedPeer("beta", OTHER);
      return { ...peer, ...body.alias === undefined ? {} : { alias: body.alias } };
    }
    if (target === "/v1/pair/remove") return { removed: true };
    if (target.startsWith("/v1/log")) return { messages: this.written, next: null };
    if (target === "/v1/inbox/read") return { read: body.ids };
    if (target.startsWith("/v1/sent")) return { messages: this.sent, more: false };
    if (target === "/v1/pair/confirm") {
      const profile = { agentName: "beta", humanName: "Bob" };
      const [initiatorAgentDid, responderAgentDid] = [DID, OTHER];
      return {
        paired: true,
        initiatorAgentDid,
        responderAgentDid,
        initiatorProfile: profile,
        responderProfile: profile,
      };
    }
    if (target.startsWith("/v1/outbound")) {
      const sentAt = new Date(this.clock.now()).toISOString();
      const row = {
        requestId: body.requestId,
        to: { agentDid: DID, alias: "beta" },
        state: this.sentState,
        problem: this.problem,
        ...NOT_KEPT,
        nextTryAt: this.sentState === "kept" ? new Date(this.clock.now() + 12_000).toISOString() : null,
      };
      const rest = {
        text: null,
        conversationId: null,
        inReplyTo: null,
        auto: false,
        origin: "person",
        bytes: 1,
        expiresAt: null,
        replies: [],
      };
      this.sent.unshift({ ...row, ...rest, seq: this.#seq, sentAt, stateAt: sentAt });
      return { ...row, to: DID, expiresAt: null, stateAt: sentAt, replies: [], reply: null };
    }
    throw new Error(target);
  }

  /** A message of a peer arrives. */
  async arrive(fields: Record<string, unknown>, agent = "alpha"): Promise<void> {
    await flushTasks();
    const receivedAt = new Date(this.clock.now()).toISOString();
    const from = {
      agentDid: DID,
      ownerDid: "did:svc:registry.example:human:x",
      name: "beta",
      alias: "beta",
      humanName: "Bob",
    };
    const rest = {
      conversationId: null,
      inReplyTo: null,
      isReply: false,
      auto: false,
      readAt: null,
      mayBeRepeat: false,
    };
    const message = {
      requestId: "request-x",
      from,
      verified: "end-to-end",
      ...rest,
      receivedAt,
      error: null,
      payload: null,
    };
    this.#arriving.get(agent)?.([{ ...message, ...fields }]);
    await flushTasks();
  }

  /** Presses keys one by one. */
  async press(...keys: string[]): Promise<void> {
    for (const key of keys) {
      this.talk.receive(new TextEncoder().encode(key));
      if (key === ESCAPE) await this.clock.advance(50);
      await flushTasks();
    }
  }

  async type(text: string): Promise<void> {
    await this.press(...text);
  }

  async paste(text: string, waitMs = 500): Promise<void> {
    await this.press(`\x1b[200~${text}\x1b[201~`);
    await this.clock.advance(waitMs);
  }

  live(): string {
    return this.talk.live(this.columns - 1)?.lines.map((line) => painted(line, false)).join("\n") ?? "";
  }

  requests(target: string): Record<string, unknown>[] {
    return this.asked.filter((asked) => asked.target.startsWith(target)).map(({ body }) => body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.talk.close();
    await this.arrive({});
    await flushTasks();
  }
}

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
    screen.add();
    event("connected", {});
    await screen.paste(formatTicket(SERVER, new Uint8Array(16)));
    await screen.press("y");
    await screen.clock.advance(60_000);
    await screen.press("s");
    await screen.type("Which port does the staging server use?");
    await screen.press(ENTER);
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

Deno.test("the head of several agents names their person and server, and no agent", async () => {
  await using screen = new Screen(80, undefined, 3);
  for (const name of ["alpha", "beta", "gamma"]) screen.add(name);
  assertEquals(screen.lines, ["3 agents of Ada · svc.example.com", screen.lines[1], ""]);
});

Deno.test("q works when the clock was set back after a paste, and when the line below the log could not be drawn", async () => {
  await using screen = new Screen();
  screen.add();
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
  await using screen = new Screen(80, undefined, 2);
  for (const name of ["alpha", "beta"]) screen.add(name);
  const ticket = formatTicket(SERVER, new Uint8Array(16));
  screen.talk.showTicket("alpha", ticket, new Date(screen.clock.now() + 300_000).toISOString());
  await screen.paste(ticket);
  assertEquals(screen.lines.at(-1)?.slice(7), "This is your own ticket. Give it to the other person.");
  await screen.press("a");
  await screen.type("beta");
  await screen.press(ENTER);
  await screen.paste(ticket);
  assertEquals(screen.live(), "Pair with an agent of svc.example.com? [y/N] ");
});

Deno.test("r replies to the newest message, a number names another one, and space reads what was shown", async () => {
  await using screen = new Screen();
  screen.add();
  await screen.arrive({ id: 11, text: "one" });
  await screen.arrive({ id: 12, text: "two" });
  assertStringIncludes(screen.lines.join("\n"), "beta of Bob asks");
  await screen.press("r");
  await screen.type("8443");
  assertEquals(screen.live(), "to beta› 8443");
  await screen.press(ENTER, "1", "1", "r");
  await screen.type("no");
  await screen.press(ENTER);
  assertEquals(screen.requests("/v1/outbound").map(({ replyTo, payload }) => [replyTo, payload]), [
    [12, { message: "8443" }],
    [11, { message: "no" }],
  ]);
  await screen.arrive({ id: 13, text: "three" });
  await screen.arrive({ id: 14, text: "four" });
  await screen.press(" ");
  assertEquals(screen.requests("/v1/inbox/read"), [{ ids: [13, 14] }]);
});

Deno.test("a key that fails says why, and the next keys work; o shows the page's address whole", async () => {
  await using screen = new Screen();
  screen.add();
  Object.defineProperty(screen, "peers", {
    get() {
      throw new CliError("CLI_FILE_INVALID", "peers.json is damaged");
    },
  });
  await screen.press("s", "h", "o");
  assertEquals(screen.lines.slice(3).filter((line) => line.includes("peers.json is damaged")).length, 2);
  assertEquals(screen.lines.at(-1), PAGE);
});

Deno.test("the line is edited with the usual keys, and only Enter sends it", async () => {
  await using screen = new Screen();
  screen.add();
  await screen.press("s");
  await screen.type("hallo world");
  await screen.press("\x1b[D", "\x7f", "\x01", "x", "\x05", "!", "\x17");
  assertEquals(screen.live(), "to beta› xhallo ");
  await screen.press("\x15");
  await screen.type("first\\");
  await screen.press(ENTER);
  await screen.type("second");
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
  await screen.press("s");
  await screen.type("界".repeat(60));
  assert(textColumns(screen.live()) < 80);
});

Deno.test("a paste is one message with its lines, Enter right after it is dropped, and a ticket in it is not sent", async () => {
  await using screen = new Screen();
  screen.add();
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
  await screen.paste(`my ticket: ${formatTicket(SERVER, new Uint8Array(16))}`);
  assertEquals(screen.live(), "This is a pairing ticket, a secret. Pair with it instead? [y/N] ");
  await screen.press("n");
  assertEquals([screen.requests("/v1/pair"), screen.requests("/v1/outbound").length], [[], 1]);
});

Deno.test("a pasted ticket pairs after y, and nothing else does", async () => {
  await using screen = new Screen();
  screen.add();
  const ticket = formatTicket(SERVER, new Uint8Array(16));
  for (const answer of ["n", "q", " ", ENTER]) {
    await screen.paste(ticket);
    await screen.press(answer);
  }
  await screen.paste(ticket);
  await screen.clock.advance(60_000);
  await screen.paste(`${ticket}`, 0);
  await screen.press("y");
  assertEquals([screen.requests("/v1/pair"), screen.stops], [[], 0]);
  await screen.clock.advance(500);
  assertEquals(screen.live(), "Pair with an agent of svc.example.com? [y/N] ");
  await screen.press("y");
  assertEquals(screen.requests("/v1/pair"), [{ ticket }]);
  const last = async (text: string) => {
    await screen.paste(text);
    return screen.lines.at(-1)?.slice(7);
  };
  assertEquals(await last("hello"), "No pairing ticket in the pasted text.");
  assertEquals(await last(ticket.slice(0, 33)), "This ticket was cut off: copy it whole.");
  const other = formatTicket("https://b.example", new Uint8Array(16));
  assertEquals(await last(other), "for another one.");
  assertStringIncludes(screen.lines.at(-2) ?? "", "This ticket is from another server, b.example, and proves no key.");
  const proving = withPairSecret(other, "A".repeat(22));
  await screen.paste(proving);
  assertEquals(screen.live(), "This ticket is from another server: b.example. Pair? [y/N] ");
  await screen.press("n");
  assertEquals(screen.requests("/v1/pair"), [{ ticket }]);
  screen.talk.showTicket("alpha", ticket, new Date(screen.clock.now() + 300_000).toISOString());
  assertEquals(await last(ticket), "This is your own ticket. Give it to the other person.");
});

Deno.test("a new agent with the name of a peer takes its place when the person says so, and only then", async () => {
  await using screen = new Screen();
  screen.add();
  screen.talk.paired("alpha", OTHER);
  assertEquals([screen.live().includes("[y/N]"), screen.requests("/v1/peers")], [false, []]);
  screen.peers = { ...BETA, "beta-2": { did: OTHER, agentName: "beta", humanName: "Bob" } };
  screen.replaced = "beta";
  const later = "If it is the new beta: svc peers rename beta-2 beta --replaces";
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

Deno.test("a ticket is one line of 80 columns, and p again shows it as a code if there is room", async () => {
  for (const [columns, fits] of [[80, true], [60, false]] as const) {
    await using screen = new Screen(columns);
    screen.add();
    const ticket = formatTicket(SERVER, new Uint8Array(16)).replace(".-.", ".BwcHBwcHBwcHBwcHBwcHBw.");
    screen.lines.length = 0;
    screen.talk.showTicket("alpha", ticket, new Date(screen.clock.now() + 300_000).toISOString());
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

Deno.test("the state of a sent message is a line unless it is the good one, and what was read is told once", async () => {
  await using screen = new Screen();
  screen.add();
  screen.sentState = "queued";
  await screen.press("s");
  await screen.type("x");
  await screen.press(ENTER);
  assertEquals(screen.lines.at(-1)?.slice(7), "9 to beta waits at the server: beta is offline.");
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
    await screen.press("s");
    await screen.type("y");
    await screen.press(ENTER);
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
  screen.add();
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
});

Deno.test("a flood of one peer is counted in place, and another peer is still seen", async () => {
  await using screen = new Screen();
  screen.add();
  const before = screen.lines.length;
  for (let id = 1; id <= 200; id++) await screen.arrive({ id, text: "x" });
  assertEquals(screen.lines.length - before, 10);
  assertStringIncludes(screen.live(), "beta: 195 more messages; u shows them");
  const from = {
    agentDid: OTHER,
    ownerDid: "did:svc:registry.example:human:x",
    name: "gamma",
    alias: "gamma",
    humanName: "Eve",
  };
  await screen.arrive({ id: 1_001, text: "hello", from });
  assertStringIncludes(screen.lines.at(-1) ?? "", "hello");
  await screen.clock.advance(10_000);
  await screen.arrive({ id: 1_002, text: "later" });
  assertStringIncludes(screen.lines.join("\n"), "beta: 195 more messages; u shows them");
  assertStringIncludes(screen.lines.at(-1) ?? "", "later");
});

/** A row of `GET /v1/peers`. */
function listedPeer(alias: string, agentDid: string, fields: Record<string, unknown> = {}): Record<string, unknown> {
  const [pairedAt, key, how, since] = ["2026-02-21T07:00:00.000Z", null, null, null];
  const names = { alias, agentDid, agentName: alias, humanName: alias === "beta" ? "Bob" : "Ci Wang" };
  const presence = { online: true, lastSeenAt: null, lastMessageAt: null };
  return { ...names, blocked: false, pairedAt, key, how, since, ...presence, ...fields };
}

for (const columns of [80, 40]) {
  Deno.test(`l lists the peers in ${columns} columns, and a number before n, b or x acts on one of them`, async () => {
    await using screen = new Screen(columns);
    screen.add();
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
    await screen.type("ci");
    await screen.press(ENTER, "2", "b", "b", "2", "x", "n");
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
  screen.add();
  await screen.arrive({ id: 11, text: "one" });
  const said = async (...keys: string[]) => {
    await screen.press(...keys);
    await screen.clock.advance(500);
    return [screen.lines.slice(-2).map((line) => line.trim()).join(" ").replace(/.*\d\d:\d\d +/, ""), screen.live()];
  };
  const end = "p makes a ticket for another person; paste one that you were given.";
  screen.peers = {};
  for (const key of ["s", "l", "h"]) assertEquals(await said(key), [`No peers yet. ${end}`, "alpha · online"]);
  screen.ended = BETA;
  for (const key of ["s", "l", "h"]) {
    assertEquals(await said(key), [`No peers: all pairs have ended. ${end}`, "alpha · online"]);
  }
  const ended = "The pair with beta has ended. To pair: p, or paste a ticket of the other person.";
  assertEquals(await said("r"), [ended, "alpha · online"]);
  screen.peers = Object.fromEntries(["c", "d"].map((name) => [name, { did: OTHER, agentName: name, humanName: "C" }]));
  for (const key of ["s", "h"]) assertEquals(await said(key, ..."beta", ENTER), [ended, "alpha · online"]);
});

Deno.test("h shows what was written with a peer, oldest first, behind the gutter, and reads nothing", async () => {
  await using screen = new Screen(60);
  screen.add();
  const at = new Date(screen.clock.now()).toISOString();
  const from = {
    agentDid: DID,
    ownerDid: "did:svc:registry.example:human:x",
    name: "b",
    alias: "beta",
    humanName: "Bob",
  };
  const both = { conversationId: null, inReplyTo: null, auto: false };
  screen.written = [
    {
      ...{ kind: "received", id: 12, requestId: "request-b", from, verified: "end-to-end", isReply: true, ...both },
      ...{ receivedAt: at, readAt: null, mayBeRepeat: false, text: "8443\n\x1b[2J", error: null, payload: null },
    },
    {
      ...{
        kind: "sent",
        text: "Which port?",
        seq: 9,
        requestId: "request-9",
        to: { agentDid: DID, alias: "beta" },
        ...both,
      },
      ...{ origin: "person", bytes: 1, sentAt: at, state: "processed", stateAt: at, problem: null, expiresAt: null },
      ...{ ...NOT_KEPT, payload: null },
    },
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

Deno.test("several agents share the terminal: each line names its agent, and a chooses for whom the keys are", async () => {
  await using screen = new Screen();
  screen.add("alpha");
  screen.add("gamma");
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
  await using screen = new Screen();
  screen.add("alpha");
  screen.add("gamma");
  await screen.arrive({ id: 3, text: "for alpha" }, "alpha");
  await screen.arrive({ id: 3, text: "for gamma" }, "gamma");
  await screen.arrive({ id: 4, text: "only for gamma" }, "gamma");
  const answered = () => screen.asked.filter(({ target }) => target.startsWith("/v1/outbound")).at(-1);
  await screen.press("4", "r");
  await screen.press("o", "k", ENTER);
  assertEquals([answered()?.agent, answered()?.body.replyTo], ["gamma", 4]);
  assertStringIncludes(screen.lines.join("\n"), "gamma · You to beta");
  await screen.press("a", "g", "\t", ENTER);
  await screen.press("3", "r");
  await screen.press("o", "k", ENTER);
  assertEquals([answered()?.agent, answered()?.body.replyTo], ["gamma", 3]);
  await screen.press(" ");
  const read = screen.asked.filter(({ target }) => target === "/v1/inbox/read");
  assertEquals(read.map(({ agent, body }) => [agent, body.ids]), [["alpha", [3]]]);
});

Deno.test("what svc says of a ticket and of a link is wrapped at words where a window is narrow", async () => {
  await using screen = new Screen(40);
  screen.add();
  screen.talk.showTicket("alpha", "svcpair1_x", new Date(screen.clock.now() + 300_000).toISOString());
  await screen.press("i");
  const text = screen.lines.map((line) => line.trim()).join(" ");
  assertStringIncludes(text, "It is a secret. They paste it into the terminal of their connector.");
  assertStringIncludes(text, "It is a secret, like a password. It makes an account and pairs with you.");
  await screen.paste(formatTicket(SERVER, new Uint8Array(16)));
  const question = screen.live();
  assert(question.startsWith("Pair with an agent of ") && question.endsWith(" [y/N] ") && textColumns(question) < 40);
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

Deno.test("a person is told of messages once in 30 s, without their text, and the title is given back", () => {
  const told = (how: Notify, term = "xterm") => {
    const clock = new ManualClock();
    const written: string[] = [];
    const notifier = new Notifier(clock, (sequence) => void written.push(sequence), how, term);
    notifier.arrived("alpha", 1);
    notifier.arrived("alpha", 2);
    clock.step(30_000);
    notifier.arrived("alpha", 3);
    notifier.title("alpha · 3 unread");
    notifier.title("alpha");
    notifier.close();
    return written;
  };
  const title = ["\x1b[22;0t\x1b]2;alpha · 3 unread\x07", "\x1b]2;alpha\x07", "\x1b[23;0t"];
  assertEquals(told(NOTIFY[1]), ["\x07", "\x07", ...title]);
  assertEquals(told("off"), []);
  assertEquals(told("desktop").slice(0, 2), [
    "\x1b]9;svc: 1 unread message for alpha\x07",
    "\x1b]9;svc: 3 unread messages for alpha\x07",
  ]);
  assertEquals(told("desktop", "foot-extra")[0], "\x1b]777;notify;svc;1 unread message for alpha\x07");
  assertThrows(() => parseNotify("loud", "--notify"), CliError, NOTIFY.join(", "));
});
