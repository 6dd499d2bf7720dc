/**
 * The environment of Deno Deploy: an attached database over KV Connect, the variable that forbids any other store, no
 * file that may be read or written, SIGINT with 5 s, and two revisions side by side. The database is a denokv.
 */
import { assert, assertEquals } from "@std/assert";
import { type ApiError, RegistryClient } from "../support/agent_client.ts";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import {
  bootstrap,
  Connector,
  deps,
  eventually,
  freePort,
  messageTo,
  newAgent,
  pair,
  type ServerProcess,
  SOON_MS,
  startServer,
  tempFolder,
} from "../support/process.ts";

const denokv = await findDenokv();

/** Time that Deno Deploy gives a revision to stop. */
const STOP_MS = 5_000;

/** Starts `deploy.ts` as Deno Deploy does, and waits until it answers. */
async function startRevision(folder: string, name: string, database: Denokv, env: Record<string, string>) {
  const began = performance.now();
  const server = await startServer({
    folder,
    entry: ["--deny-read", "--deny-write", "--deny-run", "--deny-sys", "deploy.ts"],
    env: {
      KV_URL: "",
      DENO_DEPLOYMENT_ID: name,
      DENO_KV_DEFAULT_PATH: database.address,
      DENO_KV_ACCESS_TOKEN: accessToken(),
      DENO_KV_REQUIRES_DISTRIBUTED_DATABASE: "error",
      ...env,
    },
  });
  const answer = await fetch(`${server.address}/health`);
  await answer.body?.cancel();
  assertEquals(answer.status, 200);
  console.log(`revision ${name}: ${Math.round(performance.now() - began)} ms from start to the first answer`);
  return server;
}

Deno.test({
  name: "two revisions as on Deno Deploy are one service on the attached database, without access to files",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using database = await Denokv.start(denokv ?? "", `${folder.path}/database.sqlite`);
    const origin = `http://127.0.0.1:${freePort()}`;
    const revision = (name: string, port: number): Promise<ServerProcess> =>
      startRevision(folder.path, name, database, { REGISTRY_URL: origin, PROXY_URL: origin, PORT: String(port) });
    await using old = await revision("old", Number(new URL(origin).port));
    const place = { registryUrl: origin, proxyUrl: origin };
    const apiKey = await bootstrap(place);
    const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
    await pair(a, b);
    const atOld = await Connector.open(place, b);
    assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);

    await using fresh = await revision("fresh", freePort());
    // A load balancer sends some requests for the public origin to the second revision.
    const dial = ((input: string, init?: RequestInit) =>
      fetch(input.replace(origin, fresh.address), init)) as typeof fetch;
    const throughFresh = { ...deps, fetch: dial };
    const registry = new RegistryClient(throughFresh, origin);
    const late = await newAgent(place, apiKey, "late", throughFresh);
    await pair(late, b);
    assertEquals((await late.client.sendMessage(messageTo(b))).delivered, true);
    assertEquals(atOld.frames.length, 2);
    await registry.deleteAgent(apiKey, late.agent.id);
    // The end of the pair or of the session may be known before the revocation list.
    const codes = ["PROXY_AUTH_REVOKED", "PROXY_AUTH_FORBIDDEN", "PROXY_AGENT_ACCESS_INVALID"];
    const isRefused = ({ code }: ApiError) => codes.includes(code ?? "") || undefined;
    // The other revision relies on what it has read for a second; what it accepts until then, the first one may refuse
    // to deliver.
    await eventually(
      SOON_MS,
      "the deleted agent is refused",
      () => late.client.sendMessage(messageTo(b)).then(() => undefined, isRefused),
    );

    const { code } = await old.end("SIGINT", STOP_MS);
    assertEquals(code, 0);
    assert((await atOld.closed).code === 1001, "the old revision closes its links");
    assertEquals((await registry.me(apiKey)).human.role, "admin");
    assertEquals((await fresh.end("SIGINT", STOP_MS)).code, 0);
    assertEquals([...old.stderr.lines, ...fresh.stderr.lines].filter((line) => line.includes('"level":"error"')), []);
  },
});
