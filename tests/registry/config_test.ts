/**
 * Shows how the registry's variables are read (docs/operations.md#configuration): defaults, accepted values, and that
 * all problems are reported together without the secret concerned.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { readRegistryConfig, type RegistryConfig } from "../../registry/config.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { type KeyPair, keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { ConfigError, ConfigReader } from "../../shared/server/config_reader.ts";
import { answered, inside, openRegistry } from "../support/registry_world.ts";
import { PROXY_URL, REGISTRY_URL } from "../support/world.ts";

const PLACE = { environment: "dev", registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL, version: "1" } as const;

/** Reads these variables. Returns the configuration and its problems. */
function read(variables: Record<string, string>): { config: RegistryConfig; problems: string[] } {
  const reader = new ConfigReader((name) => variables[name]);
  const config = readRegistryConfig(reader, PLACE);
  return { config, problems: reader.problems };
}

const pairOf = (n: number): Promise<KeyPair> => keyPairFromSeed(new Uint8Array(32).fill(n));
const jwk = ({ publicKey: x, seed: d }: KeyPair, more: Record<string, unknown> = {}) => ({
  kty: "OKP",
  crv: "Ed25519",
  x,
  d,
  ...more,
});
const keySet = (...keys: unknown[]) => ({ REGISTRY_SIGNING_KEYS: JSON.stringify({ keys }) });

Deno.test("the registry without variables has no bootstrap secret, creates its keys and uses default lifetimes", () => {
  const config = readRegistryConfig(new ConfigReader(() => undefined), PLACE);
  assertEquals(config, {
    ...PLACE,
    bootstrapSecret: null,
    signingKeys: null,
    accessTokenTtlSeconds: 900,
    refreshTokenTtlSeconds: 2_592_000,
    challengeTtlSeconds: 300,
    apiKeyRequestsPerMinute: 600,
    console: false,
    quotas: {
      agents: 500,
      apiKeys: 50,
      registrationsPerDay: 100,
      agentReissuesPerDay: 10,
      reissuesPerDay: 100,
      challenges: 1000,
      revocations: 2000,
    },
  });
});

Deno.test("every variable of the registry is read", () => {
  const { config, problems } = read({
    BOOTSTRAP_SECRET: " a secret\n",
    ACCESS_TOKEN_TTL_SECONDS: "1",
    REFRESH_TOKEN_TTL_SECONDS: "31536000",
    CHALLENGE_TTL_SECONDS: "60",
    API_KEY_REQUESTS_PER_MINUTE: "1",
    QUOTA_AGENTS: "2",
    QUOTA_API_KEYS: "3",
    QUOTA_REGISTRATIONS_PER_DAY: "4",
    QUOTA_AGENT_REISSUES_PER_DAY: "5",
    QUOTA_REISSUES_PER_DAY: "6",
    QUOTA_CHALLENGES: "7",
    QUOTA_REVOCATIONS: "1000000",
    CONSOLE: "on",
  });
  assertEquals(problems, []);
  assertEquals([config.console, read({ CONSOLE: "yes" }).problems.length], [true, 1]);
  assertEquals([config.apiKeyRequestsPerMinute, ...Object.values(config.quotas)], [1, 2, 3, 4, 5, 6, 7, 1_000_000]);
  assertEquals(
    [config.bootstrapSecret, config.accessTokenTtlSeconds, config.refreshTokenTtlSeconds, config.challengeTtlSeconds],
    ["a secret", 1, 31_536_000, 60],
  );
});

Deno.test("a lifetime is an integer of at least one second, and all invalid ones are reported together", () => {
  const names = ["ACCESS_TOKEN_TTL_SECONDS", "REFRESH_TOKEN_TTL_SECONDS", "CHALLENGE_TTL_SECONDS"];
  for (const bad of ["0", "-1", "1.5", "1e3", "abc", " 5", "9".repeat(20), "0x10", "31536001"]) {
    const { problems } = read(Object.fromEntries(names.map((name) => [name, bad])));
    assertEquals(problems.map((line) => line.split(":")[0]), names, bad);
  }
});

Deno.test("configured signing keys are accepted as a private JWK Set with or without kid and status", async (t) => {
  const [one, two] = [await pairOf(1), await pairOf(2)];
  const active = { kid: null, publicKey: one.publicKey, seed: one.seed, status: "active" as const };
  const retired = { kid: "old", publicKey: two.publicKey, seed: null, status: "retired" as const };
  const rows: [what: string, keys: unknown[], wanted: unknown][] = [
    ["bare", [jwk(one)], [active]],
    ["with status and kid", [jwk(one, { kid: "k1", status: "active" })], [{ ...active, kid: "k1" }]],
    ["with other members", [jwk(one, { alg: "EdDSA", use: "sig", key_ops: ["sign"] })], [active]],
    [
      "with a retired one that only verifies",
      [jwk(one), { kty: "OKP", crv: "Ed25519", x: two.publicKey, kid: "old", status: "retired" }],
      [active, retired],
    ],
    ["with a retired one's private half", [jwk(one), jwk(two, { kid: "old", status: "retired" })], [active, {
      ...retired,
      seed: two.seed,
    }]],
  ];
  for (const [what, keys, wanted] of rows) {
    await t.step(what, () => {
      const { config, problems } = read(keySet(...keys));
      assertEquals(problems, []);
      assertEquals(config.signingKeys, wanted as typeof config.signingKeys);
    });
  }
});

Deno.test("each invalid set of signing keys is refused with its reason", async (t) => {
  const [one, two] = [await pairOf(1), await pairOf(2)];
  const publicOnly = { kty: "OKP", crv: "Ed25519", x: one.publicKey };
  const rows: [what: string, text: string, says: string][] = [
    ["no JSON", "{", "JSON Web Key Set"],
    ["no object", "null", "keys"],
    ["a list", "[]", "keys"],
    ["no keys", "{}", "keys"],
    ["no key", '{"keys":[]}', "at least one"],
    ["keys is not a list", '{"keys":{}}', "keys"],
    ["a key that is null", '{"keys":[null]}', "kty"],
    ["a key that is text", '{"keys":["x"]}', "kty"],
    ["RSA", JSON.stringify({ keys: [jwk(one, { kty: "RSA" })] }), "kty"],
    ["X25519", JSON.stringify({ keys: [jwk(one, { crv: "X25519" })] }), "crv"],
    ["x of 31 bytes", JSON.stringify({ keys: [jwk(one, { x: toBase64Url(new Uint8Array(31)) })] }), "x must"],
    ["x is not a point", JSON.stringify({ keys: [jwk(one, { x: `Ag${"A".repeat(41)}` })] }), "x must"],
    ["x missing", JSON.stringify({ keys: [jwk(one, { x: undefined })] }), "x must"],
    ["d of 31 bytes", JSON.stringify({ keys: [jwk(one, { d: toBase64Url(new Uint8Array(31)) })] }), "d must"],
    ["d padded", JSON.stringify({ keys: [jwk(one, { d: `${one.seed}=` })] }), "d must"],
    ["d null", JSON.stringify({ keys: [jwk(one, { d: null })] }), "d must"],
    ["status unknown", JSON.stringify({ keys: [jwk(one, { status: "next" })] }), "status"],
    ["active without d", JSON.stringify({ keys: [publicOnly] }), "private member d"],
    ["only a retired one", JSON.stringify({ keys: [jwk(one, { status: "retired" })] }), "no active key"],
    ["kid empty", JSON.stringify({ keys: [jwk(one, { kid: "" })] }), "kid"],
    ["kid too long", JSON.stringify({ keys: [jwk(one, { kid: "x".repeat(129) })] }), "kid"],
    ["kid a number", JSON.stringify({ keys: [jwk(one, { kid: 1 })] }), "kid"],
    ["kid twice", JSON.stringify({ keys: [jwk(one, { kid: "k" }), jwk(two, { kid: "k" })] }), "twice"],
  ];
  for (const [what, text, says] of rows) {
    await t.step(what, () => {
      const { config, problems } = read({ REGISTRY_SIGNING_KEYS: text });
      assertEquals([config.signingKeys, problems.length], [null, 1]);
      assertStringIncludes(problems[0] ?? "", "REGISTRY_SIGNING_KEYS: ");
      assertStringIncludes(problems[0] ?? "", says);
      assert(!problems.join().includes(one.seed), "a problem shows the private key");
    });
  }
});

Deno.test("all problems of all signing keys are reported together with those of other variables", async () => {
  const one = await pairOf(1);
  const { problems } = read({
    ...keySet(jwk(one, { kty: "EC", status: "x", kid: "" }), jwk(one, { d: "x" }), jwk(one, { x: "x" })),
    ACCESS_TOKEN_TTL_SECONDS: "0",
  });
  assertEquals(problems.length, 2);
  const text = problems.join("\n");
  for (
    const part of ["key 1: kty", "key 1: status", "key 1: kid", "key 2: d must", "key 3: x must", "ACCESS_TOKEN_TTL"]
  ) {
    assertStringIncludes(text, part);
  }
  assert(!text.includes(one.seed));
});

Deno.test("a set of signing keys that no verifier accepts is refused at the start", async (t) => {
  const [one, two] = [await pairOf(1), await pairOf(2)];
  const rows: [what: string, keys: unknown[]][] = [
    ["d is not the private half of x", [jwk(one, { d: two.seed })]],
    ["the same key twice, without kid", [jwk(one), jwk(one, { status: "retired" })]],
    ["more keys than a key document holds", [
      jwk(one),
      ...Array.from({ length: LIMITS.signingKeys }, (_, i) => jwk(two, { kid: `k${i}`, status: "retired" })),
    ]],
  ];
  for (const [what, keys] of rows) {
    await t.step(what, async () => {
      const { config, problems } = read(keySet(...keys));
      if (problems.length > 0) return;
      await assertRejects(async () => {
        await using w = await openRegistry({ registry: { signingKeys: config.signingKeys } });
        await answered(await inside(w, "/.well-known/svc-keys.json"));
      }, ConfigError);
    });
  }
});

Deno.test("another registry origin on the same store is refused at the start, and both origins are named", async () => {
  await using w = await openRegistry();
  const registryUrl = "https://elsewhere.example";
  const error = await assertRejects(() => openRegistry({ kv: w.kv, registry: { registryUrl } }), ConfigError);
  assertStringIncludes(error.message, REGISTRY_URL);
  assertStringIncludes(error.message, "REGISTRY_URL");
  await using again = await openRegistry({ kv: w.kv });
  await answered(await inside(again, "/health"));
});

Deno.test("a registry origin is refused when its host cannot be part of a DID", async () => {
  for (
    const registryUrl of ["https://[::1]", "https://[2001:db8::1]:8443", `https://${"a".repeat(60)}.${"b".repeat(60)}`]
  ) {
    await assertRejects(() => openRegistry({ registry: { registryUrl } }), ConfigError);
  }
});

Deno.test("a bootstrap secret that no header can have is refused without printing it", () => {
  for (const bad of ["п".repeat(30), "a\nb", "a\u0000b", "é", "  "]) {
    assertEquals(read({ BOOTSTRAP_SECRET: bad }).problems, [
      "BOOTSTRAP_SECRET: must be printable ASCII, because a header carries it",
    ]);
  }
});

Deno.test("production refuses a bootstrap secret under 24 characters without printing it", () => {
  const problemsOf = (environment: "production" | "dev", secret: string) => {
    const reader = new ConfigReader((name) => name === "BOOTSTRAP_SECRET" ? secret : undefined);
    readRegistryConfig(reader, { ...PLACE, environment });
    return reader.problems;
  };
  assertEquals(problemsOf("production", "x".repeat(23)), [
    "BOOTSTRAP_SECRET: must have at least 24 characters in production",
  ]);
  assertEquals(problemsOf("production", "x".repeat(24)), []);
  assertEquals(problemsOf("dev", "x"), []);
});
