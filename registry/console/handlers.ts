/** HTTP handler of the codes that open the console. They exist so that an API key is never typed into a browser. */
import { consoleRefusal } from "./console.ts";
import { createConsoleCode } from "./sessions.ts";
import type { WithBody } from "../callers.ts";
import type { RegistryStore } from "../store_deps.ts";
import type { ConsoleCode } from "../../shared/protocol/api/admin.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, json } from "../../shared/server/http/route.ts";

export async function openConsole(deps: RegistryStore, { caller }: WithBody<undefined>): Promise<Answer> {
  if (!deps.config.console) throw new ServiceError("CONSOLE_OFF");
  const message = consoleRefusal(deps.config);
  if (message !== null) throw new ServiceError("CONSOLE_OFF", { message });
  const { code, expiresAt } = await createConsoleCode(deps, caller);
  const response: ConsoleCode = {
    url: `${deps.config.registryUrl}/console/open/${code}`,
    expiresAt: toIso(expiresAt),
  };
  return json(response, 201);
}
