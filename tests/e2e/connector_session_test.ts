/** The deletion of its agent ends a connector, which reports it; tests/soak has the expiry of access tokens. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { clientFromFiles, createAgents, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { RegistryClient } from "../support/agent_client.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { ChildProcess, deps, Service, within } from "../support/process.ts";

Deno.test("a connector reports the fix when its agent is deleted, and at each later start", async () => {
  const program = await bundledProgram();
  await using service = await Service.here();
  const dir = service.home;
  await createAgents(dir, service, ["alpha"]);
  const { agent: { did } } = await clientFromFiles(dir, "alpha", service.url);
  const options = ["--runtime-base-url", "http://127.0.0.1:9"];
  await using connector = await RunningConnector.start(dir, "alpha", [...options, "--json"], { program });
  await new RegistryClient(deps, service.url).deleteAgent(service.apiKey, parseDid(did)?.id ?? "");
  const { code } = await within(30_000, "the connector ends", connector.child.status);
  const line = [...program.args, "connector", "start", "alpha", "--config-dir", dir, "--json", ...options];
  await using later = new ChildProcess(line, {}, program.command);
  assertEquals([code, (await within(30_000, "the later one ends", later.status)).code], [3, 3]);
  for (const { stderr } of [connector.child, later]) {
    const { message } = JSON.parse(stderr.text).error;
    assertStringIncludes(message, "The agent alpha was deleted");
    assertStringIncludes(message, "agent create alpha");
    assert(!message.includes("reissue"), message);
  }
});
