/** Each agent's connector keeps its port from start to start. Real processes. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { attempt, createAgents, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { freePort, Service } from "../support/process.ts";
import { longTest } from "../support/trials.ts";

const program = await bundledProgram();

longTest("two agents that start together keep their ports, and a token is good for its own agent only", async (t) => {
  await using service = await Service.here();
  const dir = service.home;
  await createAgents(dir, service, ["alpha", "beta"]);
  const start = (name: string, ...args: string[]) => RunningConnector.start(dir, name, args, { program });
  const portCheck = async (name: string) => {
    const { result } = await attempt(dir, ["provider", "doctor", "--agent-name", name], {}, program);
    const checks = result.checks as { name: string; ok: boolean; seen: string }[];
    return checks.find((check) => check.name === "port");
  };
  // Ports that other connectors on this machine do not look for.
  for (const name of ["alpha", "beta"]) await (await start(name, "--port", String(freePort()))).child.end("SIGTERM");
  const both = async () => {
    const running = await Promise.all([start("alpha"), start("beta")]);
    for (const { child } of running) await child.end("SIGTERM");
    return running.map(({ file }) => file.url);
  };
  const [alpha = "", beta] = await both();

  await t.step("later starts together have the same ports", async () => {
    assertNotEquals(alpha, beta);
    assertEquals(await both(), [alpha, beta]);
  });

  await t.step("a token at another agent's port gets 401 with the name of that agent", async () => {
    await using one = await start("alpha");
    await using two = await start("beta");
    const headers = { Authorization: `Bearer ${one.file.token}` };
    const response = await fetch(`${two.file.url}/v1/status`, { headers });
    const { error } = await response.json();
    assertEquals([response.status, error.code], [401, "CONNECTOR_UNAUTHORIZED"]);
    assertEquals(error.message, "This is the connector of beta; its token is in connector.json of that agent");
  });

  await t.step("a taken port is reported and avoided for one run; the next run has it again", async () => {
    const port = Number(new URL(alpha).port);
    {
      await using _other = Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, () => new Response());
      await using moved = await start("alpha");
      assert(moved.events.some(({ event, from }) => event === "port_moved" && from === port));
      assertNotEquals(moved.file.url, alpha);
      const { api } = await moved.json("GET", "/v1/status");
      assertEquals(api, { url: moved.file.url, movedFrom: port });
      const check = await portCheck("alpha");
      assertEquals([check?.ok, check?.seen], [false, `${api.url}, because another program has port ${port}`]);
    }
    await using back = await start("alpha");
    assertEquals(back.file.url, alpha);
    assertEquals((await portCheck("alpha"))?.ok, true);
  });
});
