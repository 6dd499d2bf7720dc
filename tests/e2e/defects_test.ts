/** What the server does with an error that no code handles. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eventually, freePort, SOON_MS, startServer, tempFolder, within } from "../support/process.ts";

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
