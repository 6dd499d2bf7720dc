/** The context of a command on a test's machine, without a terminal. */
import type { Context } from "../../../cli/context.ts";
import { Interrupt } from "../../../cli/terminal/interrupt.ts";
import { Output } from "../../../cli/terminal/output.ts";
import type { World } from "../../support/world.ts";
import type { Machine } from "../cli_world.ts";

export function contextOf(world: World, machine: Machine): Context {
  const silent = { stdout: () => true, stderr: () => {}, stdoutIsTerminal: false, stderrIsTerminal: false };
  return {
    fetch: (...request) => machine.fetch(...request),
    clock: world.clock,
    random: world.random,
    terminal: silent,
    stdin: () => Promise.resolve(new Uint8Array()),
    stdinIsTerminal: true,
    confirm: null,
    interrupt: new Interrupt(world.clock),
    env: () => undefined,
    os: Deno.build.os,
    uid: Deno.uid(),
    pid: Deno.pid,
    version: "0",
    configDir: machine.dir,
    baseDir: machine.dir,
    out: new Output(silent, world.clock, { json: true, colour: false }),
  };
}
