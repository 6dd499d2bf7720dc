/**
 * The platform inbox with real processes (D-116): a message is unread across kill -9 and a restart, `svc inbox --take`
 * gives its receipt, and unread messages go to a runtime that the agent gets later.
 */
import { assertEquals } from "@std/assert";
import { Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, newId, Service, tempFolder } from "../support/process.ts";
import { pairedAgents } from "./harness.ts";

const program = await bundledProgram();

Deno.test("a message is unread once across a kill, and has its receipt when it is taken", async () => {
  await using service = await Service.here();
  await using folder = await tempFolder();
  const { a, b } = await pairedAgents(service, folder.path);
  const to = b.agent.did;
  const send = (requestId: string) =>
    a.client.sendMessage({ recipientDid: to, payload: '{"message":"hi"}', requestId });
  const receipts = async (id: string) => (await a.client.receipts(id, to)).receipts.map(({ status }) => status);
  const ids = [newId(), newId()] as const;
  const killed = await RunningConnector.start(folder.path, "b", ["--inbox"], { program });
  assertEquals((await send(ids[0])).delivered, true);
  killed.child.signal("SIGKILL");
  await killed.child.status;
  assertEquals(await receipts(ids[0]), []);
  {
    await using connector = await RunningConnector.start(folder.path, "b", ["--inbox"], { program });
    const { messages } = await connector.json("GET", "/v1/inbox");
    assertEquals(messages.map(({ requestId }: { requestId: string }) => requestId), [ids[0]]);
    const { runtime } = await connector.json("GET", "/v1/status");
    assertEquals(runtime, {
      platform: "inbox",
      url: null,
      reachable: true,
      checkedAt: null,
      problem: null,
      replies: false,
      source: null,
    });
    await svc(folder.path, ["inbox", "--take"], { SVC_AGENT: "b" }, program);
    await eventually(30_000, "the receipt", async () => (await receipts(ids[0])).length > 0 || undefined);
    assertEquals(await receipts(ids[0]), ["processed_by_svc"]);
    assertEquals((await connector.json("GET", "/v1/inbox")).messages, []);
    assertEquals((await send(ids[1])).delivered, true);
  }
  await using runtime = new Listener();
  await using _connector = await RunningConnector.start(
    folder.path,
    "b",
    ["--runtime-base-url", runtime.url, "--yes"],
    {
      program,
    },
  );
  await eventually(30_000, "the unread message goes to the runtime", () => runtime.received.length > 0 || undefined);
  assertEquals(runtime.received.map(({ headers }) => headers.get("x-request-id")), [ids[1]]);
  await eventually(30_000, "its receipt", async () => (await receipts(ids[1])).length > 0 || undefined);
});
