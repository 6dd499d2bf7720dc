/**
 * The environment of Deno Deploy (D-219): an attached database over KV Connect, and the variable that forbids any other
 * store. The database is a denokv.
 */
import { assertEquals } from "@std/assert";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { eventually, startServer, tempFolder } from "../support/process.ts";

const denokv = await findDenokv();

Deno.test({
  name: "a server with the variables of Deno Deploy works on the attached database",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using database = await Denokv.start(denokv ?? "", `${folder.path}/database.sqlite`);
    await using server = await startServer({
      folder: folder.path,
      env: {
        KV_URL: "",
        DENO_DEPLOYMENT_ID: "deployment",
        DENO_KV_DEFAULT_PATH: database.address,
        DENO_KV_ACCESS_TOKEN: accessToken(),
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
