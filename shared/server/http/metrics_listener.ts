/**
 * The second listener of a server: `/metrics`, `/healthz` and `/readyz`, and 404 for all else. It has no
 * authentication, and its answers name no agent, person or address. It never reads a request body.
 */
import { type Clock, settledWithin } from "../../clock.ts";
import type { Log } from "../log.ts";
import { EXPOSITION_TYPE, expositionOf, type Metrics } from "../metrics/metrics.ts";
import { routedPath } from "./app.ts";
import { type ListenAddress, listenAt, type Listener } from "./listen_address.ts";
import { livenessAnswer, readinessAnswer } from "./probes.ts";
import { toResponse } from "./response.ts";

/** With more, a store that does not answer keeps a scrape waiting; with less, more scrapes show older values. */
const MEASURE_MS = 1_000;

interface ListenerDeps {
  clock: Clock;
  metrics: Metrics;
  log: Log;
  isReady(): Promise<boolean>;
}

/** @throws {StartRefused} when the address cannot be used */
export function serveMetrics(at: ListenAddress, deps: ListenerDeps): Listener {
  return listenAt("METRICS_LISTEN", at, (request) =>
    answer(request, deps).catch((cause) => {
      deps.log("error", "metrics_failed", { cause });
      return new Response(null, { status: 500 });
    }));
}

export async function answer(request: Request, deps: Omit<ListenerDeps, "log">): Promise<Response> {
  const response = await pathAnswer(request, deps);
  response.headers.set("Cache-Control", "no-store");
  response.headers.set("X-Content-Type-Options", "nosniff");
  // A client that sends a body would keep the connection busy, so nothing reads it.
  if (request.body) response.headers.set("Connection", "close");
  return request.method === "HEAD" ? new Response(null, response) : response;
}

async function pathAnswer(request: Request, { clock, metrics, isReady }: Omit<ListenerDeps, "log">): Promise<Response> {
  const path = routedPath(request);
  const known = path === "/metrics" || path === "/healthz" || path === "/readyz";
  if (!known) return new Response("not found\n", { status: 404 });
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response("use GET\n", { status: 405, headers: { Allow: "GET, HEAD" } });
  }
  if (path === "/healthz") return toResponse(livenessAnswer());
  if (path === "/readyz") return toResponse(readinessAnswer(await isReady()));
  await settledWithin(clock, metrics.measure(), MEASURE_MS);
  return new Response(expositionOf(metrics), { headers: { "Content-Type": EXPOSITION_TYPE } });
}
