/**
 * A person is suspended and restored while agents are connected (D-170): every socket closes with 4401, a connector of
 * `svc` stays and says why, and after the restore the same files work again.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { AdminClient } from "../../cli/client/admin_client.ts";
import { clientFromFiles, createAgents, Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { RegistryClient } from "../support/agent_client.ts";
import { deps, eventually, newAgent, refusedWith, Service, SOON_MS, within } from "../support/process.ts";

const AGENTS = 4;

Deno.test("the agents of a suspended person end at once, and their files work again after the restore", async () => {
  const program = await bundledProgram();
  await using service = await Service.here();
  await using runtime = new Listener();
  const dir = service.home;
  const registry = new RegistryClient(deps, service.url);
  const { invite } = await registry.createInvite(service.apiKey);
  const { human, apiKey: { token } } = await registry.redeemInvite(invite.code, "Bob");
  await createAgents(dir, { url: service.url, apiKey: token }, ["b"]);
  const a = await service.agent("a");
  const b = await clientFromFiles(dir, "b", service.url);
  const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
  await b.pairConfirm(ticket, { agentName: "b", humanName: "B" });
  const start = () => RunningConnector.start(dir, "b", ["--runtime-base-url", runtime.url], { program });
  await using first = await start();
  const others = [];
  for (let i = 0; i < AGENTS; i++) others.push(await newAgent(service.place, token, `b-${i}`));
  const sockets = await Promise.all(others.map((agent) => service.connect(agent)));
  const bystander = await service.connect(a);

  const admin = new AdminClient(deps, service.url, service.apiKey);
  const { person, complete } = await admin.suspend(human.id, "a test");
  assertEquals([person.status, complete], ["suspended", true]);
  await refusedWith("ACCOUNT_SUSPENDED", registry.me(token));
  const closed = await within(SOON_MS, "the sockets close", Promise.all(sockets.map((socket) => socket.closed)));
  assertEquals(closed.map(({ code }) => code), Array(AGENTS).fill(4401));
  const problem = await eventually(30_000, "the connector says why it waits", async () => {
    const { connection } = await first.json("GET", "/v1/status");
    return String(connection.problem).includes("ACCOUNT_SUSPENDED") ? String(connection.problem) : undefined;
  });
  assertEquals(problem, "ACCOUNT_SUSPENDED: Bob's account is suspended. Ask the administrator");
  for (const text of ["one", "two"]) {
    const words = ["send", a.agent.did, text, "--agent", "b", "--config-dir", dir];
    const { stderr } = await output(program.command, [...program.args, ...words]);
    assertStringIncludes(stderr, "Kept: the server does not take it now: an admin has suspended this account.");
  }
  await first[Symbol.asyncDispose]();
  const message = { recipientDid: a.agent.did, payload: '{"message":"hi"}' };
  await refusedWith("PROXY_AGENT_ACCESS_INVALID", b.sendMessage(message));

  assertEquals((await admin.restore(human.id, undefined)).complete, true);
  assertEquals((await registry.me(token)).human.status, "active");
  await using _second = await start();
  const { did } = b.agent;
  await a.client.sendMessage({ recipientDid: did, payload: '{"message":"again"}' });
  await eventually(SOON_MS, "the runtime has the message", () => runtime.received.length > 0 || undefined);
  await Promise.all([
    bystander.close(),
    ...others.slice(0, 1).map(async (agent) => {
      await (await service.connect(agent)).close();
    }),
  ]);
});
