/** Keys and revocation list of an agent's registry, with their copies in the configuration folder. */
import { join } from "node:path";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { connect } from "../account/registry_access.ts";
import type { Context } from "../context.ts";
import { readPrivate } from "../files/private_files.ts";
import { ServiceClock } from "../link/service_clock.ts";
import { Output } from "../terminal/output.ts";
import { keepCopy, trustedKeys } from "../verify/trusted_keys.ts";
import { RegistryTrust } from "./registry_trust.ts";

/** Returns what an agent's connector believes of its registry. `issuer` is its origin, as in the agent's own token. */
export function registryTrust(
  ctx: Context,
  { issuer, registryUrl, allowInsecure }: { issuer: string; registryUrl: string; allowInsecure: boolean },
): RegistryTrust {
  // The connector owns the terminal, so the progress of a request is not printed.
  const quiet = { ...ctx, out: new Output(ctx.terminal, ctx.clock, { json: true, colour: false }) };
  // Its own clock, because the one of requests also sees the time of the proxy.
  const clock = new ServiceClock(ctx.clock);
  const onResponse = (headers: Headers) => {
    ctx.onResponse?.(headers);
    clock.see(headers.get("Date"));
  };
  const registry = () => connect({ ...ctx, onResponse }, { "allow-insecure": allowInsecure }, registryUrl).registry;
  const file = `${encodeURIComponent(registryUrl)}.crl`;
  return new RegistryTrust(ctx.clock, {
    issuer,
    keys: async () => await trustedKeys(quiet, registry()),
    list: async () => {
      try {
        return await registry().crl();
      } catch (error) {
        if (error instanceof ApiError && error.code === "CRL_NOT_FOUND") return null;
        throw error;
      }
    },
    savedList: () => {
      try {
        const saved = readPrivate(join(ctx.configDir, "keys", file), LIMITS.crlBytes);
        // A signed list is no number.
        return saved === null || Number.isNaN(Number(saved)) ? saved : Number(saved);
      } catch {
        // A copy that cannot be read counts as missing; the registry's list replaces it.
        return null;
      }
    },
    saveList: (list) => keepCopy(ctx, file, String(list)),
    offsetMs: () => clock.seenMs,
  });
}
