/**
 * The environment of Deno Deploy (D-219): an attached database over KV Connect, and the variable that forbids any other
 * store. Needs a KV Connect server: `denokv` on the path, or its path in DENOKV_BIN.
 */
import { assertEquals } from "@std/assert";
import { ChildProcess, eventually, freePort, startServer, tempFolder } from "../support/process.ts";

/** The server of denoland/denokv, when it is installed. */
async function findDenokv(): Promise<string | null> {
  const candidate = Deno.env.get("DENOKV_BIN") ?? "denokv";
  try {
    const output = await new Deno.Command(candidate, { args: ["--help"], stdout: "null", stderr: "null" }).output();
    return output.success ? candidate : null;
  } catch {
    return null;
  }
}

const denokv = await findDenokv();
const TOKEN = "access-token-of-the-e2e-tests";

Deno.test({
  name: "a server with the variables of Deno Deploy works on the attached database",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    const port = freePort();
    const address = `http://127.0.0.1:${port}`;
    const options = ["serve", "--addr", `127.0.0.1:${port}`, "--access-token", TOKEN];
    await using _database = new ChildProcess(
      ["--sqlite-path", `${folder.path}/database.sqlite`, ...options],
      {},
      denokv ?? "",
    );
    await eventually(10_000, "the database answers", () =>
      fetch(address).then(async ({ body }) => {
        await body?.cancel();
        return true;
      }, () => undefined));
    await using server = await startServer({
      folder: folder.path,
      env: {
        KV_URL: "",
        DENO_DEPLOYMENT_ID: "deployment",
        DENO_KV_DEFAULT_PATH: address,
        DENO_KV_ACCESS_TOKEN: TOKEN,
        DENO_KV_REQUIRES_DISTRIBUTED_DATABASE: "error",
      },
    });
    await eventually(10_000, "GET /health is 200", async () => {
      const answer = await fetch(`${server.address}/health`);
      await answer.body?.cancel();
      return answer.status === 200 || undefined;
    });
    assertEquals((await server.end()).code, 0);
  },
});
