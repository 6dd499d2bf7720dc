/** The output for people and scripts: streams, colours, progress, JSON. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { BUSY } from "../../../shared/client/local_shapes.ts";
import { TASK_CODES } from "../../../cli/platforms/platform.ts";
import { LIBRARY_ERRORS } from "../../../cli/commands/explain.ts";
import { CLI_ERRORS, fixOf } from "../../../cli/errors.ts";
import { allCommands } from "../../../cli/commands/table.ts";
import { AUTHENTICATORS as PROXY_AUTHENTICATORS, PROXY_ROUTES } from "../../../proxy/routes.ts";
import { AUTHENTICATORS as REGISTRY_AUTHENTICATORS } from "../../../registry/auth.ts";
import { REGISTRY_ROUTES } from "../../../registry/routes.ts";
import { ERRORS } from "../../../shared/protocol/errors.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { type Authenticators, errorsOf, type Route } from "../../../shared/server/http/route.ts";
import { linesOf, printable } from "../../../cli/terminal/escapes.ts";
import { fields, Output, type OutputOptions, shellWord } from "../../../cli/terminal/output.ts";
import { table, tableLines } from "../../../cli/terminal/tables.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { recordedTerminal } from "../../support/recorded_terminal.ts";
import { until, untilLater } from "../../support/until.ts";
import { bootstrapped, Machine } from "../cli_world.ts";
import { holdConnectorLock } from "../connector/held_lock.ts";

const COMMANDS = await allCommands();

const CONNECTOR = "Waiting for the connector of here";
const SECRET = /svc_(?:pat|agt|rft|srv|inv)_[A-Za-z0-9_-]{8,}/g;

function screen(isTerminal: boolean, options: OutputOptions = { json: false, colour: true }) {
  const { terminal, seen } = recordedTerminal(isTerminal), clock = new ManualClock();
  const out = new Output(terminal, clock, options);
  return { out, seen, clock };
}

/** Writes the discovery file of a connector in this process. */
function writeConnector(machine: Machine): void {
  const connector = { url: "http://127.0.0.1:9", port: 9, token: "t".repeat(43), pid: Deno.pid };
  const { did } = JSON.parse(machine.read("agents/here/identity.json"));
  const startedAt = toIso(machine.world.clock.now());
  machine.write("agents/here/connector.json", JSON.stringify({ ...connector, agentDid: did, startedAt }));
}

Deno.test("colours appear on a terminal only, and not with NO_COLOR or --json", async () => {
  assertEquals(screen(true).out.bold("x"), "\x1b[1mx\x1b[0m");
  assertEquals(screen(true, { json: true, colour: true }).out.green("x"), "x");
  await using machine = await Machine.open(undefined, { isTerminal: true });
  const colourful = await machine.svc("explain", "PROXY_AUTH_REPLAY");
  assertStringIncludes(colourful.stdout, "\x1b[1m");
  machine.env.NO_COLOR = "1";
  assert(!(await machine.svc("explain", "PROXY_AUTH_REPLAY")).stdout.includes("\x1b"));
  delete machine.env.NO_COLOR;
  machine.isTerminal = false;
  assert(!(await machine.svc("explain", "PROXY_AUTH_REPLAY")).stdout.includes("\x1b"));
  assert(!(await machine.svc("explain", "NONSENSE")).stderr.includes("\x1b"));
});

Deno.test("a command at the end of an error has no full stop behind it, because a paste of that would fail", () => {
  const error = { code: "CLI_BUSY", cause: "it runs already", fix: "To see it: svc connector status alpha" };
  const texts = [true, false].map((json) => {
    const { out, seen } = screen(false, { json, colour: false });
    out.error({ ...error, exit: 1, requestId: null });
    return seen.stderr;
  });
  for (const text of texts) assert(/svc connector status alpha["\n]/.test(text), text);
});

Deno.test("progress appears after half a second on a terminal only and is removed at the end", async () => {
  const { out, seen, clock } = screen(true);
  out.doing("Asking");
  await clock.advance(499);
  assertEquals(seen.stderr, "");
  await clock.advance(1);
  assertEquals(seen.stderr, "\r\x1b[KAsking …");
  await clock.advance(2_000);
  assertStringIncludes(seen.stderr, "Asking … 2 s");
  out.result({}, "done");
  assert(seen.stderr.endsWith("\r\x1b[K"));
  assertEquals([seen.stdout, clock.waiting], ["done\n", 0]);
  for (const other of [screen(false), screen(true, { json: true, colour: true })]) {
    other.out.doing("Asking");
    await other.clock.advance(5_000);
    assertEquals([other.seen.stderr, other.clock.waiting], ["", 0]);
  }
});

Deno.test("a slow command shows progress and clears it, also when it fails", async (t) => {
  await using machine = await Machine.ofPerson(undefined, { isTerminal: true });
  await machine.svc("agent", "create", "here");
  machine.env.SVC_BOOTSTRAP_SECRET = "secret";
  const commands: [string[], shown: string][] = [
    [["agent", "create", "alpha"], "Registering alpha"],
    [["agent", "list"], "Calling"],
    [["agent", "inspect", "here"], "Fetching the registry's keys"],
    [["agent", "reissue", "here"], "Reissuing the token of here"],
    [["agent", "auth", "refresh", "here"], "Refreshing the session of here"],
    [["agent", "auth", "revoke", "here"], "Calling"],
    [["agent", "delete", "here", "--yes"], "Revoking here"],
    [["api-key", "create", "--name", "ci"], "Calling"],
    [["api-key", "list"], "Calling"],
    [["api-key", "revoke", "01KHYQ5H00AAAAAAAAAAAAAAAA"], "Calling"],
    [["invite", "create"], "Calling"],
    [["invite", "redeem", "svc_inv_x"], "Redeeming the invite"],
    [["config", "init"], "Asking"],
    [["admin", "bootstrap"], "Creating the first admin"],
    [["admin", "service", "list"], "Calling"],
    [["admin", "keys", "rotate"], "Calling"],
    [["admin", "overview"], "Calling"],
    [["provider", "doctor"], "Checking here"],
    [["verify", machine.read("agents/here/ait.jwt").trim()], "Fetching the registry's keys"],
    [["send", "beta", "hi", "--agent", "here"], CONNECTOR],
    [["peers", "--agent", "here"], CONNECTOR],
    [["connector", "open", "here"], CONNECTOR],
  ];
  writeConnector(machine);
  for (const [argv, shown] of commands) {
    await t.step(argv.join(" ").slice(0, 60), async () => {
      using _ = shown === CONNECTOR ? await holdConnectorLock(machine.path("agents/here")) : null;
      const answers: ((response: Response) => void)[] = [];
      machine.fetch = () => new Promise((resolve) => answers.push(resolve));
      const running = machine.svc(...argv);
      await until(() => answers.length > 0);
      await machine.world.clock.advance(1_600);
      machine.fetch = () => Promise.resolve(new Response("no", { status: 500 }));
      for (const answer of answers) answer(new Response("no", { status: 500 }));
      const { stderr } = await running;
      assert(new RegExp(`${shown}.* … [1-9] s\r\x1b\\[K`).test(stderr), stderr);
      assertEquals(machine.world.clock.waiting, 0);
    });
  }
});

Deno.test("a command shows that it waits for a connector that does not answer, and names its process", async (t) => {
  await using machine = await Machine.ofPerson(undefined, { isTerminal: true });
  await machine.svc("agent", "create", "here");
  writeConnector(machine);
  using _ = await holdConnectorLock(machine.path("agents/here"));
  machine.fetch = (_, init) =>
    new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject("late")));
  for (const argv of [["inbox"], ["sent"], ["send", "beta", "hi"], ["reply", "1", "hi"]]) {
    await t.step(argv.join(" "), async () => {
      let isOver = false;
      const running = machine.svc(...argv, "--agent", "here").finally(() => isOver = true);
      await untilLater(machine.world.clock, () => isOver, 500);
      const { code, stderr } = await running;
      assert(new RegExp(`${CONNECTOR}.* … [1-9] s\r`).test(stderr), stderr);
      assertStringIncludes(stderr, `Stop process ${Deno.pid}, then run svc connector start here.`);
      assertEquals(code, 5);
    });
  }
});

Deno.test("an error is a sentence; a name or an address at its beginning stays unchanged", () => {
  const rows = [
    ["no server answers", "No server answers."],
    ["http://127.0.0.1:1 is gone", "http://127.0.0.1:1 is gone."],
    ["registryUrl is empty", "registryUrl is empty."],
    ["/a/b is a link", "/a/b is a link."],
    ["file.json is over 1 byte", "file.json is over 1 byte."],
    ["beta is a contact", "beta is a contact."],
    ["the user of its folder: chown x '/a/b'*", "The user of its folder: chown x '/a/b'*"],
  ] as const;
  for (const [cause, sentence] of rows) {
    const { out, seen } = screen(false);
    out.error({ code: "CLI_USAGE", fix: "", exit: 2, requestId: null, cause });
    assertEquals(seen.stderr.split("\n")[0], `error: CLI_USAGE: ${sentence}`);
  }
});

/** Characters that control a terminal, change the direction of text or end a line. */
const STEERING = [
  ...Array.from({ length: 0x20 }, (_, i) => i),
  ...Array.from({ length: 0x21 }, (_, i) => 0x7f + i),
  ...[0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069],
].map((code) => String.fromCharCode(code));
const HOSTILE = `\x1b[31mred\x1b[0m\x1b]0;title\x07\r\n${STEERING.join("")}`;

/** True for a text without control characters except those of svc itself. */
function isHarmless(text: string): boolean {
  // deno-lint-ignore no-control-regex
  const own = text.replaceAll(/\x1b\[(?:0|1|2|31|32|33|31;1)m|\r\x1b\[K/g, "");
  return !STEERING.some((char) => char !== "\n" && own.includes(char));
}

Deno.test("texts of other parties are escaped in fields and tables", () => {
  assertEquals(printable("a\x1b[2Jb\u202ec\x07d\u009be\r\n"), "a\\u001b[2Jb\\u{202e}c\\u0007d\\u009be\\u000d\\u000a");
  assertEquals(fields([["name", "x\x1b]0;evil\x07"]]), ["  name  x\\u001b]0;evil\\u0007"]);
  assertEquals(table(["A", "B"], [["1\x1b[0m", null]]), ["A           B", "1\\u001b[0m  –"]);
});

Deno.test("every way to print escapes control characters and keeps the colours of svc itself", async () => {
  const fields = { cause: HOSTILE, fix: HOSTILE, exit: 1, requestId: HOSTILE };
  const ways: ((out: Output) => void)[] = [
    (out) => out.result({}, HOSTILE),
    (out) => out.result({}, [HOSTILE, `${out.bold(`${out.green("pass")} ${HOSTILE}`)} ${out.red(HOSTILE)} ${HOSTILE}`]),
    (out) => out.note(HOSTILE),
    (out) => out.warn(HOSTILE),
    (out) => out.error({ code: HOSTILE, ...fields }),
    (out) => out.doing(HOSTILE),
  ];
  for (const way of ways) {
    const { out, seen, clock } = screen(true);
    way(out);
    await clock.advance(1_000);
    out.finish();
    assert(isHarmless(seen.stdout + seen.stderr), JSON.stringify(seen));
    assertStringIncludes(seen.stdout + seen.stderr, "\\u001b[31mred\\u001b[0m");
  }
  const { out, seen } = screen(true);
  out.result({}, [`${out.green("pass")} ${out.bold("x")}`]);
  assertEquals(seen.stdout, "\x1b[32mpass\x1b[0m \x1b[1mx\x1b[0m\n");
});

Deno.test("the text of a peer keeps its lines and tabs, and no other control character", () => {
  const { out, seen } = screen(true);
  assertEquals(out.peerLines(linesOf(`a\r\n\tb\rc\n${HOSTILE}`)), true);
  assert(isHarmless(seen.stdout.replaceAll("\t", "")), JSON.stringify(seen.stdout));
  assertEquals(seen.stdout.split("\n").slice(0, 2), ["a", "\tb\\u000dc"]);
});

Deno.test("a peer's JSON is printed on one line, with the same value and no control character", () => {
  const { out, seen } = screen(false, { json: true, colour: false });
  // JSON strings hold no raw C0 character.
  const strings = STEERING.filter((char) => char > "\u001f").join("");
  const json = `{\r\n\t"number": 12345678901234567890 ,"text":"${strings}\\u001b" }\n`;
  out.jsonLine(json);
  out.warn("late");
  out.jsonLine('{"a":{}}');
  const [first = "", second = ""] = seen.stdout.split("\n");
  assert(isHarmless(seen.stdout));
  assertStringIncludes(first, '"number": 12345678901234567890 ');
  assertEquals(JSON.parse(first), JSON.parse(json));
  assertEquals(JSON.parse(second), { a: {}, warnings: ["late"] });
});

Deno.test("times in a text are short on a terminal, and whole in a pipe and with --wide", () => {
  const text = "connected since 2026-02-21T12:04:10.480Z (4 min ago)";
  assertMatch(screen(true).out.withTimes(text), /^connected since 2\d Feb \d\d:\d\d \(4 min ago\)$/);
  const wide = { json: false, colour: false, wide: true };
  assertEquals([screen(false).out, screen(true, wide).out].map((out) => out.withTimes(text)), [text, text]);
});

Deno.test("a warning with --json is shown once: in the next document, else on standard error at the end", () => {
  const { out, seen } = screen(false, { json: true, colour: false });
  out.warn("first");
  for (const id of [1, 2]) out.jsonLine(`{"id":${id}}`);
  out.warn(`late${HOSTILE}`);
  out.finish();
  const lines = seen.stdout.trim().split("\n").map((line) => JSON.parse(line));
  assertEquals(lines, [{ id: 1, warnings: ["first"] }, { id: 2 }]);
  assertEquals(JSON.parse(seen.stderr), { warnings: [`late${HOSTILE}`] });
  assert(isHarmless(seen.stderr));
});

Deno.test("JSON output has no control character, and parses to the same value", () => {
  const { out, seen } = screen(false, { json: true, colour: false });
  out.warn(HOSTILE);
  out.result({ text: HOSTILE }, "");
  out.error({ code: "X", cause: HOSTILE, fix: "", exit: 1, requestId: null });
  for (const text of [seen.stdout, seen.stderr]) assert(isHarmless(text), JSON.stringify(text));
  assertEquals(JSON.parse(seen.stdout), { text: HOSTILE, warnings: [HOSTILE] });
});

Deno.test("an invalid error code of a service is shown as UNKNOWN_ERROR with its message escaped", async (t) => {
  await using machine = await Machine.ofPerson(undefined, { isTerminal: true });
  for (const code of [HOSTILE, "lower", "", "A".repeat(65), "A B", "Ä", null, { a: 1 }]) {
    await t.step(JSON.stringify(code).slice(0, 30), async () => {
      machine.fetch = () => Promise.resolve(Response.json({ error: { code, message: HOSTILE } }, { status: 418 }));
      const { stdout, stderr } = await machine.svc("agent", "list");
      assertEquals(stdout, "");
      assertStringIncludes(stderr, "UNKNOWN_ERROR: \\u001b[31mred");
      assert(isHarmless(stderr), JSON.stringify(stderr));
      assertEquals((await machine.failure("agent", "list")).code, "UNKNOWN_ERROR");
    });
  }
  machine.changeAnswers(/^/, () => ({ error: { code: "A_NEW_CODE", message: "x" } }));
  assertEquals((await machine.failure("agent", "list")).code, "A_NEW_CODE");
});

Deno.test("no command prints a control character of a service's answer", async (t) => {
  await using machine = await Machine.ofAdmin(undefined, { isTerminal: true });
  await machine.svc("agent", "create", "here");
  const key =
    /^(?:name|displayName|code|token|framework|nextCursor|secret|id|kid|proxyUrl|status|createdAt|lastUsedAt)$/;
  machine.fetch = async (input, init) => {
    const response = await machine.world.fetch(input, init);
    const text = await response.text();
    const changed = text && JSON.stringify(JSON.parse(text, (name, value) => key.test(name) ? HOSTILE : value));
    return new Response(changed || null, {
      status: response.status,
      headers: { "x-request-id": response.headers.get("x-request-id") ?? "" },
    });
  };
  const commands = [
    ...[["agent", "list"], ["agent", "inspect", "here"], ["agent", "reissue", "here"], ["agent", "create", "there"]],
    ...[["agent", "auth", "refresh", "here"], ["agent", "auth", "revoke", "here"]],
    ["api-key", "create", "--name", "ci"],
    ...[["api-key", "list"], ["invite", "create"], ["config", "init"], ["admin", "service", "create", "proxy-eu"]],
    ...[["admin", "service", "list"], ["admin", "keys", "rotate"], ["agent", "delete", "here", "--yes"]],
    ...[["invite", "list"], ["admin", "audit"], ["status"]],
    ["verify", machine.read("agents/here/ait.jwt").trim()],
  ];
  for (const command of commands) {
    for (const argv of [command, ["--json", ...command]]) {
      await t.step(argv.slice(0, 4).join(" ").slice(0, 60), async () => {
        const { stdout, stderr } = await machine.svc(...argv);
        assert(stdout + stderr !== "" && isHarmless(stdout + stderr), JSON.stringify(stdout + stderr));
      });
    }
  }
});

Deno.test("standard output is one JSON document or empty, and standard error one error or empty, with --json", async () => {
  await using machine = await bootstrapped();
  // Until then the proxy is not ready, and svc status says so with its exit code.
  await machine.world.proxy.deps.crl.refresh();
  const { invite } = await machine.json("invite", "create");
  const unused = (await machine.json("invite", "create")).invite;
  const key = await machine.json("api-key", "create", "--name", "x");
  const service = await machine.json("admin", "service", "create", "extra");
  await machine.json("agent", "create", "alpha");
  await using second = await Machine.open(machine.world);
  const token = machine.read("agents/alpha/ait.jwt").trim();
  machine.world.clock.step(2_000);
  const lines: [Machine, string[], number][] = [
    [machine, ["--version"], 0],
    [machine, ["--help"], 0],
    [machine, ["agent", "--help"], 0],
    [machine, ["config", "init"], 0],
    [machine, ["config", "set", "humanName", "Ada"], 0],
    [machine, ["config", "get", "humanName"], 0],
    [machine, ["config", "show"], 0],
    [machine, ["profile", "list"], 0],
    [machine, ["profile", "show"], 0],
    [machine, ["profile", "set", "insecure", "http://registry.lan"], 0],
    [second, ["invite", "redeem", invite.code], 0],
    [machine, ["invite", "list"], 0],
    [machine, ["invite", "revoke", unused.id], 0],
    [machine, ["admin", "audit"], 0],
    [machine, ["admin", "people", "list"], 0],
    [machine, ["admin", "agents", "list"], 0],
    [machine, ["whoami"], 0],
    [machine, ["status"], 0],
    [machine, ["api-key", "list"], 0],
    [machine, ["api-key", "revoke", key.apiKey.id], 0],
    [machine, ["admin", "service", "list"], 0],
    [machine, ["admin", "service", "rotate", service.internalService.id], 0],
    [machine, ["admin", "service", "revoke", service.internalService.id], 0],
    [machine, ["admin", "keys", "rotate"], 0],
    [machine, ["agent", "list"], 0],
    [machine, ["agent", "inspect", "alpha"], 0],
    [machine, ["agent", "auth", "refresh", "alpha"], 0],
    [machine, ["agent", "auth", "revoke", "alpha"], 0],
    [machine, ["agent", "auth", "refresh", "alpha"], 3],
    [machine, ["agent", "reissue", "alpha"], 0],
    [machine, ["verify", token], 1],
    [machine, ["explain", "CRL_NOT_FOUND"], 0],
    [machine, ["completions", "bash"], 0],
    [machine, ["agent", "delete", "alpha", "--yes"], 0],
    [machine, ["nonsense"], 2],
    [machine, [], 0],
    [machine, ["agent"], 2],
    [machine, ["agent", "create"], 2],
    [machine, ["explain", "NONSENSE"], 4],
    [machine, ["config", "get", "nonsense"], 2],
    [machine, ["admin", "bootstrap"], 1],
  ];
  const seen = new Set<string>();
  for (const [at, argv, exit] of lines) {
    const { code, stdout, stderr } = await at.svc(...argv, "--json");
    assertEquals(code, exit, `${argv.join(" ")}: ${stderr}`);
    if (exit === 0 || stdout !== "") assertEquals(typeof JSON.parse(stdout), "object");
    if (exit === 0 || argv[0] === "verify") assertEquals(stderr, "");
    else assertEquals(Object.keys(JSON.parse(stderr).error), ["code", "message"]);
    const command = COMMANDS.find(({ path }) => path.every((word, i) => argv[i] === word));
    if (exit === 0 && command) seen.add(command.path.join(" "));
    const once = /^(?:invite redeem|admin service rotate)/.test(argv.join(" "));
    assertEquals((stdout + stderr).match(SECRET)?.length ?? 0, once ? 1 : 0, argv.join(" "));
  }
  const covered = [
    "admin bootstrap",
    "admin service create",
    "agent create",
    "api-key create",
    "invite create",
    "join",
    "receipt verify",
    "verify",
  ];
  // These have tests of their own: beside a running connector, as processes, with a person or a relay to administer.
  const elsewhere =
    /^(?:(?:connector|install|uninstall|provider|peers|dead-letters|send|reply|inbox|sent|log|mcp|hook|a2a|serve|demo|health|store)\b|admin (?:open|overview|issuers|relay|people (?:show|suspend|restore)|agents (?:show|revoke|end-session))\b)/;
  const here = COMMANDS.filter(({ path }) => !elsewhere.test(path.join(" ")));
  assertEquals([...seen, ...covered].sort(), here.map(({ path }) => path.join(" ")).sort());
});

Deno.test("text output shows a secret only in commands that issue one", async () => {
  await using machine = await bootstrapped();
  await machine.json("agent", "create", "alpha");
  machine.world.clock.step(2_000);
  const commands = [
    ["config", "show"],
    ["profile", "list"],
    ["profile", "show"],
    ["agent", "inspect", "alpha"],
    ["agent", "auth", "refresh", "alpha"],
    ["agent", "reissue", "alpha"],
    ["agent", "list"],
    ["api-key", "list"],
  ];
  for (const argv of commands) {
    const { stdout, stderr } = await machine.svc(...argv);
    assertEquals((stdout + stderr).match(SECRET), null, argv.join(" "));
  }
});

Deno.test("an error in text shows code, cause, fix, request and documentation", async () => {
  await using machine = await Machine.open(undefined, { env: { SVC_API_KEY: "svc_pat_wrong" } });
  const { code, stdout, stderr } = await machine.svc("api-key", "list");
  assertEquals([code, stdout], [3, ""]);
  assertStringIncludes(stderr, "API_KEY_INVALID: The API key does not exist.");
  assertStringIncludes(stderr, "svc config set apiKey -");
  assertStringIncludes(stderr, "as request ");
  assertStringIncludes(stderr, "More: svc explain API_KEY_INVALID");
  assert(!stderr.includes("svc_pat_wrong"));
});

Deno.test("svc explain shows the condition and the fix of every code", async () => {
  await using machine = await Machine.open();
  const tables = [ERRORS, CLI_ERRORS, LIBRARY_ERRORS].flatMap((table) => Object.entries(table));
  for (const [code, { when, fix }] of tables) {
    const { stdout } = await machine.svc("explain", code);
    // A code of a service has the advice that follows a failed command, which names a command where there is one.
    for (const part of [code, when, fixOf(code) || fix]) assertStringIncludes(stdout, printable(part));
  }
  assertEquals((await machine.json("explain", "agent_auth_refresh_invalid")).status, [400, 401]);
  for (const code of [BUSY, ...TASK_CODES]) {
    assertStringIncludes(
      (await machine.svc("explain", code)).stdout,
      "reported by  the connector of the peer, in a reply",
    );
  }
  const part = await machine.failure("explain", "outbox-full");
  assertStringIncludes(part.message, "Did you mean CONNECTOR_OUTBOX_FULL?");
  const unknown = await machine.failure("explain", "PROXY_AUTH_REPLAI");
  assertEquals(unknown.exit, 4);
  assertStringIncludes(unknown.message, "Did you mean PROXY_AUTH_REPLAY?");
  // The code of an answer without an error of svc.
  assertEquals((await machine.json("explain", "http_502")).status, [502]);
  for (const code of ["constructor", "__proto__", "", "HTTP_", "HTTP_99", "HTTP_4x"]) {
    assertEquals((await machine.failure("explain", code)).exit, 4);
  }
});

Deno.test("svc explain names each service that answers with a code", async () => {
  await using machine = await Machine.open();
  const codesOf = <D, C>(routes: readonly Route<D>[], authenticators: Authenticators<D, C>) =>
    routes.flatMap((route) => errorsOf(route, authenticators[route.auth as keyof C]));
  const answered = Object.entries({
    "the registry": codesOf(REGISTRY_ROUTES, REGISTRY_AUTHENTICATORS),
    "the proxy": codesOf(PROXY_ROUTES, PROXY_AUTHENTICATORS),
  });
  for (const code of new Set(answered.flatMap(([, codes]) => codes))) {
    const services = answered.flatMap(([service, codes]) => codes.includes(code) ? [service] : []);
    assertEquals((await machine.json("explain", code)).from, services.join(" and "), code);
  }
});

Deno.test("--version prints the version and nothing else", async () => {
  await using machine = await Machine.open();
  assertEquals(await machine.svc("--version"), { code: 0, stdout: "0.0.0-test\n", stderr: "" });
});

Deno.test("a command in a text names the files of this command, also with a $ in their path", () => {
  const { out, seen } = screen(false);
  out.groups = ["inbox"];
  out.hereWords = ["--config-dir", "/data/$$/a $'"];
  const text = `Run svc ${out.hereWords.map(shellWord).join(" ")} inbox.`;
  assertEquals(out.withHere("Run svc inbox."), text);
  out.note("Run svc inbox.");
  out.warn("Run svc inbox.");
  assertEquals(seen.stderr, `${text}\nwarning: ${text}\n`);
});

Deno.test("a table of every agent of a large registry is printed", () => {
  const rows = Array.from({ length: 200_000 }, (_, i) => [`a${i}`]);
  assertEquals(table(["NAME"], rows).length, rows.length + 1);
  const columns = [{ head: "NAME", of: ([name = ""]: string[]) => name }];
  assertEquals(tableLines(columns, rows, 80).length, rows.length + 1);
});
