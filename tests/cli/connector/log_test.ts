/** What was written: both directions in order, by place, peer, time and text, and how long texts are kept. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { DAY_MS } from "../../../shared/clock.ts";
import { type TestAgent, World } from "../../support/world.ts";
import type { Machine } from "../cli_world.ts";
import { story } from "./bench.ts";
import { connectorOfAlpha, machineWithAlpha, pairAlpha } from "./local_machine.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { outgoing, store } from "./store/disk.ts";
import type { RunningConnector } from "../../../cli/connector/agent_connector.ts";

type Json = Record<string, unknown>;

/** Stores a message of a peer, which is read then, or one to it. */
function written(
  { connector: { store: { received: inbox, sent } } }: Pick<RunningConnector, "connector">,
  { agent: { did } }: TestAgent,
  kind: "received" | "sent",
  payload: string,
  { at, requestId }: { at: number; requestId: string },
): void {
  if (kind === "sent") {
    const row = sent.begin(outgoing(requestId, { toDid: did, origin: "person", payload }), at);
    sent.settle(row, { state: "delivered" }, at);
    return;
  }
  store(inbox, requestId, { from: did, payload }, at);
  const [message] = inbox.list({ unread: true, newest: true, limit: 1 }).messages;
  inbox.markRead([message?.seq ?? 0], at);
}

const textOf = (text: string) => JSON.stringify({ message: text });

async function conversation(world: World, machine: Machine) {
  const [beta, gamma] = [await pairAlpha(world, machine, "beta"), await pairAlpha(world, machine, "gamma")];
  const connector = await connectorOfAlpha(world, machine);
  let n = 0;
  const say = (peer: TestAgent, kind: "received" | "sent", text: string, ago: number) =>
    written(connector, peer, kind, textOf(text), { at: world.clock.now() - ago, requestId: `request-${n++}` });
  say(beta, "sent", "Which PORT does it use?", 3 * DAY_MS);
  say(beta, "received", "8443. It moves on Friday.", 3 * DAY_MS - 60_000);
  say(gamma, "received", "hello\nfrom gamma", DAY_MS);
  say(beta, "sent", 'Straße "ü" port', 60_000);
  return { beta, gamma, connector, say };
}

Deno.test("svc log prints both directions in order, of all peers or one, by time and by text", async () => {
  await using machine = await machineWithAlpha();
  const { connector } = await conversation(machine.world, machine);
  await using _ = connector;
  const texts = async (...argv: string[]) =>
    (await machine.json("log", ...argv)).messages.map(({ text }: { text: string }) => text);
  const [first, second, third, last] = await texts();
  assertEquals([first, second, third, last], [
    "Which PORT does it use?",
    "8443. It moves on Friday.",
    "hello\nfrom gamma",
    'Straße "ü" port',
  ]);
  assertEquals(await texts("beta"), [first, second, last]);
  assertEquals(await texts("--since", "2d"), [third, last]);
  assertEquals(await texts("beta", "--limit", "1"), [last]);
  for (
    const [search, found] of [["port", [first, last]], ["STRASSE", []], ['"Ü"', [last]], ["lo\nfr", [third]]] as const
  ) {
    assertEquals(await texts("--search", search), found, search);
  }
  assertEquals((await machine.json("log", "--limit", "2")).more, true);
  const { stdout } = await machine.svc("log");
  const lines = stdout.trimEnd().split("\n").filter((line) => !/^\w{3} \w{3} \d\d \d{4}$/.test(line));
  assertEquals(lines.map((line) => line.replace(/^\d\d:\d\d {2}(.*?) +\d+$/, "$1")), [
    "You to beta",
    "     │ Which PORT does it use?",
    "beta of Bob asks (readable by the server)",
    "     │ 8443. It moves on Friday.",
    "gamma of Bob asks (readable by the server)",
    "     │ hello",
    "     │ from gamma",
    "You to beta",
    '     │ Straße "ü" port',
  ]);
});

Deno.test("svc log --export prints every message whole, oldest first, and their number", async () => {
  await using machine = await machineWithAlpha();
  const { beta, connector } = await conversation(machine.world, machine);
  await using _ = connector;
  for (let n = 0; n < 210; n++) {
    const at = machine.world.clock.now() + n;
    written(connector, beta, n % 2 === 0 ? "sent" : "received", textOf(`${n}`), { at, requestId: `later-no-${n}` });
  }
  const exported = await machine.svc("log", "beta", "--export");
  assertEquals(exported.stderr, "");
  const lines = exported.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals(lines.at(-1), { count: 213 });
  assertEquals(lines.slice(3, -1).map(({ payload }) => payload.message), Array.from({ length: 210 }, (_, n) => `${n}`));
  assertEquals([lines[0].kind, lines[1].kind, lines[1].from.alias], ["sent", "received", "beta"]);
});

Deno.test("svc log --forget asks, and blanks the texts of a peer, but none that is unread or on its way", async () => {
  await using machine = await machineWithAlpha();
  const { beta, connector } = await conversation(machine.world, machine);
  await using _ = connector;
  const { received, sent } = connector.connector.store;
  const { did } = beta.agent, now = machine.world.clock.now();
  store(received, "request-unread", { from: did, payload: textOf("unread") }, now);
  sent.begin(outgoing("request-open", { toDid: did, origin: "person", payload: textOf("on its way") }), now);
  assertEquals((await machine.failure("log", "beta", "--forget")).exit, 2);
  machine.answers = false;
  assertEquals((await machine.svc("log", "beta", "--forget")).code, 1);
  machine.answers = true;
  assertEquals((await machine.svc("log", "beta", "--forget")).stdout, "3 texts are blanked.\n");
  const left = (await machine.json("log")).messages.map(({ text }: Json) => text);
  assertEquals(left.sort(), ["hello\nfrom gamma", "on its way", "unread"]);
  for (const words of [["--limit", "2"], ["--since", "2d"], ["--export"]]) {
    assertEquals((await machine.failure("log", "--forget", "--yes", ...words)).exit, 2);
  }
});

Deno.test("svc sent shows the text, and svc inbox with a number the whole message", async () => {
  await using machine = await machineWithAlpha();
  const { connector, say, beta } = await conversation(machine.world, machine);
  await using _ = connector;
  say(beta, "sent", "x".repeat(5_000), 0);
  const { messages: [newest, second] } = await machine.json("sent");
  assertEquals([newest.text, second.text], ["x".repeat(200), 'Straße "ü" port']);
  const all = await machine.svc("sent");
  assertStringIncludes(all.stdout, "Which PORT does it use?");
  assertEquals(all.stderr, "");
  const part = await machine.svc("sent", "--limit", "1");
  assertEquals(part.stderr, "There are older messages; --limit shows more of them.\n");
  for (let i = 0; i < 200; i++) say(beta, "sent", "again", 0);
  const most = await machine.svc("sent", "--limit", "200");
  assertEquals(most.stderr, "There are older messages; svc log --export --agent alpha prints all.\n");
  await machine.json("agent", "create", "second");
  const [, command = ""] = /svc (.*) prints all/.exec(most.stderr) ?? [];
  assertEquals((await machine.svc(...command.split(" "))).stdout.split("\n").length, 207);
  machine.env.SVC_AGENT = "alpha";
  const { stdout } = await machine.svc("inbox", "2");
  assertStringIncludes(stdout, "    from gamma\n");
  assertEquals((await machine.json("inbox", "2")).text, "hello\nfrom gamma");
  assertEquals((await machine.failure("inbox", "99")).code, "CONNECTOR_MESSAGE_UNKNOWN");
  assertEquals((await machine.failure("inbox", "2", "--read")).exit, 2);
});

Deno.test("texts are kept as many days as historyDays of profile.json says", async (t) => {
  for (
    const [profile, days] of [[null, 7], ['{"version":1,"historyDays":30,"ca":null}', 30]] as const
  ) {
    await t.step(`${days} days of ${profile}`, async () => {
      await using machine = await machineWithAlpha();
      if (profile !== null) await Deno.writeTextFile(machine.path("profile.json"), profile, { mode: 0o600 });
      const { connector } = await conversation(machine.world, machine);
      await using _ = connector;
      const { store } = connector.connector;
      const left = async () => (await machine.json("log")).messages.length;
      store.deleteExpired(machine.world.clock.now() + (days - 3) * DAY_MS);
      assertEquals(await left(), 4);
      store.deleteExpired(machine.world.clock.now() + days * DAY_MS - 120_000);
      assertEquals(await left(), 1);
      store.deleteExpired(machine.world.clock.now() + days * DAY_MS);
      assertEquals(await left(), 0);
    });
  }
  await using machine = await machineWithAlpha();
  for (const text of ["{", '{"version":1,"historyDays":366}', '{"version":1,"historyDays":-1}', '{"version":2}']) {
    await Deno.writeTextFile(machine.path("profile.json"), text, { mode: 0o600 });
    assertEquals((await machine.failure("log")).code, "CLI_FILE_INVALID", text);
  }
});

Deno.test("pages of any size, in both directions, give each message once and in order", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world, { platform: "inbox" });
  const steps = fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 3 })), { maxLength: 12 });
  let n = 0, at = world.clock.now();
  const times: number[] = [];
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 5 }), async (said, limit) => {
      for (const [isSent, later] of said) {
        times.push(at += later);
        written(bench, a, isSent ? "sent" : "received", textOf(`${n}`), { at, requestId: `request-${n++}` });
      }
      const { history } = bench.connector.store;
      const walk = async (direction: "before" | "after") => {
        const seen: string[] = [];
        const isForward = direction === "after";
        let from = isForward ? { received: 0, sent: 0 } : { received: 1e9, sent: 1e9 };
        while (true) {
          const { messages, next } = await history.log({ from, isForward, limit });
          assert(messages.length <= limit);
          seen.push(...messages.map((one) => one.kind === "sent" ? one.payload : one.message.payload));
          if (next === null) return seen;
          from = next;
        }
      };
      const forwards = await walk("after");
      assertEquals([forwards.length, new Set(forwards).size], [n, n]);
      assertEquals((await walk("before")).toSorted(), forwards.toSorted());
      const shown = forwards.map((payload) => times[JSON.parse(payload).message]);
      assertEquals(shown, times);
    }),
    { seed: 1, numRuns: 20 },
  );
});

Deno.test("a search looks through a bounded number of messages, and its next page goes on", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world, { platform: "inbox" });
  const now = world.clock.now();
  bench.database.run(
    `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 100399)
     INSERT INTO sent (toDid, requestId, auto, origin, bytes, sentAt, state, stateAt, payload)
     SELECT ?, 'request-' || i, 0, 'person', 20, ? + i, 'delivered', ? + i,
       json_object('message', CASE WHEN i = 10 THEN 'the needle' ELSE 'hay ' || i END) FROM n`,
    ...[a.agent.did, now, now],
  );
  const ask = asker(bench);
  const first = (await ask("/v1/log?search=NEEDLE")).body;
  assertEquals([first.messages.length, typeof first.next], [0, "string"]);
  const second = (await ask(`/v1/log?search=NEEDLE&before=${first.next}`)).body;
  assertEquals([second.messages.map(({ text }: Json) => text), second.next], [["the needle"], null]);
  assertEquals((await ask("/v1/log/forget", post({}))).body, { forgotten: 100_400 });
});
