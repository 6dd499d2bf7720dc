/**
 * A configuration that cannot be used (docs/operations.md#configuration): the server does not start, names every wrong
 * variable at once, exits with 2 and writes no file. Values are never repeated, because some are secrets.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { startServer } from "../../deploy.ts";
import { StartRefused } from "../../shared/server/config_reader.ts";
import { ChildProcess, freePort, refusedStart, SOON_MS, tempFolder, within } from "../support/process.ts";
import { steps } from "../support/steps.ts";
import { longTest } from "../support/trials.ts";

/** Wrong values by variable. Each start takes the next value of every variable; all must be named together. */
const WRONG: Record<string, string[]> = {
  AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: ["0", "-1", "abc", "1e9", "1000001", "1.5", " 60", "0x10", "Infinity"],
  AGENT_RATE_LIMIT_WINDOW_MS: ["0", "-1", "1e3", "999", "x"],
  REGISTRY_URL: [
    "http://127.0.0.1:8787/path",
    "http://user@127.0.0.1:8787",
    "http://user:password@127.0.0.1:8787",
    "http://127.0.0.1:8787?query",
    "http://127.0.0.1:8787#fragment",
    "ftp://127.0.0.1",
    "127.0.0.1:8787",
    "http://[::1]:8787",
    "http://",
  ],
  PROXY_URL: ["https://proxy.example/path", "https://user@proxy.example", "https://proxy.example?x", "file:///x", "x"],
  SVC_SERVICE: ["both", "ALL", "registry,proxy"],
  ENVIRONMENT: ["prod", "Production"],
  HOST: ["no host", "http://127.0.0.1", "a/b"],
  PORT: ["65536", "-1", "abc", "80.5", "1e3"],
  TRUSTED_PROXIES: ["not-an-address", "10.0.0.0/33", "10.0.0.0/8/8", "::/129", "10.0.0.0/", "0.0.0.0/0"],
  REGISTRY_SIGNING_KEYS: ["{", "[]", '{"keys":[]}', '{"keys":[{"kty":"RSA"}]}', '{"keys":[null]}'],
  ACCESS_TOKEN_TTL_SECONDS: ["0", "-5", "15m"],
  REFRESH_TOKEN_TTL_SECONDS: ["0", "30d"],
  CHALLENGE_TTL_SECONDS: ["0", "5m"],
  INJECT_IDENTITY_INTO_MESSAGE: ["yes", "1", "TRUE"],
  CRL_REFRESH_INTERVAL_MS: ["0", "5s"],
  CRL_MAX_AGE_MS: ["0", "x"],
  REGISTRY_KEYS_TTL_MS: ["0", "x"],
  RELAY_ACK_TIMEOUT_MS: ["0", "10s"],
  RELAY_HEARTBEAT_INTERVAL_MS: ["0", "30", "x"],
  SESSION_REVALIDATE_INTERVAL_MS: ["0", "x"],
  QUOTA_PAIRS: ["0", "1000001"],
  FEDERATION: ["maybe", "on,b.example"],
  FEDERATION_PRIVATE: ["yes"],
  RELAY_MAILBOX_TTL_SECONDS: ["0", "x"],
  RECEIPT_RETENTION_SECONDS: ["3599", "2592001", "x"],
  AGENT_ACCESS_CACHE_MS: ["-1", "5001"],
};

/** Combinations that are wrong as a whole, and the variables that the error must name. */
const COMBINATIONS: [name: string, env: Record<string, string>, named: string[]][] = [
  [
    "production with http addresses",
    { ENVIRONMENT: "production", REGISTRY_URL: "http://registry.example", PROXY_URL: "http://proxy.example" },
    ["REGISTRY_URL", "PROXY_URL"],
  ],
  ["production without addresses", { ENVIRONMENT: "production" }, ["REGISTRY_URL", "PROXY_URL"]],
  [
    "a proxy alone in production without its credential, and also a wrong limit",
    {
      ENVIRONMENT: "production",
      SVC_SERVICE: "proxy",
      REGISTRY_URL: "https://registry.example",
      PROXY_URL: "http://proxy.example",
      AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "0",
    },
    ["REGISTRY_INTERNAL_SERVICE_ID", "PROXY_URL", "AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE"],
  ],
  [
    "production with a store over the network and no signing keys (D-08)",
    {
      ENVIRONMENT: "production",
      REGISTRY_URL: "https://registry.example",
      PROXY_URL: "https://proxy.example",
      KV_URL: "https://kv.example",
    },
    ["REGISTRY_SIGNING_KEYS", "DENO_KV_ACCESS_TOKEN"],
  ],
  ["a service id without its secret", { REGISTRY_INTERNAL_SERVICE_ID: "x" }, ["REGISTRY_INTERNAL_SERVICE_SECRET"]],
  ["a service secret without its id", { REGISTRY_INTERNAL_SERVICE_SECRET: "x" }, ["REGISTRY_INTERNAL_SERVICE_ID"]],
  ["an IPv6 issuer", { REGISTRY_URL: "http://[::1]:8787" }, ["REGISTRY_URL"]],
];

function assertNamed(text: string, named: readonly string[]): void {
  assertEquals(named.filter((name) => !new RegExp(`^\\s*${name}: .`, "m").test(text)), [], `not named in:\n${text}`);
}

/** Starts a process with an environment that must be refused, asserts the exit, and returns the error text. */
async function refusal(env: Record<string, string>, named: readonly string[]): Promise<string> {
  await using folder = await tempFolder();
  const { code, stdout, stderr } = await refusedStart({ folder: folder.path, env });
  assertEquals([code, stdout], [2, ""], stderr);
  assertNamed(stderr, named);
  assert(!/^\s+at |Error:/m.test(stderr), "no stack trace: the reader is the person who starts the service");
  assertEquals((await Array.fromAsync(Deno.readDir(folder.path))).length, 0, "no file was written");
  return stderr;
}

/** The same in this process, which is refused before it opens anything. */
async function refusedHere(env: Record<string, string>, named: readonly string[]): Promise<string> {
  const error = await assertRejects(() => startServer((name) => env[name], () => {}), StartRefused);
  assertNamed(error.message, named);
  return error.message;
}

Deno.test("a server names every wrong variable at once, exits with 2 and writes no file", async (t) => {
  const starts = Math.max(...Object.values(WRONG).map((values) => values.length));
  for (let i = 0; i < starts; i++) {
    const env = Object.fromEntries(
      Object.entries(WRONG).map(([name, values]) => [name, values[i % values.length] ?? ""]),
    );
    await t.step(`wrong values, set ${i + 1}`, async () => {
      await (i === 0 ? refusal : refusedHere)(env, Object.keys(WRONG));
    });
  }
});

Deno.test("faults of a configuration as a whole are named too", async (t) => {
  for (const [name, env, named] of COMBINATIONS) {
    await t.step(name, async () => void await refusedHere(env, named));
  }
});

Deno.test("a store without write permission is refused in plain words with exit 2", async () => {
  await using folder = await tempFolder();
  const { code, stderr } = await refusedStart({ folder: folder.path, env: { KV_URL: "/nowhere/to/be/seen/svc.kv" } });
  assertEquals(code, 2, stderr);
  assert(stderr.includes("may not write there") && !/^\s+at /m.test(stderr), stderr);
});

Deno.test({
  name: "a store whose file belongs to another user is refused with the command that gives it to the server's",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using folder = await tempFolder();
    const path = `${folder.path}/$one's.kv`;
    await Deno.writeTextFile(path, "", { mode: 0o400 });
    // Root can write each file, unless it gives up that right.
    const [program = "", ...args] = [
      ...Deno.uid() === 0 ? ["setpriv", "--bounding-set=-dac_override"] : [],
      Deno.execPath(),
    ];
    const flags = ["run", "--quiet", "--no-prompt", "-P=server", "--allow-read", "--allow-write"];
    const start = [...args, ...flags, "deploy.ts"];
    await using server = new ChildProcess(start, { KV_URL: path, PORT: String(freePort()) }, program);
    assertEquals((await within(SOON_MS, "the server refuses to start", server.status)).code, 2, server.printed);
    assertStringIncludes(
      server.stderr.text,
      `with: chown --reference='${folder.path}' '${folder.path}/$one'\\''s.kv'*\n`,
    );
  },
});

longTest("each missing permission is one line with exit code 2", async (t) => {
  await using folder = await tempFolder();
  const port = freePort();
  const files = ["read", "write"].map((kind) => `--allow-${kind}=${folder.path}`);
  const net = `--allow-net=127.0.0.1:${port}`;
  const network = { KV_URL: "http://127.0.0.1:1", DENO_KV_ACCESS_TOKEN: "the-token-of-a-test" };
  const alone = { SVC_SERVICE: "proxy", REGISTRY_URL: "https://registry.example" };
  const cases: [name: string, flags: string[], env: Record<string, string>, line: RegExp][] = [
    [
      "variables",
      ["--allow-env=DENO_KV_ACCESS_TOKEN", net, ...files],
      {},
      /variable [A-Z_]+\. .*-P=server.* leave it out/,
    ],
    ["reading of the store", [net, "--allow-read=/nowhere", ...files.slice(1)], {}, /may not write there/],
    ["writing of the store", [net, ...files.slice(0, 1), "--allow-write=/nowhere"], {}, /may not write there/],
    ["listening", ["--allow-net=127.0.0.1:1", ...files], {}, /HOST: this process may not listen .*--allow-net=/],
    [
      "listening for metrics",
      [net, ...files],
      { METRICS_LISTEN: "127.0.0.1:1" },
      /METRICS_LISTEN: this process may not/,
    ],
    ["a store over the network", [net], network, /Cannot open the store at http:.* Requires net access/],
    ["the token of the store", ["--deny-env=DENO_KV_ACCESS_TOKEN"], network, /may not read the variable DENO_KV/],
    [
      "the registry",
      [net, ...files],
      alone,
      /REGISTRY_URL: .* connect to registry\.example:443\. .*--allow-net=registry/,
    ],
  ];
  await steps(t, cases, async ([, flags, env, line]) => {
    await using server = new ChildProcess(["run", "--quiet", "--no-prompt", "-P=server", ...flags, "deploy.ts"], {
      KV_URL: `${folder.path}/svc.kv`,
      PORT: String(port),
      ...env,
    });
    const { code } = await within(SOON_MS, "the server refuses to start", server.status);
    assertEquals([code, server.stdout.text], [2, ""], server.printed);
    assertEquals(server.stderr.lines.length, 1, server.printed);
    assertMatch(server.stderr.lines[0] ?? "", line);
  });
});

Deno.test("secrets are not repeated in errors about them", async () => {
  const d = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
  const env = {
    REGISTRY_SIGNING_KEYS: JSON.stringify({ keys: [{ kty: "OKP", crv: "Ed25519", x: "AAAA", d }] }),
    BOOTSTRAP_SECRET: "a-secret-that-nobody-may-see",
    REGISTRY_URL: "http://user:hunter2@registry.example",
    REGISTRY_INTERNAL_SERVICE_SECRET: "svc_srv_half_a_credential",
  };
  const error = await refusal(env, ["REGISTRY_SIGNING_KEYS", "REGISTRY_URL", "REGISTRY_INTERNAL_SERVICE_ID"]);
  for (const secret of [d, "a-secret-that-nobody-may-see", "hunter2", "half_a_credential"]) {
    assert(!error.includes(secret), error);
  }
});
