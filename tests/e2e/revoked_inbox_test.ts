/** `svc inbox` of an agent that another machine has revoked lists what is stored here, with a warning. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { attemptHere, createAgents, RunningConnector, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service } from "../support/process.ts";

Deno.test("the unread messages of a revoked agent are listed, and can be marked read", async () => {
  await using service = await Service.here();
  const program = await bundledProgram();
  const dir = `${service.home}/ada`, elsewhere = `${service.home}/elsewhere`;
  await createAgents(dir, service, ["alpha", "gamma"]);
  await createAgents(elsewhere, service, []);
  const { did } = JSON.parse(await Deno.readTextFile(`${dir}/agents/gamma/identity.json`));
  {
    await using alpha = await RunningConnector.start(dir, "alpha", ["--inbox"], { program });
    await using gamma = await RunningConnector.start(dir, "gamma", ["--inbox"], { program });
    const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
    await gamma.json("POST", "/v1/pair/confirm", { ticket });
    for (const text of ["one", "two"]) await svcHere(dir, ["send", did, text, "--agent", "alpha"]);
    await eventually(60_000, "both messages are stored", async () => {
      return (await gamma.json("GET", "/v1/inbox")).messages.length === 2 || undefined;
    });
  }
  await svcHere(elsewhere, ["agent", "delete", did, "--yes"], { SVC_API_KEY: service.apiKey });
  const list = (...words: string[]) => attemptHere(dir, ["inbox", "--agent", "gamma", ...words]);
  const [first, second] = [await list("--take"), await list()];
  assertEquals([first.code, first.result.messages.map(({ text }: { text: string }) => text)], [0, ["one", "two"]]);
  assertStringIncludes(
    first.result.warnings.join(),
    "only what is stored here, because the server refuses gamma: The agent gamma was deleted.",
  );
  assertEquals([second.code, second.result.messages], [0, []]);
});
