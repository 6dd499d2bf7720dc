/**
 * Shows the proxy's configuration (docs/operations.md#configuration): its defaults, the accepted values of each
 * variable, and that every wrong value is reported, all in one error.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { type ProxyConfig, readProxyConfig } from "../../proxy/config.ts";
import { variablesOf } from "../support/server_variables.ts";
import { ConfigError, ConfigReader } from "../../shared/server/config_reader.ts";

const PLACE = {
  environment: "local",
  registryUrl: "http://127.0.0.1:8787",
  proxyUrl: "http://127.0.0.1:8787",
  version: "1.0.0",
} as const;

function read(variables: Record<string, string>): { config: ProxyConfig; bad: string[] } {
  const reader = new ConfigReader((name) => variables[name]);
  const config = readProxyConfig(reader, PLACE);
  return { config, bad: reader.problems.map((problem) => problem.split(":")[0] ?? "") };
}

Deno.test("the proxy has the defaults of the specification when no variable is set", () => {
  const config = readProxyConfig(new ConfigReader(() => undefined), PLACE);
  assertEquals(config, {
    ...PLACE,
    serviceCredential: null,
    injectIdentity: true,
    agentRequests: 60,
    agentWindowMs: 60_000,
    ownerRequests: 1_200,
    crlRefreshIntervalMs: 300_000,
    crlMaxAgeMs: 900_000,
    registryKeysTtlMs: 300_000,
    ackTimeoutMs: 10_000,
    heartbeatIntervalMs: 30_000,
    accessCacheMs: 0,
    mailboxTtlSeconds: 86_400,
    receiptKeptMs: 259_200_000,
    sessionRevalidateMs: 300_000,
    mailboxOwnerBytes: 268_435_456,
    storeReserveBytes: null,
    memoryGuardBytes: null,
    pairQuota: 10_000,
    federation: { mode: "except", hosts: [] },
    federationPrivate: false,
  });
});

Deno.test("each variable accepts its valid values, and any other value is refused with its name", async (t) => {
  const milliseconds = {
    good: { "1000": 1_000, "86400000": 86_400_000 },
    // A number meant as seconds would make a loop without a pause.
    bad: ["0", "1", "30", "999", "-1", "abc", "1.5", "86400001", "1e3"],
  };
  const cases: [name: string, member: keyof ProxyConfig, good: Record<string, unknown>, bad: string[]][] = [
    ["AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE", "agentRequests", { "1": 1, "60": 60, "1000000": 1_000_000 }, [
      "0",
      "-1",
      "abc",
      "1e9",
      "1000000000",
      "1000001",
      "60.5",
      " 60",
      "Infinity",
    ]],
    ["AGENT_RATE_LIMIT_WINDOW_MS", "agentWindowMs", milliseconds.good, milliseconds.bad],
    ["CRL_REFRESH_INTERVAL_MS", "crlRefreshIntervalMs", { "1000": 1_000, "899999": 899_999 }, milliseconds.bad],
    ["CRL_MAX_AGE_MS", "crlMaxAgeMs", { "300001": 300_001, "86400000": 86_400_000 }, milliseconds.bad],
    ["REGISTRY_KEYS_TTL_MS", "registryKeysTtlMs", milliseconds.good, milliseconds.bad],
    ["RELAY_ACK_TIMEOUT_MS", "ackTimeoutMs", milliseconds.good, milliseconds.bad],
    ["RELAY_HEARTBEAT_INTERVAL_MS", "heartbeatIntervalMs", milliseconds.good, milliseconds.bad],
    ["SESSION_REVALIDATE_INTERVAL_MS", "sessionRevalidateMs", milliseconds.good, milliseconds.bad],
    ["OWNER_RATE_LIMIT_REQUESTS_PER_MINUTE", "ownerRequests", { "11": 11, "1000000": 1_000_000 }, [
      "10",
      "1000001",
      "x",
    ]],
    ["QUOTA_MAILBOX_BYTES", "mailboxOwnerBytes", { "1048576": 1_048_576 }, ["0", "1048575", "1e9", "x"]],
    ["STORE_RESERVE_BYTES", "storeReserveBytes", { "0": 0, "1000": 1_000 }, ["-1", "1.5", "x"]],
    ["MEMORY_GUARD", "memoryGuardBytes", { "67108864": 67_108_864 }, ["0", "70%", "0.7"]],
    ["QUOTA_PAIRS", "pairQuota", { "1": 1, "1000000": 1_000_000 }, ["0", "1000001", "x", "1.5"]],
    ["FEDERATION", "federation", {
      on: { mode: "except", hosts: [] },
      off: { mode: "off", hosts: [] },
      "b.example": { mode: "only", hosts: ["b.example"] },
      "on,-b.example": { mode: "except", hosts: ["b.example"] },
    }, ["no", "https://b.example", "on,b.example"]],
    ["FEDERATION_PRIVATE", "federationPrivate", { true: true, false: false }, ["yes", "1"]],
    ["AGENT_ACCESS_CACHE_MS", "accessCacheMs", { "0": 0, "5000": 5000 }, ["5001", "-1", "x"]],
    ["RELAY_MAILBOX_TTL_SECONDS", "mailboxTtlSeconds", { "1": 1, "86400": 86_400 }, ["0", "-1", "x"]],
    ["RECEIPT_RETENTION_SECONDS", "receiptKeptMs", { "3600": 3_600_000, "2592000": 2_592_000_000 }, [
      "3599",
      "2592001",
      "x",
    ]],
    ["INJECT_IDENTITY_INTO_MESSAGE", "injectIdentity", { "true": true, "false": false }, ["yes", "0", "TRUE", "1"]],
  ];
  for (const [name, member, good, bad] of cases) {
    await t.step(name, () => {
      for (const [text, value] of Object.entries(good)) {
        const { config, bad: problems } = read({ [name]: text });
        assertEquals([config[member], problems], [value, []], text);
      }
      for (const text of bad) assertEquals(read({ [name]: text }).bad, [name], text);
    });
  }
  assertEquals(
    [...cases.map(([name]) => name), "REGISTRY_INTERNAL_SERVICE_ID", "REGISTRY_INTERNAL_SERVICE_SECRET"].toSorted(),
    variablesOf((reader) => readProxyConfig(reader, PLACE)).toSorted(),
  );
});

Deno.test("the service credential is set completely or not at all", () => {
  const id = { REGISTRY_INTERNAL_SERVICE_ID: "01KHYQ5H00AAAAAAAAAAAAAAAA" };
  const secret = { REGISTRY_INTERNAL_SERVICE_SECRET: `svc_srv_${"A".repeat(43)}` };
  assertEquals(read({ ...id, ...secret }).config.serviceCredential, {
    id: id.REGISTRY_INTERNAL_SERVICE_ID,
    secret: secret.REGISTRY_INTERNAL_SERVICE_SECRET,
  });
  const ofFile = { REGISTRY_INTERNAL_SERVICE_SECRET: `${secret.REGISTRY_INTERNAL_SERVICE_SECRET}\n` };
  assertEquals(read({ ...id, ...ofFile }), read({ ...id, ...secret }));
  assertEquals(read(id).bad, ["REGISTRY_INTERNAL_SERVICE_SECRET"]);
  assertEquals(read(secret).bad, ["REGISTRY_INTERNAL_SERVICE_ID"]);
});

Deno.test("a service credential that was cut while it was pasted is refused at the start, because every agent would be", () => {
  const secret = `svc_srv_${"A".repeat(43)}`, id = "01KHYQ5H00AAAAAAAAAAAAAAAA";
  for (const cut of ["svc_srv_AAAA…", secret.slice(0, -1), `${secret.slice(0, 20)}\n${secret.slice(20)}`]) {
    const { bad } = read({ REGISTRY_INTERNAL_SERVICE_ID: id, REGISTRY_INTERNAL_SERVICE_SECRET: cut });
    assertEquals(bad, ["REGISTRY_INTERNAL_SERVICE_SECRET"]);
  }
  const { bad } = read({ REGISTRY_INTERNAL_SERVICE_ID: id.slice(1), REGISTRY_INTERNAL_SERVICE_SECRET: secret });
  assertEquals(bad, ["REGISTRY_INTERNAL_SERVICE_ID"]);
});

Deno.test("a revocation list that ends before the next one is fetched is refused, because requests would fail meanwhile", () => {
  assertEquals(read({ CRL_MAX_AGE_MS: "300000" }).bad, ["CRL_MAX_AGE_MS"]);
  assertEquals(read({ CRL_REFRESH_INTERVAL_MS: "900000" }).bad, ["CRL_MAX_AGE_MS"]);
  assertEquals(read({ CRL_REFRESH_INTERVAL_MS: "4000", CRL_MAX_AGE_MS: "4001" }).bad, []);
  const wrong = { CRL_REFRESH_INTERVAL_MS: "soon", CRL_MAX_AGE_MS: "200000" };
  assertEquals(read(wrong).bad, ["CRL_REFRESH_INTERVAL_MS"], "200000 is not compared with a default");
  assertEquals(read({ CRL_REFRESH_INTERVAL_MS: "900000", CRL_MAX_AGE_MS: "x" }).bad, ["CRL_MAX_AGE_MS"]);
});

Deno.test("all wrong values are reported together", () => {
  const variables: Record<string, string> = {
    AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "0",
    CRL_MAX_AGE_MS: "soon",
    INJECT_IDENTITY_INTO_MESSAGE: "maybe",
  };
  const reader = new ConfigReader((name) => variables[name]);
  const config = readProxyConfig(reader, PLACE);
  const { problems } = assertThrows(() => reader.finish(config), ConfigError);
  assertEquals(problems.map((problem) => problem.split(":")[0]).toSorted(), Object.keys(variables).toSorted());
});
