/** A server whose `PROXY_URL` changes: the commands of docs/operations.md lead its agents to the new address. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { attemptHere, svcHere } from "../cli/connector/people.ts";
import { BOOTSTRAP_SECRET, freePort, startServerHere, tempFolder } from "../support/process.ts";

Deno.test("an agent that signs for the old address of the proxy is told the command that leads it to the new one", async () => {
  await using folder = await tempFolder();
  const dir = `${folder.path}/ada`, port = freePort(), old = `http://127.0.0.1:${port}`;
  const start = (env: Record<string, string>) =>
    startServerHere({ folder: folder.path, env: { PORT: `${port}`, REGISTRY_URL: old, PROXY_URL: old, ...env } });
  {
    await using _first = await start({});
    await svcHere(dir, ["admin", "bootstrap", "--registry-url", old, "--bootstrap-secret", BOOTSTRAP_SECRET]);
    await svcHere(dir, ["agent", "create", "alpha"]);
  }
  // In the environment local the server would also accept what is signed for its loopback address.
  await using _second = await start({ ENVIRONMENT: "dev", PROXY_URL: `http://localhost:${port}` });
  const { error } = await attemptHere(dir, ["peers"]);
  assertEquals(error?.code, "PROXY_AUTH_INVALID_PROOF");
  const { fix } = await svcHere(dir, ["explain", "PROXY_AUTH_INVALID_PROOF"]);
  assertStringIncludes(fix, "run svc config init and start the connector again");
  await svcHere(dir, ["config", "init"]);
  assertEquals((await svcHere(dir, ["peers"])).peers, []);
});
