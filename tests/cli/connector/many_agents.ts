/** The connectors of many agents in one process, and the story that the gate runs with few of them. */
import { assert, assertEquals } from "@std/assert";
import { RegistryClient } from "../../support/agent_client.ts";
import { ChildProcess, deps, eventually, Service, tempFolder } from "../../support/process.ts";
import { bundledProgram } from "../program.ts";
import { AgentSet, SharedRuntime } from "./agent_set.ts";

const HAS_PROC = await Deno.stat("/proc/self/status").then(() => true, () => false);
const program = await bundledProgram();

/** A running `svc connector start` with several agents. */
export class FleetProcess extends ChildProcess {
  constructor(dir: string, ...args: string[]) {
    super([...program.args, "connector", "start", ...args, "--config-dir", dir], {}, program.command);
  }

  get events(): Record<string, unknown>[] {
    // The last line may be incomplete.
    return this.stdout.text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
  }

  /** The agents with this event, each once, in ascending order. */
  agentsWith(event: string): string[] {
    const found = this.events.filter((line) => line.event === event).map(({ agent }) => String(agent));
    return [...new Set(found)].sort();
  }

  async connected(names: readonly string[]): Promise<void> {
    const wanted = JSON.stringify([...names].sort());
    await eventually(120_000, `${names.length} agents connect\n${this.stderr.text}`, () => {
      const connected = this.agentsWith("connected").filter((name) => names.includes(name));
      return JSON.stringify(connected) === wanted || undefined;
    });
  }

  get residentMb(): number {
    const status = Deno.readTextFileSync(`/proc/${this.pid}/status`);
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
  }
}

export const isThere = (path: string) => Deno.stat(path).then(() => true, () => false);
const p99 = (times: readonly number[]) => times[Math.ceil(times.length * 0.99) - 1] ?? Infinity;

/**
 * Agents of one process get their own messages, also when three of them fail.
 *
 * @param goalMb most memory of the process, in MB; `null` does not check it
 */
export async function manyAgents(t: Deno.TestContext, count: number, goalMb: number | null): Promise<void> {
  await using service = await Service.here();
  await using folder = await tempFolder();
  await using runtime = new SharedRuntime();
  const agents = await AgentSet.create(folder.path, service, runtime, count);
  const names = [...agents.dids.keys()];
  const [garbage = "", revoked = "", hanging = "", ...others] = names;
  let idle = Infinity;

  await t.step("each agent gets its own messages only, within the memory goal", async () => {
    await using fleet = new FleetProcess(folder.path, "--all");
    await fleet.connected(names);
    idle = p99(await agents.deliverToEach(names, "for"));
    assertEquals(runtime.handed.filter(({ agent, text }) => text !== `for ${agent}`), []);
    assertEquals(runtime.handed.length, count);
    if (goalMb === null) console.log(`${count} agents: p99 ${idle.toFixed(0)} ms`);
    else if (HAS_PROC) {
      // V8 gives the garbage of these messages back after half a minute without work, on a busy machine later.
      const within = () => fleet.residentMb <= goalMb || undefined;
      await eventually(120_000, `${count} agents take at most ${goalMb} MB`, within);
      console.log(`${count} agents: ${fleet.residentMb.toFixed(0)} MB resident, p99 ${idle.toFixed(0)} ms`);
    } else console.log("The memory of the process is NOT checked here: there is no /proc");
    assertEquals((await fleet.end("SIGTERM")).code, 0);
    for (const name of names) assert(!await isThere(`${folder.path}/agents/${name}/connector.json`), name);
  });

  await t.step("a garbage database, a revoked agent and a hanging runtime do not disturb the others", async () => {
    const database = `${folder.path}/agents/${garbage}/connector.db`;
    for (const suffix of ["-wal", "-shm"]) await Deno.remove(database + suffix).catch(() => {});
    await Deno.writeTextFile(database, "not a database ".repeat(1_000));
    const id = (agents.dids.get(revoked) ?? "").split(":").at(-1) ?? "";
    await new RegistryClient(deps, service.place.registryUrl).deleteAgent(service.apiKey, id);
    runtime.hanging.add(hanging);
    await using fleet = new FleetProcess(folder.path, "--all");
    await fleet.connected([hanging, ...others]);
    for (let n = 0; n < 20; n++) await agents.send(hanging, `hold ${n}`, `c${n}`);
    await eventually(
      30_000,
      "the runtime hangs",
      () => runtime.handed.some(({ agent }) => agent === hanging) || undefined,
    );
    const times = await agents.deliverToEach(others, "next for");
    console.log(`${others.length} other agents: p99 ${p99(times).toFixed(0)} ms, ${idle.toFixed(0)} ms before`);
    // The runtime hangs all the time, so no delivery has waited for it. Only the long run, alone on its machine, looks at times.
    if (goalMb !== null) assert(p99(times) < Math.max(5_000, 20 * idle), `${p99(times)} ms`);
    await eventually(
      60_000,
      "two agents have stopped",
      () => fleet.agentsWith("agent_stopped").length === 2 || undefined,
    );
    assertEquals(fleet.agentsWith("agent_stopped"), [garbage, revoked].sort());
    assertEquals(fleet.agentsWith("defect"), []);
    assertEquals((await fleet.end("SIGTERM")).code, 0);
  });
}
