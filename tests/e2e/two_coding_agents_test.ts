/**
 * Two people with a coding agent each, on two machines, one behind NAT. One command a side installs the tools. They
 * pair with the tools, one asks, the other is woken and answers, and the answer is the result of the question's call
 * (D-128 to D-130).
 */
import { assertEquals } from "@std/assert";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { negotiationOf } from "../cli/mcp/mcp_client.ts";
import { bundledProgram, type Program } from "../cli/program.ts";
import { HAS_OPENSSL } from "../support/private_authority.ts";
import { freePort, tempFolder, within } from "../support/process.ts";
import { TwoMachines } from "../support/two_machines.ts";
import { Person, START_MS, startFront } from "./machine_person.ts";
import { longTest } from "../support/trials.ts";

const program = await bundledProgram();

// deno-lint-ignore no-explicit-any
type Data = any;

/** The coding agent of a person, started with what `svc mcp install` wrote into its files. */
class CodingAgent implements AsyncDisposable {
  private constructor(readonly person: Person, readonly agent: string, readonly client: Client) {}

  static async open(person: Person, agent: string): Promise<CodingAgent> {
    await Deno.mkdir(`${person.folder}/.claude`, { recursive: true });
    // Its home directory is that of the person; svc from the checkout needs the one with Deno's cache.
    const atHome = new Person(person.machine, person.folder, { ...person.env, HOME: person.folder });
    const install = atHome.start(["mcp", "install", agent, "--for", "claude-code", "--wake", "auto"], program);
    const { code } = await within(START_MS, "the installation", install.status);
    assertEquals(code, 0, install.printed);
    const { mcpServers } = JSON.parse(Deno.readTextFileSync(`${person.folder}/.claude.json`));
    const { command, args } = person.machine.program({ name: "entry", ...mcpServers[`svc-${agent}`] });
    const env = { HOME: person.folder, PATH: Deno.env.get("PATH") ?? "" };
    const client = new Client({ name: "coding-agent", version: "1" }, {
      capabilities: { elicitation: {} },
      versionNegotiation: negotiationOf("2026"),
    });
    // The person agrees to each question.
    client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { confirm: true } }));
    await client.connect(new StdioClientTransport({ command, args: [...args], env, stderr: "ignore" }));
    return new CodingAgent(person, agent, client);
  }

  async call(name: string, args: Record<string, unknown> = {}): Promise<Data> {
    const { content, isError, structuredContent } = await this.client.callTool({ name, arguments: args }, {
      timeout: START_MS,
    });
    if (isError) throw new Error(`${name}: ${JSON.stringify(content)}`);
    return structuredContent;
  }

  /** Runs the hook that is installed, as at the end of a turn; returns its exit code and the line that wakes the model. */
  async turnEnds(): Promise<{ code: number; line: string }> {
    const { hooks } = JSON.parse(Deno.readTextFileSync(`${this.person.folder}/.claude/settings.json`));
    const shell: Program = { name: "hook", command: "sh", args: ["-c", hooks.Stop[0].hooks[0].command] };
    const { command, args } = this.person.machine.program(shell);
    const env = { HOME: this.person.folder };
    const child = new Deno.Command(command, { args: [...args], env, stdin: "piped", stderr: "piped" }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(JSON.stringify({ session_id: "session-1", hook_event_name: "Stop" })));
    await writer.close();
    const { code, stderr } = await within(START_MS, "the hook", child.output());
    return { code, line: new TextDecoder().decode(stderr) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
  }
}

longTest({
  name: "a coding agent asks, the one on the other machine is woken, and its answer is the result of the call",
  ignore: !HAS_OPENSSL,
  async fn() {
    await using machines = await TwoMachines.open();
    await using folder = await tempFolder();
    const { server, laptop } = machines;
    const [port, behind] = [String(freePort()), String(freePort())];
    const env = { SVC_CA: `${folder.path}/authority/ca.pem` };
    const [ada, bob] = [new Person(server, `${folder.path}/ada`, env), new Person(laptop, `${folder.path}/bob`, env)];
    for (const { folder } of [ada, bob]) await Deno.mkdir(folder);
    await using _front = await startFront(ada, `${folder.path}/authority`, port, behind);
    const url = `https://${server.address}:${port}`;
    const store = `${folder.path}/svc.kv`;
    await using running = ada.start([
      "serve",
      "--port",
      behind,
      "--behind-proxy",
      "--public-url",
      url,
      "--store",
      store,
    ]);
    const [, bootstrap = ""] = await within(START_MS, "the server", running.stdout.match(/svc (admin bootstrap .*)\n/));
    await ada.svc(...bootstrap.split(" "));
    const { joinLink } = JSON.parse(await ada.svc("invite", "create", "--json"));
    await bob.svc("join", joinLink, "--agent", "beta");
    await ada.svc("agent", "create", "alpha");

    await using alpha = await CodingAgent.open(ada, "alpha");
    await using beta = await CodingAgent.open(bob, "beta");
    const { ticket } = await alpha.call("pair_start");
    const { peer } = await beta.call("pair_confirm", { ticket });
    assertEquals(peer.agentName, "alpha");
    const [paired] = (await alpha.call("list_peers")).peers;
    const woken = beta.turnEnds();
    const asking = alpha.call("send_message", { to: paired.alias, text: "Which port?", wait_seconds: 45 });
    const { code, line } = await woken;
    assertEquals([code, line], [
      2,
      `svc: 1 new message for beta from "${peer.alias}". Call read_inbox. It is from another agent, not your user.\n`,
    ]);
    const { messages: [question] } = await beta.call("read_inbox");
    assertEquals([question.text, question.from.alias], ["Which port?", peer.alias]);
    await beta.call("send_message", { to: peer.alias, text: "8443", reply_to: question.id });
    const { reply, state } = await asking;
    assertEquals([reply.text, reply.isReply, state], ["8443", true, "processed"]);
  },
});
