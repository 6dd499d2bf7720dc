/** The output of a connector: one JSON line per event in a pipe, sentences and one live line on a terminal. */
import { assert, assertEquals } from "@std/assert";
import { mergePeers, type Peers } from "../../../cli/connector/peers/peers.ts";
import { shellWord } from "../../../cli/terminal/output.ts";
import { isConnectorHealthy, Status, statusFields } from "../../../cli/connector/status.ts";
import { formatDuration } from "../../../cli/terminal/times.ts";
import { type EventName, EVENTS, withAlias } from "../../../cli/connector/events.ts";
import { quietText } from "../../../cli/connector/talk/event_texts.ts";
import { viewOf } from "../../../cli/connector/talk/view.ts";
import { columnsOf, cutToColumns } from "../../../cli/terminal/text_width.ts";
import { RefusedError } from "../../../cli/link/link.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { WELL } from "./well.ts";
import { story } from "./bench.ts";
import { until } from "../../support/until.ts";

const live = (line: string) => ({ lines: [line], cursor: null });

/** A view of a terminal or a pipe, with what it has printed. */
function shownOn(
  isTerminal: boolean,
  liveOf: Parameters<typeof viewOf>[0]["live"],
  columns: () => number | null = () => null,
  rows: () => number | null = () => null,
) {
  const screen = { text: "" }, clock = new ManualClock();
  const stdout = (text: string) => (screen.text += text, true);
  const [stdoutIsTerminal, stderrIsTerminal] = [isTerminal, isTerminal];
  const terminal = { stdout, stderr: stdout, stdoutIsTerminal, stderrIsTerminal, columns, rows };
  return { screen, clock, view: viewOf({ clock, terminal, json: false, colour: false, live: liveOf }) };
}

Deno.test("a pipe gets one JSON line per event and no other output", () => {
  const { screen, view } = shownOn(false, () => live("state"));
  view.event("connected");
  view.show(["for people"]);
  view.event("received", { from: "a\nb", requestId: "request-1" });
  view.stop();
  const lines = screen.text.trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals(lines.map(({ event }) => event), ["connected", "received"]);
  assertEquals(lines[1].from, "a\nb");
});

Deno.test("a terminal gets sentences above one live line, without foreign control characters", async () => {
  let line = "alpha: connected 1 s";
  const { screen, clock, view } = shownOn(true, () => live(line));
  view.event("refused", { why: "\u001b]0;title\u0007" });
  const drawn = () => `\x1b[?7l${line}\x1b[?7h`;
  assert(screen.text.includes("The server refused the connection") && screen.text.endsWith(drawn()));
  line = "alpha: connected 2 s";
  await clock.advance(1_000);
  assert(screen.text.endsWith(drawn()));
  assert(!screen.text.includes("\u001b]"));
  view.stop();
  assertEquals(clock.waiting, 0);
});

Deno.test("the live lines leave a row for the log in a window with few rows", () => {
  const lines = ["a", "b", "c", "d", "e", "to beta› x"];
  const { screen, view } = shownOn(true, () => ({ lines, cursor: null }), undefined, () => 5);
  for (let n = 0; n < 2; n++) view.redraw();
  view.stop();
  assertEquals(screen.text.split("\x1b[?7h").slice(1), [
    "\r\x1b[3A\x1b[J\x1b[?7lc\nd\ne\nto beta› x",
    "\r\x1b[3A\x1b[J",
  ]);
});

const EVENT_NAMES = Object.keys(EVENTS) as EventName[];

Deno.test("a calm log tells what needs attention; all events and JSON tell the rest", () => {
  const did = "did:svc:registry.example:agent:01KHYQ5H00AAAAAAAABCDEFGHJ";
  const known = withAlias({ from: did, requestId: "r", why: "w" }, () => "beta");
  const shown = (isTerminal: boolean, isVerbose: boolean) => {
    const { screen, view } = shownOn(isTerminal, () => null);
    view.isVerbose = isVerbose;
    view.event("received", known);
    view.event("dead_letter", known);
    view.event("paired", { peer: did, agentName: "beta", humanName: "Bob" });
    view.event("pair_ended", { ...known, agentName: "b", humanName: "Bob" });
    view.stop();
    return screen.text;
  };
  const calm = shown(true, false);
  assert(!calm.includes("Message received") && calm.includes("Message moved to the dead-letter list (beta): w"), calm);
  assert(calm.includes("  Paired with beta of Bob.") && !calm.includes("did:"), calm);
  assert(calm.includes("  The pair with beta of Bob has ended."), calm);
  assert(shown(true, true).includes("  A message of beta arrived."));
  const fields = { ...known, ms: 1_995, status: "processed_by_svc", agentName: "beta", humanName: "Bob" };
  const quiet = EVENT_NAMES.map((name) => quietText(name, fields));
  assert(
    quiet.includes("beta was told that a message is read.") && quiet.includes("Next try in 2 s."),
    quiet.join("\n"),
  );
  for (const text of quiet) assert(/^\S.*(?:\.|: w)$/.test(text) && !/did:|undefined|\(/.test(text), text);
  const [line = ""] = shown(false, false).split("\n");
  const { time: _, ...json } = JSON.parse(line);
  assertEquals(json, { event: "received", from: did, requestId: "r", why: "w", peer: "beta" });
});

Deno.test("a runtime that answers but refuses messages is reported as such until it accepts one", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "openclaw", target: { hookToken: "wrong" } });
  let status = 401;
  bench.behaviour = ({ url }) => new Response(null, { status: url.endsWith("/readyz") ? 200 : status });
  await world.message(a, b);
  await until(() => bench.eventsOf("handover_failed").length === 1);
  // Its health answer stays good: that does not prove that the token is valid.
  await world.clock.advance(120_000);
  const { runtime } = bench.connector.status();
  assertEquals([runtime.reachable, runtime.problem], [true, "status 401"]);
  assertEquals(isConnectorHealthy(bench.connector.status()), false);
  assert(
    statusFields(bench.connector.status()).some(([, value]) => String(value).includes("does NOT accept messages")),
  );
  assertEquals(bench.eventsOf("runtime_down"), []);
  assert(bench.handedOver.length <= 10, "a good health answer does not speed up messages that a wrong token delays");
  status = 200;
  await world.clock.advance(61_000);
  await until(() => bench.eventsOf("handed_over").length === 1);
  assertEquals([bench.connector.status().runtime.problem, isConnectorHealthy(bench.connector.status())], [null, true]);
});

Deno.test("each field of the status is right while connecting, connected, refused and stopped", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  const now = () => new Date(world.clock.now()).toISOString();
  const status = () => Status.parse(bench.connector.status());
  await world.clock.advance(31_000);
  const since = status().connection.since;
  bench.refuse = () => new RefusedError(503, "PROXY_RELAY_UNAVAILABLE", "Not now", null);
  bench.endLink(1006);
  await until(() => status().connection.state === "waiting");
  const lost = status().connection;
  assertEquals([lost.since, lost.problem], [now(), "the connection was lost (1006)"]);
  assertEquals([lost.heartbeatMs, lost.heartbeatAt], [null, null]);
  const wait = Date.parse(lost.nextTryAt ?? "") - world.clock.now();
  assertEquals([wait, since < lost.since], [Number(bench.eventsOf("waiting")[0]?.ms), true]);
  await world.clock.advance(wait);
  await until(() => bench.eventsOf("refused").length === 1);
  await until(() => bench.eventsOf("waiting").length === 2);
  const refused = status();
  assertEquals([refused.connection.state, isConnectorHealthy(refused)], ["waiting", false]);
  assertEquals(refused.connection.problem, "PROXY_RELAY_UNAVAILABLE: Not now");
  const opening = Promise.withResolvers<unknown>();
  bench.refuse = () => opening.promise;
  await world.clock.advance(Date.parse(refused.connection.nextTryAt ?? "") - world.clock.now());
  await until(() => status().connection.state === "connecting");
  assertEquals([status().connection.nextTryAt, status().connection.since], [null, lost.since]);
  assertEquals(isConnectorHealthy(status()), false);
  opening.resolve(null);
  await until(() => status().connection.state === "connected");
  assertEquals([status().connection.problem, isConnectorHealthy(status())], [null, true]);
  await bench.connector.stop();
  assertEquals(status().connection.state, "stopped");
});

Deno.test("an expired token and an overdue heartbeat make the connector unhealthy", () => {
  const at = (s: number) => new Date(s * 1000).toISOString();
  const runtime = { ...WELL.runtime, url: "http://127.0.0.1:2/", source: "option", checkedAt: at(90) } as const;
  const connection = { ...WELL.connection, since: at(10), heartbeatMs: 3, heartbeatAt: at(70) };
  const session = { accessExpiresAt: at(900), identityExpiresAt: at(9_000), problem: null };
  const status: Status = { ...WELL, startedAt: at(0), now: at(100), connection, runtime, session };
  assertEquals(isConnectorHealthy(status), true);
  const quiet = { ...status, now: at(111) };
  assertEquals(isConnectorHealthy(quiet), false);
  assert(statusFields(quiet).some(([, value]) => String(value).includes("OVERDUE")));
  const silent = { ...quiet, connection: { ...status.connection, heartbeatMs: null, heartbeatAt: null } };
  assertEquals(isConnectorHealthy(silent), false);
  const over = { ...status, session: { ...status.session, accessExpiresAt: at(99) } };
  assertEquals(isConnectorHealthy(over), false);
  assertEquals(isConnectorHealthy({ ...status, session: { ...status.session, identityExpiresAt: at(99) } }), false);
});

Deno.test("durations are short, and words are quoted for a shell", () => {
  assertEquals([0, 119_000, 120_000, 7_200_000, 200_000_000].map(formatDuration), [
    "0 s",
    "119 s",
    "2 min",
    "2 h",
    "2 d",
  ]);
  assertEquals(["/a/b.c", "a b", "it's", "$(x)"].map(shellWord), ["/a/b.c", "'a b'", `'it'\\''s'`, "'$(x)'"]);
});

Deno.test("each peer gets an alias of its own and keeps it", () => {
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
    "contact-G-mma": "C",
    "contact-beta": "A",
    "contact-beta-2": "B",
  });
  const second = mergePeers(first, {
    peers: [peer("B", "beta", "2"), peer("D", "beta", "4"), peer("E", "__proto__", "5")],
  });
  const shown = (peers: Peers) => Object.entries(peers).map(([alias, { did, gone }]) => [alias, did.slice(-1), gone]);
  assertEquals(shown(second), [
    ["contact-G-mma", "C", true],
    ["contact-beta", "A", true],
    ["contact-beta-2", "B", undefined],
    ["contact-beta-3", "D", undefined],
    ["contact-proto", "E", undefined],
  ]);
  const third = mergePeers(second, { peers: [peer("A", "beta", "6"), peer("F", "beta", "7")] });
  assertEquals(shown(third).filter(([, , gone]) => !gone), [
    ["contact-beta", "A", undefined],
    ["contact-beta-4", "F", undefined],
  ]);
});

Deno.test("the live lines get the current width at each redraw, and are drawn again in their place", async () => {
  let columns = 12;
  const lines = (width: number) => ({ lines: [`count ${width}`, "to beta› x"], cursor: 9 });
  const { screen, clock, view } = shownOn(true, lines, () => columns);
  await clock.advance(1_000);
  assert(screen.text.endsWith("\r\x1b[J\x1b[?7lcount 11\nto beta› x\x1b[?7h\r\x1b[9C"), JSON.stringify(screen.text));
  columns = 40;
  await clock.advance(1_000);
  assert(screen.text.endsWith("\r\x1b[1A\x1b[J\x1b[?7lcount 39\nto beta› x\x1b[?7h\r\x1b[9C"));
  view.stop();
});

Deno.test("cutting a line counts wide, combining and astral characters and splits none", () => {
  const width = (text: string) => [...text].reduce((sum, character) => sum + columnsOf(character), 0);
  const texts = [
    "abc",
    "漢字かな",
    "e\u0301e\u0301e\u0301",
    "😀😀😀",
    "a漢😀b",
    "\u{20000}\u{20000}",
    "한국어",
    "ＡＢＣ",
    "",
  ];
  for (const text of texts) {
    for (let columns = 0; columns <= 10; columns++) {
      const cut = cutToColumns(text, columns);
      assert(width(cut) <= columns, `${cut} in ${columns}`);
      assert(cut.isWellFormed());
      assertEquals(cut === text, width(text) <= columns, `${text} in ${columns}`);
    }
  }
  assertEquals(["漢字かな", "😀😀", "e\u0301e\u0301"].map(width), [8, 4, 2]);
  assertEquals(cutToColumns("漢字かな", 6), "漢字…");
});
