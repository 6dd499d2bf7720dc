/**
 * The session of a connector: an access token that expires is refreshed ahead of time and no message is lost; the
 * deletion of its agent ends the connector, which reports it.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { clientFromFiles, createAgents, Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { RegistryClient } from "../support/agent_client.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { ChildProcess, deps, eventually, Service, tempFolder, within } from "../support/process.ts";

/** Short enough to expire during the test; a connector refreshes at most every 5 s. */
const TOKEN_S = 6;

Deno.test("messages in both directions survive the expiry of both agents' access tokens", async () => {
  const program = await bundledProgram();
  await using service = await Service.open({
    ACCESS_TOKEN_TTL_SECONDS: String(TOKEN_S),
    SESSION_REVALIDATE_INTERVAL_MS: "500",
  });
  await using folder = await tempFolder();
  await using runtime = new Listener();
  const dir = folder.path;
  await createAgents(dir, service, ["alpha", "beta"]);
  const connectors: RunningConnector[] = [];
  try {
    for (const name of ["alpha", "beta"]) {
      const options = ["--runtime-base-url", runtime.url];
      connectors.push(await RunningConnector.start(dir, name, options, { program }));
    }
    const [alpha, beta] = connectors;
    assert(alpha && beta);
    const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
    await beta.json("POST", "/v1/pair/confirm", { ticket });
    const sent: string[] = [];
    const until = Date.now() + (TOKEN_S + 2) * 1000;
    while (Date.now() < until) {
      for (const [from, to] of [[alpha, "beta"], [beta, "alpha"]] as const) {
        const { requestId, delivered } = await from.json("POST", "/v1/outbound", { to, payload: { message: to } });
        assertEquals(delivered, true);
        sent.push(requestId);
      }
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    const handed = () => runtime.received.map(({ headers }) => headers.get("x-request-id"));
    await eventually(10_000, "all are handed over", () => handed().length >= sent.length || undefined);
    assertEquals(handed().toSorted(), sent.toSorted());
    for (const { events, child } of connectors) {
      const count = (name: string) => events.filter(({ event }) => event === name).length;
      assert(count("refreshed") >= 1, child.printed);
      assertEquals([count("connected"), count("disconnected"), count("refused")], [1, 0, 0], child.printed);
    }
    const { session, now } = await alpha.json("GET", "/v1/status");
    assert(session.accessExpiresAt > now);
  } finally {
    for (const connector of connectors) await connector[Symbol.asyncDispose]();
  }
});

Deno.test("a connector reports the fix when its agent is deleted, and at each later start", async () => {
  const program = await bundledProgram();
  await using service = await Service.open();
  await using folder = await tempFolder();
  const dir = folder.path;
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
