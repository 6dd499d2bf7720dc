/**
 * This version and the previous release as real processes, in both directions: reply headers and the signed context are
 * additions, so that every old client, connector and proxy goes on working (D-110, D-111, D-140).
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { attempt, Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { type PreviousRelease, previousRelease } from "../support/previous_release.ts";
import { messageTo, Service, tempFolder } from "../support/process.ts";
import { pairedAgents } from "./harness.ts";

const previous = await previousRelease();

function mixedTest(name: string, run: (previous: PreviousRelease) => Promise<void>): void {
  Deno.test({ name, ignore: previous === null, fn: () => run(previous as PreviousRelease) });
}

const REPLY = { conversationId: "c-1", inReplyTo: "request-0000", auto: true } as const;

mixedTest("an old connector takes and acknowledges a message with reply headers", async ({ program }) => {
  await using folder = await tempFolder();
  await using service = await Service.open();
  await using runtime = new Listener();
  const { a, b } = await pairedAgents(service, folder.path, program);
  await using connector = await RunningConnector.start(folder.path, "b", ["--runtime-base-url", runtime.url], {
    program,
  });
  const { delivered, requestId } = await a.client.sendMessage({
    recipientDid: b.agent.did,
    payload: '{"message":"hi"}',
    ...REPLY,
  });
  assertEquals(delivered, true);
  await connector.child.stdout.match(/"event":"handed_over"|Handed/i);
  const [received] = runtime.received;
  assertEquals([received?.headers.get("x-request-id"), received?.headers.get("x-svc-conversation-id")], [
    requestId,
    "c-1",
  ]);
  assertEquals(received?.headers.get("x-svc-in-reply-to"), null);
});

mixedTest("a client of the previous release, without a signed context, is accepted", async ({ program }) => {
  await using folder = await tempFolder();
  await using service = await Service.open();
  await using runtime = new Listener();
  const { a } = await pairedAgents(service, folder.path, program);
  await using old = await RunningConnector.start(folder.path, "b", ["--runtime-base-url", runtime.url], { program });
  const connector = await service.connect(a);
  const answer = await old.call("POST", "/v1/outbound", { to: a.agent.did, payload: { message: "hi" } });
  assertEquals([answer.status, (await answer.json()).delivered], [202, true]);
  const { inReplyTo, auto } = await connector.frame(1);
  assertEquals([inReplyTo, auto], [undefined, undefined]);
  await connector.close();
});

mixedTest("an old proxy accepts a signed context and reply headers, and leaves them out", async ({ entry }) => {
  await using service = await Service.open({}, false, entry);
  const { a, b } = await service.agents();
  const connector = await service.connect(b);
  const { delivered, requestId } = await a.client.sendMessage({ ...messageTo(b), ...REPLY });
  assertEquals(delivered, true);
  const frame = await connector.frame(1);
  assertEquals([frame.requestId, frame.conversationId, frame.inReplyTo, frame.auto], [
    requestId,
    "c-1",
    undefined,
    undefined,
  ]);
  await connector.close();
});

mixedTest("a connector of this version sends and receives at an old proxy", async ({ entry }) => {
  await using folder = await tempFolder();
  await using service = await Service.open({}, false, entry);
  await using runtime = new Listener();
  const program = await bundledProgram();
  const { a, b } = await pairedAgents(service, folder.path, program);
  await using connector = await RunningConnector.start(folder.path, "b", ["--runtime-base-url", runtime.url], {
    program,
  });
  const { delivered } = await a.client.sendMessage({ recipientDid: b.agent.did, payload: '{"message":"hi"}' });
  assertEquals(delivered, true);
  const far = await service.connect(a);
  const sent = await connector.call("POST", "/v1/outbound", { to: a.agent.did, payload: { message: "hi" } });
  assertEquals([sent.status, (await sent.json()).delivered], [202, true]);
  assertEquals((await far.frame(1)).fromAgentDid, b.agent.did);
  await far.close();
});

mixedTest("a command that needs a newer connector names the old one, which keeps running", async ({ program: old }) => {
  await using folder = await tempFolder();
  await using service = await Service.open();
  await using runtime = new Listener();
  const program = await bundledProgram();
  const { a } = await pairedAgents(service, folder.path, old);
  const options = ["--runtime-base-url", runtime.url];
  await using connector = await RunningConnector.start(folder.path, "b", options, { program: old });
  for (const args of [["send", a.agent.did, "hi", "--wait"], ["inbox"], ["sent"]]) {
    const { code, error } = await attempt(folder.path, args, {}, program);
    assertEquals([code, error?.code], [5, "CLI_CONNECTOR_DOWN"], args.join(" "));
    assertStringIncludes(error?.message ?? "", "The connector of b is one of an earlier svc");
    assertStringIncludes(error?.message ?? "", String(connector.file.pid));
  }
  assertEquals((await connector.call("GET", "/v1/status")).status, 200);
  assertEquals((await attempt(folder.path, ["connector", "status", "b"], {}, program)).code, 0);
});
