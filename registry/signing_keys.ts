/**
 * The registry's signing keys, in the store or in the configuration. Keys in the store are read at each use, because a
 * key that another instance has replaced must not sign any longer. No caller gets a seed, because its holder could sign
 * as the registry.
 */
import { calculateJwkThumbprint } from "jose";
import type { ConfiguredKey } from "./config.ts";
import { KEYS } from "./schema/kv_keys.ts";
import type { SigningKeySet, StoredKey } from "./schema/records.ts";
import type { RegistryStore } from "./store_deps.ts";
import { DAY_MS } from "../shared/clock.ts";
import type { RotateKeysAnswer } from "../shared/protocol/api/meta.ts";
import { fromBase64Url } from "../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../shared/protocol/ed25519.ts";
import { ServiceError } from "../shared/protocol/errors.ts";
import type { SigningKey, VerificationKeys } from "../shared/protocol/signed/jws.ts";
import { type KeyDocument, readKeyDocument } from "../shared/protocol/signed/key_document.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { toIso } from "../shared/protocol/time.ts";
import { ConfigError } from "../shared/server/config_reader.ts";
import type { Draft } from "../shared/server/store/changes.ts";

/** How long a new key is published before it signs. With less, proxies do not know it yet and refuse its tokens. */
const KEY_LEAD_SECONDS = 60;

type SigningDeps = Pick<RegistryStore, "kv" | "reads" | "clock" | "random">;

/** How long a retired key is published: as long as an AIT can last. With less, valid AITs would no longer verify. */
const RETIRED_KEPT_MS = LIMITS.aitTtlDaysMax * DAY_MS;

export class Signing {
  readonly #imported = new Map<string, Promise<CryptoKey>>();
  #versionstamp: string | null = null;
  #verifying: { document: string; keys: VerificationKeys } | null = null;
  /**
   * Called when the stored keys have changed, before the first signature of a new key is sent. A process that also runs
   * the proxy sets it, and a new key then signs at once. Without it, a new key is published 60 s before it signs,
   * because proxies that do not know it yet would refuse its tokens.
   */
  onChanged: (() => void) | null = null;

  private constructor(private readonly deps: SigningDeps, private readonly configured: SigningKeySet | null) {}

  /**
   * Opens the keys that the start has read. If there are none, makes and stores the first one.
   *
   * @throws {ConfigError} when a configured public key does not belong to its private member
   */
  static async open(
    deps: SigningDeps,
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
    const signing = new Signing(deps, given);
    if (!given && !stored) {
      // If several instances start at once, only one of them stores its key, and all use that one.
      const set: SigningKeySet = { keys: [await signing.#newKey()] };
      await deps.kv.atomic().check({ key: KEYS.signingKeys(), versionstamp: null }).set(KEYS.signingKeys(), set)
        .commit();
    }
    await signing.#signer(given ?? stored ?? await signing.#load());
    return signing;
  }

  async current(): Promise<SigningKey> {
    return await this.#signer(await this.#load());
  }

  async #signer({ keys }: SigningKeySet): Promise<SigningKey> {
    const key = keys.find((candidate) => candidate.status === "active" && candidate.seed !== null);
    if (!key?.seed) throw new Error("The registry has no active signing key");
    return { kid: key.kid, privateKey: await this.#import(key.kid, key.seed) };
  }

  async document(): Promise<KeyDocument> {
    const { keys } = await this.#load();
    const form = { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig" } as const;
    return { keys: keys.map(({ kid, publicKey, status }) => ({ kid, ...form, x: publicKey, status })) };
  }

  /** Returns the published keys. They are imported again only when the key document changes. */
  async verificationKeys(): Promise<VerificationKeys> {
    const document = await this.document();
    const text = JSON.stringify(document);
    if (this.#verifying?.document === text) return this.#verifying.keys;
    const keys = await readKeyDocument(document);
    if (!keys) throw new Error("The registry's own key document is not valid");
    this.#verifying = { document: text, keys };
    return keys;
  }

  /**
   * Adds a rotation to a change: a new key, and the retirement of the old one when the new one signs.
   *
   * @throws {ServiceError} `SIGNING_KEYS_CONFIGURED`, `SIGNING_KEYS_TOO_MANY`
   */
  async rotate(draft: Draft): Promise<RotateKeysAnswer> {
    if (this.configured) throw new ServiceError("SIGNING_KEYS_CONFIGURED");
    const entry = await draft.get<SigningKeySet>(KEYS.signingKeys());
    const now = this.deps.clock.now();
    const { keys } = settledSet(entry.value ?? { keys: [] }, now);
    if (keys.length >= LIMITS.signingKeys) throw new ServiceError("SIGNING_KEYS_TOO_MANY");
    const signsFrom = this.onChanged ? now : now + KEY_LEAD_SECONDS * 1000;
    const fresh: StoredKey = { ...await this.#newKey(), ...(signsFrom > now ? { signsFrom } : {}) };
    // A key of a rotation before the clock was set back would otherwise sign later than the new one, and replace it.
    const active = keys.filter(({ status }) => status === "active").map((key) =>
      (key.signsFrom ?? 0) < signsFrom ? key : { ...key, signsFrom: signsFrom - 1 }
    );
    const others = keys.filter(({ status }) => status !== "active");
    const retiredKid = active.at(-1)?.kid ?? "";
    const set: SigningKeySet = signsFrom > now
      ? { keys: [...active, fresh, ...others] }
      : { keys: [fresh, ...active.map((key) => retire(key, now)), ...others] };
    draft.set(entry.key, set);
    return { kid: fresh.kid, retiredKid, signsFrom: toIso(signsFrom) };
  }

  async #load(): Promise<SigningKeySet> {
    if (this.configured) return this.configured;
    const entry = await this.deps.reads.get<SigningKeySet>(KEYS.signingKeys());
    const stored = entry.value ?? { keys: [] };
    const set = settledSet(stored, this.deps.clock.now());
    if (this.#versionstamp !== entry.versionstamp) {
      if (this.#versionstamp !== null) this.onChanged?.();
      this.#versionstamp = entry.versionstamp;
    }
    // Deletes the seed of a key as soon as a read finds that the key has retired.
    const isSettled = stored.keys.every(({ kid, seed }) =>
      seed === null || set.keys.some((key) => key.kid === kid && key.seed)
    );
    if (!isSettled) await this.deps.kv.atomic().check(entry).set(entry.key, set).commit().catch(() => {});
    return set;
  }

  #import(kid: string, seed: string): Promise<CryptoKey> {
    return this.#imported.getOrInsertComputed(kid, async () => {
      return (await keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array())).privateKey;
    });
  }

  async #newKey(): Promise<StoredKey> {
    const { publicKey, seed } = await keyPairFromSeed(this.deps.random.bytes(32));
    return { kid: await kidOf(publicKey), publicKey, seed, status: "active", retiredAt: null };
  }
}

/**
 * Returns the set as it is at time `now`: first the newest key that may sign, then keys that will sign later, then
 * retired ones. Keys whose last AIT has expired are left out.
 */
function settledSet({ keys }: SigningKeySet, now: number): SigningKeySet {
  const active = keys.filter(({ status }) => status === "active");
  const pending = active.filter(({ signsFrom = 0 }) => signsFrom > now);
  const [signer, ...older] = active.filter(({ signsFrom = 0 }) => signsFrom <= now)
    .sort((a, b) => (b.signsFrom ?? 0) - (a.signsFrom ?? 0));
  const kept = [
    ...older.map((key) => retire(key, signer?.signsFrom ?? now)),
    ...keys.filter((key) => key.status === "retired"),
  ]
    .filter(({ retiredAt }) => retiredAt === null || now < retiredAt + RETIRED_KEPT_MS);
  return { keys: [...(signer ? [signer] : []), ...pending, ...kept] };
}

function retire(key: StoredKey, retiredAt: number): StoredKey {
  return { ...key, seed: null, status: "retired", retiredAt };
}

/** @throws {ConfigError} when a public key does not belong to its private member */
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

function kidOf(publicKey: string): Promise<string> {
  return calculateJwkThumbprint({ kty: "OKP", crv: "Ed25519", x: publicKey });
}
