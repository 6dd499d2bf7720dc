/**
 * The connectors of several agents in one process: each agent gets its own messages, a failure of one agent does not
 * disturb the others, and agents are created and deleted while the process runs. With 100 agents it is in
 * `tests/soak/connector_agents_test.ts`.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AgentSet, SharedRuntime } from "../cli/connector/agent_set.ts";
import { FleetProcess, isThere, manyAgents } from "../cli/connector/many_agents.ts";
import { attemptHere, RunningConnector, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service, SOON_MS } from "../support/process.ts";
import { longTest } from "../support/trials.ts";

const program = await bundledProgram();

longTest(
  "six agents in one process get their own messages, also when three of them fail",
  (t) => manyAgents(t, 6, null),
);

Deno.test("an agent that is created and one that is deleted take effect in a running process", async () => {
  await using service = await Service.here();
  await using runtime = new SharedRuntime();
  const agents = await AgentSet.create(service.home, service, runtime, 0);
  await agents.add("a");
  await using fleet = new FleetProcess(service.home, "--all");
  await fleet.connected(["a"]);
  await agents.add("b");
  await agents.svc("agent", "delete", "a", "--yes");
  await fleet.connected(["b"]);
  await eventually(60_000, "the connector of a ends", () => fleet.agentsWith("stopped").includes("a") || undefined);
  assert(!await isThere(`${service.home}/agents/a`));
  await agents.deliverToEach(["b"], "for");
  assertEquals((await fleet.end("SIGTERM")).code, 0);
});

Deno.test("named agents run in one process, except one that another process runs", async (t) => {
  await using service = await Service.here();
  await using runtime = new SharedRuntime();
  const agents = await AgentSet.create(service.home, service, runtime, 3);
  const dir = service.home;

  await t.step("the agent of another process is busy, and the others run", async () => {
    await using other = await RunningConnector.start(dir, "agent-1", [], { program });
    await using fleet = new FleetProcess(dir, "agent-1", "agent-2", "agent-2");
    await fleet.connected(["agent-2"]);
    const busy = await eventually(SOON_MS, "agent-1 is busy", () => fleet.events.find(({ event }) => event === "busy"));
    assertEquals([busy.agent, busy.pid], ["agent-1", other.file.pid]);
    assertEquals((await svcHere(dir, ["connector", "status", "agent-2"])).pid, fleet.pid);
    await agents.deliverToEach(["agent-1", "agent-2"], "for");
    const received = await eventually(
      SOON_MS,
      "agent-2 reports its message",
      () => fleet.events.find(({ event }) => event === "received"),
    );
    assertEquals([received.agent, received.from, received.peer], ["agent-2", agents.peer.agent.did, "peer"]);
    assertEquals((await fleet.end("SIGTERM")).code, 0);
  });

  await t.step("options of one agent, no agent, and agents with --all are usage errors", async () => {
    const lines: [string[], string][] = [
      [["agent-1", "agent-2", "--port", "20000"], "--port is for the connector of one agent"],
      [["--all", "--runtime-base-url", runtime.url], "--runtime-base-url is for"],
      [["--all", "--hook-token", "t"], "--hook-token is for"],
      [["--all", "--hook-path", "/x"], "--hook-path is for"],
      [["--all", "--save"], "--save needs one of"],
      [["--all", "agent-1"], "Give either an agent name or --all"],
      [[], "There are several agents on this machine. Name one of"],
    ];
    for (const [line, message] of lines) {
      const { code, error } = await attemptHere(dir, ["connector", "start", ...line]);
      assertEquals([code, error?.code], [2, "CLI_USAGE"], line.join(" "));
      assertStringIncludes(error?.message ?? "", message);
    }
    const { code, error } = await attemptHere(dir, ["connector", "start", "agent-1", "nobody"]);
    assertEquals([code, error?.code], [4, "CLI_AGENT_UNKNOWN"]);
  });

  await t.step("the process ends with the first failure when every named agent has failed", async () => {
    for (const name of ["agent-1", "agent-2"]) await Deno.writeTextFile(`${dir}/agents/${name}/secret.key`, "x");
    await using fleet = new FleetProcess(dir, "agent-1", "agent-2", "--json");
    assertEquals((await fleet.status).code, 1);
    assertStringIncludes(fleet.stderr.text, "CLI_FILE_INVALID");
    assertEquals(fleet.agentsWith("agent_stopped"), ["agent-1", "agent-2"]);
  });
});
