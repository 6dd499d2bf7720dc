/** The view of a connector that runs elsewhere, for example as a service. */
import { assertEquals } from "@std/assert";
import { attachScreen } from "../../../cli/connector/talk/screen.ts";
import { Output } from "../../../cli/terminal/output.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { knowPeer } from "../../support/known_peer.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { stopping } from "./bench.ts";
import { contextOf } from "./context.ts";
import { connectorOfAlpha, machineWithAlpha, pairAlpha } from "./local_machine.ts";

const SECOND_MS = 1_000;

Deno.test("the view stays while the connector does not answer, and ends when it has ended", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  await using running = await connectorOfAlpha(world, machine);
  let shown = "", silentPid: number | null = 4711, isDown = false;
  const isSilent = () => shown.slice(shown.lastIndexOf("\r")).includes("1 offline");
  const { terminal, out } = screenOf(world, (text) => shown += text);
  const down = () => new LocalDown("alpha", "does not answer", { wasSent: true, silentPid });
  const calls: LocalCalls = {
    agentName: "alpha",
    send: (request) => isDown ? Promise.reject(down()) : running.calls.send(request),
  };
  const ctx = { ...contextOf(world, machine), terminal, out };
  const view = attachScreen(ctx, running.folder, calls, { program: null });
  const ended = view.then(() => null, ({ code }) => code);
  await seconds(world, 2);
  isDown = true;
  await seconds(world, 5);
  assertEquals(isSilent(), true);
  isDown = false;
  await seconds(world, 3);
  assertEquals(isSilent(), false);
  [isDown, silentPid] = [true, null];
  await seconds(world, 2);
  assertEquals(await ended, "CLI_CONNECTOR_DOWN");
});

async function seconds({ clock }: World, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await flushTasks();
    await clock.advance(SECOND_MS);
  }
  await flushTasks();
}

function screenOf(world: World, show: (text: string) => void) {
  const terminal = {
    stdout: (text: string) => {
      show(text);
      return true;
    },
    stderr: () => {},
    stdoutIsTerminal: true,
    stderrIsTerminal: true,
    columns: () => 80,
  };
  return { terminal, out: new Output(terminal, world.clock, { json: false, colour: false }) };
}

Deno.test("the view says once who has paired, also with a ticket that another program made", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  await pairAlpha(world, machine, "beta");
  await using running = await connectorOfAlpha(world, machine);
  let shown = "";
  const { terminal, out } = screenOf(world, (text) => shown += text);
  const ctx = { ...contextOf(world, machine), terminal, out };
  const view = attachScreen(ctx, running.folder, running.calls, { program: null });
  await seconds(world, 2);
  const gamma = await world.agent(undefined, "gamma");
  await knowPeer(machine.dir, "alpha", { did: gamma.agent.did, agentName: "gamma", humanName: "Ci" });
  await seconds(world, 3);
  assertEquals(shown.match(/Paired with .*/g), ["Paired with gamma of Ci."]);
  ctx.interrupt.press();
  await stopping(world, view);
});
