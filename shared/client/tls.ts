/**
 * TLS errors with their fixes, and the root certificates with which a WebSocket is tried: first those of the given
 * authority, then the system's. Nothing here turns verification off.
 */
import { causesOf, UnreachableError } from "./errors.ts";

const CLOCK = "Check this machine's clock; else the service needs a new certificate.";
/** Error texts of `fetch` and error codes of `npm:ws`, with one description per cause. */
const REFUSALS: readonly { found: RegExp; is: string; fix: string }[] = [
  {
    found:
      /UnknownIssuer|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT/,
    is: "issued by an authority that this machine does not know",
    fix: "Give the authority's certificate with --ca <file>, or in DENO_CERT.",
  },
  {
    // What `openssl req -x509` makes. --ca cannot help here, because no client accepts it as the certificate of a server.
    found: /CaUsedAsEndEntity/,
    is: "one of an authority, not of a server",
    fix: "Make the service's certificate with basicConstraints=CA:FALSE; openssl req -x509 needs -addext for that.",
  },
  {
    found: /not valid for name|NotValidForName|ERR_TLS_CERT_ALTNAME_INVALID/,
    is: "issued for another name",
    fix: "Use the name that the certificate is issued for.",
  },
  {
    found: /: Expired|certificate expired|CERT_HAS_EXPIRED/,
    is: "expired, or this machine's clock is wrong",
    fix: CLOCK,
  },
  {
    found: /certificate not valid yet|NotValidYet|CERT_NOT_YET_VALID/,
    is: "not valid yet, or this machine's clock is wrong",
    fix: CLOCK,
  },
];

/**
 * Returns the error for a service that gave no response. It names a refused certificate if that is the cause; otherwise
 * it says `otherwise`.
 */
export function unreachable(origin: string, otherwise: string, cause: unknown): UnreachableError {
  const text = causesOf(cause);
  const known = REFUSALS.find(({ found }) => found.test(text));
  const own = /invalid peer certificate: (.*)/.exec(text)?.[1];
  const is = known?.is ?? (own === undefined ? null : `not usable (${own})`);
  if (is !== null) {
    const fix = known?.fix ?? "The service needs another certificate.";
    return new UnreachableError(`The certificate of ${origin} is ${is}`, { cause, fix, code: "CLI_TLS_REFUSED" });
  }
  if (/invalid HTTP version parsed|HPE_INVALID_CONSTANT/.test(text)) {
    return new UnreachableError(`${origin} does not speak plain HTTP; if it speaks TLS, use https`, { cause });
  }
  if (/InvalidContentType|ERR_SSL_WRONG_VERSION_NUMBER/.test(text)) {
    return new UnreachableError(`${origin} does not speak TLS; if it speaks plain HTTP, use http`, { cause });
  }
  return new UnreachableError(`${origin} ${otherwise}`, { cause });
}

/**
 * Returns the roots to try for a WebSocket, in order; `null` stands for the system's. They are tried one after the
 * other, because the option `ca` of `npm:ws` replaces the system's roots, and Deno has no named permission for reading
 * those as text.
 */
export function rootsToTry(authority: { pem: string } | undefined): (string | null)[] {
  return authority === undefined ? [null] : [authority.pem, null];
}

/** Tells whether other roots may accept the certificate. Deno 2.7 may report only a lost connection, so that counts. */
export function mayPassWithOtherRoots(error: unknown): boolean {
  return error instanceof UnreachableError &&
    (error.code === "CLI_UNREACHABLE" || REFUSALS[0]?.found.test(causesOf(error)) === true);
}
