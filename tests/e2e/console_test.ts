/** The console over sockets: over plain HTTP on the own machine, and with the proxy in another process that ends. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  bootstrap,
  eventually,
  freePort,
  placeOf,
  SOON_MS,
  startServer,
  startServerHere,
  tempFolder,
} from "../support/process.ts";

interface Visit {
  base: string;
  cookie: string;
}

async function codeOf(registryUrl: string, apiKey: string): Promise<string> {
  const answer = await fetch(`${registryUrl}/v1/admin/console-codes`, {
    method: "POST",
    headers: { Authorization: `Bearer ${apiKey}` },
  });
  assertEquals(answer.status, 201);
  return (await answer.json() as { url: string }).url;
}

async function visit(url: string): Promise<Visit> {
  const { origin } = new URL(url);
  const answer = await fetch(url, { method: "POST", redirect: "manual", headers: { Origin: origin } });
  assertEquals(answer.status, 303);
  await answer.body?.cancel();
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  return { base: origin + (answer.headers.get("location") ?? "").replace(/\/overview$/, ""), cookie };
}

async function look({ base, cookie }: Visit, path: string): Promise<string> {
  const answer = await fetch(`${base}/${path}`, { headers: { Cookie: cookie } });
  assertEquals(answer.status, 200, path);
  return await answer.text();
}

/** The overview once the proxy has answered in time, which a busy machine delays. */
function overview(session: Visit): Promise<string> {
  return eventually(SOON_MS, "the overview of a proxy that is ready", async () => {
    const page = await look(session, "overview");
    return page.includes("Proxy ready") ? page : undefined;
  });
}

Deno.test("the console of one process opens by its code, over a restart, and shows the proxy's numbers", async () => {
  await using folder = await tempFolder();
  const env = { CONSOLE: "on", PORT: String(freePort()) };
  let session: Visit, url: string;
  {
    await using server = await startServerHere({ folder: folder.path, env });
    const apiKey = await bootstrap(placeOf(server));
    const closed = await fetch(`${server.address}/console`);
    assertEquals(closed.status, 403);
    assertStringIncludes(await closed.text(), "svc admin open");
    url = await codeOf(server.address, apiKey);
    session = await visit(url);
    const page = await overview(session);
    for (const part of ["Registry ready", "Time to acknowledgement"]) assertStringIncludes(page, part);
  }
  await using server = await startServerHere({ folder: folder.path, env });
  await overview(session);
  const again = await fetch(url, { method: "POST", redirect: "manual", headers: { Origin: server.address } });
  assertEquals(again.status, 404);
  await again.body?.cancel();
});

Deno.test("a server that listens on :: opens the console to a browser of its machine that uses IPv4", async () => {
  await using folder = await tempFolder();
  const port = String(freePort());
  await using _ = await startServerHere({ folder: folder.path, env: { CONSOLE: "on", HOST: "::", PORT: port } });
  const answer = await fetch(`http://127.0.0.1:${port}/console/open/a-code`);
  assertStringIncludes(await answer.text(), "Open the console?");
});

Deno.test("with the proxy in another process the console reads it over HTTP, and works when it has ended", async () => {
  await using folder = await tempFolder();
  const registryUrl = `http://127.0.0.1:${freePort()}`, proxyPort = String(freePort());
  const shared = { REGISTRY_URL: registryUrl, PROXY_URL: `http://127.0.0.1:${proxyPort}` };
  await using registry = await startServerHere({
    folder: folder.path,
    env: { ...shared, CONSOLE: "on", SVC_SERVICE: "registry", PORT: new URL(registryUrl).port },
  });
  const apiKey = await bootstrap(placeOf(registry));
  await using proxyFolder = await tempFolder();
  const session = await visit(await codeOf(registryUrl, apiKey));
  {
    await using _ = await startServer({
      folder: proxyFolder.path,
      env: { ...shared, SVC_SERVICE: "proxy", PORT: proxyPort },
    });
    const page = await overview(session);
    assert(!page.includes("cannot be reached"));
    assertEquals((await fetch(`${shared.PROXY_URL}/console`)).status, 404);
  }
  for (const path of ["overview", "queues", "deliveries?requestId=abcdefgh"]) {
    assertStringIncludes(await look(session, path), `${shared.PROXY_URL} cannot be reached.`, path);
  }
  for (const path of ["people", "agents", "invites", "audit", "limits"]) await look(session, path);
});
