/**
 * Collects the inputs of a verification: token or request, keys, revocation list, origins. Offline it uses the locally
 * saved keys.
 */
import { verifyCrl } from "../../shared/protocol/signed/crl.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readAtMost } from "../files/private_files.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import { parseRequestFile, REQUEST_FILE_FORM, type RequestFile } from "./request_file.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { type TrustedKeys, trustedKeys } from "./trusted_keys.ts";
import type { TrustedInputs } from "./evaluate.ts";

const MAX_REQUEST_BYTES = 1024 * 1024;
const REFRESH_PATH = "/v1/agents/auth/refresh";

/** Returns the identity token in a text. @throws {CliError} `CLI_USAGE` for another kind of token */
export function identityTokenIn(text: string): string {
  const token = text.trim();
  const other = /^(svc_[a-z]+_|svcpair1_)/.exec(token)?.[1];
  if (other === undefined) return token;
  throw new CliError("CLI_USAGE", `${other}… is not an identity token; only the service that issued it can check it`);
}

/** Reads a signed request. @throws {CliError} `CLI_USAGE` for an invalid file */
export async function readRequest(ctx: Context, path: string): Promise<RequestFile> {
  const request = parseRequestFile(await readGiven(ctx, path, MAX_REQUEST_BYTES));
  if (request === null) throw new CliError("CLI_USAGE", `${path} is not a request: ${REQUEST_FILE_FORM}`);
  return request;
}

/**
 * Returns the origins that a request may be signed for, the expected one first.
 *
 * @param named the public origin that the request must be signed for, if the user names one
 * @throws {CliError} `CLI_USAGE` for an invalid origin
 */
export function originsOf(
  request: RequestFile,
  { issuer, proxyUrl }: TrustedKeys,
  named: string | undefined,
): string[] {
  const given = named === undefined ? null : parseServiceUrl(named);
  if (named !== undefined && given === null) {
    throw new CliError("CLI_USAGE", `--origin is not an address such as https://proxy.example: "${named}"`);
  }
  const expected = given ?? (request.target.startsWith(REFRESH_PATH) ? issuer : proxyUrl);
  const host = request.headers.get("Host");
  // Origins that a client may sign by mistake. If the proof is for one of them, naming it explains the failure.
  const mistaken = [request.origin, issuer, proxyUrl, host && `https://${host}`, host && `http://${host}`];
  return [...new Set([expected, ...mistaken.filter((origin) => origin !== null)])];
}

/** The keys and the revocation list of a registry. */
export async function gather(
  ctx: Context,
  registry: RegistryClient,
  { offline = false, nowSeconds }: { offline?: boolean; nowSeconds: number },
): Promise<TrustedInputs> {
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
