/** What the server and the connector do with an error that no code handles. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createAgents, RunningConnector } from "../cli/connector/people.ts";
import { eventually, freePort, Service, SOON_MS, startServer, tempFolder, within } from "../support/process.ts";

Deno.test("a rejection and an exception that no code handles are logged without their secret; the exception ends the server for a clean start", async () => {
  await using folder = await tempFolder();
  // The store belongs to the address of its first start.
  const options = { folder: folder.path, env: { PORT: String(freePort()) } };
  const ready = async (url: string) => {
    const { status, body } = await fetch(`${url}/readyz`);
    await body?.cancel();
    return status;
  };
  await using server = await startServer({ ...options, entry: ["tests/support/defective_server_program.ts"] });
  const logged = async (event: string) => {
    const isLogged = (text: string) => text.includes(event);
    return JSON.parse(await eventually(SOON_MS, event, () => server.stderr.lines.find(isLogged)));
  };
  const { level, cause } = await logged("unhandled_rejection");
  assertEquals([level, cause], ["error", { name: "Error", message: "the promise held [redacted]" }]);
  assertEquals(await ready(server.address), 200);

  server.signal("SIGUSR2");
  assertEquals((await within(SOON_MS, "the end", server.status)).code, 1);
  const exception = await logged("uncaught_exception");
  assertEquals(exception.cause, { name: "Error", message: "the timer held [redacted]" });
  // Without the place in the code, an operator could not report where the defect is.
  assertStringIncludes(exception.stack, "defective_server_program.ts");
  assert(!server.stderr.text.includes("svc_pat_"), server.stderr.text);
  await using again = await startServer(options);
  assertEquals(await ready(again.address), 200);
});

Deno.test("an exception that no code handles ends a connector with a line without its secret, and with what to do", async () => {
  await using service = await Service.here();
  await createAgents(service.home, service, ["alpha"]);
  const args = ["run", "--quiet", "-A", "--no-check", "tests/support/defective_connector_program.ts"];
  const program = { name: "defective", command: Deno.execPath(), args };
  await using connector = await RunningConnector.start(service.home, "alpha", [], { program });
  connector.child.signal("SIGUSR2");
  assertEquals((await within(SOON_MS, "the end", connector.child.status)).code, 1);
  const [first, place, advice] = connector.child.stderr.lines;
  assertEquals(first, "error: CLI_UNEXPECTED: Error: the timer held [redacted].");
  assertStringIncludes(place ?? "", "defective_connector_program.ts");
  assertEquals(advice, "  Start the connector again, and please report it.");
});
