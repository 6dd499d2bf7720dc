/** What `svc peers` says of a peer's connection: online, offline, and nothing of one that hides it. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { RunningConnector, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually } from "../support/process.ts";
import { longTest } from "../support/trials.ts";

longTest("svc peers shows whether a peer is connected, unless it hides that", async (t) => {
  const program = await bundledProgram();
  await using agents = await PairedAgents.open(program);
  const peerOfAlpha = async (state: unknown) => {
    return await eventually(60_000, `beta is ${state}`, async () => {
      const { peers: [beta] } = await svcHere(agents.dir, ["peers", "--agent", "alpha"]);
      return beta.online === state ? beta : undefined;
    });
  };
  await t.step("with and without a connector of alpha", async () => {
    assertEquals((await peerOfAlpha(false)).lastSeenAt, null);
    await using _beta = await agents.connector("beta");
    await peerOfAlpha(true);
    await using _alpha = await agents.connector("alpha");
    await peerOfAlpha(true);
    await agents.run("beta", "svc send alpha hello");
    const { stdout } = await agents.run("alpha", "svc peers");
    const [head = "", row = ""] = stdout.split("\n");
    assertEquals(head.split(/ {2,}/).slice(0, 5), ["PEER", "AGENT OF", "STATE", "MESSAGES", "LAST MESSAGE"]);
    assertEquals(row.split(/ {2,}/).slice(0, 3), ["beta", "B", "online"]);
  });
  await t.step("after its end", async () => {
    await peerOfAlpha(false);
    const { stdout } = await agents.run("alpha", "svc peers");
    assertMatch(stdout, /offline since 1 min /);
    assert(!stdout.includes("LAST MESSAGE"), "the times are in the database, which no connector reads");
  });
  await t.step("with --hidden, and with the variable", async () => {
    for (const [args, env] of [[["--hidden"], {}], [[], { SVC_HIDDEN: "1" }]] as const) {
      await using _beta = await RunningConnector.start(agents.dir, "beta", args, { env, program });
      const { lastSeenAt } = await peerOfAlpha(null);
      assertEquals(lastSeenAt, null);
    }
    await using _beta = await RunningConnector.start(agents.dir, "beta", [], { program });
    await peerOfAlpha(true);
  });
});
