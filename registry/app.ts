/** Builds the registry from its dependencies, as an app that answers requests. */
import type { CheckAccessToken } from "../shared/server/store/preconditions.ts";
import { type App, createApp, routedPath } from "../shared/server/http/app.ts";
import type { Route } from "../shared/server/http/route.ts";
import { AUTHENTICATORS, type RegistryCallers } from "./auth.ts";
import type { RegistryConfig } from "./config.ts";
import { Console } from "./console/console.ts";
import { buildRegistry, type RegistryDeps, type RegistryExternals } from "./deps.ts";
import { REGISTRY_ROUTES } from "./routes.ts";
import { accessTokenPreconditions } from "./sessions/access_token.ts";

export interface Registry extends App {
  deps: RegistryDeps;
  judgeAccess: CheckAccessToken;
  /** Ends the work in the background, which the next start resumes. */
  stop(): void;
}

/**
 * Opens the registry on its store, and resumes suspensions that were not finished when it last stopped.
 *
 * @throws as `buildRegistry`
 */
export async function createRegistry(externals: RegistryExternals, config: RegistryConfig): Promise<Registry> {
  const deps = await buildRegistry(externals, config);
  void deps.suspensions.resume();
  const app = createApp<RegistryDeps, RegistryCallers>(
    routesWith(config.apiKeyRequestsPerMinute),
    AUTHENTICATORS,
    deps,
  );
  const console = config.console ? new Console(deps) : null;
  return {
    ...app,
    owns: (path) => console?.owns(path) || app.owns(path),
    fetch: (request, peer, path = routedPath(request)) =>
      console?.owns(path) ? console.answer(request, peer) : app.fetch(request, peer, path),
    deps,
    judgeAccess: (claim, records, refuse) => accessTokenPreconditions(deps, claim, records, refuse),
    stop: () => deps.suspensions.stop(),
  };
}

function routesWith(requests: number): Route<RegistryDeps>[] {
  return REGISTRY_ROUTES.map((row) =>
    row.limit?.per === "person" ? { ...row, limit: { ...row.limit, requests } } : row
  );
}
