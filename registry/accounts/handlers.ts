/** HTTP handlers of accounts: the bootstrap and the caller's own profile. */
import {
  AccountProfile,
  BootstrapAnswer,
  type BootstrapBody,
  Human,
  NewApiKey,
} from "../../shared/protocol/api/accounts.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import type { WithBody } from "../callers.ts";
import type { RegistryStore } from "../store_deps.ts";
import { bootstrapAdmin } from "./store.ts";

export const bootstrapEnabled = {
  errors: ["ADMIN_BOOTSTRAP_DISABLED"] as const,
  check(deps: Pick<RegistryStore, "config">): void {
    if (deps.config.bootstrapSecret === null) throw new ServiceError("ADMIN_BOOTSTRAP_DISABLED");
  },
};

export async function bootstrap(
  deps: RegistryStore,
  { body, exchange }: WithBody<BootstrapBody, null>,
): Promise<Answer> {
  const { human, key, service } = await bootstrapAdmin(deps, body, exchange.requestId);
  return json<BootstrapAnswer>({
    human: pick(Human, human),
    apiKey: pick(NewApiKey, { ...key.record, token: key.token }),
    internalService: pick(BootstrapAnswer.shape.internalService, { ...service.record, secret: service.secret }),
  }, 201);
}

export function me(_deps: unknown, { caller }: WithBody<undefined>): Answer {
  const { human, key } = caller;
  return json<AccountProfile>({
    human: pick(AccountProfile.shape.human, human),
    apiKey: pick(AccountProfile.shape.apiKey, key),
  });
}
