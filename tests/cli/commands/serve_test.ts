/** What `svc serve` starts and prints: variables, store, warnings, announcement. Without a server. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { EnvironmentName } from "../../../cli/context.ts";
import { CliError } from "../../../cli/errors.ts";
import { announce, defaultStore, servePlan } from "../../../cli/commands/server.ts";
import { Output } from "../../../cli/terminal/output.ts";
import { systemRandom } from "../../../shared/random.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { recordedTerminal } from "../../support/recorded_terminal.ts";

type Own = Partial<Record<EnvironmentName, string>>;

const NOTHING = {
  "public-url": undefined,
  "behind-proxy": false,
  host: undefined,
  port: undefined,
  store: undefined,
  service: undefined,
  environment: undefined,
  metrics: undefined,
  "access-log": false,
  console: false,
};

function system(os: typeof Deno.build.os = "linux", env: Own = { HOME: "/home/ada" }) {
  return { os, env: (name: EnvironmentName) => env[name], random: systemRandom };
}

function plan(options: Partial<Record<keyof typeof NOTHING, string | boolean>>, environ: Record<string, string> = {}) {
  return servePlan(system(), { ...NOTHING, ...options } as typeof NOTHING, (name) => environ[name]);
}

function refused(options: Record<string, string>, environ: Record<string, string> = {}): CliError {
  const error = assertThrows(() => plan(options, environ), CliError);
  assertEquals(error.code, "CLI_USAGE");
  return error;
}

Deno.test("the store is in the data folder of the user when nothing names one", () => {
  const cases: [os: typeof Deno.build.os, env: Own, path: string][] = [
    ["linux", { HOME: "/home/ada" }, "/home/ada/.local/share/svc/svc.kv"],
    ["linux", { HOME: "/home/ada", XDG_DATA_HOME: "/data" }, "/data/svc/svc.kv"],
    ["linux", { HOME: "/home/ada", XDG_DATA_HOME: "data" }, "/home/ada/.local/share/svc/svc.kv"],
    ["darwin", { HOME: "/Users/ada" }, "/Users/ada/Library/Application Support/svc/server/svc.kv"],
    ["windows", { LOCALAPPDATA: "C:/Local", HOME: "/home/ada" }, "C:/Local/svc/svc.kv"],
  ];
  for (const [os, env, path] of cases) assertEquals(defaultStore(system(os, env)), path);
  const error = assertThrows(() => defaultStore(system("linux", {})), CliError);
  assert(error.fix?.includes("--store"));
  assertThrows(() => defaultStore(system("windows", { HOME: "/home/ada" })), CliError);
});

Deno.test("each option of serve sets its variable and wins over the environment", () => {
  const given = { host: "::1", port: "0", store: ":memory:", service: "all", environment: "local", metrics: "[::1]:9" };
  const environ = { HOST: "127.0.0.1", PORT: "9000", KV_URL: "x.kv", BOOTSTRAP_SECRET: "configured" };
  const more = { "public-url": "https://Svc.example/", "behind-proxy": true, "access-log": true, console: true };
  assertEquals(plan({ ...given, ...more }, environ).variables, {
    METRICS_LISTEN: "[::1]:9",
    ACCESS_LOG: "on",
    CONSOLE: "on",
    HOST: "::1",
    PORT: "0",
    KV_URL: ":memory:",
    SVC_SERVICE: "all",
    ENVIRONMENT: "local",
    REGISTRY_URL: "https://svc.example",
    PROXY_URL: "https://svc.example",
    TRUSTED_PROXIES: "127.0.0.1,::1",
  });
  assertEquals(plan({}, environ).variables, {});
  assertEquals(plan({}, { BOOTSTRAP_SECRET: "x" }).variables, { KV_URL: "/home/ada/.local/share/svc/svc.kv" });
});

Deno.test("the public URL of one service is not taken for that of the other", () => {
  const origin = "https://one.example";
  const services = [["proxy", "PROXY_URL", "REGISTRY_URL"], ["registry", "REGISTRY_URL", "PROXY_URL"]] as const;
  for (const [service, own, other] of services) {
    const { variables, publicUrl } = plan({ service, "public-url": origin }, { [other]: "https://two.example" });
    assertEquals([variables[own], variables[other], publicUrl], [origin, undefined, origin]);
    refused({ service, "public-url": origin }, { [own]: "https://two.example" });
  }
});

Deno.test("a public URL that is not an origin, or not that of the environment, is refused and not repeated", () => {
  const urls = ["https://x.example/path", "https://x.example?q", "https://user:pw@x.example", "ftp://x.example"];
  for (const url of [...urls, "x", "-"]) {
    const { message } = refused({ "public-url": url });
    assert(message.startsWith("--public-url must be an origin"), message);
    assert(!message.includes("pw"), message);
  }
  for (const name of ["REGISTRY_URL", "PROXY_URL"]) {
    const { message } = refused({ "public-url": "https://x.example" }, { [name]: "https://y.example" });
    assert(message.includes(name), message);
    plan({ "public-url": "https://x.example" }, { [name]: "https://x.example/" });
  }
  for (const environment of ["dev", "production"]) {
    const { message } = refused({ "public-url": "http://127.0.0.1:9", environment });
    assert(message.includes("https"), message);
    refused({ "public-url": "http://x.example" }, { ENVIRONMENT: environment });
  }
});

Deno.test("a bootstrap secret is made only in local and only when none is set", () => {
  const made = plan({});
  assert(made.madeSecret !== null && made.madeSecret.length >= 32);
  assertEquals(made.variables.BOOTSTRAP_SECRET, made.madeSecret);
  assert(made.madeSecret !== plan({}).madeSecret);
  const others: Record<string, string>[] = [
    { ENVIRONMENT: "dev" },
    { ENVIRONMENT: "production" },
    { BOOTSTRAP_SECRET: "x" },
  ];
  for (const environ of others) {
    assertEquals(plan({}, environ).madeSecret, null);
    assert(!("BOOTSTRAP_SECRET" in plan({}, environ).variables));
  }
  assertEquals(plan({ environment: "production" }).madeSecret, null);
});

Deno.test("serve warns when other machines cannot reach it, when keys travel in clear, behind a front, and without a proxy", () => {
  const kinds = (options: Parameters<typeof plan>[0], environ: Record<string, string> = {}) =>
    plan(options, environ).warnings.map((line) =>
      /--public-url|--allow-insecure|--behind-proxy|PROXY_URL/.exec(line)?.[0]
    );
  assertEquals(kinds({}), []);
  assertEquals(kinds({ host: "127.0.0.2" }), []);
  assertEquals(kinds({ host: "localhost" }), []);
  assertEquals(kinds({ host: "0.0.0.0" }), ["--public-url"]);
  assertEquals(kinds({}, { HOST: "::" }), ["--public-url"]);
  const tellsOfStore = (store: string) => plan({ host: "0.0.0.0", store }).warnings.join().includes("a new --store");
  assertEquals([tellsOfStore("used.db"), tellsOfStore(":memory:")], [true, false]);
  assertEquals(kinds({ host: "0.0.0.0", "public-url": "http://192.0.2.1:8787" }), ["--allow-insecure"]);
  assertEquals(kinds({ "public-url": "http://127.0.0.1:9" }), []);
  assertEquals(kinds({ "public-url": "https://svc.example" }), ["--behind-proxy"]);
  assertEquals(kinds({}, { REGISTRY_URL: "https://svc.example" }), ["--behind-proxy"]);
  assertEquals(kinds({ "public-url": "https://svc.example", "behind-proxy": true }), []);
  assertEquals(kinds({ "public-url": "https://svc.example" }, { TRUSTED_PROXIES: "10.0.0.1" }), []);
  assertEquals(kinds({ "public-url": "https://svc.example", host: "0.0.0.0" }), []);
  assertEquals(kinds({ service: "registry" }), ["PROXY_URL"]);
  assertEquals(kinds({ service: "registry" }, { PROXY_URL: "http://127.0.0.1:9" }), []);
  assertEquals(kinds({ service: "proxy" }, { REGISTRY_URL: "http://127.0.0.1:9" }), []);
});

/** What serve prints for a plan. */
function printed(
  made: ReturnType<typeof plan>,
  { json = false, isOpen = true, address = "http://127.0.0.1:8787", metricsAddress = null as string | null } = {},
): { stdout: string; stderr: string } {
  const { terminal, seen } = recordedTerminal();
  const out = new Output(terminal, new ManualClock(), { json, colour: false });
  announce({ out, pid: 42 }, { ...made, address, metricsAddress, isOpen });
  out.finish();
  return seen;
}

Deno.test("the announcement names address, store and pid, and a command that can be pasted whole", () => {
  const made = plan({ store: "/data/svc.kv" });
  const { stdout, stderr } = printed(made);
  const lines = stdout.split("\n");
  assertEquals(lines[0], "listening on http://127.0.0.1:8787");
  const identity = "Every identity will name http://127.0.0.1:8787. It cannot be changed.";
  for (const part of ["/data/svc.kv", "pid     42", identity]) assert(stdout.includes(part), stdout);
  const command = `svc admin bootstrap --bootstrap-secret=${made.madeSecret} --registry-url http://127.0.0.1:8787`;
  assert(lines.includes(`  ${command}`), stdout);
  assertEquals(stderr, "");
});

Deno.test("the command of the announcement reaches the server where it listens", () => {
  const urls: [address: string, words: string][] = [
    ["http://0.0.0.0:8787", "--registry-url http://127.0.0.1:8787\n"],
    ["http://[::]:8787", "--registry-url http://127.0.0.1:8787\n"],
    ["http://[::1]:8787", "--registry-url 'http://[::1]:8787'\n"],
    ["http://192.0.2.1:8787", "--registry-url http://192.0.2.1:8787 --allow-insecure\n"],
  ];
  for (const [address, words] of urls) {
    const { stdout } = printed(plan({}), { address });
    assert(stdout.includes(words), stdout);
  }
  const plain = printed(plan({ host: "0.0.0.0", "public-url": "http://192.0.2.1:8787" }), {
    address: "http://0.0.0.0:8787",
  });
  assert(plain.stdout.includes("--registry-url http://127.0.0.1:8787 --allow-insecure\n"), plain.stdout);
});

Deno.test("the announcement holds no secret that was configured, and none when there is an admin", () => {
  const configured = printed(plan({}, { BOOTSTRAP_SECRET: "a-configured-secret" })).stdout;
  assert(configured.includes("--bootstrap-secret=-") && !configured.includes("a-configured-secret"), configured);
  const made = plan({});
  for (const json of [false, true]) {
    const { stdout } = printed(made, { isOpen: false, json });
    assert(!stdout.includes(String(made.madeSecret)) && !stdout.includes("identity"), stdout);
  }
  const production = printed(plan({ environment: "production" })).stdout;
  assert(production.includes("set BOOTSTRAP_SECRET") && !production.includes("--bootstrap-secret"), production);
});

Deno.test("with json the announcement is one line, with the warnings in it", () => {
  const made = plan({ host: "0.0.0.0", store: ":memory:" });
  const metricsAddress = "http://127.0.0.1:9464";
  const { stdout, stderr } = printed(made, { json: true, address: "http://0.0.0.0:80", metricsAddress });
  assertEquals([stdout.match(/\n/g)?.length, stderr], [1, ""]);
  const { warnings, ...rest } = JSON.parse(stdout);
  assertEquals(rest, {
    listening: "http://0.0.0.0:80",
    publicUrl: "http://127.0.0.1:80",
    store: ":memory:",
    pid: 42,
    metrics: "http://127.0.0.1:9464/metrics",
    bootstrapSecret: made.madeSecret,
  });
  assertEquals(warnings.length, 1);
});
