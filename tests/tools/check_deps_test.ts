/** Checks the pure part of check_deps.ts with example files: directions, names and sizes. */
import { assertEquals } from "@std/assert";
import { check, checkTree, cycles, DEPENDENCY_RULES, importsOf, isSource } from "./check_deps.ts";

/** Returns the violation of one import; an empty text when it is allowed. */
function verdict(path: string, specifier: string): string {
  const [violation] = check([{ path, text: `import "${specifier}";\n` }]);
  return violation?.what ?? "";
}

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
    ["shared/protocol/proof.ts", "hpke", "hpke"],
    ["cli/connector/check_proof.ts", "hpke", "hpke"],
    ["shared/client/local_agent.ts", "node:fs", "node:fs"],
    ["shared/client/directory_store.ts", "../../../cli/files/private_files.ts", "cli/files/private_files.ts"],
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
