/** `svc peers`, `svc status` and `svc dead-letters`, with and without a running connector. */
import { store } from "./store/disk.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Host, Service } from "../../../cli/autostart/control.ts";
import { PROXY_URL, REGISTRY_URL } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { connectorOfAlpha, deadLettersFrom, HOSTILE, machineWithAlpha, pairAlpha } from "./local_machine.ts";

Deno.test("svc peers lists the same peers with and without a connector, and keeps the aliases it showed", async () => {
  await using machine = await machineWithAlpha();
  const empty = await machine.svc("peers");
  assertEquals([empty.code, empty.stdout], [0, "No peers.\n"]);
  const beta = await pairAlpha(machine.world, machine, "beta");
  machine.world.clock.step(1_000);
  const second = await pairAlpha(machine.world, machine, "beta");

  const list = await machine.json("peers");
  const members = ["alias", "agentDid", "agentName", "humanName", "blocked", "pairedAt", "key", "how", "since"];
  assertEquals(Object.keys(list.peers[0]), [...members, "online", "lastSeenAt", "lastMessageAt"]);
  const shown = list.peers.map((peer: Record<string, string>) => [peer.alias, peer.agentDid, peer.humanName]);
  assertEquals([list.agent, ...shown], ["alpha", ["beta", beta.agent.did, "Bob"], ["beta-2", second.agent.did, "Bob"]]);
  assertEquals(Object.keys(JSON.parse(machine.read("agents/alpha/peers.json"))), ["beta", "beta-2"]);
  const misspelt = async () => {
    for (const argv of [["send", "bta", "hi"], ["log", "bta"], ["peers", "block", "bta"]]) {
      assertStringIncludes((await machine.failure(...argv)).message, "Did you mean beta?", argv.join(" "));
    }
  };
  await misspelt();
  assertStringIncludes((await machine.svc("status")).stderr, "Next: svc connector start alpha");
  await using _connector = await connectorOfAlpha(machine.world, machine);
  await misspelt();
  assertEquals(await machine.json("peers", "--agent", "alpha"), list);
  const { stdout } = await machine.svc("peers");
  assertEquals(stdout.split("\n")[0]?.split(/ {2,}/), [
    "PEER",
    "AGENT OF",
    "STATE",
    "MESSAGES",
    "LAST MESSAGE",
    "PAIRED",
    "DID",
  ]);
});

Deno.test("svc peers shows the names that this machine knows while the server cannot be reached, and fails", async () => {
  await using machine = await machineWithAlpha();
  const { fetch } = machine;
  const away: typeof fetch = (input, init) =>
    String(input).startsWith("http://127.0.0.1") ? fetch(input, init) : Promise.reject(new TypeError("no network"));
  machine.fetch = away;
  assertEquals((await machine.failure("peers")).code, "CLI_UNREACHABLE");
  machine.fetch = fetch;
  const { agent } = await pairAlpha(machine.world, machine, "beta");
  await machine.json("peers");
  const known = [{ alias: "beta", agentDid: agent.did, agentName: "beta", humanName: "Bob", blocked: false }];
  for (const connected of [false, true]) {
    await using _running = connected ? await connectorOfAlpha(machine.world, machine) : null;
    machine.fetch = away;
    const { code, stdout } = await machine.svc("--json", "peers");
    const { peers, warnings } = JSON.parse(stdout);
    assertEquals([code, peers], [5, known]);
    assertStringIncludes(warnings[0], `UNREACHABLE: ${PROXY_URL} cannot be reached`);
    machine.fetch = fetch;
  }
});

Deno.test("svc peers without peers tells a person of the key that pairs, and a program of its commands", async () => {
  await using machine = await machineWithAlpha();
  const next = async (stdin: string | null) => {
    machine.stdin = stdin;
    return (await machine.svc("peers")).stderr;
  };
  assertEquals(await next(null), "Next, to pair with another agent by pressing p: svc connector start alpha\n");
  await using _connector = await connectorOfAlpha(machine.world, machine);
  assertEquals(await next(null), "To pair with another agent, press p where the connector of alpha runs.\n");
  assertEquals(await next(""), "Next, to see how a program pairs: svc connector alpha\n");
});

Deno.test("svc peers without a connector refreshes an expired session and sends no API key", async () => {
  await using machine = await machineWithAlpha();
  await pairAlpha(machine.world, machine, "beta");
  delete machine.env.SVC_API_KEY;
  machine.world.clock.step(16 * 60_000);
  machine.requests.length = 0;
  assertEquals((await machine.json("peers")).peers.length, 1);
  assertEquals(machine.requests, ["POST /v1/agents/auth/refresh", "GET /pair/peers?limit=500"]);
});

Deno.test("svc peers without a connector reports a refusal of the proxy with its code", async () => {
  await using machine = await machineWithAlpha();
  const { agents: [agent] } = await machine.json("agent", "list");
  await machine.world.client.deleteAgent(machine.env.SVC_API_KEY ?? "", agent.id);
  machine.world.clock.step(10_000);
  const { exit, code } = await machine.failure("peers");
  assertEquals([exit, code], [3, "PROXY_AUTH_REVOKED"]);
});

Deno.test("svc peers after the end of the session names a command that says why, and what to do", async () => {
  await using machine = await machineWithAlpha();
  await machine.json("agent", "auth", "revoke", "alpha");
  const advice = "Run svc agent auth refresh alpha. If that is refused, its answer names the reason";
  await machine.refuses(["peers"], 3, "PROXY_PAIR_OWNERSHIP_FORBIDDEN", advice);
  await machine.refuses(
    ["agent", "auth", "refresh", "alpha"],
    3,
    "AGENT_AUTH_REFRESH_REVOKED",
    "svc agent reissue alpha",
  );
  await machine.json("agent", "reissue", "alpha");
  assertEquals((await machine.json("peers")).peers, []);
});

Deno.test("a command takes its agent from --agent, then from SVC_AGENT, and else lists the agents", async () => {
  await using machine = await machineWithAlpha();
  await machine.json("agent", "create", "other");
  const { exit, message } = await machine.failure("peers");
  assertEquals(exit, 2);
  assertStringIncludes(message, "alpha, other");
  machine.env.SVC_AGENT = "other";
  assertEquals((await machine.json("peers")).agent, "other");
  assertEquals((await machine.json("peers", "--agent", "alpha")).agent, "alpha");
  for (const [name, expected] of [["ghost", "4 CLI_AGENT_UNKNOWN"], ["../alpha", "2 CLI_USAGE"]] as const) {
    machine.env.SVC_AGENT = name;
    const { exit, code, message } = await machine.failure("peers");
    assertEquals(`${exit} ${code}`, expected);
    assertEquals(message.includes("SVC_AGENT names it."), name === "ghost");
  }
  machine.env.SVC_AGENT = "ghost";
  assertStringIncludes((await machine.svc("peers")).stderr, "SVC_AGENT names it.");
  assert(!(await machine.svc("peers", "--agent", "nobody")).stderr.includes("SVC_AGENT"));
});

Deno.test("svc status shows services, person and agents, and exits with 1 for an unhealthy connector", async () => {
  await using machine = await machineWithAlpha();
  // The proxy is healthy when it has a revocation list.
  await machine.json("peers");
  await machine.json("agent", "create", "stopped");
  machine.write("agents/stopped/identity.json", "damaged");
  machine.env.SVC_AGENT = "gone";
  const before = await machine.json("status");
  assertEquals(before.registry, { url: REGISTRY_URL, problem: null });
  assertEquals([before.proxy.problem, before.human.displayName, before.human.problem], [null, "Someone", null]);
  const [alpha, stopped] = before.agents;
  assertEquals([alpha.name, alpha.connector, alpha.connection, alpha.unread], ["alpha", "not running", null, null]);
  assertStringIncludes(stopped.problem, "identity.json");

  await using connector = await connectorOfAlpha(machine.world, machine);
  deadLettersFrom(connector.connector.store.received, await machine.world.agent(), 2, machine.world.clock.now());
  const { code, stdout } = await machine.svc("--json", "status", "--agent", "alpha");
  const { agents } = JSON.parse(stdout);
  assertEquals(code, 1, "a connector without a link is unhealthy");
  assertEquals(agents.map((agent: Record<string, unknown>) => [agent.connector, agent.unread, agent.deadLetters]), [
    ["unhealthy", 0, 2],
  ]);
  const text = await machine.svc("status");
  assertStringIncludes(text.stdout, "DEAD LETTERS");
  assertStringIncludes(text.stderr, "warning: stopped:");
});

Deno.test("svc status counts unread messages only when the agent reads them itself", async () => {
  for (const inbox of [true, false]) {
    await using machine = await machineWithAlpha();
    const beta = await pairAlpha(machine.world, machine, "beta");
    await using running = await connectorOfAlpha(machine.world, machine, inbox ? { inbox } : { "hook-path": "/in" });
    store(running.connector.store.received, "request-1", { from: beta.agent.did }, machine.world.clock.now());
    const unread = async () => JSON.parse((await machine.svc("--json", "status")).stdout).agents[0].unread;
    assertEquals(await unread(), inbox ? 1 : null);
    await running.stop();
    assertEquals(await unread(), inbox ? 1 : null);
  }
});

Deno.test("svc status works without an API key, an agent, a proxy and a registry that answers", async () => {
  await using machine = await Machine.open();
  const first = await machine.svc("status");
  assertEquals(first.code, 0);
  for (const part of ["not configured", "no API key is saved", "No agents"]) assertStringIncludes(first.stdout, part);
  assertStringIncludes(first.stderr, "paste the link of your invite: svc join -\n");
  machine.fetch = () => Promise.reject(new TypeError("refused"));
  machine.env.SVC_API_KEY = "svc_pat_x";
  const { code, stdout } = await machine.svc("status", "--json");
  const { registry, human } = JSON.parse(stdout);
  assertEquals([code, registry.problem, human.displayName], [1, "cannot be reached", null]);
});

Deno.test("svc connector prints lines for curl, suggests a misspelt command, and names a connector that is down or another program", async () => {
  await using machine = await machineWithAlpha();
  for (const [word, meant] of [["strat", "start"], ["logs", "service logs"]] as const) {
    const { exit, message } = await machine.failure("connector", word);
    assertEquals(exit, 4);
    const hint = `Did you mean svc connector ${meant}? There is no agent ${word} in ${machine.dir}`;
    assertEquals(message, `${hint}. Run svc agent list to see your agents.`);
  }
  await machine.refuses(
    ["connector", "stop"],
    4,
    "CLI_AGENT_UNKNOWN",
    "q or Ctrl-C",
    "svc connector service uninstall",
  );
  await machine.refuses(["connector", "stop", "alpha"], 2, "CLI_USAGE", "q or Ctrl-C");
  for (const line of [["connector"], ["connector", "status"], ["provider", "relay-test"]]) {
    const { exit, code, message } = await machine.failure(...line);
    assertEquals([exit, code], [5, "CLI_CONNECTOR_DOWN"]);
    assertStringIncludes(message, "connector start alpha");
  }
  await using connector = await connectorOfAlpha(machine.world, machine);
  const lines = (await machine.svc("connector")).stdout;
  for (const route of ["pair/start", "outbound"]) {
    const api = `${connector.connector.api?.url}/v1/${route}`;
    assertStringIncludes(lines, `curl -K ${machine.path("agents/alpha/connector.curl")} ${api} -d '`);
  }
  const words = async (script: string) => {
    const stub = `curl() { printf '%s\n' curl "$@"; }\n${script}`;
    return new TextDecoder().decode((await new Deno.Command("sh", { args: ["-c", stub] }).output()).stdout);
  };
  const { lines: whole } = await machine.json("connector");
  for (const columns of [80, 40]) {
    Object.assign(machine, { isTerminal: true, columns });
    const shown = (await machine.svc("connector")).stdout.split("\n").filter((line) => line.startsWith(" "));
    assertEquals(await words(shown.join("\n")), await words(whole.join("\n")), `in ${columns} columns`);
  }
  Object.assign(machine, { isTerminal: false, columns: null });
  const reached = machine.fetch;
  for (const body of ["<html>", "{}", "", "[]"]) {
    machine.fetch = (input, init) =>
      String(input).startsWith(connector.connector.api?.url ?? "")
        ? Promise.resolve(new Response(body))
        : reached(input, init);
    for (const command of [["connector", "status"], ["peers"]]) {
      const { exit, code, message } = await machine.failure(...command);
      assertEquals([exit, code], [5, "CLI_CONNECTOR_DOWN"], `${command.join(" ")} ${body}`);
      assertStringIncludes(message, "The connector of alpha");
    }
  }
});

Deno.test("svc connector prints no address of a connector that ends meanwhile", async () => {
  await using machine = await machineWithAlpha();
  await using _connector = await connectorOfAlpha(machine.world, machine);
  const path = machine.path("agents/alpha/connector.json"), text = await Deno.readTextFile(path);
  const reached = machine.fetch;
  machine.fetch = async (input, init) => {
    const answer = await reached(input, init);
    if (String(input).endsWith("/v1/status")) await Deno.remove(path);
    return answer;
  };
  const { exit, code, message } = await machine.failure("connector");
  assertEquals([exit, code], [5, "CLI_CONNECTOR_DOWN"]);
  assertStringIncludes(message, "The connector of alpha has ended. svc connector start alpha");
  await Deno.writeTextFile(path, text, { mode: 0o600 });
});

Deno.test("svc connector service logs says that no service is installed, as uninstall does", async () => {
  await using machine = await machineWithAlpha();
  machine.env.HOME = machine.path("home");
  const said = await machine.svc("connector", "service", "logs", "alpha", "--platform", "systemd");
  assertEquals(said, { code: 0, stdout: "The systemd service of alpha does not exist.\n", stderr: "" });
  assertEquals(await machine.svc("connector", "service", "uninstall", "alpha", "--platform", "systemd"), said);
});

Deno.test({
  name: "svc connector service logs --follow --json prints each line when it comes",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using machine = await machineWithAlpha();
    machine.env.HOME = machine.path("home");
    const host = { home: machine.path("home"), configHome: machine.path("home/.config") } as Host;
    const { path } = new Service(host, "systemd", "alpha", null);
    await Deno.mkdir(path.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeTextFile(path, `--config-dir "${machine.dir}"`);
    const script = "#!/bin/sh\nprintf '%s\\n%s' one tw; sleep 0.2; echo o; sleep 0.2; echo three; exec sleep 5\n";
    await Deno.writeTextFile(machine.path("journalctl"), script, { mode: 0o755 });
    const before = Deno.env.get("PATH") ?? "";
    Deno.env.set("PATH", `${machine.dir}:${before}`);
    try {
      // Its reader ends after the second line, as that of a pipe to head -2.
      machine.readsCharacters = 30;
      const logs = ["connector", "service", "logs", "alpha", "--platform", "systemd", "--follow", "--json"];
      const { code, stdout } = await machine.svc(...logs);
      assertEquals([code, stdout], [0, '{"line":"one"}\n{"line":"two"}\n']);
    } finally {
      Deno.env.set("PATH", before);
    }
  },
});

Deno.test("svc dead-letters lists, replays and purges what the connector gave up on", async () => {
  await using machine = await machineWithAlpha();
  const beta = await pairAlpha(machine.world, machine, "beta");
  await machine.json("peers");
  for (const argv of [[], ["replay", "1"], ["purge", "--all"]]) {
    const { exit, code } = await machine.failure("dead-letters", ...argv);
    assertEquals([exit, code], [5, "CLI_CONNECTOR_DOWN"]);
  }
  await using connector = await connectorOfAlpha(machine.world, machine);
  assertStringIncludes((await machine.svc("dead-letters")).stdout, "No dead letters.");
  const ids = deadLettersFrom(connector.connector.store.received, beta, 4, machine.world.clock.now());
  const listed = async (...options: string[]) => (await machine.json("dead-letters", ...options)).deadLetters;
  assertEquals((await listed()).map(({ id }: { id: number }) => id), ids.toReversed());
  const told = JSON.parse((await machine.svc("connector", "status", "--json")).stdout);
  assertEquals([told.agent, told.did, told.healthy], ["alpha", connector.connector.status().agent.did, false]);
  const status = await machine.svc("connector", "status");
  assertStringIncludes(status.stderr, "Next, to see what it gave up on: svc dead-letters --agent alpha\n");
  const part = await machine.svc("dead-letters", "--limit", "1");
  assertStringIncludes(part.stderr, "There are 4 in all; --limit shows more of them.\n");
  const [newest] = await listed("--limit", "1");
  assertEquals([newest.id, newest.from, newest.attempts, newest.problem], [
    ids[3],
    { agentDid: beta.agent.did, alias: "beta" },
    1,
    HOSTILE,
  ]);
  assertEquals(Object.keys(newest).includes("payload"), true);
  const { stdout } = await machine.svc("dead-letters");
  for (const raw of ["\u001b", "\u0007", "\r", "\u009b", "\u202e"]) assert(!stdout.includes(raw));

  const [first, second, third] = ids;
  assertEquals(await machine.json("dead-letters", "replay", `${first}`, `${first}`), { agent: "alpha", replayed: 1 });
  const again = await machine.svc("dead-letters", "replay", `${third}`);
  assertEquals(again.stdout, "1 message is waiting for the runtime again, or unread on the platform inbox.\n");
  const half = await machine.svc("dead-letters", "purge", `${second}`, "998", "999");
  assertEquals([half.code, half.stdout], [4, "1 message is deleted.\n"]);
  assertStringIncludes(half.stderr, "error: CLI_MESSAGE_UNKNOWN: 2 of the IDs are not dead letters.\n");
  const none = await machine.failure("dead-letters", "replay", "998");
  assertEquals([none.exit, none.code, JSON.parse(none.stdout)], [
    4,
    "CLI_MESSAGE_UNKNOWN",
    { agent: "alpha", replayed: 0 },
  ]);
  assertEquals((await machine.json("dead-letters", "purge", "--all")).purged, 1);
  assertEquals(await listed(), []);
  for (const argv of [[], ["1", "--all"], ["0"], ["x"], ["1.5"], ["99999999999999999999"]]) {
    assertEquals((await machine.failure("dead-letters", "purge", ...argv)).exit, 2, argv.join(" "));
  }
});

Deno.test("an A2A address is listed until it is removed, and its token then opens nothing", async () => {
  await using machine = await machineWithAlpha();
  for (const name of ["beta", "gamma"]) await pairAlpha(machine.world, machine, name);
  assertEquals((await machine.failure("a2a", "add", "beta")).code, "CLI_USAGE");
  await using _connector = await connectorOfAlpha(machine.world, machine);
  const { url, token, alias } = await machine.json("a2a", "add", "beta");
  assertEquals(alias, "beta");
  assert(!(await machine.svc("a2a", "add", "gamma")).stdout.includes("no longer works"));
  assertStringIncludes((await machine.svc("a2a", "add", "gamma")).stdout, "shown before no longer works.");
  await machine.json("a2a", "remove", "gamma");
  const { peers } = await machine.json("a2a", "list");
  assertEquals(peers.map((peer: { alias: string; url: string }) => [peer.alias, peer.url]), [["beta", url]]);
  const ask = async () => {
    const response = await fetch(url, { method: "POST", headers: { Authorization: `Bearer ${token}` }, body: "{}" });
    await response.body?.cancel();
    return response.status;
  };
  assertEquals(await ask(), 200);
  await machine.json("a2a", "remove", "beta");
  assertEquals(await ask(), 401);
  const again = await machine.failure("a2a", "remove", "beta");
  assertEquals([again.exit, again.code], [4, "CONNECTOR_PEER_UNKNOWN"]);
  assertStringIncludes(again.message, "svc a2a list --agent alpha");
  // By its present alias too: the person would otherwise read that there is no address, while its token works.
  await machine.json("a2a", "add", "beta");
  await machine.json("peers", "rename", "beta", "bob");
  assertEquals((await machine.json("a2a", "remove", "bob")).alias, "beta");
  assertEquals((await machine.json("a2a", "list")).peers, []);
});

Deno.test("a2a remove takes the peer out of the settings of OpenClaw, but no peer with another token", async () => {
  await using machine = await machineWithAlpha();
  await pairAlpha(machine.world, machine, "beta");
  await using _connector = await connectorOfAlpha(machine.world, machine);
  const settings = "openclaw/openclaw.json", at = ["--platform-state-dir", machine.path("openclaw")];
  const add = () => machine.json("a2a", "add", "beta", "--for", "openclaw", ...at);
  const remove = () => machine.json("a2a", "remove", "beta", ...at);
  await Deno.mkdir(machine.path("openclaw"));
  const other = { url: "http://127.0.0.1:1/a2a", token: "t", outboundToken: "o" };
  machine.write(settings, JSON.stringify({ channels: { a2a: { peers: { hermes: other } } } }));
  await add();
  assertEquals((await remove()).changed, machine.path(settings));
  assertEquals(JSON.parse(machine.read(settings)), { channels: { a2a: { enabled: true, peers: { hermes: other } } } });
  await add();
  const changed = machine.read(settings).replace(/svc_a2a_[^"]+/, "mine");
  machine.write(settings, changed);
  assertEquals([(await remove()).changed, machine.read(settings)], [null, changed]);
  machine.write(settings, "{}");
  await add();
  machine.write(settings, "not JSON");
  assertStringIncludes((await remove()).warnings[0], "OpenClaw may still have the peer");
  assertEquals((await machine.json("a2a", "list")).peers, []);
});

Deno.test("a2a list shows the whole address at 80 columns, also of a long alias", async () => {
  await using machine = await machineWithAlpha();
  await using _connector = await connectorOfAlpha(machine.world, machine);
  Object.assign(machine, { isTerminal: true, columns: 80 });
  for (const name of ["beta", `agent-${"x".repeat(40)}`]) {
    await pairAlpha(machine.world, machine, name);
    const { url } = await machine.json("a2a", "add", name);
    assertStringIncludes((await machine.svc("a2a", "list")).stdout, url);
  }
});

Deno.test("svc peers without the server shows the known peers, and a fix with the name of the agent", async () => {
  await using machine = await machineWithAlpha();
  await pairAlpha(machine.world, machine, "beta");
  await machine.json("peers");
  await using _connector = await connectorOfAlpha(machine.world, machine);
  const restore = machine.answer(/\/pair\/peers$/, () => Promise.reject(new TypeError("connection refused")));
  const { code, stdout } = await machine.svc("--json", "peers");
  restore();
  const { peers, warnings: [warning] } = JSON.parse(stdout);
  assertEquals([code, peers.map(({ alias }: { alias: string }) => alias)], [5, ["beta"]]);
  assertStringIncludes(warning, "svc connector status alpha");
});
