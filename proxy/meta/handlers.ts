/** Health of the proxy (D-78). Never waits for the registry. */
import type { ProxyHealth } from "../../shared/protocol/api/meta.ts";
import { json } from "../../shared/server/http/route.ts";

interface HealthDeps {
  probe: { works(): Promise<boolean> };
  keys: { readonly ready: boolean };
  crl: { readonly ready: boolean };
  hub: { readonly size: number };
  config: Pick<ProxyHealth, "version" | "environment">;
}

export async function proxyHealth(deps: HealthDeps): Promise<ProxyHealth> {
  const kv = await deps.probe.works();
  const checks = { kv, registryKeys: deps.keys.ready, crl: deps.crl.ready };
  const ready = kv && checks.registryKeys && checks.crl;
  const { version, environment } = deps.config;
  const status = ready ? "ok" : "unavailable";
  return { status, version, environment, ready, checks, connectedSockets: deps.hub.size };
}

export async function health(deps: HealthDeps): Promise<Response> {
  const response = await proxyHealth(deps);
  return json(response, response.ready ? 200 : 503);
}
