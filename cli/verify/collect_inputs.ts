/**
 * Collects the inputs of a verification (keys, revocation list, origins) and evaluates a token or a request with them.
 * Offline it uses the locally saved keys.
 */
import { verifyCrl } from "../../shared/protocol/signed/crl.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import type { RegistryAccess } from "../account/registry_access.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readAtMost } from "../files/private_files.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import { parseRequestFile, REQUEST_FILE_FORM } from "./request_file.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { type TrustedKeys, trustedKeys } from "./trusted_keys.ts";
import { evaluateRequest, evaluateToken, type TrustedInputs } from "./evaluate.ts";

export interface VerificationInputs extends RegistryAccess {
  offline: boolean;
  nowSeconds: number;
  /** The public origin that the request must be signed for, if the user names one. */
  origin: string | undefined;
}

export interface VerificationReport extends Awaited<ReturnType<typeof evaluateToken>> {
  keysFrom: Pick<TrustedKeys, "issuer" | "fetchedAt" | "stale">;
  canonical?: string;
}

const MAX_REQUEST_BYTES = 1024 * 1024;
const REFRESH_PATH = "/v1/agents/auth/refresh";

/** Verifies an identity token. @throws {CliError} `CLI_USAGE` for another kind of token */
export async function verifyToken(
  ctx: Context,
  setting: VerificationInputs,
  token: string,
): Promise<VerificationReport> {
  const trimmed = token.trim();
  const other = /^(svc_[a-z]+_|svcpair1_)/.exec(trimmed)?.[1];
  if (other !== undefined) {
    throw new CliError("CLI_USAGE", `${other}… is not an identity token; only the service that issued it can check it`);
  }
  const known = await gather(ctx, setting);
  return { ...await evaluateToken(trimmed, known), keysFrom: source(known.trusted) };
}

/** Verifies the signed request in a file. @throws {CliError} `CLI_USAGE` for an invalid file or origin */
export async function verifyRequest(
  ctx: Context,
  setting: VerificationInputs,
  path: string,
): Promise<VerificationReport> {
  const request = parseRequestFile(await readGiven(ctx, path, MAX_REQUEST_BYTES));
  if (request === null) throw new CliError("CLI_USAGE", `${path} is not a request: ${REQUEST_FILE_FORM}`);
  const known = await gather(ctx, setting);
  const { issuer, proxyUrl } = known.trusted;
  const given = setting.origin === undefined ? null : parseServiceUrl(setting.origin);
  if (setting.origin !== undefined && given === null) {
    throw new CliError("CLI_USAGE", `--origin is not an address such as https://proxy.example: "${setting.origin}"`);
  }
  const expected = given ?? (request.target.startsWith(REFRESH_PATH) ? issuer : proxyUrl);
  const host = request.headers.get("Host");
  // Origins that a client may sign by mistake. If the proof is for one of them, naming it explains the failure.
  const mistaken = [request.origin, issuer, proxyUrl, host && `https://${host}`, host && `http://${host}`];
  const origins = [...new Set([expected, ...mistaken.filter((origin) => origin !== null)])];
  return { ...await evaluateRequest(request, known, origins), keysFrom: source(known.trusted) };
}

/** The keys and the revocation list of a registry. */
export async function gather(
  ctx: Context,
  setting: Pick<VerificationInputs, "registry" | "offline" | "nowSeconds">,
): Promise<TrustedInputs> {
  const { registry, offline, nowSeconds } = setting;
  const trusted = await trustedKeys(ctx, registry, { offline });
  return { trusted, nowSeconds, crl: offline ? "not fetched: --offline" : await revocations(ctx, registry, trusted) };
}

/** Returns the revocation list, or the reason why there is none. */
async function revocations(
  ctx: Context,
  registry: RegistryClient,
  trusted: TrustedKeys,
): Promise<TrustedInputs["crl"]> {
  try {
    ctx.out.doing("Fetching the revocation list");
    // The current time counts here, regardless of `--at`, because the list is the current one.
    return await verifyCrl(await registry.crl(), trusted, Math.floor(ctx.clock.now() / 1000));
  } catch (error) {
    if (error instanceof ApiError && error.code === "CRL_NOT_FOUND") return { revocations: [] };
    if (error instanceof ApiError || error instanceof UnreachableError) return error.message;
    if (error instanceof TokenError) return `the list is invalid: ${error.message}`;
    throw error;
  }
}

export function source({ issuer, fetchedAt, stale }: TrustedKeys): VerificationReport["keysFrom"] {
  return { issuer, fetchedAt, stale };
}

/**
 * Reads a file that a person has named.
 *
 * @param path `-` for standard input
 * @throws {CliError} `CLI_USAGE` when it cannot be read or is larger
 */
export async function readGiven(ctx: Context, path: string, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = path === "-" ? await ctx.stdin(maxBytes + 1) : await readAtMost(path, maxBytes + 1);
  if (bytes.length > maxBytes) throw new CliError("CLI_USAGE", `${path} is over ${maxBytes} bytes`);
  return bytes;
}
