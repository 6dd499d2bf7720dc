/** The modules of the CLI: no server library, and no heavy library before it is needed. */
import { assert, assertEquals } from "@std/assert";

interface Module {
  specifier: string;
  dependencies?: { specifier: string; isDynamic?: boolean; code?: { specifier?: string } }[];
}

const ROOT = new URL("../../", import.meta.url).href;

async function graph(program = "cli/main.ts"): Promise<Map<string, Module>> {
  const command = new Deno.Command(Deno.execPath(), { args: ["info", "--json", program], cwd: new URL(ROOT) });
  const { stdout } = await command.output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: Module[] };
  return new Map(modules.map((module) => [module.specifier, module]));
}

/** Every module that is loaded with a module: its static imports and theirs; with `dynamic`, also the dynamic ones. */
function loaded(modules: Map<string, Module>, start: string, dynamic: boolean): Set<string> {
  const seen = new Set<string>();
  const visit = (specifier: string) => {
    if (seen.has(specifier)) return;
    seen.add(specifier);
    for (const { code, isDynamic } of modules.get(specifier)?.dependencies ?? []) {
      if (code?.specifier && (dynamic || !isDynamic)) visit(code.specifier);
    }
  };
  visit(start);
  return seen;
}

const short = (specifier: string) => specifier.replace(ROOT, "");

const SERVER = /^(?:registry|proxy|shared\/server|shared\/jsr\/hono|deploy)|hono|fast-check/;

Deno.test("no server library is part of the CLI", async () => {
  const all = [...loaded(await graph(), `${ROOT}cli/main.ts`, true)].map(short);
  assert(all.length > 40, "the module graph was read");
  assertEquals(all.filter((specifier) => SERVER.test(specifier)), []);
});

Deno.test("the whole program loads the server only when it is asked for", async () => {
  const modules = await graph("svc.ts");
  const atOnce = [...loaded(modules, `${ROOT}svc.ts`, false)].map(short);
  assertEquals(atOnce.filter((specifier) => SERVER.test(specifier)), []);
  const all = [...loaded(modules, `${ROOT}svc.ts`, true)].map(short);
  for (const path of ["deploy.ts", "deploy_store.ts", "cli/main.ts"]) assert(all.includes(path), path);
});

Deno.test("a server loads the library for telemetry only when it is asked for", async () => {
  const modules = await graph("deploy.ts");
  const isTelemetry = (specifier: string) => specifier.includes("@opentelemetry/");
  assertEquals([...loaded(modules, `${ROOT}deploy.ts`, false)].filter(isTelemetry), []);
  assert([...loaded(modules, `${ROOT}deploy.ts`, true)].some(isTelemetry));
});

Deno.test("starting loads neither zod nor the tokens of jose nor a client: --version needs none of them", async () => {
  const atOnce = [...loaded(await graph(), `${ROOT}cli/main.ts`, false)].map(short);
  const heavy =
    /npm:\/?(?:zod|jose(?!@[^/]*\/base64url$)|ulid|@noble|hpke|@modelcontextprotocol|jsonc-parser|smol-toml)|shared\/protocol\/api|registry_client|agent_store/;
  assertEquals(atOnce.filter((specifier) => heavy.test(specifier)), []);
});

Deno.test("svc send beside a connector that runs loads neither a connector nor the way without one", async () => {
  const modules = await graph();
  const atOnce = ["cli/commands/send.ts", "cli/connector/attach.ts"].flatMap((path) => [
    ...loaded(modules, `${ROOT}${path}`, false),
  ]).map(short);
  const needless = /cli\/connector\/(?:agent_connector|connector|link\/direct_proxy)\.ts|proxy_caller|message_request/;
  assertEquals(atOnce.filter((specifier) => needless.test(specifier)), []);
  assert(atOnce.includes("cli/connector/attach.ts"));
});

Deno.test("only what changes files of hosts loads the parsers of these files", async () => {
  const modules = await graph();
  const isParser = (specifier: string) => /jsonc-parser|smol-toml/.test(specifier);
  const files = [...modules.keys()].filter((specifier) => specifier.startsWith(`${ROOT}cli/commands/`));
  const loading = files.filter((file) => [...loaded(modules, file, false)].some(isParser)).map(short);
  assertEquals(loading, ["cli/commands/uninstall.ts"]);
});

Deno.test("svc mcp loads the MCP library after its console writes to standard error", async () => {
  const start = `${ROOT}cli/commands/mcp.ts`;
  const modules = await graph("cli/commands/mcp.ts");
  const isOfMcp = (specifier: string) => specifier.includes("@modelcontextprotocol");
  assertEquals([...loaded(modules, start, false)].filter(isOfMcp), []);
  assert([...loaded(modules, start, true)].some(isOfMcp));
});

Deno.test("the CLI loads nothing of the client library but the table of its error codes", async () => {
  const all = [...loaded(await graph(), `${ROOT}cli/main.ts`, true)].map(short);
  const library = all.filter((specifier) =>
    /^shared\/client\/(?:mod|local_agent|inbox_reader|svc_error)\.ts$/.test(specifier)
  );
  assertEquals(library, []);
});
