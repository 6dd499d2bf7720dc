/** A connector whose standard output is not read, as of a program that starts it and forgets its pipe. */
import { assert, assertEquals } from "@std/assert";
import { bundledProgram } from "../cli/program.ts";
import { childCommand } from "../support/child_command.ts";
import { eventually, messageTo, PATIENT, Service, SOON_MS, within } from "../support/process.ts";
import { ProcessOutput } from "../support/process_output.ts";
import { connectedSockets, pairedAgents } from "./harness.ts";

/** Each has an event of over 200 bytes: together more than the pipe of the system (64 KiB) holds. */
const MESSAGES = 400, AT_ONCE = 20;

Deno.test("a connector goes on receiving while its events are not read, and they are all there in the end", async () => {
  await using service = await Service.here(PATIENT);
  const { a, b } = await pairedAgents(service, service.home);
  const { command, args } = await bundledProgram();
  const line = [...args, "connector", "start", "b", "--config-dir", service.home];
  const connector = childCommand(line, { DENO_NO_UPDATE_CHECK: "1" }, { command, stdin: "null" }).spawn();
  // A connector that stands still does not end by itself.
  let isOver = false;
  using _ = { [Symbol.dispose]: () => isOver || connector.kill("SIGKILL") };
  await eventually(
    SOON_MS,
    "the connector connects",
    async () => await connectedSockets(service.url) === 1 || undefined,
  );
  const to = messageTo({ ...a, identity: { ...a.identity, did: b.agent.did } });
  const send = async () => assert((await a.client.sendMessage(to)).delivered);
  for (let n = 0; n < MESSAGES; n += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, send));
  const output = new ProcessOutput(connector.stdout);
  await eventually(SOON_MS, "the events", () => output.text.split('"event":"received"').length > MESSAGES || undefined);
  connector.kill("SIGTERM");
  const { code } = await within(SOON_MS, "the connector ends", connector.status);
  isOver = true;
  assert(code === 0 && output.text.endsWith("\n"), `exit code ${code}`);
  assertEquals(JSON.parse(output.text.trimEnd().split("\n").at(-1) ?? "").event, "stopped");
  await connector.stderr.cancel();
});
