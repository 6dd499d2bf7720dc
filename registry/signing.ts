/**
 * The registry's signing keys (D-22, D-53): made once and kept, or given by configuration. The store is read at every
 * use, so that a rotation by another instance counts at once. Seeds never leave this file.
 */
import { calculateJwkThumbprint } from "jose";
import { fromBase64Url } from "../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../shared/protocol/ed25519.ts";
import { ServiceError } from "../shared/protocol/errors.ts";
import type { SigningKey, VerificationKeys } from "../shared/protocol/jws.ts";
import { type KeyDocument, MAX_KEYS, readKeyDocument } from "../shared/protocol/key_document.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import type { Clock } from "../shared/clock.ts";
import type { Random } from "../shared/random.ts";
import type { Reads } from "../shared/server/reads.ts";
import { ConfigError } from "../shared/server/config.ts";
import type { ConfiguredKey } from "./config.ts";
import { KEYS } from "./keys.ts";

interface StoredKey {
  kid: string;
  publicKey: string;
  seed: string | null;
  status: "active" | "retired";
  /** Milliseconds since the Unix epoch; `null` while active, or when the configuration retired it. */
  retiredAt: number | null;
}

/** The stored keys, newest first. */
export interface SigningKeySet {
  keys: StoredKey[];
}

interface SigningSeams {
  kv: Deno.Kv;
  reads: Reads;
  clock: Clock;
  random: Random;
}

/** An AIT of a retired key lives at most this long. */
const RETIRED_KEPT_MS = LIMITS.aitTtlDaysMax * 86_400_000;

/** Signs, and publishes what verifies. */
export class Signing {
  readonly #kv: Deno.Kv;
  readonly #reads: Reads;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #configured: SigningKeySet | null;
  readonly #imported = new Map<string, Promise<CryptoKey>>();

  private constructor(seams: SigningSeams, configured: SigningKeySet | null) {
    this.#kv = seams.kv;
    this.#reads = seams.reads;
    this.#clock = seams.clock;
    this.#random = seams.random;
    this.#configured = configured;
  }

  /** Takes the keys as the start has read them; makes the first one when there is none. */
  static async open(
    seams: SigningSeams,
    configured: readonly ConfiguredKey[] | null,
    stored: SigningKeySet | null,
  ): Promise<Signing> {
    await checkPairs(configured ?? []);
    const given = configured && {
      keys: await Promise.all(configured.map(async (key) => ({
        ...key,
        kid: key.kid ?? await kidOf(key.publicKey),
        retiredAt: null,
      }))),
    };
    const signing = new Signing(seams, given);
    if (!given && !stored) {
      // Of several instances at their first start, one makes the key.
      const set: SigningKeySet = { keys: [await signing.#newKey()] };
      await seams.kv.atomic().check({ key: KEYS.signingKeys(), versionstamp: null }).set(KEYS.signingKeys(), set)
        .commit();
    }
    await signing.#signer(given ?? stored ?? await signing.#load());
    return signing;
  }

  /** The key that signs now. */
  async current(): Promise<SigningKey> {
    return await this.#signer(await this.#load());
  }

  async #signer({ keys }: SigningKeySet): Promise<SigningKey> {
    const key = keys.find((candidate) => candidate.status === "active" && candidate.seed !== null);
    if (!key?.seed) throw new Error("The registry has no active signing key");
    return { kid: key.kid, privateKey: await this.#import(key.kid, key.seed) };
  }

  /** The public half of every key that still verifies. */
  async document(): Promise<KeyDocument> {
    const now = this.#clock.now();
    const { keys } = await this.#load();
    return {
      keys: keys
        .filter((key) => key.retiredAt === null || now < key.retiredAt + RETIRED_KEPT_MS)
        .map(({ kid, publicKey, status }) => ({
          kid,
          kty: "OKP" as const,
          crv: "Ed25519" as const,
          alg: "EdDSA" as const,
          use: "sig" as const,
          x: publicKey,
          status,
        })),
    };
  }

  /** The published keys, ready to verify. */
  async verificationKeys(): Promise<VerificationKeys> {
    const keys = await readKeyDocument(await this.document());
    if (!keys) throw new Error("The registry's own key document is not valid");
    return keys;
  }

  /**
   * Prepares a rotation: a new active key in front, the old ones retired. The caller commits it with `check`.
   *
   * @throws {ServiceError} `SIGNING_KEYS_CONFIGURED`
   */
  async rotation(): Promise<{ check: Deno.AtomicCheck; set: SigningKeySet; kid: string; retiredKid: string }> {
    if (this.#configured) throw new ServiceError("SIGNING_KEYS_CONFIGURED");
    const entry = await this.#kv.get<SigningKeySet>(KEYS.signingKeys());
    const old = entry.value?.keys ?? [];
    const fresh = await this.#newKey();
    const now = this.#clock.now();
    const retired = old.map((key) =>
      key.status === "active" ? { ...key, status: "retired" as const, retiredAt: now } : key
    )
      .filter((key) => key.retiredAt === null || now < key.retiredAt + RETIRED_KEPT_MS)
      // A retired key signs nothing any more: its seed is forgotten.
      .map((key) => ({ ...key, seed: null }))
      .slice(0, MAX_KEYS - 1);
    const retiredKid = old.find((key) => key.status === "active")?.kid ?? "";
    return { check: entry, set: { keys: [fresh, ...retired] }, kid: fresh.kid, retiredKid };
  }

  async #load(): Promise<SigningKeySet> {
    if (this.#configured) return this.#configured;
    return (await this.#reads.get<SigningKeySet>(KEYS.signingKeys())).value ?? { keys: [] };
  }

  #import(kid: string, seed: string): Promise<CryptoKey> {
    let key = this.#imported.get(kid);
    if (!key) {
      key = keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array()).then((pair) => pair.privateKey);
      this.#imported.set(kid, key);
    }
    return key;
  }

  async #newKey(): Promise<StoredKey> {
    const pair = await keyPairFromSeed(this.#random.bytes(32));
    return {
      kid: await kidOf(pair.publicKey),
      publicKey: pair.publicKey,
      seed: pair.seed,
      status: "active",
      retiredAt: null,
    };
  }
}

/** @throws {ConfigError} when a public key is not the one of its private member */
async function checkPairs(configured: readonly ConfiguredKey[]): Promise<void> {
  const problems: string[] = [];
  for (const [i, { seed, publicKey }] of configured.entries()) {
    const pair = seed === null ? null : await keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array());
    if (pair && pair.publicKey !== publicKey) {
      problems.push(`REGISTRY_SIGNING_KEYS: key ${i + 1}: x does not belong to d`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

/** RFC 7638 thumbprint. */
function kidOf(publicKey: string): Promise<string> {
  return calculateJwkThumbprint({ kty: "OKP", crv: "Ed25519", x: publicKey });
}
