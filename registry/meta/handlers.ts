/** HTTP handlers of health, metadata, the key document, key rotation and the revocation list. */
import { Metadata, type RegistryHealth } from "../../shared/protocol/api/meta.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { conditionalAnswer } from "../../shared/server/http/response.ts";
import { digest } from "../../shared/server/crypto.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import { withDeadline } from "../../shared/server/store/store_errors.ts";
import { HEALTHY_MS, type StoreProbe } from "../../shared/server/store/store_probe.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import { audit } from "../audit/record.ts";
import type { WithBody } from "../callers.ts";
import type { CrlPublisher } from "../revocation/crl.ts";
import type { Signing } from "../signing_keys.ts";
import type { RegistryStore } from "../store_deps.ts";

type ByRequest = Pick<WithBody<undefined>, "exchange">;

interface ReadyDeps extends Pick<ServiceDeps, "clock"> {
  probe: StoreProbe;
  signing: Signing;
}

interface HealthDeps extends ReadyDeps, Pick<RegistryStore, "config"> {
  crl: CrlPublisher;
}

async function readiness({ probe, signing, clock }: ReadyDeps): Promise<Pick<RegistryHealth, "checks" | "ready">> {
  // At once and with one deadline, because a store that hangs would otherwise leave the check without a result.
  const key = withDeadline(clock, HEALTHY_MS, () => signing.current());
  const [kv, signingKey] = await Promise.all([probe.works(), key.then(() => true, () => false)]);
  return { checks: { kv, signingKey }, ready: kv && signingKey };
}

export async function registryReady(deps: ReadyDeps): Promise<boolean> {
  return (await readiness(deps)).ready;
}

export async function registryHealth(deps: HealthDeps): Promise<RegistryHealth> {
  const fill = withDeadline(deps.clock, HEALTHY_MS, () => deps.crl.fill()).catch(() => 0);
  const [{ checks, ready }, share] = await Promise.all([readiness(deps), fill]);
  const { version, environment } = deps.config;
  const crlFill = Math.round(share * 100) / 100;
  return { status: ready ? "ok" : "unavailable", version, environment, ready, checks, crlFill };
}

export async function health(deps: HealthDeps): Promise<Answer> {
  const response = await registryHealth(deps);
  return json(response, response.ready ? 200 : 503);
}

export function metadata({ config }: RegistryStore): Answer {
  return json(pick(Metadata, config));
}

export async function keys(deps: { signing: Signing }, { exchange }: ByRequest): Promise<Answer> {
  const body = utf8Bytes(JSON.stringify(await deps.signing.document()));
  const etag = `"${digest(body)}"`;
  return conditionalAnswer(exchange.request, body, etag, `public, max-age=${LIMITS.keysMaxAgeSeconds}`);
}

/** Answers with the revocation list, or with 304 when the client already has the current one. */
export async function crl(deps: { crl: CrlPublisher }, { exchange }: ByRequest): Promise<Answer> {
  const list = await deps.crl.current();
  if (!list) throw new ServiceError("CRL_NOT_FOUND");
  return conditionalAnswer(exchange.request, list.body, list.etag, "no-cache");
}

/** Creates a new signing key. Once it signs, the next request for the revocation list has the list signed again. */
export async function rotateKeys(
  deps: RegistryStore & { signing: Signing },
  { caller }: WithBody<undefined>,
): Promise<Answer> {
  const rotation = await deps.changes.run(async (draft) => {
    const rotated = await deps.signing.rotate(draft);
    draft.announce([]);
    await audit(draft, deps, caller, "signing_key.rotated", rotated.kid);
    return rotated;
  });
  return json(rotation);
}
