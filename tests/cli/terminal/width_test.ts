/** What every command prints in the width of a terminal: no line wider, and no word cut that fits. */
import fc from "fast-check";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { allCommands } from "../../../cli/commands/table.ts";
import { continued, layOut, textColumns, wrapSentence } from "../../../cli/terminal/text_width.ts";
import { idCell, idEnd, tableLines } from "../../../cli/terminal/tables.ts";
import { whenText } from "../../../cli/terminal/times.ts";
import { REGISTRY_URL } from "../../support/world.ts";
import { connectorOfAlpha, machineWithAlpha, pairAlpha } from "../connector/local_machine.ts";
import { proven } from "../connector/store/disk.ts";
import { bootstrapped, Machine } from "../cli_world.ts";
import { everyCommand, everyList } from "../every_command.ts";

const COMMANDS = await allCommands();

const WIDTHS = [80, 40];
/** What a person copies: the terminal wraps it. */
const COPIED = /svc_[a-z]+_|svcpair1_|https?:/;

const LONG_WORD = "a".repeat(60);
const LONG_NAME = "Maximiliane Featherstonehaugh-Cholmondeley von und zu Hohenstein";

/** Asserts that a text keeps to the width, and that each word of its wide form that fits into a line is there whole. */
function assertFits(text: string, columns: number, what: string, wide: string): void {
  const words = new Set(wide.split(/\s+/)), lines = text.split("\n");
  for (const [i, line] of lines.entries()) {
    const isCommand = line.endsWith("\\") || /^ {2,}\S+$/.test(line);
    assert(textColumns(line) <= columns || COPIED.test(line) || isCommand, `${what} in ${columns}: ${line}`);
    const [, indent = "", begin = ""] = /^( *)(\S*)/.exec(lines[i + 1] ?? "") ?? [],
      [end = ""] = /\S*$/.exec(line) ?? [];
    const isCut = end !== "" && begin !== "" && words.has(end + begin) && !words.has(end);
    // The last column stays free.
    assert(!isCut || indent.length + textColumns(end + begin) >= columns, `${what} in ${columns} cuts ${end + begin}`);
  }
}

/** The commands that were run at both widths. */
const tried = new Set<string>();
/** The exit codes of a command that ends by itself. */
const ANY_END = [0, 1, 2, 3, 4, 5, 6];

/** Commands that show one thing whole. */
const SHOWS = /^(whoami|agent inspect|admin (people|agents) show)/;

/** Runs a command at both widths. */
async function runAtWidths(machine: Machine, argv: readonly string[], codes: readonly number[] = [0]): Promise<string> {
  const names = COMMANDS.map(({ path }) => path.join(" ")).filter((name) =>
    `${argv.join(" ")} `.startsWith(`${name} `)
  );
  if (!argv.includes("--help")) tried.add(names.sort((a, b) => b.length - a.length)[0] ?? "");
  machine.isTerminal = true;
  let shown = "";
  machine.columns = 10_000;
  const wide = await machine.svc(...argv), last = (stderr: string) => stderr.split("\r\x1b[K").at(-1) ?? "";
  for (const columns of WIDTHS) {
    machine.columns = columns;
    const { code, stdout, stderr } = await machine.svc(...argv);
    assert(codes.includes(code), `${argv.join(" ")}: ${stderr}`);
    assertFits(stdout, columns, argv.join(" "), wide.stdout);
    assertFits(last(stderr), columns, argv.join(" "), last(wide.stderr));
    const hasId = /did:svc/.test(stdout + stderr) && !SHOWS.test(argv.join(" "));
    assert(!hasId, `${argv.join(" ")} prints a whole ID on a terminal: ${stdout}${stderr}`);
    shown ||= stdout;
  }
  machine.isTerminal = false;
  return shown;
}

Deno.test("the help of every command keeps to the width of the terminal", async () => {
  await using machine = await bootstrapped();
  machine.env.NO_COLOR = "1";
  for (const { path } of [{ path: [] }, { path: ["admin"] }, ...COMMANDS]) {
    await runAtWidths(machine, [...path, "--help"]);
  }
});

Deno.test("every list and every record keeps to the width, also with long names", async () => {
  await using machine = await bootstrapped();
  machine.env.NO_COLOR = "1";
  machine.env.HOME = machine.path("home");
  const words = ["alpha", LONG_WORD];
  for (const name of words) await machine.json("agent", "create", name);
  const names = [LONG_NAME, LONG_WORD, "漢字".repeat(20)];
  for (const [n, name] of names.entries()) {
    await machine.json("api-key", "create", "--name", name);
    const { invite } = await machine.json("invite", "create");
    const words = ["--display-name", name, "--config-dir", machine.path(`other-${n}`)];
    await machine.json("invite", "redeem", invite.code, ...words);
  }
  await machine.json("admin", "service", "create", "s".repeat(60));
  for (const argv of everyList(LONG_WORD)) await runAtWidths(machine, argv, [0, 1, 3, 4, 5]);
  assert(!(await runAtWidths(machine, ["status"], ANY_END)).includes("did:svc"), "a whole ID on a terminal");
  const people = await runAtWidths(machine, ["admin", "people", "list"]);
  assertStringIncludes(people, "Maximiliane");
  machine.isTerminal = true;
  const { stdout } = await machine.svc("admin", "people", "list", "--wide");
  machine.isTerminal = false;
  assertEquals(stdout, (await machine.svc("admin", "people", "list")).stdout);
  assertStringIncludes(stdout, LONG_NAME);
});

Deno.test("sent messages, the inbox and peers keep to the width", async () => {
  await using machine = await machineWithAlpha();
  machine.env.NO_COLOR = "1";
  await pairAlpha(machine.world, machine, LONG_WORD);
  await machine.json("peers");
  await runAtWidths(machine, ["peers"]);
  await runAtWidths(machine, ["send", `contact-${LONG_WORD}`, LONG_NAME], [0, 1, 4, 5]);
  await using running = await connectorOfAlpha(machine.world, machine);
  const { alias, agentDid } = (await machine.json("peers")).peers[0];
  const identity = { agentDid, ownerDid: agentDid, issuer: REGISTRY_URL, aitJti: "x", name: LONG_WORD };
  const frame = { fromAgentDid: agentDid, toAgentDid: agentDid, requestId: "request-0001", identity, ...proven() };
  const payload = JSON.stringify({ message: `${LONG_NAME} ${"漢字".repeat(60)}\n${LONG_WORD.repeat(3)}` });
  running.connector.store.received.take([{ ...frame, payload }], machine.world.clock.now());
  const commands = [
    ["log"],
    ["log", alias],
    ["inbox"],
    ["inbox", "1"],
    ["sent"],
    ["dead-letters"],
    ["peers", "block", alias],
    ["peers", "unblock", alias],
    ["peers", "rename", alias, "b".repeat(23)],
    ["connector", "status", "alpha"],
    ["connector", "start", "alpha"],
    ["provider", "status"],
    ["status"],
  ];
  for (const argv of commands) await runAtWidths(machine, argv, [0, 1, 4]);
  await using admin = await Machine.ofAdmin(machine.world);
  admin.env.NO_COLOR = "1";
  const refused = await machine.world.agent(await machine.world.person(LONG_NAME), LONG_WORD);
  await (await machine.world.message(refused, refused)).body?.cancel();
  assertStringIncludes(await runAtWidths(admin, ["admin", "overview"]), "Refused since");
});

Deno.test("every other command keeps to the width, also where it fails", async () => {
  await using machine = await bootstrapped();
  Object.assign(machine.env, { NO_COLOR: "1", HOME: machine.path("home"), PATH: "" });
  await machine.json("agent", "create", LONG_WORD);
  await machine.json("agent", "create", "alpha");
  const { internalService: { id } } = await machine.json("admin", "service", "create", "extra");
  machine.write("pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const names = { agent: LONG_WORD, service: id, humanName: LONG_NAME, path: (file: string) => machine.path(file) };
  for (const argv of everyCommand(names)) await runAtWidths(machine, argv, ANY_END);
});

Deno.test("each command was tried, but the script that a shell reads", () => {
  const names = COMMANDS.map(({ path }) => path.join(" "));
  assertEquals(names.filter((name) => !tried.has(name)), ["completions"]);
});

Deno.test("a command accepts the end of an ID that a table shows, when one ID ends so", async () => {
  await using machine = await bootstrapped();
  const { apiKey } = await machine.json("api-key", "create", "--name", "ci");
  const { invite } = await machine.json("invite", "create");
  const { internalService: { id } } = await machine.json("admin", "service", "create", "extra");
  const short = (id: string) => `…${id.slice(-6)}`;
  assertEquals((await machine.json("api-key", "revoke", short(apiKey.id))).id, apiKey.id);
  assertEquals((await machine.json("invite", "revoke", invite.id.slice(-6))).id, invite.id);
  assertEquals((await machine.json("admin", "service", "revoke", short(id))).id, id);
  const next = "Run svc invite list to see them, or give a whole ID.";
  const refusal = (id: string) => machine.refuses(["invite", "revoke", id], 2, "CLI_USAGE");
  assertEquals(await refusal("ZZZZZZ"), `No invite ends in ZZZZZZ. ${next}`);
  assertEquals(await refusal("nonsense"), `"nonsense" is not an invite ID or the end of one. ${next}`);
  const { human } = await machine.json("whoami");
  assertEquals((await machine.json("admin", "people", "show", short(human.id))).person.id, human.id);
});

Deno.test("a table leaves out what matters least, and wraps cells at words", () => {
  const columns = [
    { head: "NAME", of: ({ name }: { name: string }) => name },
    { head: "STATE", rank: 1, of: () => "waits at the server" },
    { head: "ID", rank: 2, of: () => idCell("01KHYQ5H00AAAAAAAAAABCDEFG") },
    { head: "DID", isWide: true as const, of: () => "did:svc:x" },
  ];
  assertEquals(tableLines(columns, [{ name: "beta" }], 40), [
    "NAME  STATE                ID",
    "beta  waits at the server  …BCDEFG",
  ]);
  assertEquals(tableLines(columns, [{ name: "beta" }], 14), [
    "NAME  STATE",
    "beta  waits at",
    "      the",
    "      server",
  ]);
  assertEquals(
    tableLines(columns, [{ name: "beta" }], null)[1],
    "beta  waits at the server  01KHYQ5H00AAAAAAAAAABCDEFG  did:svc:x",
  );
  assertEquals([idEnd("…ABCDEF"), idEnd("ABCDEF"), idEnd("ABCDE"), idEnd("a b c ")], ["ABCDEF", "ABCDEF", null, null]);
  const text = fc.string({ unit: "grapheme", maxLength: 40 });
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 5 }), fc.integer({ min: 20, max: 80 }), (names, width) => {
      for (const line of tableLines(columns, names.map((name) => ({ name })), width)) {
        assert(textColumns(line) <= width, JSON.stringify([line, width]));
      }
    }),
    { seed: 1, numRuns: 1_000 },
  );
});

Deno.test("a long name stands alone on its line, and hides no column of the other rows", () => {
  const long = "n".repeat(64), owner = "o".repeat(60);
  const table = (width: number) =>
    tableLines(
      [
        { head: "NAME", of: ([name = ""]) => name },
        { head: "OWNER", rank: 1, of: ([, owner = ""]) => owner },
        { head: "STATE", rank: 1, of: () => "active" },
        { head: "SEEN", rank: 2, of: () => "2 min ago" },
      ],
      [["beta", "Bob"], [long, owner], [long, "Ada"]],
      width,
    );
  assertEquals(table(79), [
    "NAME  OWNER  STATE   SEEN",
    "beta  Bob    active  2 min ago",
    long,
    `      ${owner}`,
    "             active  2 min ago",
    long,
    "      Ada    active  2 min ago",
  ]);
  assertEquals(table(200)[3], `${long}  ${"Ada".padEnd(60)}  active  2 min ago`);
  const texts = [
    { head: "TO", of: ([name = ""]) => name },
    { head: "STATE", rank: 1, of: () => "delivered" },
    { head: "TEXT", rank: 3, cut: 10, of: ([, text = ""]) => text },
  ];
  // A text that is cut never stands alone, so it gets the room that is left.
  assertEquals(tableLines(texts, [["beta", "hi"], [long, owner]], 79).slice(1), [
    "beta  delivered  hi",
    long,
    `      delivered  ${owner}`,
  ]);
});

Deno.test("ages and states stay on one line beside a long name, and the text that is cut gives way", () => {
  const table = (name: string, state: string, width: number, ...others: string[]) =>
    tableLines(
      [
        { head: "SENT", rank: 2, of: () => "1 min ago" },
        { head: "TO", of: () => name },
        { head: "STATE", rank: 1, of: (row) => row },
        { head: "TEXT", rank: 3, cut: 10, of: () => "Which ports?" },
      ],
      [state, ...others],
      width,
    );
  const long = "a".repeat(32);
  assertEquals(table(long, "arrived", 64)[1], `1 min ago  ${long}  arrived  Which por…`);
  assertEquals(table(long, "waits at the server", 64)[1], `1 min ago  ${long}  waits at the server`);
  assertEquals(table(long, "waits at the server", 60)[1], `${long}  waits at the server`);
  assertEquals(table(long, "waits at the server", 50).slice(1), [`${long}  waits at the`, `${" ".repeat(34)}server`]);
  assertEquals(table(long, "waits at the server", 60, "unclear, it waited at the server").slice(1), [
    `${long}  waits at the server`,
    `${long}  unclear, it waited at the`,
    `${" ".repeat(34)}server`,
  ]);
  assertEquals(table("beta", "not sent: the server cannot be reached", 45).slice(1), [
    "1 min ago  beta  not sent: the     Which por…",
    "                 server cannot be",
    "                 reached",
  ]);
});

Deno.test("a line of svc keeps its text behind the label, and what is copied stays whole", () => {
  assertEquals(layOut("  label  one two three", 18), ["  label  one two", "         three"]);
  assertEquals(layOut("  a long label that is wide  value", 24), ["  a long label that is", "  wide", "      value"]);
  assertEquals(layOut("one two three", 7), ["one two", "three"]);
  assertEquals(layOut(`  code  svc_inv_${"x".repeat(40)}`, 30), ["  code", `svc_inv_${"x".repeat(40)}`]);
  assertEquals(layOut("\x1b[1mbold words\x1b[0m here", 10), ["\x1b[1mbold words\x1b[0m", "here"]);
  const fix =
    "                      It has expired, and it is over: svc agent auth revoke alpha, then svc agent reissue alpha";
  const commands = ["svc agent auth revoke alpha, then", "svc agent reissue alpha"];
  assertEquals(layOut(fix, 60).slice(-2).map((text) => text.trim()), commands);
  const start = "svc --config-dir ada/my-config connector start alpha";
  assertEquals(layOut(" ".repeat(22) + start, 60), [" ".repeat(8) + start]);
  const line = fc.array(fc.string({ unit: "grapheme", maxLength: 30 }), { maxLength: 12 }).map((all) => all.join(" "));
  fc.assert(
    fc.property(line.filter((text) => !/[\n\r\t]/.test(text)), fc.integer({ min: 4, max: 80 }), (text, columns) => {
      const lines = layOut(text, columns);
      assertEquals(lines.join("").replace(/\s/g, ""), text.replace(/\s/g, ""));
      for (const line of lines) assert(textColumns(line) <= columns || COPIED.test(line), JSON.stringify([text, line]));
    }),
    { seed: 1, numRuns: 2_000 },
  );
  for (const word of ["word ", "svc "]) {
    assertEquals(layOut(word.repeat(40_000), 80).every((line) => textColumns(line) <= 80), true);
  }
});

Deno.test("a command in a sentence is in one line, also of another program, with quoted words and with a long folder", () => {
  const sentence = "A person reads here what to do, and then in a few words how it is done: ";
  for (
    const command of [
      "rm /srv/ada/.config/svc/profiles/work/profile.json",
      "chmod go-w '/srv/ada/a folder, with a comma/it'\\''s here'",
      "openclaw config set hooks.path /hooks",
      "sqlite3 /srv/ada/.config/svc/agents/alpha/connector.db .recover",
      `hermes config set platforms.webhook.enabled true && hermes webhook subscribe svc --secret "$(sed -n ` +
      `'s/^WEBHOOK_SECRET=//p' /srv/ada/.hermes/.env)" --prompt "A message from another agent: {message}"`,
      "svc --config-dir '/srv/ada/one, two' agent create alpha",
      `svc --config-dir /srv/${"ada".repeat(20)} --profile work connector start alpha`,
    ]
  ) {
    for (const text of [sentence + command, `  ${sentence}${command}`]) {
      const found = layOut(text, 79).filter((line) => line.endsWith(command));
      assertEquals(found.length, 1, layOut(text, 79).join("\n"));
    }
  }
});

Deno.test("a sentence about an agent that is named like another program is broken at words", () => {
  const sentence = (name: string) =>
    `The connector of ${name} is not running and did not answer in the time that was given to it`;
  for (const columns of [40, 60]) {
    const lines = (name: string) => [...layOut(sentence(name), columns), ...wrapSentence(sentence(name), columns)];
    assertEquals(lines("hermes"), lines("athena").map((line) => line.replace("athena", "hermes")));
  }
});

Deno.test("a command in several lines is one command for a shell", async () => {
  const words = ["printf", "%s,", "one", "'two words'", "three", "--option", "x".repeat(50)];
  const lines = continued(words, 30);
  for (const line of lines) assert(textColumns(line) <= 30 || line.includes("xxx"), line);
  const { stdout } = await new Deno.Command("sh", { args: ["-c", lines.join("\n")] }).output();
  assertEquals(new TextDecoder().decode(stdout), `one,two words,three,--option,${"x".repeat(50)},`);
});

Deno.test("times are as a person says them", () => {
  const now = new Date(2026, 10, 25, 16, 0).getTime(), night = new Date(2026, 10, 25, 0, 5).getTime();
  const rows: [at: number, said: string, now?: number][] = [
    [now - 59_000, "now"],
    [now - 120_000, "2 min ago"],
    [new Date(2026, 10, 25, 13, 0).getTime(), "3 h ago"],
    [new Date(2026, 10, 24, 14, 2).getTime(), "yesterday 14:02"],
    [new Date(2026, 10, 23, 14, 2).getTime(), "Mon 14:02"],
    [new Date(2026, 10, 10, 14, 2).getTime(), "10 Nov 14:02"],
    [new Date(2025, 10, 21, 14, 2).getTime(), "21 Nov 2025"],
    [now + 240_000, "in 4 min"],
    [now + 30 * 86_400_000 - 5_000, "in 30 d"],
    [now + 86_400_000 - 5_000, "in 1 d"],
    [new Date(2027, 10, 21, 14, 2).getTime(), "21 Nov 2027"],
    [night - 600_000, "10 min ago", night],
  ];
  for (const [at, said, since = now] of rows) assertEquals(whenText(at, since), said);
});
