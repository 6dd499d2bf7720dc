/**
 * Shows which service and which row a request reaches: the map of fixed paths gives the answers of the routers, for
 * every row of both services, for other methods, and where a row with a parameter has the same path.
 */
import { assertEquals } from "@std/assert";
import * as z from "zod";
import { PROXY_ROUTES } from "../../../../proxy/routes.ts";
import { REGISTRY_ROUTES } from "../../../../registry/routes.ts";
import { type App, type AppDeps, createApp } from "../../../../shared/server/http/app.ts";
import { Entry } from "../../../../shared/server/http/entry.ts";
import { json, type Method, type Route, routeFor } from "../../../../shared/server/http/route.ts";
import { Metrics } from "../../../../shared/server/metrics/metrics.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { AUTHENTICATORS, type Callers, TestApp } from "./small_app.ts";

const route = routeFor<AppDeps, Callers>();

/** A row that answers with its service and its path. */
function row(service: string, method: Method, path: string): Route<AppDeps> {
  return route(method, path, "", {
    auth: "none",
    limit: null,
    response: { status: 200 },
    errors: [],
    params: z.record(z.string(), z.string()),
    handler: (_deps, { params }) => json([service, path, params]),
  });
}

type Table = readonly { method: Method; path: string }[];

function setUp(t: TestApp, registryTable: Table, proxyTable: Table): { entry: Entry; registry: App; proxy: App } {
  const { clock, metrics } = t;
  const appOf = (service: string, table: Table) =>
    createApp(table.map(({ method, path }) => row(service, method, path)), AUTHENTICATORS, t.deps);
  const registry = appOf("registry", registryTable), proxy = appOf("proxy", proxyTable);
  const entry = new Entry({ ...t.deps, clock, metrics });
  entry.open({ registry, proxy, isReady: () => Promise.resolve(true), health: null });
  return { entry, registry, proxy };
}

async function shown(response: Response): Promise<unknown[]> {
  const text = await response.text();
  const { headers } = response;
  return [response.status, text === "" ? headers.get("content-length") : JSON.parse(text), headers.get("allow")];
}

const PEER = { from: "socket", address: "192.0.2.1" } as const;

Deno.test("a request to any row of both services reaches what the routers alone find", async () => {
  using t = await TestApp.open();
  const { entry, registry, proxy } = setUp(t, REGISTRY_ROUTES, PROXY_ROUTES);
  const paths = new Set([...REGISTRY_ROUTES, ...PROXY_ROUTES].map(({ path }) => path.replace(":id", "challenge")));
  const own = ["/healthz", "/readyz"];
  const methodsOf = (path: string) =>
    new Set([...REGISTRY_ROUTES, ...PROXY_ROUTES].filter((row) => row.path === path).map(({ method }) => method));
  for (const path of [...paths, "/v1/agents/", "/none", "/%2fhooks", "/hooks/agent/x"]) {
    if (own.includes(path)) continue;
    for (const method of ["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS"]) {
      const request = () => new Request(`http://localhost${path}?a=/v1/me`, { method });
      const service = registry.owns(path) ? registry : proxy;
      const fixed = methodsOf(path), answer = await shown(await entry.answer(request(), PEER));
      // The router would take the name of a fixed path for an ID.
      if (fixed.size > 0 && !fixed.has(method === "HEAD" ? "GET" : method as "GET")) {
        assertEquals(answer[0], 405, `${method} ${path}`);
        continue;
      }
      const byRouter = await service.fetch(request(), PEER, "/not-a-fixed-path");
      assertEquals(answer, await shown(byRouter), `${method} ${path}`);
    }
  }
});

Deno.test("encoded letters reach the row of a fixed path, and an encoded slash does not", async () => {
  using t = await TestApp.open();
  const { entry } = setUp(t, [{ method: "GET", path: "/a/b" }], [{ method: "POST", path: "/c/d" }]);
  const ask = async (method: string, path: string) =>
    await shown(await entry.answer(new Request(`http://localhost${path}`, { method }), PEER));
  assertEquals(await ask("GET", "/%61/b?x=%2f"), [200, ["registry", "/a/b", {}], null]);
  assertEquals(await ask("POST", "/c/%64#e"), [200, ["proxy", "/c/d", {}], null]);
  for (const path of ["/a%2fb", "/a/b/", "/A/b", "/a/%2562", "/a/b%00", "//a/b"]) {
    assertEquals((await ask("GET", path))[0], 404, path);
  }
  assertEquals((await ask("GET", "/c/d")).toSpliced(1, 1), [405, "POST"]);
});

Deno.test("a row with the path itself answers before one with parameters, and the first service before the second", async () => {
  using t = await TestApp.open();
  const { entry } = setUp(t, [
    { method: "GET", path: "/things/:id" },
    { method: "GET", path: "/things/first" },
    { method: "POST", path: "/things/new" },
  ], [{ method: "GET", path: "/things/second" }, { method: "GET", path: "/own/:id" }]);
  const ask = async (path: string, method = "GET") =>
    (await shown(await entry.answer(new Request(`http://localhost${path}`, { method }), PEER)))[1];
  assertEquals(await ask("/things/first"), ["registry", "/things/first", {}]);
  assertEquals(await ask("/things/second"), ["registry", "/things/:id", { id: "second" }]);
  assertEquals((await entry.answer(new Request("http://localhost/things/new"), PEER)).headers.get("allow"), "POST");
  assertEquals(await ask("/things/new", "POST"), ["registry", "/things/new", {}]);
  assertEquals(await ask("/own/%C3%A9%2F%25"), ["proxy", "/own/:id", { id: "\u00e9/%" }]);
});

Deno.test("a request waits until the services are open", async () => {
  using t = await TestApp.open();
  const entry = new Entry({ ...t.deps, clock: new ManualClock(), metrics: new Metrics() });
  const answer = entry.answer(new Request("http://localhost/open"), PEER);
  entry.open({ registry: null, proxy: t.app, isReady: () => Promise.resolve(true), health: null });
  assertEquals(await shown(await answer), [200, { ok: true }, null]);
});

Deno.test("the access log has the answers of the process itself too", async () => {
  using t = await TestApp.open(false, true);
  const { entry } = setUp(t, [{ method: "GET", path: "/a" }], []);
  for (const path of ["/a", "/healthz", "/readyz"]) await entry.answer(new Request(`http://localhost${path}`), PEER);
  entry.leave();
  await entry.answer(new Request("http://localhost/readyz"), PEER);
  const done = t.log.filter(({ event }) => event === "request_done");
  assertEquals(done.map(({ fields }) => [fields.route, fields.status, fields.ip]), [
    ["/a", 200, "192.0.2.1"],
    ["/healthz", 200, "192.0.2.1"],
    ["/readyz", 200, "192.0.2.1"],
  ]);
});

Deno.test("each answer names the server's time after its clock was set back", async () => {
  using t = await TestApp.open();
  const { clock } = t, { entry } = setUp(t, [{ method: "GET", path: "/a" }], []);
  const dates = () =>
    Promise.all(["/a", "/healthz", "/none"].map(async (path) => {
      const response = await entry.answer(new Request(`http://127.0.0.1${path}`), PEER);
      await response.body?.cancel();
      return response.headers.get("date");
    }));
  // The platform names the time of the others.
  assertEquals(await dates(), [null, null, null]);
  clock.step(-600_000);
  const now = new Date(clock.now()).toUTCString();
  assertEquals(await dates(), [now, now, now]);
  entry.drain();
  assertEquals(await dates(), [now, now, now]);
});
