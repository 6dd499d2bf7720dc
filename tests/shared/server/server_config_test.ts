/**
 * Shows where the services may run (docs/operations.md#configuration): defaults, accepted values of each variable,
 * additional rules of production, and the origins that a proof may name (D-24).
 */
import { assertEquals } from "@std/assert";
import { ConfigReader } from "../../../shared/server/config_reader.ts";
import { acceptedOrigins, readServerConfig, validateServerConfig } from "../../../shared/server/server_config.ts";
import { steps } from "../../support/steps.ts";

const NO_SECRETS = { signingKeysGiven: false, serviceCredentialGiven: false };
const DATABASE = "https://kv.example/v2/databases/1/connect";

/** Names of the refused variables. */
function refused(
  variables: Record<string, string>,
  secrets = NO_SECRETS,
  onDeploy = false,
  denoVersion = Deno.version.deno,
): string[] {
  const reader = new ConfigReader((name) => variables[name]);
  const config = readServerConfig(reader, { isOnDeploy: onDeploy });
  const database = config.kvUrl ?? variables["DENO_KV_DEFAULT_PATH"] ?? null;
  validateServerConfig(reader, config, { ...secrets, denoVersion, isOnDeploy: onDeploy, database });
  return reader.problems.map((problem) => problem.split(":")[0] ?? "");
}

Deno.test("the server configuration without variables is the all-in-one server on this machine", () => {
  const reader = new ConfigReader(() => undefined);
  const { trustedProxies, ...config } = readServerConfig(reader, { isOnDeploy: false });
  assertEquals(config, {
    service: "all",
    environment: "local",
    host: "127.0.0.1",
    port: 8787,
    registryUrl: null,
    proxyUrl: null,
    kvUrl: ".data/svc.kv",
    metricsListen: null,
    instanceListen: null,
    accessLog: false,
    exportsTelemetry: false,
  });
  assertEquals(["127.0.0.1", "10.0.0.1", "::1"].map((address) => trustedProxies.has(address)), [false, false, false]);
  assertEquals(readServerConfig(new ConfigReader(() => undefined), { isOnDeploy: true }).kvUrl, null);
});

Deno.test("the server configuration accepts each variable or names it", async (t) => {
  const cases: [name: string, good: string[], bad: string[]][] = [
    ["SVC_SERVICE", ["all", "registry", "proxy"], ["both", ""]],
    ["ENVIRONMENT", ["local", "dev"], ["prod", "Local"]],
    ["HOST", ["0.0.0.0", "::", "localhost", "my-host.example"], ["a b", "http://x", "a/b"]],
    ["PORT", ["0", "1", "65535"], ["65536", "-1", "abc", "80.5"]],
    ["REGISTRY_URL", ["https://r.example"], ["r.example", "https://r.example/path", "https://u@r.example"]],
    ["PROXY_URL", ["https://p.example"], ["ws://p.example", "https://p.example/?a=1"]],
    [
      "METRICS_LISTEN",
      ["127.0.0.1:9464", "localhost:0", "[::1]:9464", "0.0.0.0:1"],
      ["9464", ":9464", "::1:9464", "[::1:9464", "a b:1", "127.0.0.1:65536", "127.0.0.1:", "http://127.0.0.1:1"],
    ],
    [
      "INSTANCE_LISTEN",
      ["127.0.0.1:8790", "10.0.0.7:0", "[fd00::7]:8790", "svc-1.internal:8790"],
      [
        "8790",
        "[1:2]:1",
        "999.1.1.1:1",
        "0.0.0.0:8790",
        "0:8790",
        "[::]:8790",
        "[0::0]:8790",
        "[::ffff:0.0.0.0]:8790",
        "10.0.0.7:65536",
      ],
    ],
    ["ACCESS_LOG", ["on", "off"], ["true", "ON"]],
    ["TRUSTED_PROXIES", ["10.0.0.0/8, ::1", "192.0.2.1"], ["10.0.0.0/40", "proxy.local"]],
  ];
  await steps(t, cases, ([name, good, bad]) => {
    const urls = { REGISTRY_URL: "https://r.example", PROXY_URL: "https://p.example" };
    for (const value of good) assertEquals(refused({ ...urls, [name]: value }), [], value);
    for (const value of bad) assertEquals(refused({ ...urls, [name]: value }), [name], value);
  });
});

Deno.test("a second listener is refused on Deno Deploy", () => {
  for (const name of ["METRICS_LISTEN", "INSTANCE_LISTEN"]) {
    const variables = { [name]: "127.0.0.1:9464", DENO_KV_DEFAULT_PATH: DATABASE };
    assertEquals(refused(variables, NO_SECRETS, true), [name]);
  }
});

Deno.test("a proxy without a registry in its process needs the registry's address", () => {
  for (const environment of ["local", "dev"]) {
    const alone = { SVC_SERVICE: "proxy", ENVIRONMENT: environment };
    assertEquals(refused(alone), ["REGISTRY_URL"]);
    assertEquals(refused({ ...alone, REGISTRY_URL: "http://127.0.0.1:8787" }), []);
  }
});

Deno.test("a store whose name has a space around it is refused, because it would be another store, new and empty", () => {
  for (const KV_URL of [".data/svc.kv ", " .data/svc.kv", ".data/svc.kv\n", " "]) {
    assertEquals(refused({ KV_URL }), ["KV_URL"], JSON.stringify(KV_URL));
  }
  assertEquals(refused({ KV_URL: "my data/svc.kv" }), []);
});

Deno.test("a store over the network is refused when Deno is older than 2.9.1", () => {
  for (const old of ["2.9.0", "2.8.9", "2.7.14", "1.99.99", "2.9", "", "unknown"]) {
    for (const KV_URL of ["https://kv.example", "http://127.0.0.1:4512"]) {
      assertEquals(refused({ KV_URL }, NO_SECRETS, false, old), ["KV_URL"]);
    }
    assertEquals(refused({ KV_URL: ":memory:" }, NO_SECRETS, false, old), []);
    assertEquals(refused({}, NO_SECRETS, false, old), []);
    // An attached database breaks in the same way.
    assertEquals(refused({ DENO_KV_DEFAULT_PATH: DATABASE }, NO_SECRETS, true, old), ["KV_URL"], old);
  }
  for (const recent of ["2.9.1", "2.9.6", "2.9.6+abcdef0", "2.10.0", "2.10.0-rc.1", "3.0.0"]) {
    assertEquals(refused({ KV_URL: "https://kv.example" }, NO_SECRETS, false, recent), []);
  }
});

Deno.test("a start on Deno Deploy needs an assigned database, because any other store ends with its instance", () => {
  for (
    const variables of [{}, { KV_URL: ":memory:" }, { KV_URL: ".data/svc.kv" }, { DENO_KV_DEFAULT_PATH: "/tmp/kv" }]
  ) {
    assertEquals(refused(variables, NO_SECRETS, true), ["KV_URL"], JSON.stringify(variables));
  }
  for (const variables of [{ DENO_KV_DEFAULT_PATH: DATABASE }, { KV_URL: DATABASE }]) {
    assertEquals(refused(variables, NO_SECRETS, true), []);
  }
});

Deno.test("production reports all its additional problems together", async (t) => {
  const urls = { REGISTRY_URL: "https://r.example", PROXY_URL: "https://p.example" };
  const cases: [name: string, variables: Record<string, string>, secrets: Partial<typeof NO_SECRETS>, bad: string[]][] =
    [
      ["https on both sides", urls, {}, []],
      ["no addresses", {}, {}, ["REGISTRY_URL", "PROXY_URL"]],
      ["http", { ...urls, PROXY_URL: "http://p.example" }, {}, ["PROXY_URL"]],
      ["http on loopback", { ...urls, REGISTRY_URL: "http://127.0.0.1:8787" }, {}, ["REGISTRY_URL"]],
      ["a store over the network", { ...urls, KV_URL: "https://kv.example" }, {}, ["REGISTRY_SIGNING_KEYS"]],
      [
        "a store over the network, keys given",
        { ...urls, KV_URL: "https://kv.example" },
        { signingKeysGiven: true },
        [],
      ],
      ["a proxy alone", { ...urls, SVC_SERVICE: "proxy" }, {}, ["REGISTRY_INTERNAL_SERVICE_ID"]],
      ["a proxy alone, its credential given", { ...urls, SVC_SERVICE: "proxy" }, { serviceCredentialGiven: true }, []],
      ["a proxy alone needs no signing keys", { ...urls, SVC_SERVICE: "proxy", KV_URL: "https://kv.example" }, {
        serviceCredentialGiven: true,
      }, []],
      ["a registry alone", { ...urls, SVC_SERVICE: "registry" }, {}, []],
    ];
  await steps(t, cases, ([, variables, secrets, bad]) => {
    const given = { ...NO_SECRETS, ...secrets };
    assertEquals(refused({ ...variables, ENVIRONMENT: "production" }, given), bad);
    for (const environment of ["local", "dev"]) {
      assertEquals(refused({ ...variables, ENVIRONMENT: environment }, given), []);
    }
  });
  await t.step("the database of Deno Deploy", () => {
    const variables = { ...urls, ENVIRONMENT: "production", DENO_KV_DEFAULT_PATH: DATABASE };
    assertEquals(refused(variables, NO_SECRETS, true), ["REGISTRY_SIGNING_KEYS"]);
  });
});

Deno.test("the accepted origins are the public one, and in local also loopback with the listening port", () => {
  assertEquals(acceptedOrigins("local", "http://127.0.0.1:8787", 8787), [
    "http://127.0.0.1:8787",
    "http://localhost:8787",
    "http://[::1]:8787",
  ]);
  assertEquals(acceptedOrigins("local", "https://p.example", 99)[0], "https://p.example");
  for (const environment of ["dev", "production"] as const) {
    assertEquals(acceptedOrigins(environment, "https://p.example", 8787), ["https://p.example"]);
  }
});
