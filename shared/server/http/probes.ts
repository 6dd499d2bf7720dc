/**
 * The routes that a supervisor or a load balancer asks; a restart does not repair a store, so they are two:
 * `/healthz` says that the process answers, without the store; `/readyz` says whether to send it requests.
 */
import { Liveness, Readiness } from "../../protocol/api/meta.ts";
import { type Answer, json, type Route } from "./route.ts";

/** Returns the answer of `GET /healthz`. */
export function livenessAnswer(): Answer {
  return json({ status: "ok" });
}

/** Returns the answer of `GET /readyz`: 200 when ready, else 503. A missing link makes messages slower, so it refuses none. */
export function readinessAnswer(ready: boolean, linksMissing: readonly string[] = []): Answer {
  const missing = linksMissing.length > 0 ? { linksMissing: [...linksMissing] } : {};
  return json({ status: ready ? "ok" : "unavailable", ready, ...missing }, ready ? 200 : 503);
}

/** Returns the two routes of a service. */
export function probeRoutes<D>(
  isReady: (deps: D) => Promise<boolean>,
  linksMissing: (deps: D) => readonly string[] = () => [],
): Route<D>[] {
  const row = { method: "GET", auth: "none", limit: null, errors: [] } as const;
  return [
    {
      ...row,
      path: "/healthz",
      summary: "Whether the process answers; does not ask the store",
      response: { status: 200, body: Liveness },
      handler: livenessAnswer,
    },
    {
      ...row,
      path: "/readyz",
      summary: "Whether the service accepts requests: `ready` of its health, and false while it stops",
      response: { status: 200, body: Readiness, mayBeUnready: true },
      handler: async (deps) => readinessAnswer(await isReady(deps), linksMissing(deps)),
    },
  ];
}
