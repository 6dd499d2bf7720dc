/** What a connector shows: one JSON line an event in a pipe, sentences and one live line on a terminal. */
import { assert, assertEquals } from "@std/assert";
import { mergePeers } from "../../../cli/connector/peers.ts";
import { shellQuote, ticketLines } from "../../../cli/connector/pairing_hint.ts";
import { isWell, span, Status, statusFields, statusLine } from "../../../cli/connector/status.ts";
import { viewOf } from "../../../cli/connector/view.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { isDown, story, until } from "./bench.ts";

function terminal(isTerminal: boolean) {
  const screen = { text: "" };
  const stdout = (text: string) => void (screen.text += text);
  return { screen, terminal: { stdout, stderr: stdout, stdoutIsTerminal: isTerminal, stderrIsTerminal: isTerminal } };
}

Deno.test("in a pipe every event is one JSON line, and nothing else is printed", () => {
  const clock = new ManualClock();
  const { screen, terminal: pipe } = terminal(false);
  const view = viewOf({ clock, terminal: pipe, json: false, line: () => "state" });
  view.event("connected");
  view.show(["for people"]);
  view.event("received", { from: "a\nb", requestId: "request-1" });
  view.stop();
  const lines = screen.text.trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals(lines.map(({ event }) => event), ["connected", "received"]);
  assertEquals(lines[1].from, "a\nb");
});

Deno.test("on a terminal events are sentences above one live line, and nothing steers the terminal", async () => {
  const clock = new ManualClock();
  const { screen, terminal: tty } = terminal(true);
  let line = "alpha: connected 1 s";
  const view = viewOf({ clock, terminal: tty, json: false, line: () => line });
  view.event("refused", { why: "\u001b]0;title\u0007" });
  assert(screen.text.includes("The proxy refused the connection") && screen.text.endsWith(line));
  line = "alpha: connected 2 s";
  await clock.advance(1_000);
  assert(screen.text.endsWith(line));
  assert(!screen.text.includes("\u001b]"));
  view.stop();
  assertEquals(clock.waiting, 0);
});

Deno.test("the status is honest: it fits its schema, and is not well when the runtime is away", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  await using _ = bench;
  await until("the runtime was looked at", () => bench.connector.status().runtime.reachable !== null);
  const well = Status.parse(bench.connector.status());
  assertEquals([isWell(well), well.connection.state], [true, "connected"]);
  assert(statusLine(well).includes("connected") && statusFields(well).length > 8);
  bench.behaviour = isDown;
  const a = await world.agent();
  await world.pair(a, bench.agent);
  await world.message(a, bench.agent);
  await until("it was tried", () => bench.told("runtime_down").length === 1);
  const ill = bench.connector.status();
  assertEquals([isWell(ill), ill.runtime.reachable, ill.inbox.waiting], [false, false, 1]);
  assert(statusLine(ill).includes("runtime DOWN"));
});

Deno.test("span() is short, shellQuote() safe, a ticket shown whole", async () => {
  assertEquals([0, 119_000, 120_000, 7_200_000, 200_000_000].map(span), ["0 s", "119 s", "2 min", "2 h", "2 d"]);
  assertEquals(["/a/b.c", "a b", "it's", "$(x)"].map(shellQuote), ["/a/b.c", "'a b'", `'it'\\''s'`, "'$(x)'"]);
  assert((await ticketLines("svcpair1_abc", "soon")).includes("svcpair1_abc"));
});

Deno.test("mergePeers() gives each peer a word of its own and keeps what it gave (D-93)", () => {
  const did = (n: string) => `did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAA${n}`;
  const peer = (n: string, agentName: string, pairedAt: string) => ({
    agentDid: did(n),
    profile: { agentName, humanName: "H" },
    pairedAt,
  });
  const first = mergePeers({}, {
    peers: [peer("B", "beta", "2"), peer("A", "beta", "1"), peer("C", "  Gämma! ", "3")],
  });
  assertEquals(Object.fromEntries(Object.entries(first).map(([alias, { did }]) => [alias, did.slice(-1)])), {
    "G-mma": "C",
    "beta": "A",
    "beta-2": "B",
  });
  const second = mergePeers(first, {
    peers: [peer("B", "beta", "2"), peer("D", "beta", "4"), peer("E", "__proto__", "5")],
  });
  assertEquals(Object.fromEntries(Object.entries(second).map(([alias, { did }]) => [alias, did.slice(-1)])), {
    "beta-2": "B",
    "beta": "D",
    "proto": "E",
  });
});
