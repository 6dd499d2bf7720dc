/**
 * TLS errors with their fixes, and the authorities that are trusted in addition to the system's (D-232). Nothing turns
 * verification off.
 */
import { resolve } from "node:path";
import type { Authority, System } from "../context.ts";
import { CliError, UnreachableError } from "../errors.ts";

const MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;

/** Error texts of `fetch` and error codes of `npm:ws`, with one description per cause. */
const REFUSALS: readonly { found: RegExp; is: string; fix: string }[] = [
  {
    found:
      /UnknownIssuer|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|CaUsedAsEndEntity/,
    is: "issued by an authority that this machine does not know",
    fix: "Give the authority's certificate with --ca <file>, or in DENO_CERT.",
  },
  {
    found: /not valid for name|NotValidForName|ERR_TLS_CERT_ALTNAME_INVALID/,
    is: "issued for another name",
    fix: "Use the name that the certificate is issued for.",
  },
  {
    found: /: Expired|certificate expired|CERT_HAS_EXPIRED/,
    is: "expired, or this machine's clock is wrong",
    fix: "Check this machine's clock; else the service needs a new certificate.",
  },
];

/** The error of a service without a response: names a refused certificate, else uses the predicate `otherwise`. */
export function unreachable(origin: string, otherwise: string, cause: unknown): UnreachableError {
  const text = causesOf(cause);
  const known = REFUSALS.find(({ found }) => found.test(text));
  const own = /invalid peer certificate: (.*)/.exec(text)?.[1];
  const is = known?.is ?? (own === undefined ? null : `not usable (${own})`);
  if (is !== null) {
    const fix = known?.fix ?? "The service needs another certificate.";
    return new UnreachableError(`The certificate of ${origin} is ${is}`, { cause, fix, code: "CLI_TLS_REFUSED" });
  }
  if (/invalid HTTP version parsed/.test(text)) {
    return new UnreachableError(`${origin} does not speak plain HTTP; if it speaks TLS, use https`, { cause });
  }
  return new UnreachableError(`${origin} ${otherwise}`, { cause });
}

/** Messages and codes of an error and its causes, one per line. */
function causesOf(error: unknown): string {
  const lines: string[] = [];
  for (let at = error, n = 0; at instanceof Error && n < 5; at = at.cause, n++) {
    lines.push("code" in at ? `${at.code}: ${at.message}` : at.message);
  }
  return lines.join("\n");
}

/**
 * Returns the system with the authorities of a file trusted in addition.
 *
 * @param option value of `--ca` (default `SVC_CA`)
 * @throws {CliError} `CLI_USAGE` when the file holds no certificate
 */
export async function withAuthority(world: System, option: string | undefined): Promise<System> {
  const file = option ?? world.env("SVC_CA");
  if (file === undefined) return world;
  const what = option === undefined ? "SVC_CA" : "--ca";
  const path = resolve(file);
  const pem = await readStart(path, what);
  if (!CERTIFICATE.test(pem)) throw new CliError("CLI_USAGE", `${what}: ${path} holds no certificate in PEM form`);
  try {
    return { ...world, authority: { path, pem }, fetch: world.trusting?.(pem) ?? world.fetch };
  } catch (cause) {
    throw new CliError("CLI_USAGE", `${what}: a certificate in ${path} cannot be read`, { cause });
  }
}

async function readStart(path: string, what: string): Promise<string> {
  try {
    using file = await Deno.open(path);
    const bytes = new Uint8Array(MAX_BYTES + 1);
    let length = 0;
    for (let n: number | null = 0; n !== null && length < bytes.length; length += n ?? 0) {
      n = await file.read(bytes.subarray(length));
    }
    if (length <= MAX_BYTES) return new TextDecoder().decode(bytes.subarray(0, length));
  } catch (cause) {
    throw new CliError("CLI_USAGE", `${what}: ${path} cannot be read`, { cause });
  }
  throw new CliError("CLI_USAGE", `${what}: ${path} is larger than 1 MiB`);
}

/**
 * The roots to try for a WebSocket, in order; `null`: the system's. The option `ca` of `npm:ws` replaces the system's roots,
 * and reading those as text needs a permission that Deno 2.9 cannot grant by name.
 */
export function rootsToTry(authority: Authority | undefined): (string | null)[] {
  return authority === undefined ? [null] : [authority.pem, null];
}

/** Whether other roots may accept the certificate. Deno 2.7 reports a refused certificate as a lost connection. */
export function mayPassWithOtherRoots(error: unknown): boolean {
  return error instanceof UnreachableError &&
    (error.code === "CLI_UNREACHABLE" || REFUSALS[0]?.found.test(causesOf(error)) === true);
}
