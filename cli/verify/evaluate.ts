/**
 * Evaluates identity tokens and signed requests step by step with the rules of shared/protocol, as the services do, and
 * reports the result of each step. Makes no network request.
 */
import { type AitClaims, parseAit, verifyAitSignature } from "../../shared/protocol/signed/ait.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";
import * as z from "zod";
import { sha256 } from "../../shared/protocol/base64url.ts";
import type { CrlClaims } from "../../shared/protocol/signed/crl.ts";
import { importPublicKey } from "../../shared/protocol/ed25519.ts";
import { checkTimes, TokenError, type TokenRefusal } from "../../shared/protocol/signed/jws.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ContextError, contextOf, contextText } from "../../shared/protocol/message_context.ts";
import { canonicalProof, HEADERS, isNonce, type ProofFields, verifyProof } from "../../shared/protocol/proof.ts";
import { parseUnixSeconds, toIso } from "../../shared/protocol/time.ts";
import type { RequestFile } from "./request_file.ts";
import type { TrustedKeys } from "./trusted_keys.ts";

export interface VerificationStep {
  name: string;
  result: "passed" | "failed" | "skipped";
  detail: string;
}

export interface TrustedInputs {
  trusted: TrustedKeys;
  /** The revocation list, or the reason why there is none. */
  crl: Pick<CrlClaims, "revocations"> | string;
  nowSeconds: number;
}

const TOKEN_STEPS: readonly { name: string; refusals: readonly TokenRefusal[]; what: string }[] = [
  { name: "form", refusals: ["malformed"], what: "three parts of base64url" },
  { name: "header", refusals: ["header"], what: "alg EdDSA, typ AIT and a kid" },
  { name: "issuer", refusals: ["issuer"], what: "this registry" },
  { name: "key", refusals: ["unknown_kid"], what: "published by the registry" },
  { name: "signature", refusals: ["signature"], what: "made with that key" },
  { name: "claims", refusals: ["claims"], what: "exactly those of an AIT" },
  { name: "lifetime", refusals: ["expired", "not_yet_valid"], what: "valid at this moment" },
];

const Issued = z.object({ iss: z.string() });

/** Evaluates an AIT. `claims` is `null` unless signature and claims are valid. */
export async function evaluateToken(
  token: string,
  known: TrustedInputs,
): Promise<{ checks: VerificationStep[]; claims: AitClaims | null }> {
  let claims: AitClaims | null = null;
  let refusal: TokenError | null = null;
  try {
    const jws = parseAit(token);
    const named = Issued.safeParse(tryParse(jws.payloadJson)).data?.iss ?? "", { issuer } = known.trusted;
    if (named !== issuer) {
      throw new TokenError("issuer", `It names ${named || "none"}, not ${issuer}; name it with --registry-url`);
    }
    claims = await verifyAitSignature(jws, known.trusted);
    checkTimes(claims, known.nowSeconds);
  } catch (error) {
    if (!(error instanceof TokenError)) throw error;
    refusal = error;
  }
  const refusedAt = TOKEN_STEPS.findIndex(({ refusals }) => refusal !== null && refusals.includes(refusal.reason));
  const checks = TOKEN_STEPS.map(({ name, what }, i) => {
    if (refusal === null || i < refusedAt) {
      return step(name, true, name === "lifetime" && claims ? lifetimeOf(claims) : what, "");
    }
    if (i > refusedAt) return skipped(name, "an earlier check failed");
    return failed(name, claims ? lifetimeOf(claims, known.nowSeconds) : refusal.message);
  });
  checks.push(revocation(claims, known));
  return { checks, claims };
}

/** Evaluates a signed request like the service that receives it. `origins` starts with the expected origin. */
export async function evaluateRequest(
  request: RequestFile,
  known: TrustedInputs,
  origins: readonly string[],
): Promise<{ checks: VerificationStep[]; claims: AitClaims | null; canonical: string }> {
  const { headers, body } = request;
  const header = (name: string) => headers.get(name) ?? "";
  const authorization = /^Svc +(\S+)$/i.exec(header(HEADERS.authorization));
  const ait = authorization?.[1] ?? "";
  const scheme = step("Authorization", authorization !== null, "Svc and one token", "It is not of the form Svc <ait>");
  const token = await evaluateToken(ait, known);
  const fields: ProofFields = {
    method: request.method,
    origin: origins[0] ?? "",
    target: request.target,
    timestamp: header(HEADERS.timestamp),
    nonce: header(HEADERS.nonce),
    bodySha256: header(HEADERS.bodySha256),
    recipient: header(HEADERS.recipient),
    aitSha256: await sha256(ait),
  };
  const proof = header(HEADERS.proof);
  const checks = [
    scheme,
    ...token.checks.map(({ name, ...rest }) => ({ name: `token ${name}`, ...rest })),
    timestampStep(fields.timestamp, known.nowSeconds),
    await bodyStep(fields.bodySha256, body),
    await contextStep(request),
    await proofStep(token.claims, proof, fields, origins),
    step(
      "nonce",
      isNonce(fields.nonce),
      "well-formed; only the service can check whether it is new",
      "It is malformed",
    ),
    skipped("trust, access token, rate limit", "only the service can check these"),
  ];
  return { checks, claims: token.claims, canonical: canonicalProof(fields) };
}

function timestampStep(timestamp: string, nowSeconds: number): VerificationStep {
  const seconds = parseUnixSeconds(timestamp);
  if (seconds === null) return failed("timestamp", "It is missing or not a Unix timestamp");
  const off = seconds - nowSeconds;
  const when = `${Math.abs(off)} s ${off < 0 ? "before" : "after"} the time of the check`;
  const { timestampSkewSeconds: most } = LIMITS;
  return step("timestamp", Math.abs(off) <= most, when, `${when}; ${most} s are allowed`);
}

async function bodyStep(claimed: string, body: Uint8Array<ArrayBuffer>): Promise<VerificationStep> {
  const [real = "", ...cut] = await Promise.all(textsOf(body).map((text) => sha256(text)));
  if (claimed === real) return step("body hash", true, `${body.length} bytes`, "");
  if (cut.includes(claimed)) return step("body hash", true, "without the file's last line feed", "");
  return failed("body hash", `The header says ${claimed || "nothing"}, the body has ${real}`);
}

/** Returns a text as the file has it, and also without a final line feed, because editors add one that was not sent. */
export function textsOf(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
  return bytes.at(-1) === 0x0a ? [bytes, bytes.slice(0, bytes.at(-2) === 0x0d ? -2 : -1)] : [bytes];
}

/** Compares the headers with the signed context of the target (D-140). */
async function contextStep({ target, headers }: RequestFile): Promise<VerificationStep> {
  try {
    const signed = contextOf(target);
    if (signed === null) return skipped("context", "the target has no ctx, so the message's headers are not signed");
    const real = await sha256(contextText(headers));
    return step("context", signed === real, "the headers are the signed ones", `The headers have ${real}, ctx differs`);
  } catch (error) {
    if (error instanceof ContextError) return failed("context", error.message);
    throw error;
  }
}

async function proofStep(
  claims: AitClaims | null,
  proof: string,
  fields: ProofFields,
  origins: readonly string[],
): Promise<VerificationStep> {
  if (claims === null) return skipped("proof", "the token's key is not verified");
  const key = await importPublicKey(claims.cnf.jwk.x);
  for (const origin of origins) {
    if (!await verifyProof(key, proof, { ...fields, origin })) continue;
    if (origin === fields.origin) return step("proof", true, "signed with the agent's key", "");
    return failed("proof", `It was signed for ${origin}; the service's origin is ${fields.origin}`);
  }
  return failed("proof", "It is not the agent's signature of the canonical string");
}

function revocation(claims: AitClaims | null, { crl }: TrustedInputs): VerificationStep {
  if (claims === null) return skipped("revocation", "an earlier check failed");
  if (typeof crl === "string") return skipped("revocation", crl);
  const entry = crl.revocations.find(({ jti }) => jti === claims.jti);
  const when = entry && `Revoked at ${toIso(entry.revokedAt * 1000)}: ${entry.reason}`;
  return step("revocation", !entry, "not on the registry's list", when ?? "");
}

function lifetimeOf(claims: AitClaims, nowSeconds?: number): string {
  const span = `${toIso(claims.nbf * 1000)} to ${toIso(claims.exp * 1000)}`;
  return nowSeconds === undefined ? span : `${span}; checked at ${toIso(nowSeconds * 1000)}`;
}

export function step(name: string, isGood: boolean, good: string, bad: string): VerificationStep {
  return { name, result: isGood ? "passed" : "failed", detail: isGood ? good : bad };
}

export function failed(name: string, detail: string): VerificationStep {
  return { name, result: "failed", detail };
}

export function skipped(name: string, detail: string): VerificationStep {
  return { name, result: "skipped", detail };
}
