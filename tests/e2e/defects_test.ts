/** What the server does with an error that no code handles. */
import { assertEquals } from "@std/assert";
import { eventually, freePort, SOON_MS, startServer, tempFolder, within } from "../support/process.ts";

Deno.test("a rejection that no code handles is logged without its secret and ends nothing; an exception ends the server for a clean start", async () => {
  await using folder = await tempFolder();
  // The store belongs to the address of its first start.
  const options = { folder: folder.path, env: { PORT: String(freePort()) } };
  const ready = async (url: string) => {
    const { status, body } = await fetch(`${url}/readyz`);
    await body?.cancel();
    return status;
  };
  await using server = await startServer({ ...options, entry: ["tests/support/defective_server_program.ts"] });
  const line = await eventually(
    SOON_MS,
    "the line",
    () => server.stderr.lines.find((text) => text.includes("unhandled_rejection")),
  );
  const { level, cause } = JSON.parse(line);
  assertEquals([level, cause], ["error", { name: "Error", message: "the promise held [redacted]" }]);
  assertEquals(await ready(server.address), 200);

  server.signal("SIGUSR2");
  assertEquals((await within(SOON_MS, "the end", server.status)).code, 1);
  await using again = await startServer(options);
  assertEquals(await ready(again.address), 200);
});
