/** The view of a connector that runs elsewhere, for example as a service. */
import { assertEquals } from "@std/assert";
import { attachScreen } from "../../../cli/connector/talk/screen.ts";
import { Output } from "../../../cli/terminal/output.ts";
import { knowPeer } from "../../support/known_peer.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { stopping } from "./bench.ts";
import { contextOf } from "./context.ts";
import { connectorOfAlpha, machineWithAlpha, pairAlpha } from "./local_machine.ts";

Deno.test("the view says once who has paired, also with a ticket that another program made", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  await pairAlpha(world, machine, "beta");
  await using running = await connectorOfAlpha(world, machine);
  let shown = "";
  const terminal = {
    stdout: (text: string) => (shown += text) !== "",
    stderr: () => {},
    stdoutIsTerminal: true,
    stderrIsTerminal: true,
    columns: () => 80,
  };
  const out = new Output(terminal, world.clock, { json: false, colour: false });
  const ctx = { ...contextOf(world, machine), terminal, out };
  const view = attachScreen(ctx, running.folder, running.calls, { program: null });
  const seconds = async (count: number) => {
    for (let i = 0; i < count; i++) {
      await flushTasks();
      await world.clock.advance(1_000);
    }
    await flushTasks();
  };
  await seconds(2);
  const gamma = await world.agent(undefined, "gamma");
  await knowPeer(machine.dir, "alpha", { did: gamma.agent.did, agentName: "gamma", humanName: "Ci" });
  await seconds(3);
  assertEquals(shown.match(/Paired with .*/g), ["Paired with gamma of Ci."]);
  ctx.interrupt.press();
  await stopping(world, view);
});
