/**
 * HTTP handler of admin tokens, which the registry signs and a proxy verifies. The API key itself never reaches a
 * proxy, because the operator of the proxy could use it to administer the registry.
 */
import type { AdminTokenAnswer } from "../../shared/protocol/api/relay_admin.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ADM, type AdminTokenClaims, signShortToken } from "../../shared/protocol/signed/short_token.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import { type Answer, json } from "../../shared/server/http/route.ts";
import { audited } from "../audit/record.ts";
import type { WithBody } from "../callers.ts";
import type { Signing } from "../signing_keys.ts";
import type { RegistryStore } from "../store_deps.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";

export async function issueAdminToken(
  deps: RegistryStore & { signing: Signing; looks: Looks },
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
  { clock, config, signing }: RegistryStore & { signing: Signing },
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

const RECORDED_EVERY_MS = 3_600_000;
/** How many keys are remembered. A forgotten one is recorded again early, which does no harm. */
const REMEMBERED_MAX = 10_000;

/**
 * Remembers which API keys got an admin token lately, so that the audit log gets one entry an hour for each key.
 * Without this, an overview that is repeated every 5 s would fill the log with 17,280 events a day that change nothing.
 */
export class Looks {
  /** When each key was last recorded, milliseconds since the Unix epoch, and the write of that. */
  readonly #recorded = new BoundedMap<string, { at: number; written: Promise<void> }>(REMEMBERED_MAX);

  constructor(private readonly clock: Clock) {}

  /**
   * Calls `write` unless the key was recorded less than an hour ago. If `write` fails, the key counts as not recorded,
   * also for those who called meanwhile, because they would otherwise look without any entry.
   *
   * @throws the error of `write`
   */
  async record(keyId: string, write: () => Promise<void>): Promise<void> {
    const now = this.clock.now();
    const last = this.#recorded.get(keyId);
    if (last !== undefined && Math.abs(now - last.at) < RECORDED_EVERY_MS) return await last.written;
    const written = write();
    this.#recorded.set(keyId, { at: now, written });
    try {
      await written;
    } catch (error) {
      this.#recorded.delete(keyId);
      throw error;
    }
  }
}
