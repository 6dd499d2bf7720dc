/**
 * The README's lines for two servers, typed on two machines: each has a server with a name of its own and TLS of a private
 * authority, an account, and an agent. Without namespaces both are loopback addresses of this machine, without TLS.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { HAS_OPENSSL } from "../support/private_authority.ts";
import { eventually, freePort, ROOT, tempFolder, within } from "../support/process.ts";
import { LAPTOP, SERVER, TwoMachines } from "../support/two_machines.ts";
import { Child } from "../bench/child.ts";
import { mcpArgs, McpPipe } from "../support/mcp_pipe.ts";
import { Person, START_MS, startFront, SVC } from "./machine_person.ts";
import { connectAgent, openTeam, type Team } from "./server_team.ts";

const A2A_CLIENT = "tests/support/a2a_client_program.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const SECTION = README.slice(README.indexOf("## Two servers"), README.indexOf("## How a message is delivered"));

Deno.test("the section of the README has at most ten lines of text, and its command is the one that is typed", () => {
  assert(SECTION.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")).length <= 10);
  assertStringIncludes(SECTION, 'svc send beta@b.example --wait "Which port does the staging server use?"');
});

async function story(a: Team, b: Team): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const [ofA, ofB] = [await openTeam(a), await openTeam(b)];
  for (const { server } of [ofA, ofB]) stack.use(server);
  stack.use(ofA.connector);
  let beta = ofB.connector;
  const { ticket = "" } = await a.person.call(a.agent, "/v1/pair/start", {});
  await b.person.call(b.agent, "/v1/pair/confirm", { ticket });
  await within(START_MS, "alpha learns of it", ofA.connector.stdout.match(/"event":"paired"/));

  // The question of the README, and its answer; then the other way.
  for (
    const [asker, answerer, text] of [[a, b, "Which port does the staging server use?"], [b, a, "And yours?"]] as const
  ) {
    const asking = asker.person.start(["send", answerer.alias, "--wait", text, "--agent", asker.agent]);
    const unread = async () => {
      const { messages } = JSON.parse(await answerer.person.svc("inbox", "--json", "--agent", answerer.agent));
      return messages.find((message: { text: string }) => message.text === text);
    };
    const { id, from, verified } = await eventually(START_MS, "the question", unread);
    assertEquals([from.alias, verified], [asker.alias, "end-to-end"]);
    await answerer.person.svc("reply", String(id), "8443", "--agent", answerer.agent);
    const { code } = await within(START_MS, "the answer", asking.status);
    assertEquals([code, asking.stdout.text.trim()], [0, "8443"], asking.printed);
  }

  await askedByModels(a, b);
  await askedByA2a(a, b);

  // The second day: Bob's machine is off, and Ada's message waits at his server.
  assertEquals((await beta.end()).code, 0);
  await a.person.svc("send", b.alias, "waits for you");
  beta = await connectAgent(b.person, b.agent);
  await within(START_MS, "the message", beta.stdout.match(/"event":"received"/));
  assertStringIncludes(await b.person.svc("inbox", "--take"), "waits for you");
  const [{ requestId }] = JSON.parse(await a.person.svc("sent", "--json")).messages;
  await eventually(START_MS, "the receipt", async () => {
    const { state } = JSON.parse(await a.person.svc("sent", requestId, "--json"));
    return state === "processed" ? true : undefined;
  });

  // Bob's whole server is off: the message waits with Ada.
  assertEquals((await beta.end()).code, 0);
  assertEquals((await ofB.server.end("SIGTERM")).code, 0);
  await using asking = a.person.start(["send", b.alias, "kept for you"]);
  await within(START_MS, "svc send", asking.status);
  assertStringIncludes(asking.printed, "cannot be reached");
  stack.use(b.person.start([...b.serve, "--store", `${b.person.folder}/svc.kv`]));
  beta = stack.use(await connectAgent(b.person, b.agent));
  await within(START_MS, "the kept message", beta.stdout.match(/"event":"received"/));
  assertStringIncludes(await b.person.svc("inbox", "--take"), "kept for you");
}

/** Two models ask and answer with the tools of `svc mcp`, which use the connectors that run. */
async function askedByModels(a: Team, b: Team): Promise<void> {
  await using asker = await mcpOf(a);
  await using answerer = await mcpOf(b);
  const asking = asker.call("send_message", { to: b.alias, text: "And the host?", wait_seconds: 45 });
  const { messages: [question] } = await answerer.call("wait_for_message", { timeout_seconds: 45 });
  assertEquals([question.from.alias, question.text], [a.alias, "And the host?"]);
  await answerer.call("send_message", { to: a.alias, text: "staging-2", reply_to: question.id });
  assertStringIncludes(JSON.stringify(await within(START_MS, "the answer", asking)), "staging-2");
}

function mcpOf({ person, agent }: Team): Promise<McpPipe> {
  const { command, args } = person.machine.program(SVC);
  const env = { NO_COLOR: "1", ...person.env };
  return McpPipe.over(new Child([...args, ...mcpArgs(person.folder, agent)], env, command));
}

/** An A2A client on Ada's machine reaches Bob's agent. */
async function askedByA2a(a: Team, b: Team): Promise<void> {
  const { url, token } = JSON.parse(await a.person.svc("a2a", "add", b.alias, "--agent", a.agent, "--json"));
  const client = { name: "A2A client", command: Deno.execPath(), args: ["run", "-A", "--quiet", A2A_CLIENT] };
  await using asking = a.person.start([url, token, "And the user?"], client);
  const { id } = await eventually(START_MS, "the question", async () => {
    const { messages } = JSON.parse(await b.person.svc("inbox", "--json", "--agent", b.agent));
    return messages.find((message: { text: string }) => message.text === "And the user?");
  });
  await b.person.svc("reply", String(id), "deploy", "--agent", b.agent);
  await within(START_MS, "the result", asking.status);
  assertEquals(asking.stdout.text.trim(), "completed: deploy", asking.printed);
}

Deno.test("two servers of one machine: a ticket, questions and answers in both directions, and what waits", async () => {
  await using folder = await tempFolder();
  const here = (address: string) => ({ address, program: <P>(program: P) => program });
  const team = (name: string, agent: string, address: string): Team => {
    const port = String(freePort());
    return {
      person: new Person(here(address), `${folder.path}/${name}`),
      agent,
      alias: `${agent}@${address}`,
      serve: ["serve", "--host", address, "--port", port, "--public-url", `http://${address}:${port}`],
    };
  };
  await story(team("ada", "alpha", "127.0.0.1"), team("bob", "beta", "127.0.0.2"));
});

const HAS_PYTHON = await new Deno.Command("python3", { args: ["-c", "import cryptography"], stderr: "null" }).output()
  .then(({ success }) => success, () => false);
if (!HAS_PYTHON) console.log("registry in Python: SKIPPED, no python3 with the package cryptography");

Deno.test({
  name: "a registry in Python, written from docs/protocol.md, issues an agent that pairs and sends a message",
  ignore: !HAS_PYTHON,
  async fn() {
    await using folder = await tempFolder();
    const here: Person["machine"] = { address: "127.0.0.1", program: (program) => program };
    const ada = new Person(here, `${folder.path}/ada`), port = String(freePort());
    const team = { person: ada, agent: "alpha", alias: "alpha@127.0.0.1", serve: ["serve", "--port", port] };
    const { server, connector } = await openTeam(team);
    await using _server = server;
    await using _connector = connector;
    const { ticket = "" } = await ada.call("alpha", "/v1/pair/start", {});
    const program = new URL("../../docs/examples/registry.py", import.meta.url).pathname;
    const child = new Deno.Command("python3", {
      args: [program, "127.0.0.2", String(freePort()), ticket],
      stdout: "piped",
      stderr: "piped",
    });
    const { code, stdout, stderr } = await within(START_MS, "the registry ends", child.output());
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    assertEquals(JSON.parse(new TextDecoder().decode(stdout)).delivered, true);
    const { messages: [message] } = JSON.parse(await ada.svc("inbox", "--json", "--agent", "alpha"));
    assertEquals([message.text, message.verified, message.from.alias], [
      "Hello from Python",
      "end-to-end",
      "py-beta@127.0.0.2",
    ]);
  },
});

Deno.test({
  name:
    "two servers with names and TLS on two machines: a ticket, questions and answers in both directions, and what waits",
  ignore: !HAS_OPENSSL,
  async fn() {
    const names = { [SERVER]: "a.example", [LAPTOP]: "b.example" } as const;
    const hosts = Object.entries(names).map((line) => line.join(" ")).join("\n");
    await using machines = await TwoMachines.open({ wantsNat: false, hosts });
    // The names lead nowhere then; the test above has told the story.
    if (machines.kind === "one machine") return;
    await using folder = await tempFolder();
    const authority = `${folder.path}/authority`, ca = `${authority}/ca.pem`;
    // Their addresses are inside a network, as those of two servers in one company would be.
    const env = { SVC_CA: ca, DENO_CERT: ca, FEDERATION_PRIVATE: "true" };
    const team = (name: string, agent: string, host: string, machine: Person["machine"]): Team => ({
      person: new Person(machine, `${folder.path}/${name}`, env),
      agent,
      alias: `${agent}@${host}`,
      serve: ["serve", "--behind-proxy", "--public-url", `https://${host}`, "--port", "8787"],
    });
    const a = team("ada", "alpha", names[SERVER], machines.server);
    const b = team("bob", "beta", names[LAPTOP], machines.laptop);
    await using _front = await startFront(a.person, authority, "443", "8787", names[SERVER]);
    await using _other = await startFront(b.person, authority, "443", "8787", names[LAPTOP]);
    await story(a, b);
  },
});
