/**
 * The README's lines for two servers, typed on two machines: each has a server with a name of its own and TLS of a private
 * authority, an account, and an agent. Also a registry in another language beside a server.
 */
import { assertEquals } from "@std/assert";
import { Person, START_MS, startFront } from "../e2e/machine_person.ts";
import { openTeam, type Team } from "../e2e/server_team.ts";
import { twoServers } from "../e2e/two_servers.ts";
import { HAS_OPENSSL } from "../support/private_authority.ts";
import { freePort, tempFolder, within } from "../support/process.ts";
import { LAPTOP, SERVER, TwoMachines } from "../support/two_machines.ts";

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
    // The names lead nowhere then; the gate has told the story.
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
    await twoServers(a, b);
  },
});
