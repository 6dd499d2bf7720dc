/**
 * Three servers with names and TLS of a private authority on two machines: two that are paired, and the one of a hostile operator
 * . What its name leads to decides whether it is asked at all, and what it received opens nothing at the others.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Child } from "../bench/child.ts";
import { Person, START_MS, startFront } from "../e2e/machine_person.ts";
import { openTeam, type Team } from "../e2e/server_team.ts";
import { HAS_OPENSSL } from "../support/private_authority.ts";
import { childCommand } from "../support/child_command.ts";
import { tempFolder, within } from "../support/process.ts";
import { LAPTOP, NEIGHBOUR, SERVER, TwoMachines } from "../support/two_machines.ts";

const HOSTS = [
  `${SERVER} a.example`,
  `${LAPTOP} b.example`,
  `${NEIGHBOUR} h.example`,
  // Names that h's operator has chosen: an address of the asking server itself, and a public one beside it.
  "127.0.0.1 inside.example",
  `${NEIGHBOUR} both.example`,
  "93.184.215.14 both.example",
];
const H = "https://h.example";

Deno.test({
  name: "a third server is asked only where its name leads outside, and what it received opens nothing at the others",
  ignore: !HAS_OPENSSL,
  async fn() {
    await using machines = await TwoMachines.open({ wantsNat: false, hosts: HOSTS.join("\n") });
    if (machines.kind === "one machine") return console.log("three servers: SKIPPED, no network namespaces");
    await using folder = await tempFolder();
    await using stack = new AsyncDisposableStack();
    const authority = `${folder.path}/authority`, ca = `${authority}/ca.pem`;
    const team = (name: string, agent: string, host: string, machine: Person["machine"], isPrivate: boolean): Team => ({
      person: new Person(machine, `${folder.path}/${name}`, {
        ...{ SVC_CA: ca, DENO_CERT: ca },
        ...isPrivate ? { FEDERATION_PRIVATE: "true" } : {},
      }),
      agent,
      alias: `${agent}@${host}`,
      serve: ["serve", "--behind-proxy", "--public-url", `https://${host}`, "--port", "8787"],
    });
    const a = team("ada", "alpha", "a.example", machines.server, false);
    const b = team("bob", "beta", "b.example", machines.laptop, true);
    stack.use(await startFront(a.person, authority, "443", "8787", "a.example"));
    stack.use(await startFront(b.person, authority, "443", "8787", "b.example"));
    const { command, args } = machines.laptop.program({
      name: "h",
      command: Deno.execPath(),
      args: ["run", "-A", "--quiet", "--no-check", "tests/support/third_server_program.ts"],
    });
    const h = new Child([...args, authority, NEIGHBOUR, H, "https://a.example"], { DENO_CERT: ca }, command);
    stack.defer(() => h.end().then(() => {}));
    assertEquals(await within(START_MS, "h listens", h.line()), "ready");
    const ask = async (line: unknown) => {
      await h.tell(JSON.stringify(line));
      return JSON.parse(await within(START_MS, JSON.stringify(line), h.line()));
    };

    // Without FEDERATION_PRIVATE no name that leads inside is called, also with a public address beside it.
    let ofA = await openTeam(a);
    for (const as of ["https://inside.example", "https://both.example", H]) {
      const { ticket = "" } = await a.person.call(a.agent, "/v1/pair/start", {});
      assertMatch(await ask({ confirm: ticket, as }), /503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE/, as);
    }
    assertEquals(await ask({ connections: true }), 0);
    const listening = await openConnections(machines.server);
    assert(!listening.includes("SYN-SENT"), listening);

    // With it h is a server like any other: its agent pairs and writes.
    await ofA.connector.end();
    await ofA.server.end();
    a.person.env.FEDERATION_PRIVATE = "true";
    stack.use(a.person.start([...a.serve, "--store", `${a.person.folder}/svc.kv`]));
    ofA = { ...ofA, connector: stack.use(await a.person.connect(["connector", "start", a.agent, "--inbox"])) };
    const { ticket = "" } = await a.person.call(a.agent, "/v1/pair/start", {});
    assertEquals(await ask({ confirm: ticket, as: H }), "201");
    const { did } = JSON.parse(await Deno.readTextFile(`${a.person.folder}/agents/${a.agent}/identity.json`));
    assertMatch(await ask({ message: did }), /^202/);

    // Beta is paired with alpha, and pastes a ticket of h: what h receives of it opens nothing at a.
    const ofB = await openTeam(b);
    stack.use(ofB.server);
    stack.use(ofB.connector);
    const { ticket: good = "" } = await a.person.call(a.agent, "/v1/pair/start", {});
    await b.person.call(b.agent, "/v1/pair/confirm", { ticket: good });
    await b.person.svc("send", a.alias, "before", "--agent", b.agent);
    const lure = good.replace("a.example", "h.example").replace(/_.{8}/, "_AAAAAAAA");
    await b.person.call(b.agent, "/v1/pair/confirm", { ticket: lure });
    const results = await ask({ replay: true });
    assert(results.tokens > 0, JSON.stringify(results));
    for (const [target, result] of Object.entries(results)) {
      if (target !== "tokens") assertMatch(String(result), /^401 PROXY_AUTH_/, target);
    }
    await b.person.svc("send", a.alias, "after", "--agent", b.agent);
  },
});

/** Connections of a machine that are open or begin. */
async function openConnections(machine: Person["machine"]): Promise<string> {
  const { command, args } = machine.program({ name: "ss", command: "ss", args: ["-tn"] });
  const { stdout } = await childCommand(args, {}, { command, stdin: "null" }).output();
  return new TextDecoder().decode(stdout);
}
