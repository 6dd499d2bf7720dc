/** Checks what each lint rule reports and what it allows. */
import { assertEquals } from "@std/assert";
import plugin from "./lint_plugin.ts";

/** Texts that the rule reports in the file, in order of appearance. */
function reported(rule: string, file: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, file, source)
    .filter(({ id }) => id === `svc/${rule}`)
    .map(({ range }) => source.slice(...range));
}

/** Rule, file, sources that are reported once each, sources that are not. */
const CASES: [rule: string, file: string, bad: string[], good: string[]][] = [
  [
    "lean-path",
    "proxy/message/request.ts",
    ["const a = { ...b }", "const a = [...b, c]", "f(...a)", "for (const [i] of list.entries()) f(i)"],
    ["const { a, ...rest } = b", "const f = (...all) => all", "Object.entries", "for (const [k, v] of map) f(k, v)"],
  ],
  [
    "markup",
    "shared/page/parts.ts",
    [
      "new Html(text)",
      "markup`<p ${name}>`",
      "markup`<p title=${name}>`",
      'markup`<p style="${name}">`',
      'markup`<p onclick="${name}">`',
      "markup`<script>${name}`",
      'markup`<p${isOn ? name : markup` class="a"`}>`',
    ],
    [
      'markup`<p title="a > ${name}">${text}</p>`',
      'markup`<p class="x"${isOn && markup` hidden`}>`',
      "markup`<p${attributes}>${name}`",
      "html`<p ${name}>`",
    ],
  ],
  [
    "no-ambient-clock",
    "proxy/relay/agent_sockets.ts",
    [
      "Date.now()",
      "const now = Date.now",
      "const { now } = Date",
      "globalThis.Date?.now()",
      'Date["now"]()',
      "new Date()",
      "Date()",
      "performance.now()",
      "setTimeout(f, 1)",
      "globalThis.setInterval(f, 1)",
      'import { setTimeout } from "node:timers/promises"',
      "AbortSignal.timeout(5)",
    ],
    [
      "new Date(5)",
      "Date.parse(text)",
      "clock.now()",
      "const { now } = clock",
      "timers.setTimeout(f, 1)",
      "clearTimeout(t)",
      "interface Timers { setTimeout(f: () => void): void }",
      "signal.timeout(5)",
    ],
  ],
  [
    "no-ambient-entropy",
    "registry/invites/store.ts",
    ["crypto.getRandomValues(bytes)", "self.crypto.randomUUID()", "Math.random()", "const { random } = Math"],
    ['crypto.subtle.digest("SHA-256", bytes)', "random.bytes(16)", "Math.floor(1.5)"],
  ],
  [
    "no-ambient-env",
    "registry/app.ts",
    ['Deno.env.get("X")', "process.env.X", "const { env } = Deno", "const env = Deno.env.toObject()"],
    ["Deno.serve(f)", "ctx.env", 'env.get("X")'],
  ],
  [
    "pure-protocol",
    "shared/protocol/proof.ts",
    [
      'fetch("https://example.org")',
      "const get = { fetch }",
      "new WebSocket(url)",
      "let kv: Deno.Kv",
      'localStorage.getItem("x")',
      "console.log(1)",
      "let when: Date",
      "new Date(5)",
    ],
    ['crypto.subtle.digest("SHA-256", bytes)', "client.fetch(1)", "const row = { Date: 1 }", "// console.log(Date)"],
  ],
  [
    "one-fetch",
    "cli/connector/runtime/runtime.ts",
    ["fetch(url)", "deps.fetch(url)", "this.#fetch(url)", "await ctx.fetch?.(url)", 'world["fetch"](url)'],
    ["exchange({ fetch, clock }, request)", "const { fetch } = deps", "fetched(url)", "cache.prefetch(url)"],
  ],
  [
    "runs-in-node",
    "shared/client/local_agent.ts",
    [
      "Deno.readTextFile(path)",
      "globalThis.Deno",
      "const { readFile } = Deno",
      "const { promise } = Promise.withResolvers()",
      "await Array.fromAsync(pages)",
      "bytes.toBase64()",
      'Uint8Array["fromHex"](text)',
      "hash?.toHex()",
      "using file = open()",
      "await using server = listen()",
      "for (using one of many) f(one)",
    ],
    ["toBase64Url(bytes)", "new Promise((resolve) => f(resolve))", "{ let open = 1; open = 2; }", "hex.encodeHex(b)"],
  ],
  [
    "no-error-bodies",
    "registry/invites/handlers.ts",
    [
      'c.json({ error: "x" }, 400)',
      "Response.json({ error })",
      'json({ ok: false, "error": 1 })',
      'JSON.stringify({ error: { code: "X" } } as const)',
    ],
    ["c.json({ agent: 1 })", "JSON.parse(text)", "log({ error })", "c.json({ result: { error: 1 } })"],
  ],
  [
    "no-kv-sums",
    "registry/invites/store.ts",
    ["kv.atomic().check(entry).sum(key, 1n)", "this.#kv.atomic().max(key, 1n)", "op.min(key, 1n)"],
    ["Math.max(1, 2)", "z.string().min(1).max(2)", "kv.atomic().set(key, 1n)"],
  ],
  [
    "kv-keys",
    "registry/invites/store.ts",
    [
      'kv.get(["registry", id])',
      'await deps.kv.list({ prefix: ["registry"] })',
      'this.#kv.delete(["registry", id])',
      'kv.atomic().check({ key: ["registry"], versionstamp: null })',
      'kv.atomic().check(entry).set(["registry", id], value)',
      'op.check(a, { key: ["registry"], versionstamp: null })',
      'kv.getMany([keys.invite(id), ["registry", id]])',
      'kv.watch([["registry"] as const])',
      "kv.get([`invites-${id}`])",
      'kv.list({ start: ["a"], end: keys.end() })',
    ],
    [
      "kv.get(keys.invite(id))",
      'kv.set(keys.invite(id), ["a", "b"])',
      'kv.getMany([keys.invite("a")])',
      "kv.list({ prefix: keys.invites() })",
      'headers.get(["a"])',
      'map.set(["a"], 1)',
    ],
  ],
];

for (const [rule, file, bad, good] of CASES) {
  Deno.test(`${rule} reports each bad form once and leaves the allowed form alone`, () => {
    for (const source of bad) assertEquals(reported(rule, file, source).length, 1, source);
    for (const source of good) assertEquals(reported(rule, file, source), [], source);
  });
}

const PLACES: [rule: string, source: string, allowed: string[], banned: string[]][] = [
  ["no-ambient-clock", "Date.now()", ["shared/clock.ts", "tests/e2e/x.ts"], ["registry/clock.ts", "cli/tests/x.ts"]],
  ["no-ambient-entropy", "Math.random()", ["shared/random.ts", "tests/x.ts"], ["cli/random.ts"]],
  ["no-ambient-env", "Deno.env", ["proxy/config.ts", "cli/system.ts", "tests/x.ts"], [
    "deploy.ts",
    "proxy/context.ts",
  ]],
  ["pure-protocol", "new Date(5)", ["shared/protocol/time.ts", "cli/x.ts"], ["shared/protocol/api/time.ts"]],
  ["pure-protocol", "fetch(url)", ["proxy/registry_client.ts"], ["shared/protocol/time.ts"]],
  ["one-fetch", "deps.fetch(url)", ["shared/client/http.ts", "cli/system.ts", "proxy/app.ts", "tests/cli/x.ts"], [
    "cli/main.ts",
    "cli/platforms/http.ts",
    "cli/link/service_call.ts",
  ]],
  ["one-store", "let kv: Deno.Kv", ["shared/server/kv.ts", "tests/x.ts"], ["proxy/app.ts", "shared/server/x.ts"]],
  ["one-store", "Deno.Kv.prototype", ["shared/server/kv.ts"], ["shared/server/store/x.ts"]],
  ["runs-in-node", "Deno.build.os", ["cli/x.ts", "shared/server/log.ts", "tests/shared/client/x_test.ts"], [
    "shared/client/http.ts",
  ]],
  [
    "no-error-bodies",
    "c.json({ error })",
    ["shared/server/http/app.ts", "shared/protocol/errors.ts", "cli/connector/local_api/local_api.ts", "tests/x.ts"],
    ["proxy/app.ts"],
  ],
  ["kv-keys", 'kv.get(["a"])', ["proxy/schema/kv_keys.ts", "shared/server/store/trust_changes.ts", "tests/x.ts"], [
    "proxy/bell.ts",
  ]],
];

Deno.test("each rule allows its own files and no others of the same name", () => {
  for (const [rule, source, allowed, banned] of PLACES) {
    for (const file of allowed) assertEquals(reported(rule, file, source).length, 0, `${rule} in ${file}`);
    for (const file of banned) assertEquals(reported(rule, file, source).length, 1, `${rule} in ${file}`);
  }
});

Deno.test("a file is recognised by its absolute path, with either slash", () => {
  const absolute = decodeURIComponent(new URL("../../shared/clock.ts", import.meta.url).pathname);
  assertEquals(reported("no-ambient-clock", absolute, "Date.now()"), []);
  assertEquals(reported("no-ambient-clock", "shared\\clock.ts", "Date.now()"), []);
});

Deno.test("a report says why and what to do instead", () => {
  const [diagnostic] = Deno.lint.runPlugin(plugin, "registry/app.ts", "Date.now()");
  assertEquals(diagnostic?.message, "Date.now uses the machine's clock, which no test can move.");
  assertEquals(diagnostic?.hint?.includes("Take a Clock (shared/clock.ts)"), true);
});
