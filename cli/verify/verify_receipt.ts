/**
 * Verifies a signed receipt step by step: form, identity token, signature, time, revocation and payload. It needs no
 * agent and no connector, so a third party can do it too.
 */
import * as z from "zod";
import { fromBase64Url, joinedBytes, sha256, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { parseReceipt, type ReceiptClaims, verifyReceipt } from "../../shared/protocol/receipt_token.ts";
import { TokenError, type TokenRefusal } from "../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { issuerOf } from "../link/signed_headers.ts";
import { readGiven } from "./collect_inputs.ts";
import {
  evaluateToken,
  failed,
  skipped,
  step,
  textsOf,
  type TrustedInputs,
  type VerificationStep,
} from "./evaluate.ts";

const FILE_BYTES_MAX = 64 * 1024, KEYS_BYTES_MAX = 256 * 1024;

/** What a receipt file must have. Other members are ignored, because the signature does not cover them. */
const Row = z.object({ signed: z.string(), ait: z.string(), salt: z.string().optional() });
export type ReceiptRow = z.output<typeof Row>;
/** The output of `svc sent <requestId> --json`, or the answer of the local API. */
const Rows = z.object({ receipts: z.array(z.unknown()) });

/** Reads the only receipt in a file. @throws {CliError} `CLI_USAGE` for a file of another form */
export async function readReceipt(ctx: Context, path: string): Promise<ReceiptRow> {
  const value = await readJson(ctx, path, FILE_BYTES_MAX);
  const listed = Rows.safeParse(value).data?.receipts ?? [value];
  const rows = listed.flatMap((one) => Row.safeParse(one).data ?? []);
  const [row, ...others] = rows;
  if (row !== undefined && others.length === 0) return row;
  if (row !== undefined) {
    throw new CliError("CLI_USAGE", `${path} has ${rows.length} signed receipts; keep one of them`);
  }
  const form = 'one receipt of svc sent <requestId> --json, with its members "signed" and "ait"';
  const why = "A receipt without them is only the word of the proxy, which nothing can verify.";
  throw new CliError("CLI_USAGE", `${path} has no signed receipt: it must be ${form}`, { fix: why });
}

async function readJson(ctx: Context, path: string, maxBytes: number): Promise<unknown> {
  const bytes = await readGiven(ctx, path, maxBytes);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new CliError("CLI_USAGE", `${path} is not JSON`);
  }
}

/** Reads the keys of a saved document. Nothing in it proves which registry it is from; the person must know that. */
export async function readKeys(ctx: Context, path: string, { ait }: ReceiptRow): Promise<TrustedInputs> {
  const keys = await readKeyDocument(await readJson(ctx, path, KEYS_BYTES_MAX));
  if (keys === null) {
    throw new CliError("CLI_USAGE", `${path} is not a key document, as a registry publishes it`, {
      fix: "Save https://<registry>/.well-known/svc-keys.json.",
    });
  }
  const trusted = { issuer: issuerOf(ait) ?? "", keys, proxyUrl: "", fetchedAt: path, stale: null };
  return { trusted, nowSeconds: 0, crl: "not fetched: --key-document" };
}

/** Evaluates a receipt. The token must be valid at the receipt's time, not now, because it may have expired since. */
export async function evaluateReceipt(
  { signed, ait, salt }: ReceiptRow,
  payload: Uint8Array<ArrayBuffer> | null,
  known: TrustedInputs,
): Promise<{ checks: VerificationStep[]; receipt: ReceiptClaims | null }> {
  let kid: string | null = null;
  let receipt: ReceiptClaims | null = null;
  let refusal: TokenError | null = null;
  try {
    const jws = parseReceipt(signed);
    kid = jws.kid;
    receipt = await verifyReceipt(jws);
  } catch (error) {
    if (!(error instanceof TokenError)) throw error;
    refusal = error;
  }
  const own = (name: string, reason: TokenRefusal, what: string) => {
    if (refusal?.reason === reason) return failed(name, refusal.message);
    const isReached = refusal === null || ORDER.indexOf(reason) < ORDER.indexOf(refusal.reason);
    return isReached ? step(name, true, what, "") : EARLIER(name);
  };
  const token = await evaluateToken(ait, known);
  const { claims } = token;
  const ofToken = token.checks.filter(({ name }) => name !== "lifetime" && name !== "revocation");
  const isKey = kid !== null && claims !== null && kid === claims.cnf.jwk.x;
  const checks = [
    own("form", "malformed", "three parts of base64url"),
    own("header", "header", "alg EdDSA, typ svc-receipt+jwt and a kid"),
    ...ofToken.map(({ name, ...rest }) => ({ name: `token ${name}`, ...rest })),
    kid === null || claims === null
      ? EARLIER("key")
      : step("key", isKey, "the one of the token", "It is signed with another key than the token's"),
    own("signature", "signature", "made with that key"),
    own("claims", "claims", "exactly those of a receipt"),
  ];
  if (receipt === null || claims === null) {
    checks.push(...["recipient", "time", "revocation", "payload"].map(EARLIER));
    return { checks, receipt: null };
  }
  const at = toIso(receipt.iat * 1000), end = toIso(claims.exp * 1000);
  checks.push(
    step(
      "recipient",
      receipt.iss === claims.sub,
      "the agent of the token",
      `It is of ${receipt.iss}, the token of another`,
    ),
    step("time", receipt.iat < claims.exp, `${at}, before the token's end`, `${at} is after the token's end, ${end}`),
    revocation(receipt, known),
    await payloadStep(receipt, payload, salt),
  );
  return { checks, receipt };
}

const ORDER: readonly TokenRefusal[] = ["malformed", "header", "signature", "claims"];
const EARLIER = (name: string) => skipped(name, "an earlier check failed");

function revocation({ iss, iat }: ReceiptClaims, { crl }: TrustedInputs): VerificationStep {
  if (typeof crl === "string") return skipped("revocation", crl);
  const entry = crl.revocations.find(({ agentDid, reason }) => agentDid === iss && reason === "agent_deleted");
  const when = entry && toIso(entry.revokedAt * 1000);
  return step("revocation", !entry || entry.revokedAt > iat, "not deleted before", `The agent was deleted at ${when}`);
}

const decoded = (text: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(text);

async function payloadStep(
  { bodySha256, payloadSha256 }: ReceiptClaims,
  payload: Uint8Array<ArrayBuffer> | null,
  salt: string | undefined,
): Promise<VerificationStep> {
  const name = "payload";
  if (payload === null) return skipped(name, "no --payload to compare");
  const found = async (hash: string, before: Uint8Array<ArrayBuffer>) => {
    // `svc send` and `svc sent` show only the text of a payload, so a person has no other form of it.
    const payloads = textsOf(payload).flatMap((text) => [text, utf8Bytes(JSON.stringify({ message: decoded(text) }))]);
    const hashes = await Promise.all(payloads.map((text) => sha256(joinedBytes([before, text]))));
    return hashes.includes(hash);
  };
  if (payloadSha256 === undefined) {
    const isBody = await found(bodySha256, new Uint8Array());
    return step(name, isBody, "the body that was sent", "It is not the body that was sent");
  }
  const bytes = salt === undefined ? null : fromBase64Url(salt);
  if (bytes === null) {
    return failed(name, "The message was sealed, and the file has no salt to compare its payload with");
  }
  const isSealed = await found(payloadSha256, bytes);
  return step(name, isSealed, "what was sealed, with the salt", "It is not what was sealed, or the salt is another");
}
