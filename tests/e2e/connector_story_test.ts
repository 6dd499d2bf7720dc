/**
 * The five-minute story by `svc` alone: two people with a folder each on one machine, their connectors, a pairing through
 * the local API, a message, a plain HTTP listener in place of the runtime, a receipt; then the ends of it.
 */
import { assert, assertEquals } from "@std/assert";
import { Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { BOOTSTRAP_SECRET, ChildProcess, eventually, startServer, tempFolder, within } from "../support/process.ts";

Deno.test("two people pair and send a message by svc and curl alone, and see its receipt", async (t) => {
  await using folder = await tempFolder();
  await using server = await startServer({ folder: folder.path });
  const [ada, bob] = [`${folder.path}/ada`, `${folder.path}/bob`];
  await svc(ada, ["admin", "bootstrap", "--registry-url", server.address], { SVC_BOOTSTRAP_SECRET: BOOTSTRAP_SECRET });
  await svc(ada, ["config", "init", "--registry-url", server.address]);
  const invited = await svc(ada, ["invite", "create"]);
  const code = invited.code ?? invited.invite.code;
  await svc(bob, ["invite", "redeem", code, "--display-name", "Bob", "--registry-url", server.address]);
  await Promise.all([svc(ada, ["agent", "create", "alpha"]), svc(bob, ["agent", "create", "beta"])]);

  await using runtime = new Listener();
  await using alpha = await RunningConnector.start(ada, "alpha", ["--runtime-base-url", runtime.url]);
  await using beta = await RunningConnector.start(bob, "beta", [
    ...["--runtime-base-url", runtime.url, "--hook-path", "/in"],
  ]);

  await t.step("bare svc connector prints lines that work as they are", async () => {
    const { lines } = await svc(ada, ["connector"]);
    const start = (lines as string[]).find((line) => line.includes("/v1/pair/peers"));
    assert(start);
    const { code, stdout } = await new Deno.Command("sh", { args: ["-c", start] }).output();
    assertEquals([code, JSON.parse(new TextDecoder().decode(stdout))], [0, { peers: [] }]);
  });

  await t.step("they pair through the local API", async () => {
    const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
    assertEquals((await alpha.json("POST", "/v1/pair/status", { ticket })).status, "pending");
    const paired = await beta.json("POST", "/v1/pair/confirm", { ticket });
    assertEquals([paired.initiatorProfile.agentName, paired.responderProfile], ["alpha", {
      agentName: "beta",
      humanName: "Bob",
    }]);
    await within(5_000, "alpha hears of it", alpha.child.stdout.match(/"event":"paired"/));
    assertEquals(alpha.child.printed.includes(ticket), false);
  });

  await t.step("a message by alias arrives at the listener, and its receipt is seen", async () => {
    const payload = { message: "Hello beta", n: 1 };
    const { requestId, delivered } = await alpha.json("POST", "/v1/outbound", { to: "beta", payload });
    assertEquals(delivered, true);
    const receipts = await eventually(5_000, "the receipt is there", async () => {
      const query = new URLSearchParams({ to: "beta", requestId });
      const answer = await alpha.json("GET", `/v1/receipts?${query}`);
      return answer.receipts.length > 0 ? answer.receipts : undefined;
    });
    assertEquals(receipts[0].status, "processed_by_svc");
    assertEquals(runtime.handed.length, 1);
    assert(runtime.handed[0]?.body.includes("Hello beta"));
    assertEquals(runtime.handed[0]?.headers.get("x-request-id"), requestId);
  });

  await t.step("connector status tells how it is", async () => {
    const status = await svc(bob, ["connector", "status"]);
    assertEquals([status.well, status.connection.state, status.inbox.waiting, status.deadLetters], [
      true,
      "connected",
      0,
      0,
    ]);
    assert(status.connection.heartbeatMs >= 0 && status.runtime.reachable);
  });

  await t.step("relay-test goes there and back", async () => {
    const result = await svc(ada, ["provider", "relay-test", "--peer", "beta"]);
    assertEquals([result.healthy, result.status], [true, "processed_by_svc"]);
  });

  await t.step("doctor changes nothing (M20)", async () => {
    const tree = () =>
      [...Deno.readDirSync(`${bob}/agents/beta`)].filter(({ name }) => !name.startsWith("connector.db")).map(
        ({ name }) => {
          const path = `${bob}/agents/beta/${name}`;
          return [name, Deno.statSync(path).mtime?.getTime(), Deno.readTextFileSync(path)];
        },
      );
    await svc(bob, ["install", "--for", "generic", "--port", new URL(runtime.url).port]);
    const before = tree();
    const report = await svc(bob, ["provider", "doctor", "--peer", "alpha"]);
    assertEquals(report.healthy, true, JSON.stringify(report));
    assertEquals(tree(), before);
  });

  await t.step("a second connector of the same agent is refused, and says who has it", async () => {
    await using second = new ChildProcess([
      ...["run", "-A", "--no-prompt", "cli/main.ts", "connector", "start", "beta"],
      ...["--config-dir", bob],
    ]);
    assertEquals((await within(20_000, "it is refused", second.status)).code, 1);
    assert(second.stderr.text.includes(`process ${beta.child.pid}`), second.printed);
  });

  await t.step("a web page, another name and a wrong token get nothing", async () => {
    const authorization = { Authorization: `Bearer ${beta.file.token}` };
    const refused = async (headers: Record<string, string>) => {
      const response = await fetch(`${beta.file.url}/v1/status`, { headers });
      return `${response.status} ${(await response.json()).error.code}`;
    };
    assertEquals(await refused({}), "401 CONNECTOR_UNAUTHORIZED");
    assertEquals(await refused({ Authorization: "Bearer x" }), "401 CONNECTOR_UNAUTHORIZED");
    assertEquals(await refused({ ...authorization, Origin: "https://evil.example" }), "403 CONNECTOR_ORIGIN_FORBIDDEN");
    const socket = await Deno.connect({ hostname: "127.0.0.1", port: Number(new URL(beta.file.url).port) });
    const lines = ["GET /v1/status HTTP/1.1", "Host: evil.example", `Authorization: ${authorization.Authorization}`];
    await socket.write(new TextEncoder().encode(`${[...lines, "Connection: close", "", ""].join("\r\n")}`));
    const answer = await new Response(socket.readable).text();
    assert(answer.startsWith("HTTP/1.1 403 ") && answer.includes("CONNECTOR_HOST_FORBIDDEN"), answer);
  });

  await t.step("SIGTERM ends it within 5 s, cleanly; its files say so", async () => {
    assertEquals((await beta.child.end("SIGTERM", 5_000)).code, 0);
    assertEquals(beta.events.at(-1)?.event, "stopped");
    assertEquals(Deno.readTextFileSync(`${bob}/agents/beta/identity.json`).length > 0, true);
    const left = [...Deno.readDirSync(`${bob}/agents/beta`)].map(({ name }) => name);
    assertEquals(left.includes("connector.json"), false);
    for (const name of left) assertEquals((Deno.statSync(`${bob}/agents/beta/${name}`).mode ?? 0) & 0o077, 0, name);
  });
});
