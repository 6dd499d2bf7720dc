/** Runtime settings of a connector: saved with --save for one agent or all, and shown in its status. */
import { assert, assertEquals } from "@std/assert";
import { attempt, createAgents, Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { Service, tempFolder } from "../support/process.ts";

const program = await bundledProgram();

Deno.test("connector start --save keeps the runtime settings, and the status names their source", async () => {
  await using service = await Service.here();
  await using folder = await tempFolder();
  await using runtime = new Listener();
  const dir = folder.path;
  await createAgents(dir, service, ["b"]);
  /** Starts and stops the connector; returns the runtime part of its status. */
  const statusOf = async (args: string[], more: Record<string, string> = {}) => {
    await using connector = await RunningConnector.start(dir, "b", args, { program, env: more });
    const { runtime: { url, platform, source } } = await connector.json("GET", "/v1/status");
    await connector.child.end("SIGTERM");
    return { url, platform, source };
  };
  const url = `${runtime.url}/in`;
  const given = ["--runtime-base-url", runtime.url, "--hook-path", "/in"];
  const refused = await attempt(dir, ["connector", "start", "b", "--save"], {}, program);
  assertEquals([refused.code, refused.error?.code], [2, "CLI_USAGE"]);

  const installed = { platform: "generic", baseUrl: runtime.url, hookPath: "/all" };
  await Deno.writeTextFile(`${dir}/runtime.json`, JSON.stringify(installed), { mode: 0o600 });
  assertEquals(await statusOf([]), { url: `${runtime.url}/all`, platform: "generic", source: "install" });

  const secret = { SVC_HOOK_TOKEN: "hook-token" };
  assertEquals(await statusOf(given, secret), { url, platform: "generic", source: "option" });
  const path = `${dir}/agents/b/runtime.json`;
  assert(await Deno.stat(path).then(() => false, () => true), "no setting is saved without --save");
  assertEquals(await statusOf([...given, "--save"], secret), { url, platform: "generic", source: "option" });
  assertEquals(JSON.parse(await Deno.readTextFile(path)).webhookToken, "hook-token");
  assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o600);
  assertEquals(await statusOf([]), { url, platform: "generic", source: "agent" });
});
