/** Health of the proxy. Never waits for the registry, because a slow registry would look like a dead proxy. */
import type { ProxyHealth } from "../../shared/protocol/api/meta.ts";
import { type Answer, json } from "../../shared/server/http/route.ts";

interface HealthDeps {
  probe: { works(): Promise<boolean> };
  keys: { readonly ready: boolean };
  crl: { readonly ready: boolean };
  connectedAgents: { readonly size: number };
  config: Pick<ProxyHealth, "version" | "environment">;
}

export async function proxyReady(deps: HealthDeps): Promise<boolean> {
  return (await proxyHealth(deps)).ready;
}

export async function proxyHealth(deps: HealthDeps): Promise<ProxyHealth> {
  const checks = { kv: await deps.probe.works(), registryKeys: deps.keys.ready, crl: deps.crl.ready };
  const ready = checks.kv && checks.registryKeys && checks.crl;
  const { version, environment } = deps.config;
  const status = ready ? "ok" : "unavailable";
  return { status, version, environment, ready, checks, connectedSockets: deps.connectedAgents.size };
}

export async function health(deps: HealthDeps): Promise<Answer> {
  const response = await proxyHealth(deps);
  return json(response, response.ready ? 200 : 503);
}
