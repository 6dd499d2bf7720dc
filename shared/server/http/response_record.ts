/** Counts an answered request (D-177) and, where the access log is on, logs it when it succeeded (D-179). */
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { RequestContext } from "./route.ts";

interface RecordDeps {
  metrics: Metrics;
  log: Log;
  accessLog?: boolean;
  labelSpan?(route: string): void;
}

/** Areas of the admin's routes by the third part of their path. */
const ADMIN_AREAS: Readonly<Record<string, string>> = {
  people: "people",
  agents: "agents",
  audit: "audit",
  relay: "relay",
};

/** Records the response to a request of a client. `ms` is the time that the response took. */
export function recordResponse(
  { metrics, log, accessLog = false, labelSpan }: RecordDeps,
  { request, requestId, peer, route = "none", ip, agentDid }: RequestContext,
  status: number,
  ms: number,
): void {
  if (peer.from === "process") return;
  const { method } = request;
  metrics.count("http_requests_total", route, method, String(status));
  metrics.observe("http_request_duration_seconds", ms / 1000, route);
  labelSpan?.(route);
  const area = adminArea(route);
  if (area !== undefined) metrics.count("admin_requests_total", area);
  // A refusal has its own line.
  if (accessLog && status < 400) log("info", "request_done", { requestId, method, route, status, ms, ip, agentDid });
}

function adminArea(route: string): string | undefined {
  if (route.startsWith("/console")) return "console";
  return route.startsWith("/v1/admin/") ? ADMIN_AREAS[route.split("/")[3] ?? ""] : undefined;
}
