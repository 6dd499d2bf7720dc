/**
 * `install` and `provider …` as commands: where settings are saved, what doctor checks and its sources, and the files
 * of a runtime.
 */
import { dirname, relative } from "node:path";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { holdConnectorLock } from "../connector/held_lock.ts";
import type { DoctorCheck } from "../../../cli/commands/provider/checks.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { MAX_SETTINGS_BYTES } from "../../../cli/files/private_files.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { REGISTRY_URL } from "../../support/world.ts";
import { whileTimePasses } from "../alpha.ts";
import { passTime } from "../../support/until.ts";
import { Machine } from "../cli_world.ts";

const OPENCLAW = "home/.openclaw/openclaw.json";

type Answers = Record<string, () => Response>;

/** A machine with agents and a home of its own; only the servers of `answers` listen on it. */
async function machineOf(answers: Answers = {}, ...agents: string[]): Promise<Machine> {
  const machine = await Machine.ofPerson();
  machine.env.HOME = machine.path("home");
  machine.env.SVC_CONFIG_DIR = machine.path("svc");
  await Deno.mkdir(machine.path("home/.openclaw"), { recursive: true });
  machine.reach = (url) => Promise.resolve(Object.keys(answers).some((known) => known.startsWith(url)));
  machine.fetch = (input, init) => {
    const url = String(input);
    if (!url.startsWith("http://127.0.0.1")) return machine.world.fetch(input, init);
    const answer = answers[url];
    return answer ? Promise.resolve(answer()) : Promise.reject(new TypeError("connection refused"));
  };
  for (const name of agents) await machine.json("agent", "create", name);
  return machine;
}

const runtimeFile = (machine: Machine, folder = "svc") => JSON.parse(machine.read(`${folder}/runtime.json`));

/** The checks of doctor, by name. */
async function doctor(
  machine: Machine,
  ...more: string[]
): Promise<Record<string, DoctorCheck & { agent: string | null }>> {
  const { stdout } = await machine.svc("--json", "provider", "doctor", ...more);
  const { checks } = JSON.parse(stdout) as { checks: (DoctorCheck & { agent: string | null })[] };
  return Object.fromEntries(checks.map((check) => [check.name, check]));
}

/** The files, the lock and the local API of a connector that runs with a runtime of its own. */
async function runConnector(
  machine: Machine,
  url: string | null,
  answers: Answers,
  problem: string | null = null,
): Promise<Disposable> {
  const now = toIso(machine.world.clock.now());
  const { did } = JSON.parse(machine.read("svc/agents/alpha/identity.json")) as { did: string };
  const api = "http://127.0.0.1:19400";
  const file = { url: api, port: 19_400, token: "t".repeat(43), pid: Deno.pid, agentDid: did, startedAt: now };
  machine.write("svc/agents/alpha/connector.json", JSON.stringify(file));
  const status = {
    agent: { name: "alpha", did },
    version: "0.0.0",
    pid: 4_711,
    startedAt: now,
    now,
    proxy: { url: "wss://proxy.example", origin: "https://proxy.example" },
    connection: {
      state: problem === null ? "connected" : "waiting",
      since: now,
      nextTryAt: null,
      problem,
      heartbeatMs: 5,
      heartbeatAt: now,
    },
    inbox: { waiting: 0, oldestAt: null, bytes: 0, problem: null },
    deadLetters: 0,
    receiptsWaiting: 0,
    loopGuards: 0,
    refused: 0,
    runtime: {
      ...(url === null ? { platform: "inbox", source: null } : { platform: "generic", source: "option" }),
      ...{ url, replies: false, reachable: true, checkedAt: now, problem: null },
    },
    session: { accessExpiresAt: now, identityExpiresAt: now, problem: null },
    clockOffsetMs: 0,
    servers: [],
    otherKeys: [],
    api: { url: api, movedFrom: null },
  };
  answers[`${api}/v1/status`] = () => Response.json(status);
  return await holdConnectorLock(machine.path("svc/agents/alpha"));
}

Deno.test("install, provider setup and provider status work without an agent and with two", async (t) => {
  for (const agents of [[], ["alpha", "beta"]]) {
    await t.step(`${agents.length} agents`, async () => {
      await using machine = await machineOf({}, ...agents);
      const installed = await machine.json("install", "--for", "openclaw", "--port", "19001");
      assertEquals([installed.agent, installed.url], [null, "http://127.0.0.1:19001/hooks/agent"]);
      assertEquals(runtimeFile(machine).webhookPort, 19_001);
      const { changed } = await machine.json("provider", "setup", "--for", "openclaw");
      assertEquals(changed, [machine.path(OPENCLAW)]);
      const { webhookToken } = runtimeFile(machine);
      assertEquals(JSON.parse(machine.read(OPENCLAW)).hooks.token, webhookToken);
      const { code, stdout } = await machine.svc("--json", "provider", "status");
      const { url, connection } = JSON.parse(stdout);
      assertEquals([code, url, connection], [1, "http://127.0.0.1:19001/hooks/agent", null]);
      assertEquals((await Deno.stat(machine.path("svc/runtime.json"))).mode! & 0o777, 0o600);
      await Deno.mkdir(machine.path("home/.hermes"));
      await machine.json("provider", "setup", "--for", "hermes");
      const { restored } = await machine.json("provider", "setup", "--for", "openclaw", "--undo");
      assertEquals(restored, [machine.path(OPENCLAW)], "not the files of Hermes");
      const { stdout: shown, stderr } = await machine.svc("provider", "setup", "--for", "hermes", "--undo");
      assertStringIncludes(shown, machine.path("home/.hermes/.env"));
      assertStringIncludes(stderr, "unless messages should still go to Hermes: svc install --for inbox\n");
    });
  }
});

Deno.test("an agent's own runtime.json precedes the one for all agents, and the command reports it", async () => {
  await using machine = await machineOf({}, "alpha", "beta");
  await machine.json("install", "--for", "generic", "--port", "7001");
  await machine.json("install", "--for", "generic", "--port", "7002", "--agent-name", "beta");
  const url = async (...more: string[]) =>
    JSON.parse((await machine.svc("--json", "provider", "status", ...more)).stdout).url;
  assertEquals(
    [await url(), await url("--agent-name", "alpha"), await url("--agent-name", "beta")],
    ["7001", "7001", "7002"].map((port) => `http://127.0.0.1:${port}/hooks/agent`),
  );
  const { warnings } = await machine.json("install", "--for", "generic", "--port", "7003");
  assertEquals(warnings, ["beta has its own settings, which override these; change them with --agent-name beta"]);
  assertEquals(runtimeFile(machine, "svc/agents/beta").webhookPort, 7_002);
  const { runtime } = await doctor(machine, "--agent-name", "beta");
  assertStringIncludes(runtime?.fix ?? "", "svc install --for generic --agent-name beta");
});

Deno.test("connector start uses the settings for all agents unless the agent has its own", async () => {
  await using machine = await machineOf({}, "alpha");
  const refusal = async () =>
    (await machine.failure("connector", "start", "alpha", "--proxy-ws-url", "wss://proxy.example")).message;
  // An address on another machine is refused before a connection is opened.
  machine.write("svc/runtime.json", JSON.stringify({ platform: "generic", baseUrl: "https://shared.example" }));
  assertStringIncludes(await refusal(), "shared.example");
  const own = JSON.stringify({ platform: "generic", baseUrl: "https://own.example" });
  machine.write("svc/agents/alpha/runtime.json", own);
  assertStringIncludes(await refusal(), "own.example");
});

Deno.test("doctor reports a missing agent as one failed check and still checks the runtime", async () => {
  await using machine = await machineOf({ "http://127.0.0.1:7001/hooks/agent": () => new Response() });
  await machine.json("install", "--for", "generic", "--port", "7001");
  const checks = await doctor(machine);
  const failed = Object.values(checks).filter(({ ok }) => !ok);
  assertEquals(failed.map(({ name, seen }) => [name, seen]), [["agent", "no agent yet"]]);
  assertStringIncludes(checks.agent?.fix ?? "", "svc join -", "a person without an account has no use for an agent");
  assertEquals(checks.platform?.source, machine.path("svc/runtime.json"));
});

Deno.test("doctor checks every agent of the machine", async () => {
  await using machine = await machineOf({}, "alpha", "beta");
  const { code, stdout } = await machine.svc("--json", "provider", "doctor");
  const { agent, checks } = JSON.parse(stdout) as { agent: null; checks: { agent: string; name: string }[] };
  const identities = checks.filter(({ name }) => name === "agent").map(({ agent }) => agent);
  assertEquals([code, agent, identities], [1, null, ["alpha", "beta"]]);
});

Deno.test("doctor passes when a connector was started with another runtime", async () => {
  const answers: Answers = { "http://127.0.0.1:9000/in": () => new Response() };
  await using machine = await machineOf(answers, "alpha");
  using _connector = await runConnector(machine, "http://127.0.0.1:9000/in", answers);
  const { code, stdout } = await machine.svc("--json", "provider", "doctor");
  const { healthy, checks } = JSON.parse(stdout) as { healthy: boolean; checks: DoctorCheck[] };
  assertEquals([code, healthy], [0, true], stdout);
  const { platform, runtime, agent, proxy } = Object.fromEntries(checks.map((check) => [check.name, check]));
  assertEquals(platform?.seen, "a generic webhook at http://127.0.0.1:9000/in");
  assertStringIncludes(platform?.source ?? "", "the running connector");
  assertEquals([runtime?.seen, agent?.source], ["answers at http://127.0.0.1:9000", "the agent's files"]);
  assertStringIncludes(proxy?.source ?? "", "the running connector");
  const shown = await machine.svc("provider", "doctor");
  assertStringIncludes(shown.stdout, "(from the running connector)");
});

Deno.test("relay-test without checks sends at once, and with checks it stops at a failure", async () => {
  const answers: Answers = {};
  await using machine = await machineOf(answers, "alpha");
  using _connector = await runConnector(machine, "http://127.0.0.1:9000/in", answers);
  const api = "http://127.0.0.1:19400";
  answers[`${api}/v1/status`] = () => new Response(null, { status: 500 });
  answers[`${api}/v1/outbound`] = () =>
    Response.json({ accepted: true, delivered: false, connectedSockets: 0, requestId: "probe-00000000", queued: true });
  const probe = async (...more: string[]) =>
    JSON.parse((await machine.svc("--json", "provider", "relay-test", "--peer", "beta", ...more)).stdout);
  assertEquals((await probe()).failed.name, "connector");
  const { delivered, reason } = await probe("--no-preflight");
  assertEquals([delivered, reason], [false, "queued"]);
  const refusal = { code: "CONNECTOR_PEER_UNKNOWN", message: 'No peer has the alias "beta"' };
  answers[`${api}/v1/outbound`] = () => Response.json({ error: refusal }, { status: 404 });
  const { healthy, error } = await probe("--no-preflight");
  assertEquals([healthy, error.code], [false, refusal.code]);
  assertMatch(error.message, /^No peer has the alias "beta"\. svc peers --agent alpha lists /);
});

Deno.test("relay-test passes when the message has arrived and is not read yet, and fails when it is not delivered", async () => {
  const answers: Answers = {};
  await using machine = await machineOf(answers, "alpha");
  using _connector = await runConnector(machine, null, answers);
  const api = "http://127.0.0.1:19400", requestId = "probe-00000000";
  const outbound = (result: object) => Response.json({ accepted: true, connectedSockets: 1, requestId, ...result });
  answers[`${api}/v1/outbound`] = () => outbound({ delivered: true });
  // The peer's agent does not read while the command waits.
  machine.answer(new RegExp(`${api}/v1/receipts`), () => Response.json({ receipts: [] }));
  const line = ["provider", "relay-test", "--peer", "beta", "--no-preflight", "--message", "Hi"];
  await machine.refuses([...line, "--session-id", "a,b"], 2, "CLI_USAGE", "--session-id must be");
  const test = () => whileTimePasses(machine.world, machine.svc(...line));
  const arrived = await test();
  assertEquals(arrived.code, 0, arrived.stderr);
  assertMatch(arrived.stdout, /^pass {2}delivered after \d+ ms; beta's agent has not read it yet\n/);
  answers[`${api}/v1/outbound`] = () => outbound({ delivered: false, reason: "inbox_full" });
  const refused = await test();
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.stdout, "FAIL  not delivered: inbox_full\n");
});

Deno.test("relay-test ends in time, also when the clock is set back by an hour meanwhile", async () => {
  const answers: Answers = {};
  await using machine = await machineOf(answers, "alpha");
  using _connector = await runConnector(machine, null, answers);
  const api = "http://127.0.0.1:19400", requestId = "probe-00000000", { clock } = machine.world;
  answers[`${api}/v1/outbound`] = () =>
    Response.json({ accepted: true, connectedSockets: 1, requestId, delivered: true });
  machine.answer(new RegExp(`${api}/v1/receipts`), () => Response.json({ receipts: [] }));
  let isDone = false;
  const line = ["provider", "relay-test", "--peer", "beta", "--no-preflight", "--message", "Hi"];
  const run = machine.svc(...line).finally(() => isDone = true);
  const pass = (ms: number) => passTime(clock, ms, () => isDone);
  await pass(10_000);
  clock.step(-3_600_000);
  await pass(40_000);
  const isInTime = isDone;
  clock.step(3_600_000);
  await pass(60_000);
  await run;
  assertEquals(isInTime, true, "it still waits after 50 s");
});

Deno.test("status says what the running connector uses, and doctor that new settings need a new start", async () => {
  const answers: Answers = { "http://127.0.0.1:18789/readyz": () => new Response(null, { status: 503 }) };
  await using machine = await machineOf(answers, "alpha");
  await machine.json("install", "--for", "openclaw", "--agent-name", "alpha");
  assertEquals((await machine.svc("provider", "status")).code, 1, "the runtime of the files is not ready");
  const fixes = async () => Object.values(await doctor(machine)).map(({ fix }) => fix).join();
  assertMatch(await fixes(), /Wait until OpenClaw has started; messages wait too,See the check of the runtime/);
  using _connector = await runConnector(machine, null, answers);
  const { code, stdout } = await machine.svc("provider", "status");
  assertEquals([code, stdout.includes("alpha reads its messages itself.")], [0, true], stdout);
  assertMatch(await fixes(), /runtime.json names OpenClaw: stop the connector and/);
  await machine.json("agent", "create", "second");
  const ofBoth = (await machine.svc("provider", "status")).stdout;
  assertEquals(ofBoth.includes("not running"), false, `the connector of one agent runs: ${ofBoth}`);
});

Deno.test("provider setup changes a settings file of several MiB, keeps its permissions, and undoes it", async () => {
  await using machine = await machineOf();
  const before = JSON.stringify({ notes: `${"ä\u0001".repeat(512 * 1024)}`, hooks: { x: 1 } });
  machine.write(OPENCLAW, before);
  await Deno.chmod(machine.path(OPENCLAW), 0o644);
  const mode = async () => (await Deno.stat(machine.path(OPENCLAW))).mode! & 0o777;
  await machine.json("provider", "setup", "--for", "openclaw");
  const { notes, hooks } = JSON.parse(machine.read(OPENCLAW));
  assertEquals([notes.length, hooks.x, hooks.enabled, await mode()], [1024 * 1024, 1, true, 0o644]);
  await machine.json("provider", "setup", "--for", "openclaw", "--undo");
  assert(machine.read(OPENCLAW) === before);
  assertEquals(await mode(), 0o644);
});

Deno.test("an undo that failed at the second file restores that file at the next try", async () => {
  await using machine = await machineOf();
  const one = "home/one/.env", env = "home/two/.env", kept = machine.path("home/kept"), hermes = ["--for", "hermes"];
  for (const path of [one, env]) {
    await Deno.mkdir(dirname(machine.path(path)));
    machine.write(path, "A=1\n");
    await machine.json("provider", "setup", ...hermes, "--platform-state-dir", dirname(machine.path(path)));
  }
  await Deno.rename(machine.path(env), kept);
  await Deno.symlink(kept, machine.path(env));
  assertEquals((await machine.failure("provider", "setup", ...hermes, "--undo")).code, "CLI_FILE_UNSAFE");
  assertEquals(machine.read(one), "A=1\n");
  await Deno.rename(kept, machine.path(env));
  await machine.json("provider", "setup", ...hermes, "--undo");
  assertEquals([machine.read(one), machine.read(env)], ["A=1\n", "A=1\n"]);
});

Deno.test("provider setup leaves a settings file unchanged when it is too large or not text", async (t) => {
  const files: [string, Uint8Array, string][] = [
    ["too large", new Uint8Array(MAX_SETTINGS_BYTES + 1).fill(0x20), "is over 16 MiB: change it by hand"],
    ["not text", new Uint8Array([...new TextEncoder().encode('{"a":"'), 0xff, 0x22, 0x7d]), "cannot be read as text"],
  ];
  for (const [what, bytes, message] of files) {
    await t.step(what, async () => {
      await using machine = await machineOf();
      await Deno.writeFile(machine.path(OPENCLAW), bytes);
      await machine.refuses(["provider", "setup", "--for", "openclaw"], 1, "CLI_FILE_INVALID", message);
      assertEquals((await Deno.readFile(machine.path(OPENCLAW))).length, bytes.length);
    });
  }
});

Deno.test("provider setup leaves a settings file with a number that it would round, and names the number", async (t) => {
  await using machine = await machineOf();
  for (const number of ["123456789012345678", "-9007199254740993", "1e400"]) {
    await t.step(number, async () => {
      machine.write(OPENCLAW, `{"channels": {"discord": {"allowFrom": [${number}]}}}`);
      const before = machine.read(OPENCLAW);
      await machine.refuses(["provider", "setup", "--for", "openclaw"], 1, "CLI_FILE_INVALID", `the number ${number}`);
      assertEquals(machine.read(OPENCLAW), before);
    });
  }
  await t.step("other numbers, and such a number as text", async () => {
    const numbers = [0.1, 1e300, -0, 9007199254740991, "123456789012345678"];
    machine.write(OPENCLAW, `{"x": [0.10, 1E300, -0.0, 9007199254740991, "123456789012345678"]}`);
    await machine.json("provider", "setup", "--for", "openclaw");
    assertEquals(JSON.stringify(JSON.parse(machine.read(OPENCLAW)).x), JSON.stringify(numbers));
  });
});

Deno.test("what a runtime writes into its settings during a set-up or its undo stays, and a second one works", async () => {
  const setUp = ["provider", "setup", "--for", "openclaw"], changed = '{"model": "new"}';
  // At each name and token that svc makes up before the settings are replaced.
  for (let moment = 1; moment <= 4; moment++) {
    await using machine = await machineOf();
    machine.write(OPENCLAW, '{"model": "old"}');
    const { world } = machine, { random } = world;
    const writesAt = (left: number) => {
      const bytes = (length: number) => {
        if (left-- === 1) machine.write(OPENCLAW, changed);
        return random.bytes(length);
      };
      Object.assign(world, { random: { ...random, bytes } });
    };
    writesAt(moment);
    if (moment > 1) await machine.refuses(setUp, 1, "CLI_BUSY", "Run the command again");
    await machine.json(...setUp);
    const text = machine.read(OPENCLAW);
    assertEquals(JSON.parse(text).model, "new");
    writesAt(1);
    await machine.refuses([...setUp, "--undo"], 1, "CLI_FILE_INVALID", "has been changed since");
    assertEquals(machine.read(OPENCLAW), changed);
    machine.write(OPENCLAW, text);
    await machine.json(...setUp, "--undo");
    assertEquals(machine.read(OPENCLAW), changed);
  }
});

Deno.test("two agents that are set up at the same time have the token of the runtime", async () => {
  await using machine = await machineOf({}, "alpha", "beta");
  machine.write(OPENCLAW, "{}");
  const setUp = (name: string) => machine.json("provider", "setup", "--for", "openclaw", "--agent-name", name);
  await whileTimePasses(machine.world, Promise.all(["alpha", "beta"].map(setUp)));
  const { token } = JSON.parse(machine.read(OPENCLAW)).hooks;
  const known = ["alpha", "beta"].map((name) => runtimeFile(machine, `svc/agents/${name}`).webhookToken);
  assertEquals(known, [token, token]);
});

Deno.test("a relative state directory is saved and undone as the folder that it was", async (t) => {
  for (const [name, file] of [["openclaw", "openclaw.json"], ["hermes", ".env"]] as const) {
    await t.step(name, async () => {
      await using machine = await machineOf();
      const folder = machine.path("state"), path = `${folder}/${file}`;
      await Deno.mkdir(folder);
      await Deno.writeTextFile(path, name === "openclaw" ? "{}" : "");
      const given = ["--platform-state-dir", relative(Deno.cwd(), folder)];
      const { changed } = await machine.json("provider", "setup", "--for", name, ...given);
      assertEquals([changed, runtimeFile(machine).stateDir], [[path], folder]);
      assertEquals((await machine.json("provider", "setup", "--for", name, "--undo")).restored, [path]);
    });
  }
});

Deno.test("provider setup saves no token that later commands refuse", async (t) => {
  const env = "home/.hermes/.env";
  for (
    const [name, path, text] of [["hermes", env, 'WEBHOOK_SECRET="two words"\n'], [
      "openclaw",
      OPENCLAW,
      '{"hooks":{"token":"é"}}',
    ]] as const
  ) {
    await t.step(name, async () => {
      await using machine = await machineOf({}, "alpha");
      await Deno.mkdir(machine.path("home/.hermes"));
      machine.write(path, text);
      await machine.refuses(["provider", "setup", "--for", name], 2, "CLI_USAGE", "must be one word");
      assertEquals(machine.read(path), text);
      assertEquals((await machine.failure("provider", "setup", "--for", name)).code, "CLI_USAGE");
      await machine.json("provider", "setup", "--for", name, "--webhook-token", "one");
      assertEquals(runtimeFile(machine).webhookToken, "one");
    });
  }
  await t.step("a comment behind the token is not part of it", async () => {
    await using machine = await machineOf({}, "alpha");
    await Deno.mkdir(machine.path("home/.hermes"));
    machine.write(env, "WEBHOOK_ENABLED=true # on\nWEBHOOK_PORT=8644\nWEBHOOK_SECRET='a#b' # it's mine\n");
    const { changed } = await machine.json("provider", "setup", "--for", "hermes");
    assertEquals([changed, runtimeFile(machine).webhookToken], [[], "a#b"]);
  });
});

Deno.test("an agent on the platform inbox is installed, and has no checks of a runtime", async (t) => {
  const answers: Answers = {};
  await using machine = await machineOf(answers, "alpha");
  const listed = await machine.json("install", "--list");
  assertEquals(listed.platforms.at(-1).platform, "inbox");
  const installed = await machine.json("install", "--for", "inbox");
  assertEquals([installed.platform, installed.url, installed.hasToken], ["inbox", null, false]);
  assertEquals(runtimeFile(machine).platform, "inbox");
  assertEquals((await machine.failure("install", "--for", "inbox", "--port", "1")).code, "CLI_USAGE");
  assertEquals((await machine.failure("provider", "setup", "--for", "inbox")).code, "CLI_USAGE");
  const status = await machine.json("provider", "status");
  assertEquals([status.platform, status.url, status.reachable], ["inbox", null, true]);
  const names = ["agent", "identity token", "session", "registry", "platform"];
  await t.step("without a connector", async () => {
    const checks = await doctor(machine);
    assertEquals(Object.keys(checks), [...names, "connector"]);
    assertEquals(checks.platform?.ok, true);
  });
  await t.step("with a connector", async () => {
    using _ = await runConnector(machine, null, answers);
    const checks = await doctor(machine);
    assertEquals(Object.keys(checks).slice(0, 8), [...names, "connector", "port", "proxy"]);
    assertEquals([checks.platform?.seen, checks.inbox?.seen], ["the inbox of the connector", "0 unread"]);
    assertEquals([checks.runtime, checks.hook, checks["hand-over"]], [undefined, undefined, undefined]);
  });
  await t.step("a start with the address of a runtime says that both exclude each other", async () => {
    const line = ["connector", "start", "alpha", "--inbox", "--runtime-base-url", "http://127.0.0.1:1"];
    line.push("--proxy-ws-url", "wss://proxy.example");
    await machine.refuses(line, 2, "CLI_USAGE", "exclude each other");
  });
});

Deno.test("doctor names the way back of an agent that is gone, of a copy, and of a pair that is over", async (t) => {
  const answers: Answers = {};
  await using machine = await machineOf(answers, "alpha");
  const id = JSON.parse(machine.read("svc/agents/alpha/identity.json")).did.split(":").at(-1);
  const AGAIN = "svc agent delete alpha, then svc agent create alpha";
  const down = "Check that the server runs, or ask its operator; svc connector status alpha";
  const problems = [
    ["AGENT_NOT_FOUND: The registry has no such agent", AGAIN],
    [
      "another connector of this agent has taken over (4409)",
      "svc agent auth revoke alpha, then svc agent reissue alpha",
    ],
    ["PROXY_AUTH_REVOKED: The identity token is revoked", "svc agent reissue alpha"],
    ["ACCOUNT_SUSPENDED: Bob's account is suspended", "Ask the administrator"],
    ["https://proxy.example cannot be reached", down],
    ["SERVICE_UNAVAILABLE: Busy", "svc explain SERVICE_UNAVAILABLE describes it; svc connector status alpha"],
  ] as const;
  for (const [problem, fix] of problems) {
    await t.step(problem, async () => {
      using _ = await runConnector(machine, null, answers, problem);
      const { proxy } = await doctor(machine);
      assertEquals(proxy?.ok, false);
      assertStringIncludes(proxy?.fix ?? "", fix);
    });
  }
  await t.step("a pair that is over, and a damaged file of peers", async () => {
    const beta = { did: `did:svc:localhost:agent:${id}`, agentName: "beta", humanName: "Bob", gone: true, endOrder: 1 };
    machine.write("svc/agents/alpha/peers.json", JSON.stringify({ beta }));
    assertStringIncludes((await doctor(machine, "--peer", "beta")).peer?.fix ?? "", "A ticket begins it again");
    assertStringIncludes((await doctor(machine, "--peer", "gamma")).peer?.fix ?? "", "svc peers --agent alpha");
    machine.write("svc/agents/alpha/peers.json", "{");
    assertStringIncludes((await doctor(machine, "--peer", "beta")).peer?.fix ?? "", "Restore it from a copy");
  });
  await t.step("an agent that the registry lost, or deleted, or does not show", async () => {
    const { fetch } = machine;
    machine.fetch = () => Promise.reject(new TypeError("no network"));
    const away = (await doctor(machine)).registry;
    assertEquals([away?.ok, away?.seen], [false, `${REGISTRY_URL} cannot be reached`]);
    assertStringIncludes(away?.fix ?? "", "Check that the server runs");
    machine.fetch = fetch;
    machine.world.clock.step(60_000);
    assertEquals((await doctor(machine)).registry?.ok, true);
    await machine.world.kv.delete(KEYS.agent(id));
    const { registry } = await doctor(machine);
    assertEquals([registry?.ok, registry?.seen.includes("restored from an older backup")], [false, true]);
    assertStringIncludes(registry?.fix ?? "", AGAIN);
  });
});
