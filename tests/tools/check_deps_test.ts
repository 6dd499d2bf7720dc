/** Checks the pure part of check_deps.ts with example files: directions, names and sizes. */
import { assertEquals } from "@std/assert";
import { check, checkTree, cycles, DEPENDENCY_RULES, importsOf, isSource, measure, treeReport } from "./check_deps.ts";

/** Returns the violation of one import; an empty text when it is allowed. */
function verdict(path: string, specifier: string): string {
  const [violation] = check([{ path, text: `import "${specifier}";\n` }]);
  return violation?.what ?? "";
}

const lines = (n: number) => "x;\n".repeat(n);

Deno.test("check() refuses every import against the direction of the rings", () => {
  const refused: [path: string, specifier: string, target: string][] = [
    ["shared/protocol/did.ts", "../clock.ts", "shared/clock.ts"],
    ["shared/protocol/api/meta.ts", "../../server/log.ts", "shared/server/log.ts"],
    ["shared/protocol/did.ts", "@hono/hono", "@hono/hono"],
    ["shared/protocol/did.ts", "node:crypto", "node:crypto"],
    ["shared/protocol/did.ts", "npm:ws@8", "ws"],
    ["shared/server/app.ts", "../../registry/routes.ts", "registry/routes.ts"],
    ["shared/server/app.ts", "../../proxy/keys.ts", "proxy/keys.ts"],
    ["shared/server/app.ts", "../../cli/output.ts", "cli/output.ts"],
    ["registry/app.ts", "../proxy/app.ts", "proxy/app.ts"],
    ["registry/invites/store.ts", "../../cli/context.ts", "cli/context.ts"],
    ["proxy/app.ts", "../registry/keys.ts", "registry/keys.ts"],
    ["proxy/app.ts", "../cli/main.ts", "cli/main.ts"],
    ["cli/main.ts", "../shared/server/log.ts", "shared/server/log.ts"],
    ["cli/commands/login.ts", "../../registry/app.ts", "registry/app.ts"],
    ["cli/commands/login.ts", "../../proxy/app.ts", "proxy/app.ts"],
    ["shared/clock.ts", "./server/log.ts", "shared/server/log.ts"],
    ["shared/random.ts", "@std/encoding/hex", "@std/encoding"],
    ["deploy.ts", "./cli/main.ts", "cli/main.ts"],
    ["deploy_store.ts", "./tests/support/world.ts", "tests/support/world.ts"],
    ["proxy/app.ts", "../tests/support/world.ts", "tests/support/world.ts"],
    ["proxy/app.ts", "../deploy.ts", "deploy.ts"],
    ["shared/protocol/did.ts", "../client/http.ts", "shared/client/http.ts"],
    ["shared/clock.ts", "./client/http.ts", "shared/client/http.ts"],
    ["shared/client/http.ts", "../../cli/errors.ts", "cli/errors.ts"],
    ["shared/client/http.ts", "../server/log.ts", "shared/server/log.ts"],
    ["shared/client/http.ts", "node:fs/promises", "node:fs/promises"],
    ["shared/client/http.ts", "jose", "jose"],
    ["shared/client/library/local_agent.ts", "node:fs", "node:fs"],
    ["shared/client/library/directory_store.ts", "../../../cli/files/private_files.ts", "cli/files/private_files.ts"],
    ["shared/server/http/app.ts", "../../client/http.ts", "shared/client/http.ts"],
    ["registry/app.ts", "../shared/client/http.ts", "shared/client/http.ts"],
    ["proxy/registry_client.ts", "../shared/client/http.ts", "shared/client/http.ts"],
    ["deploy.ts", "./shared/client/http.ts", "shared/client/http.ts"],
    ["deploy_store.ts", "./shared/client/http.ts", "shared/client/http.ts"],
  ];
  for (const [path, specifier, target] of refused) {
    assertEquals(verdict(path, specifier), `imports ${target}`, `${path} ← ${specifier}`);
  }
});

Deno.test("check() allows every import along the direction of the rings", () => {
  const allowed: [path: string, specifier: string][] = [
    ["shared/protocol/signed/ait.ts", "./did.ts"],
    ["shared/protocol/signed/ait.ts", "zod"],
    ["shared/protocol/base64url.ts", "@std/encoding/base64url"],
    ["shared/protocol/ids.ts", "npm:ulid@^3.0.2"],
    ["shared/random.ts", "./protocol/base64url.ts"],
    ["shared/server/app.ts", "@hono/hono"],
    ["shared/server/app.ts", "../clock.ts"],
    ["registry/app.ts", "../shared/server/app.ts"],
    ["proxy/app.ts", "@svc/protocol"],
    ["cli/main.ts", "../shared/clock.ts"],
    ["cli/connector/connector.ts", "../../shared/client/link.ts"],
    ["shared/client/link.ts", "ws"],
    ["shared/client/local_shapes.ts", "zod"],
    ["shared/client/http.ts", "../clock.ts"],
    ["shared/client/http.ts", "../protocol/proof.ts"],
    ["shared/client/library/directory_store.ts", "node:fs/promises"],
    ["shared/client/library/local_agent.ts", "node:path"],
    ["deploy.ts", "./registry/app.ts"],
    ["deploy.ts", "./proxy/app.ts"],
    ["deploy.ts", "./deploy_store.ts"],
  ];
  for (const [path, specifier] of allowed) assertEquals(verdict(path, specifier), "", `${path} ← ${specifier}`);
});

Deno.test("check() says where and why", () => {
  const text = '/** Doc. */\nimport * as z from "zod";\nimport {\n  a,\n} from "../registry/keys.ts";\n';
  assertEquals(check([{ path: "proxy/app.ts", text }]), [{
    path: "proxy/app.ts",
    line: 5,
    what: "imports registry/keys.ts",
    why: "the proxy uses the HTTP API of the registry (registry_client.ts), also in one process",
  }]);
});

Deno.test("check() refuses names that say nothing, and only those", () => {
  for (const name of ["utils", "helpers", "common", "types", "constants", "manager", "base", "index", "service"]) {
    assertEquals(check([{ path: `proxy/${name}.ts`, text: "" }]).map(({ what }) => what), [`is named ${name}.ts`]);
  }
  assertEquals(check([{ path: "registry/services/store.ts", text: "" }, { path: "cli/base32.ts", text: "" }]), []);
});

Deno.test("check() refuses a file of more than 400 lines unless it is a table", () => {
  assertEquals(check([{ path: "proxy/relay/hub.ts", text: lines(400) }]), []);
  assertEquals(check([{ path: "proxy/relay/hub.ts", text: lines(401) }]).map(({ what }) => what), ["has 401 lines"]);
  for (
    const table of [
      "shared/protocol/errors.ts",
      "shared/protocol/limits.ts",
      "proxy/routes.ts",
      "proxy/schema/kv_keys.ts",
    ]
  ) {
    assertEquals(check([{ path: table, text: lines(900) }]), []);
  }
});

Deno.test("measure() gives median, p90 and maximum of the lines", () => {
  const files = [10, 1, 3, 2, 5, 4, 7, 6, 9, 8].map((n) => ({ path: `${n}.ts`, text: lines(n) }));
  assertEquals(measure(files), { files: 10, median: 5, p90: 9, max: 10 });
  assertEquals(measure([]), { files: 0, median: 0, p90: 0, max: 0 });
});

Deno.test("importsOf() finds every form of import and nothing else", () => {
  const text = [
    'import "./side_effect.ts";',
    'import type { A } from "./a.ts";',
    'import b, * as c from "./b.ts";',
    "import {",
    "  type D,",
    '} from "./d.ts";',
    'export * from "./e.ts";',
    'export * as f from "./f.ts";',
    'export type { G } from "./g.ts";',
    'const h = await import("./h.ts");',
    'let i: import("./i.ts").I | import("./i2.ts").I;',
    ' * import { doc } from "./doc.ts";',
    '// await import("./comment.ts")',
    ' * const x = await import("./doc.ts");',
    'export const from = "./constant.ts";',
    'const text = "moved from";',
    "await import(`./${name}.ts`);",
    'import data from "./j.json" with { type: "json" };',
  ].join("\n");
  const found = importsOf(text);
  assertEquals(found.map(({ specifier, line }) => ({ specifier, line })), [
    { specifier: "./side_effect.ts", line: 1 },
    { specifier: "./a.ts", line: 2 },
    { specifier: "./b.ts", line: 3 },
    { specifier: "./d.ts", line: 6 },
    { specifier: "./e.ts", line: 7 },
    { specifier: "./f.ts", line: 8 },
    { specifier: "./g.ts", line: 9 },
    { specifier: "./h.ts", line: 10 },
    { specifier: "./i.ts", line: 11 },
    { specifier: "./i2.ts", line: 11 },
    { specifier: "./j.json", line: 18 },
  ]);
  const dynamic = found.filter(({ isDynamic }) => isDynamic).map(({ specifier }) => specifier);
  assertEquals(dynamic, ["./h.ts", "./i.ts", "./i2.ts"]);
});

Deno.test("svc.ts may load the server only with import(), and no file may import svc.ts", () => {
  const refused = (path: string, text: string) => check([{ path, text: `${text}\n` }]).map(({ what }) => what);
  for (const name of ["deploy", "deploy_store"]) {
    assertEquals(refused("svc.ts", `const { x } = await import("./${name}.ts");`), []);
    assertEquals(refused("svc.ts", `import { x } from "./${name}.ts";`), [`imports ${name}.ts`]);
    assertEquals(refused("svc.ts", `export { x } from "./${name}.ts";`), [`imports ${name}.ts`]);
    assertEquals(refused("cli/main.ts", `await import("../${name}.ts");`), [`imports ${name}.ts`]);
  }
  assertEquals(refused("svc.ts", 'import { main } from "./cli/main.ts";'), []);
  assertEquals(refused("svc.ts", 'import "./registry/app.ts";'), ["imports registry/app.ts"]);
  for (const path of ["cli/main.ts", "deploy.ts", "shared/clock.ts"]) {
    const up = "../".repeat(path.split("/").length - 1) || "./";
    assertEquals(refused(path, `await import("${up}svc.ts");`), ["imports svc.ts"]);
  }
});

Deno.test("files of TypeScript with markup are source files", () => {
  assertEquals(["a.ts", "a.tsx", "a.js", "a.txt"].filter(isSource), ["a.ts", "a.tsx"]);
});

/** Returns files with the given imports: path → specifiers. */
function tree(imports: Record<string, string[]>) {
  return Object.entries(imports).map(([path, list]) => ({ path, text: list.join("\n") }));
}

const whats = (files: ReturnType<typeof tree>) => checkTree(files).map(({ what }) => what);

Deno.test("checkTree() reports a cycle of two files that only import types", () => {
  const files = tree({
    "a/x.ts": ['import type { Y } from "./y.ts";'],
    "a/y.ts": ['import type { X } from "./x.ts";'],
  });
  const [violation] = checkTree(files);
  assertEquals(violation?.what, "closes a cycle in a: x.ts → y.ts → x.ts (2 children)");
  assertEquals(violation?.why.startsWith("a/x.ts:1 imports a/y.ts; a/y.ts:1 imports a/x.ts."), true);
});

Deno.test("checkTree() reports a cycle between two folders, of any of their files", () => {
  const files = tree({
    "a/x/one.ts": ['import "../y/one.ts";'],
    "a/y/one.ts": [],
    "a/y/two.ts": ['import "../x/one.ts";'],
  });
  assertEquals(whats(files), ["closes a cycle in a: x → y → x (2 children)"]);
});

Deno.test("checkTree() reports a cycle through a dynamic import, and none of a file with itself", () => {
  const files = tree({
    "a/x.ts": ['import "./y.ts";'],
    "a/y.ts": ['const x = await import("./x.ts");'],
    "a/z.ts": ['import "./z.ts";'],
  });
  assertEquals(cycles(files).map(({ folder }) => folder), ["a"]);
});

Deno.test("checkTree() accepts a folder whose imports have one direction", () => {
  const files = tree({ "a/x.ts": ['import "./y/one.ts";'], "a/y/one.ts": ['import "../z.ts";'], "a/z.ts": [] });
  assertEquals(whats(files), []);
});

Deno.test("checkTree() refuses more than 24 children of a folder", () => {
  const files = (n: number) => tree(Object.fromEntries(Array.from({ length: n }, (_, i) => [`a/f${i}.ts`, []])));
  assertEquals(whats(files(24)), []);
  assertEquals(whats(files(25)), ["has 25 children"]);
  assertEquals(treeReport(files(24)), ["a: 24 children, 0 arrows, 0 cycles"]);
});

Deno.test("a folder with more arrows than its bound is a violation", () => {
  const names = Array.from({ length: 13 }, (_, n) => `shared/server/f${String(n).padStart(2, "0")}.ts`);
  const imports = names.map((
    path,
    n,
  ) => [path, names.slice(0, n).map((one) => `import "./${one.split("/").at(-1)}";`)]);
  assertEquals(whats(tree(Object.fromEntries(imports))), ["has 13 children and 78 arrows, at most 14 and 24"]);
});

Deno.test("checkTree() refuses a name of a test outside of tests/", () => {
  assertEquals(whats(tree({ "proxy/relay_test.ts": [] })), ["is named like a test"]);
});

Deno.test("the rules refuse deps.ts in every file but app.ts and routes.ts, and features in schema/", () => {
  const refused = (path: string, specifier: string) =>
    check([{ path, text: `import "${specifier}";\n` }], DEPENDENCY_RULES).length;
  assertEquals(refused("proxy/relay/deliver.ts", "../deps.ts"), 1);
  assertEquals(refused("proxy/app.ts", "./deps.ts"), 0);
  assertEquals(refused("registry/quota.ts", "./deps.ts"), 1);
  assertEquals(refused("registry/routes.ts", "./deps.ts"), 0);
  assertEquals(refused("registry/schema/records.ts", "../audit/record.ts"), 1);
  assertEquals(refused("registry/schema/records.ts", "./kv_keys.ts"), 0);
  assertEquals(refused("proxy/schema/records.ts", "../../shared/clock.ts"), 0);
});
