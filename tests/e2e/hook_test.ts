/**
 * `svc hook claude-code` with real processes: it wakes once for each message, before, during and after its start,
 * across a restart of the connector; of parallel starts one waits; no byte of a text and no receipt leave it.
 */
import { assert, assertEquals } from "@std/assert";
import { RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram, type Program } from "../cli/program.ts";
import { eventually, newId, Service } from "../support/process.ts";
import { outputFor, PIPED } from "../support/process_output.ts";
import { longTest } from "../support/trials.ts";
import { pairedAgents } from "./harness.ts";

const program = await bundledProgram();
const TEXT = "SECRET-TEXT-OF-A-PEER";

/** A hook with its input, as Claude Code starts it. */
class Hook {
  readonly #child: Deno.ChildProcess;
  /** Exit code and output. */
  readonly ended: Promise<{ code: number; stdout: string; stderr: string }>;

  constructor({ command, args }: Program, dir: string, session: string, ...more: string[]) {
    const words = [...args, "hook", "claude-code", "b", "--config-dir", dir, ...more];
    this.#child = new Deno.Command(command, { ...PIPED, args: words }).spawn();
    this.ended = outputFor(JSON.stringify({ session_id: session, hook_event_name: "Stop" }), this.#child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  stop(): void {
    this.#child.kill("SIGTERM");
  }
}

const line = (what: string, who: string) => `svc: ${what} for b from "a". Call read_inbox. ${who}, not your user.\n`;
const ONE = { code: 2, stdout: "", stderr: line("1 new message", "It is from another agent") };
const NONE = { code: 0, stdout: "", stderr: "" };

Deno.test("the hook wakes once for each message, without a byte of it, and marks none read", async () => {
  await using service = await Service.here();
  const { a, b } = await pairedAgents(service, service.home);
  const send = async () => {
    const sent = { recipientDid: b.agent.did, payload: JSON.stringify({ message: TEXT }), requestId: newId() };
    assertEquals((await a.client.sendMessage(sent)).delivered, true);
    return sent.requestId;
  };
  const hook = (...more: string[]) => new Hook(program, service.home, "session-1", ...more);
  const start = () => RunningConnector.start(service.home, "b", ["--inbox"], { program });
  const hooks = `${service.home}/agents/b/hooks`;
  let id: string;
  {
    await using connector = await start();
    // Before the start.
    id = await send();
    assertEquals(await hook().ended, ONE);
    // It is ignored, and does not wake again.
    assertEquals(await hook("--timeout", "1").ended, NONE);
    // While one waits.
    const waiting = hook();
    const { messages } = await connector.json("GET", "/v1/inbox");
    assertEquals(messages.length, 1);
    await send();
    assertEquals(await waiting.ended, ONE);
    // Another session has its own count.
    const both = line("2 new messages", "They are from other agents");
    assertEquals((await new Hook(program, service.home, "session-2").ended).stderr, both);
    assertEquals((await connector.json("GET", "/v1/inbox")).messages.length, 2);
  }
  // Across a restart, also of a hook that waits while no connector runs.
  const waiting = hook();
  await using _connector = await start();
  await send();
  assertEquals(await waiting.ended, ONE);
  const stopped = hook();
  const isLocked = async () => {
    for await (const { name } of Deno.readDir(hooks)) {
      // The hook replaces a file of the session meanwhile.
      const text = await Deno.readTextFile(`${hooks}/${name}`).catch(() => "");
      if (text === `${stopped.pid}\n`) return true;
    }
  };
  await eventually(30_000, "the hook waits", isLocked);
  stopped.stop();
  assertEquals(await stopped.ended, NONE);
  assertEquals((await a.client.receipts(id, b.agent.did)).receipts, []);
  const files = [...Deno.readDirSync(hooks)].map(({ name }) => name);
  assertEquals(files.filter((name) => /^[A-Za-z0-9_-]{16}\.json$/.test(name)).length, 2);
  for (const name of files) assert(!Deno.readTextFileSync(`${hooks}/${name}`).includes(TEXT));
});

longTest("of eight hooks of a session that start at the same time one waits and wakes", async () => {
  await using service = await Service.here();
  const { a, b } = await pairedAgents(service, service.home);
  await using _connector = await RunningConnector.start(service.home, "b", ["--inbox"], { program });
  const hooks = Array.from({ length: 8 }, () => new Hook(program, service.home, "session"));
  let left = hooks.length;
  const others = Promise.withResolvers<void>();
  for (const { ended } of hooks) void ended.then(() => --left === 1 && others.resolve());
  await others.promise;
  await a.client.sendMessage({ recipientDid: b.agent.did, payload: '{"message":"x"}', requestId: newId() });
  const codes = (await Promise.all(hooks.map(({ ended }) => ended))).map(({ code }) => code);
  assertEquals(codes.sort(), [...Array<number>(7).fill(0), 2]);
});
