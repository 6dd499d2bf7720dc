/**
 * HTTP handler of admin tokens (D-172): the registry signs, a proxy verifies. An API key never reaches a proxy, whose
 * operator could otherwise administer the registry.
 */
import type { AdminTokenAnswer } from "../../shared/protocol/api/relay_admin.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { signAdminToken } from "../../shared/protocol/signed/admin_token.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import { type Answer, type Input, json } from "../../shared/server/http/route.ts";
import { audited } from "../audit/record.ts";
import type { ApiKeyCaller } from "../callers.ts";
import type { RegistryConfig } from "../config.ts";
import type { Signing } from "../signing_keys.ts";
import type { Looks } from "./looks.ts";

interface AdminTokenDeps {
  kv: Deno.Kv;
  clock: Clock;
  newId: NewId;
  config: Pick<RegistryConfig, "registryUrl" | "proxyUrl">;
  signing: Signing;
  looks: Looks;
}

export async function issueAdminToken(
  deps: AdminTokenDeps,
  { caller, exchange }: Input<undefined, undefined, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const { kv, clock, newId, config, signing } = deps;
  const { did } = caller.human;
  const jti = newId();
  const issuedAtSeconds = unixSeconds(clock.now());
  const key = await signing.current();
  const audience = new URL(config.proxyUrl).origin;
  const { requestId } = exchange;
  await deps.looks.record(caller.key.id, async () => {
    await audited(kv.atomic(), deps, { event: "admin.token_issued", actor: did, subject: jti, requestId }).commit();
  });
  const grant = { issuer: config.registryUrl, humanDid: did, audience, jti, issuedAtSeconds };
  const response: AdminTokenAnswer = {
    token: await signAdminToken(grant, key),
    expiresAt: toIso((issuedAtSeconds + LIMITS.adminTokenTtlSeconds) * 1000),
    audience,
    scope: ["relay.read"],
  };
  return json(response, 201);
}
