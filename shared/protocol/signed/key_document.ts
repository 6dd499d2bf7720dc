/**
 * The registry's published keys: a JWK Set at `/.well-known/svc-keys.json`, which existing libraries can read. A
 * retired key verifies old tokens but never a list, because a thief of the key could otherwise undo revocations. An
 * invalid document yields no key at all.
 */
import * as z from "zod";
import { importPublicKey, isPublicKey } from "../ed25519.ts";
import { LIMITS } from "../limits.ts";
import type { VerificationKey, VerificationKeys } from "./jws.ts";

/** One published key. A private member makes the whole document invalid. */
export type PublishedKey = z.output<typeof PublishedKey>;
export const PublishedKey = z.strictObject({
  kid: z.string().min(1).max(128),
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  alg: z.literal("EdDSA"),
  use: z.literal("sig"),
  x: z.string().refine(isPublicKey).meta({ examples: ["iRSOjP63Dt2YWIPUuF3KABGDXODn7ZR5yEAIFPwaNcE"] }),
  status: z.enum(["active", "retired"]),
});

/** The document: at least one key, and no `kid` twice. */
export type KeyDocument = z.output<typeof KeyDocument>;
export const KeyDocument = z.object({
  keys: z.array(PublishedKey).min(1).max(LIMITS.signingKeys).refine(
    (keys) => new Set(keys.map((key) => key.kid)).size === keys.length,
    "a kid is listed twice",
  ),
});

/** Returns the imported keys of a parsed key document, or `null` for an invalid one. */
export async function readKeyDocument(value: unknown): Promise<VerificationKeys | null> {
  const { keys: listed } = (value ?? {}) as { keys?: unknown };
  // Counted first, because each key costs the check of a point, and a hostile registry could list hundreds.
  if (!Array.isArray(listed) || listed.length > LIMITS.signingKeys) return null;
  const parsed = KeyDocument.safeParse(value);
  if (!parsed.success) return null;
  const keys = new Map<string, VerificationKey>();
  for (const key of parsed.data.keys) {
    keys.set(key.kid, { status: key.status, publicKey: await importPublicKey(key.x) });
  }
  return keys;
}
