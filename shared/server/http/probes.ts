/**
 * The routes that a supervisor and a load balancer ask: `/healthz` says that the process answers, `/readyz` whether to
 * send it requests. `/healthz` does not ask the store, because a supervisor would then restart the process for a fault
 * of the store, which a restart does not repair. The listener of the metrics is here too.
 */
import { Liveness, Readiness } from "../../protocol/api/meta.ts";
import { type Answer, json, openRoute, type Route } from "./route.ts";
import { type Clock, settledWithin } from "../../clock.ts";
import type { Log } from "../log.ts";
import { EXPOSITION_TYPE, expositionOf, type Metrics } from "../metrics/metrics.ts";
import { routedPath } from "./app.ts";
import { type ListenAddress, listenAt, type Listener } from "./listen_address.ts";
import { toResponse } from "./response.ts";

export function livenessAnswer(): Answer {
  return json({ status: "ok" });
}

/** Returns the answer of `GET /readyz`: 200 when ready, else 503. A missing link only slows messages, so it is 200. */
export function readinessAnswer(ready: boolean, linksMissing: readonly string[] = []): Answer {
  const missing = linksMissing.length > 0 ? { linksMissing: [...linksMissing] } : {};
  return json({ status: ready ? "ok" : "unavailable", ready, ...missing }, ready ? 200 : 503);
}

export function probeRoutes<D>(
  isReady: (deps: D) => Promise<boolean>,
  linksMissing: (deps: D) => readonly string[] = () => [],
): Route<D>[] {
  const alive = { status: 200, body: Liveness }, ready = { status: 200, body: Readiness, mayBeUnready: true } as const;
  return [
    openRoute("/healthz", "Whether the process answers; does not ask the store", alive, livenessAnswer),
    openRoute(
      "/readyz",
      "Whether the service accepts requests: `ready` of its health, false while it stops",
      ready,
      async (deps) => readinessAnswer(await isReady(deps), linksMissing(deps)),
    ),
  ];
}

/**
 * How long a scrape waits for the values of the store. With more, a store that does not answer delays the scrape; with
 * less, more scrapes show older values.
 */
const MEASURE_MS = 1_000;

interface ListenerDeps {
  clock: Clock;
  metrics: Metrics;
  log: Log;
  entry: { readiness(): Promise<Answer> };
}

/**
 * Opens the second listener of a server: `/metrics`, `/healthz` and `/readyz`, and 404 for any other path. It has no
 * authentication, so its answers name no agent, person or address. It reads no request body, because a slow one would
 * keep its connection busy.
 *
 * @throws {StartRefused} when the address cannot be used
 */
export function serveMetrics(at: ListenAddress, deps: ListenerDeps): Listener {
  return listenAt("METRICS_LISTEN", at, (request) =>
    answer(request, deps).catch((cause) => {
      deps.log("error", "metrics_failed", { cause });
      return new Response(null, { status: 500 });
    }));
}

async function answer(request: Request, deps: ListenerDeps): Promise<Response> {
  const response = await pathAnswer(request, deps);
  response.headers.set("Cache-Control", "no-store");
  response.headers.set("X-Content-Type-Options", "nosniff");
  if (request.body) response.headers.set("Connection", "close");
  return request.method === "HEAD" ? new Response(null, response) : response;
}

async function pathAnswer(request: Request, { clock, metrics, entry }: ListenerDeps): Promise<Response> {
  const path = routedPath(request);
  const known = path === "/metrics" || path === "/healthz" || path === "/readyz";
  if (!known) return new Response("not found\n", { status: 404 });
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response("use GET\n", { status: 405, headers: { Allow: "GET, HEAD" } });
  }
  if (path === "/healthz") return toResponse(livenessAnswer());
  if (path === "/readyz") return toResponse(await entry.readiness());
  await settledWithin(clock, metrics.measure(), MEASURE_MS);
  return new Response(expositionOf(metrics), { headers: { "Content-Type": EXPOSITION_TYPE } });
}
