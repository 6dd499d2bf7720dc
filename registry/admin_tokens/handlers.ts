/**
 * HTTP handler of admin tokens: the registry signs, a proxy verifies. An API key never reaches a proxy, whose
 * operator could otherwise administer the registry.
 */
import type { Kv } from "../../shared/server/kv.ts";
import type { AdminTokenAnswer } from "../../shared/protocol/api/relay_admin.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ADM, type AdminTokenClaims, signShortToken } from "../../shared/protocol/signed/short_token.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import { type Answer, json } from "../../shared/server/http/route.ts";
import { audited } from "../audit/record.ts";
import type { WithBody } from "../callers.ts";
import type { RegistryConfig } from "../config.ts";
import type { Signing } from "../signing_keys.ts";
import type { Looks } from "./recorded_looks.ts";

interface AdminTokenDeps {
  kv: Kv;
  clock: Clock;
  newId: NewId;
  config: Pick<RegistryConfig, "registryUrl" | "proxyUrl">;
  signing: Signing;
  looks: Looks;
}

export async function issueAdminToken(
  deps: AdminTokenDeps,
  { caller, exchange }: WithBody<undefined>,
): Promise<Answer> {
  const { did } = caller.human;
  const { requestId } = exchange;
  const jti = deps.newId();
  await deps.looks.record(caller.key.id, async () => {
    const entry = { event: "admin.token_issued", actor: did, subject: jti, requestId } as const;
    await audited(deps.kv.atomic(), deps, entry).commit();
  });
  return json(await newAdminToken(deps, did, jti), 201);
}

export async function newAdminToken(
  { clock, config, signing }: Pick<AdminTokenDeps, "clock" | "config" | "signing">,
  humanDid: string,
  jti: string,
): Promise<AdminTokenAnswer> {
  const iat = unixSeconds(clock.now()), audience = new URL(config.proxyUrl).origin;
  const scope: AdminTokenClaims["scope"] = ["relay.read"];
  const claims = { iss: config.registryUrl, sub: humanDid, aud: audience, scope, iat, jti };
  return {
    token: await signShortToken(ADM, claims, await signing.current()),
    expiresAt: toIso((iat + LIMITS.adminTokenTtlSeconds) * 1000),
    audience,
    scope,
  };
}
