/**
 * Checks the tree: import directions, cycles and file names. Prints each violation with its reason and exits with 1 on
 * any. Reads imports only; lint_plugin.ts checks the syntax.
 *
 *   deno run -A tests/tools/check_deps.ts
 */

/** A source file; `path` from the project root, with forward slashes. */
export interface SourceFile {
  path: string;
  text: string;
}

export interface Violation {
  path: string;
  line: number;
  what: string;
  why: string;
}

interface DependencyRule {
  /** Importing files: a path, `folder/`, or `*`. */
  from: string[];
  /** Files of `from` that are exempt. */
  notFrom?: string[];
  /** Forbidden imports: a path, `folder/`, `*`, or the name of a package. */
  forbidden: string[];
  /** Imports that are allowed. */
  except?: string[];
  /** Imports that are allowed with `import()`. */
  onDemand?: string[];
  why: string;
}

/** The files of shared/client that find and read an agent's files. */
const CLIENT_FILES = ["directory_store", "local_agent", "user_folder"].map((name) => `shared/client/${name}.ts`);

/** What every file of shared/client may import. */
const CLIENT_MAY_IMPORT = [
  "shared/client/",
  "shared/protocol/",
  "shared/clock.ts",
  "shared/random.ts",
  "shared/bounded_map.ts",
  "zod",
];

/** Import directions. The first rule that forbids an import is reported. */
export const DEPENDENCY_RULES: readonly DependencyRule[] = [
  {
    from: ["*"],
    forbidden: ["svc.ts"],
    why: "svc.ts is the program: it imports both sides, and no file imports it",
  },
  {
    from: ["svc.ts"],
    forbidden: ["*"],
    except: ["cli/"],
    onDemand: ["deploy.ts", "deploy_store.ts"],
    why: "svc.ts loads the server with import() when it is asked for, so that no other command reads it",
  },
  {
    from: ["*"],
    forbidden: ["tests/"],
    why: "tests are not shipped; move shared code to the source",
  },
  {
    from: ["shared/protocol/"],
    forbidden: ["*"],
    except: ["shared/protocol/", "zod", "ulid", "jose", "@noble/ed25519", "@std/encoding", "hpke"],
    why: "the protocol is pure, so that a third party can import it in another runtime: itself and pure libraries only",
  },
  {
    from: ["*"],
    notFrom: ["shared/protocol/sealed_body.ts"],
    forbidden: ["hpke"],
    why: "sealed_body.ts is the only place that seals and opens, so that suite, binding and padding cannot differ",
  },
  {
    from: ["shared/clock.ts", "shared/random.ts"],
    forbidden: ["*"],
    except: ["shared/protocol/"],
    why: "all code depends on clock and entropy, so they import the protocol only",
  },
  {
    from: ["shared/bounded_map.ts"],
    forbidden: ["*"],
    why: "services and CLI use it, so it imports nothing of either",
  },
  {
    from: ["shared/page/"],
    forbidden: ["*"],
    except: ["shared/page/", "shared/protocol/", "shared/hidden_text.ts", "uqr"],
    why: "services and CLI show their pages with it, so it imports nothing of either",
  },
  {
    from: ["shared/openapi.ts"],
    forbidden: ["*"],
    except: ["zod"],
    why: "services and CLI build their documents with it, so it imports nothing of either",
  },
  {
    from: CLIENT_FILES,
    forbidden: ["*"],
    except: [...CLIENT_MAY_IMPORT, "node:fs/promises", "node:path"],
    why: "these files of the client ring find and read an agent's files, in Deno and in Node 20, and use nothing else",
  },
  {
    from: ["shared/client/system.ts"],
    forbidden: ["*"],
    except: [...CLIENT_MAY_IMPORT, "node:child_process", "node:fs/promises", "node:net"],
    why: "this file of the client ring asks the system, in Deno and in Node 20, and uses nothing else",
  },
  {
    from: ["shared/client/"],
    notFrom: [...CLIENT_FILES, "shared/client/system.ts"],
    forbidden: ["*"],
    except: CLIENT_MAY_IMPORT,
    why: "the client ring runs in Deno and in Node 20: itself, the protocol, clock, entropy and zod only",
  },
  {
    from: ["registry/", "proxy/", "shared/server/", "deploy.ts", "deploy_store.ts"],
    forbidden: ["shared/client/"],
    why: "the services are not clients; what both sides need is in shared/protocol",
  },
  {
    from: ["shared/"],
    forbidden: ["registry/", "proxy/", "cli/"],
    why: "shared code serves both services; pass dependencies as parameters",
  },
  {
    from: ["registry/"],
    forbidden: ["proxy/", "cli/"],
    why: "the registry runs alone; what it shares with the proxy or the CLI goes over HTTP or into shared/protocol",
  },
  {
    from: ["registry/"],
    notFrom: ["registry/app.ts", "registry/routes.ts"],
    forbidden: ["registry/deps.ts"],
    why: "one wide type ties every file to every other; declare the members that the file uses",
  },
  {
    from: ["registry/schema/"],
    forbidden: ["*"],
    except: ["registry/schema/", "shared/"],
    why: "records and keys are the ground of the service: they import shared/ and themselves only",
  },
  {
    from: ["proxy/"],
    forbidden: ["registry/", "cli/"],
    why: "the proxy uses the HTTP API of the registry (registry_client.ts), also in one process",
  },
  {
    from: ["proxy/"],
    notFrom: ["proxy/app.ts", "proxy/routes.ts"],
    forbidden: ["proxy/deps.ts"],
    why: "one wide type couples all files; declare the members that the file uses",
  },
  {
    from: ["proxy/schema/"],
    forbidden: ["*"],
    except: ["proxy/schema/", "shared/"],
    why: "records and keys import shared/ and their own folder only",
  },
  {
    from: ["cli/"],
    forbidden: ["shared/server/", "registry/", "proxy/"],
    why: "the CLI is a client: it starts fast and ships without the servers",
  },
  {
    from: ["deploy.ts", "deploy_store.ts"],
    forbidden: ["cli/"],
    why: "the services are deployed without the CLI",
  },
  {
    from: ["shared/", "registry/", "proxy/", "cli/"],
    forbidden: ["deploy.ts", "deploy_store.ts"],
    why: "the composition root imports the parts; no part imports it, and cli/ reaches it through Programs",
  },
];

const SAYS_NOTHING = ["utils", "helpers", "common", "types", "constants", "manager", "base", "index", "service"];

/** Folders without source of the project, in addition to folders whose name starts with a dot. */
const NOT_SOURCE = ["tests", "shared/jsr", "docs", "dist", "node_modules"];

/** Returns the violations of the files, in the given order, from top to bottom. */
export function check(files: SourceFile[], rules = DEPENDENCY_RULES): Violation[] {
  return files.flatMap((file) => [...nameViolations(file), ...importViolations(file, rules)]);
}

/** Returns the violations of the tree: cycles between the children of a folder, and tests outside of tests/. */
export function checkTree(files: SourceFile[]): Violation[] {
  return [
    ...cycles(files).map(({ violation }) => violation),
    ...files.filter(({ path }) => path.endsWith("_test.ts")).map(({ path }) => ({
      path,
      line: 1,
      what: "is named like a test",
      why: "every test runner takes it for one; tests are under tests/",
    })),
  ];
}

/** A cycle between direct children of a folder, with one import for each step. */
export interface Cycle {
  folder: string;
  violation: Violation;
}

interface Arrow {
  path: string;
  line: number;
  target: string;
}

/** For each folder, the imports between its direct children: child → child → one import. Type imports count. */
function arrowsOf(files: SourceFile[]): Map<string, Map<string, Map<string, Arrow>>> {
  const paths = new Set(files.map(({ path }) => path));
  const graphs = new Map<string, Map<string, Map<string, Arrow>>>();
  for (const { path, text } of files) {
    for (const { specifier, line } of importsOf(text)) {
      const target = resolved(path, specifier);
      if (!paths.has(target) || target === path) continue;
      const from = path.split("/"), to = target.split("/");
      let depth = 0;
      while (from[depth] === to[depth]) depth++;
      const folder = from.slice(0, depth).join("/");
      const [a = "", b = ""] = [from[depth], to[depth]];
      const graph = graphs.get(folder) ?? new Map<string, Map<string, Arrow>>();
      const arrows = graph.get(a) ?? new Map<string, Arrow>();
      if (!arrows.has(b)) arrows.set(b, { path, line, target });
      graphs.set(folder, graph.set(a, arrows));
    }
  }
  return graphs;
}

/** One cycle for each group of children that reach each other, in every folder. */
export function cycles(files: SourceFile[]): Cycle[] {
  return [...arrowsOf(files)].flatMap(([folder, graph]) =>
    components(graph).map((members) => {
      const way = cycleWithin(graph, members);
      const arrows = way.map((child, i) => graph.get(child)?.get(way[(i + 1) % way.length] ?? "")).filter((one) =>
        !!one
      );
      const { path = folder, line = 1 } = arrows[0] ?? {};
      const shown = arrows.map((arrow) => `${arrow.path}:${arrow.line} imports ${arrow.target}`).join("; ");
      const what = `closes a cycle in ${folder || "."}: ${[...way, way[0]].join(" → ")} (${members.length} children)`;
      return { folder, violation: { path, line, what, why: `${shown}. A folder is read from top to bottom` } };
    })
  );
}

/** Tarjan's strongly connected components of more than one child. */
function components(graph: Map<string, Map<string, unknown>>): string[][] {
  const found: string[][] = [], stack: string[] = [];
  const index = new Map<string, number>(), low = new Map<string, number>();
  const visit = (node: string): void => {
    index.set(node, index.size);
    low.set(node, index.get(node) ?? 0);
    stack.push(node);
    for (const next of graph.get(node)?.keys() ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) ?? 0, low.get(next) ?? 0));
    }
    if (low.get(node) !== index.get(node)) return;
    const members = stack.splice(stack.indexOf(node));
    if (members.length > 1) found.push(members);
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return found;
}

/** Returns the shortest cycle through the first member. */
function cycleWithin(graph: Map<string, Map<string, unknown>>, members: string[]): string[] {
  const [start = ""] = members;
  let ways = [[start]];
  const seen = new Set<string>();
  while (ways.length > 0) {
    const longer: string[][] = [];
    for (const way of ways) {
      for (const next of graph.get(way.at(-1) ?? "")?.keys() ?? []) {
        if (next === start) return way;
        if (!members.includes(next) || seen.has(next)) continue;
        seen.add(next);
        longer.push([...way, next]);
      }
    }
    ways = longer;
  }
  return [start];
}

/** An import or a re-export, with the line of its specifier. */
interface Import {
  specifier: string;
  line: number;
  /** With `import()`. */
  isDynamic: boolean;
}

/** Imports and re-exports, static and dynamic. Relies on `deno fmt`. */
export function importsOf(text: string): Import[] {
  const statements = [
    /^\s*import\b\s*(?:[\w$*\s{},]+?\bfrom\s*)?["']([^"'\n]+)["']/gm,
    /^\s*export\s+(?:type\s*)?(?:\*(?:\s*as\s+[\w$]+)?|\{[^}]*\})\s*from\s*["']([^"'\n]+)["']/gm,
    /(?<!^[ \t]*(?:\*|\/\/|\/\*).*)\bimport\(\s*["'`]([^"'`$\n]+)["'`]/gm,
  ];
  return statements
    .flatMap((pattern) => [...text.matchAll(pattern)])
    .map((match) => ({
      specifier: match[1] ?? "",
      line: lineCount(text.slice(0, match.index + match[0].length)),
      isDynamic: /\bimport\([^(]*$/.test(match[0]),
    }))
    .sort((a, b) => a.line - b.line);
}

function importViolations({ path, text }: SourceFile, rules: readonly DependencyRule[]): Violation[] {
  return importsOf(text).flatMap(({ specifier, line, isDynamic }) => {
    const target = resolved(path, specifier);
    const rule = rules.find(({ from, notFrom = [], forbidden, except = [], onDemand = [] }) =>
      matches(path, from) && !matches(path, notFrom) && matches(target, forbidden) &&
      !matches(target, isDynamic ? [...except, ...onDemand] : except)
    );
    return rule ? [{ path, line, what: `imports ${target}`, why: rule.why }] : [];
  });
}

function nameViolations({ path }: SourceFile): Violation[] {
  const name = path.replace(/^.*\//, "");
  if (!SAYS_NOTHING.includes(name.replace(/\.tsx?$/, ""))) return [];
  return [{ path, line: 1, what: `is named ${name}`, why: "the name says nothing; name it after what it holds" }];
}

function matches(target: string, patterns: string[]): boolean {
  return patterns.some((pattern) =>
    pattern === "*" || (pattern.endsWith("/") ? target.startsWith(pattern) : target === pattern)
  );
}

/** Returns the path from the project root, or the name of the package: `../errors.ts` → `shared/errors.ts`, `npm:zod@4` → `zod`; modules of Node as they are. */
function resolved(from: string, specifier: string): string {
  if (/^\.{0,2}\//.test(specifier)) return new URL(specifier, `file:///${from}`).pathname.slice(1);
  const name = specifier.replace(/^(?:npm|jsr):\/?/, "");
  if (name.startsWith("node:")) return name;
  if (name === "@svc/protocol" || name.startsWith("@svc/protocol/")) return "shared/protocol/mod.ts";
  return /^(?:@[^/]+\/)?[^/@]+/.exec(name)?.[0] ?? name;
}

function lineCount(text: string): number {
  return text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}

/** Returns true for the name of a source file. */
export function isSource(name: string): boolean {
  return name.endsWith(".ts") || name.endsWith(".tsx");
}

/** Returns all source files under the folder, sorted by path. */
async function sourceFiles(root: URL, folder = ""): Promise<SourceFile[]> {
  const files: SourceFile[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder, root))) {
    const path = folder + name;
    if (isDirectory) {
      if (!name.startsWith(".") && !NOT_SOURCE.includes(path)) files.push(...await sourceFiles(root, `${path}/`));
    } else if (isSource(name)) {
      files.push({ path, text: await Deno.readTextFile(new URL(path, root)) });
    }
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

if (import.meta.main) {
  const files = await sourceFiles(new URL("../../", import.meta.url));
  const violations = [...check(files), ...checkTree(files)];
  for (const { path, line, what, why } of violations) console.error(`${path}:${line} ${what}\n    ${why}`);
  console.log(`${files.length} files, ${violations.length} violations`);
  Deno.exit(violations.length === 0 ? 0 : 1);
}
