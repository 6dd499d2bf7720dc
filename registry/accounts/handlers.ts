/**
 * HTTP handlers of accounts: the bootstrap and the caller's own profile (D-33, D-34).
 */
import type * as z from "zod";
import type { AccountProfile, BootstrapAnswer, BootstrapBody } from "../../shared/protocol/api/accounts.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { type Answer, type Input, json } from "../../shared/server/http/route.ts";
import type { ApiKeyCaller } from "../callers.ts";
import type { RegistryConfig } from "../config.ts";
import { type AccountDeps, bootstrapAdmin, humanView } from "./store.ts";

/** Refuses the bootstrap when no secret is configured. */
export const bootstrapEnabled = {
  errors: ["ADMIN_BOOTSTRAP_DISABLED"] as const,
  check(deps: { config: Pick<RegistryConfig, "bootstrapSecret"> }): void {
    if (deps.config.bootstrapSecret === null) throw new ServiceError("ADMIN_BOOTSTRAP_DISABLED");
  },
};

export async function bootstrap(
  deps: AccountDeps,
  { body, exchange }: Input<undefined, undefined, z.output<typeof BootstrapBody>, null>,
): Promise<Answer> {
  const { human, key, service } = await bootstrapAdmin(deps, body, exchange.requestId);
  const response: BootstrapAnswer = {
    human: humanView(human),
    apiKey: { id: key.record.id, name: key.record.name, token: key.token },
    internalService: { id: service.record.id, name: service.record.name, secret: service.secret },
  };
  return json(response, 201);
}

export function me(_deps: unknown, { caller }: Input<undefined, undefined, undefined, ApiKeyCaller>): Answer {
  const { human, key } = caller;
  const response: AccountProfile = {
    human: { ...humanView(human), createdAt: human.createdAt },
    apiKey: { id: key.id, name: key.name },
  };
  return json(response);
}
