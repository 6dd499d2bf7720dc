/**
 * Checks the tree: import directions, file names and file lengths. Prints each violation with its reason and the size
 * report; exits with 1 on any violation. Reads imports and lines only; lint_plugin.ts checks the syntax.
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

/** What every file of shared/client may import (D-124). */
const CLIENT_MAY_IMPORT = [
  "shared/client/",
  "shared/protocol/",
  "shared/clock.ts",
  "shared/random.ts",
  "shared/bounded_map.ts",
  "ws",
  "zod",
];

/** Import directions. The first rule that forbids an import is reported. */
export const DEPENDENCY_RULES: readonly DependencyRule[] = [
  {
    from: ["*"],
    forbidden: ["svc.ts"],
    why: "svc.ts is the program: it imports both sides, and no file imports it (D-160)",
  },
  {
    from: ["svc.ts"],
    forbidden: ["*"],
    except: ["cli/"],
    onDemand: ["deploy.ts", "deploy_store.ts"],
    why: "svc.ts loads the server with import() when it is asked for, so that no other command reads it (D-160)",
  },
  {
    from: ["*"],
    forbidden: ["tests/"],
    why: "tests are not shipped; move shared code to the source",
  },
  {
    from: ["shared/protocol/"],
    forbidden: ["*"],
    except: ["shared/protocol/", "zod", "ulid", "jose", "@noble/ed25519", "@std/encoding"],
    why: "the protocol is pure, so that a third party can import it in another runtime: itself and pure libraries only",
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
    from: ["shared/openapi.ts"],
    forbidden: ["*"],
    except: ["zod"],
    why: "services and CLI build their documents with it, so it imports nothing of either",
  },
  {
    from: ["shared/client/library/directory_store.ts", "shared/client/library/local_agent.ts"],
    forbidden: ["*"],
    except: [...CLIENT_MAY_IMPORT, "node:fs/promises", "node:path"],
    why: "these files of the client ring read an agent's files, in Deno and in Node 20, and use nothing else (D-124)",
  },
  {
    from: ["shared/client/"],
    notFrom: ["shared/client/library/directory_store.ts", "shared/client/library/local_agent.ts"],
    forbidden: ["*"],
    except: CLIENT_MAY_IMPORT,
    why: "the client ring runs in Deno and in Node 20: itself, the protocol, clock, entropy, ws and zod only (D-124)",
  },
  {
    from: ["registry/", "proxy/", "shared/server/", "deploy.ts", "deploy_store.ts"],
    forbidden: ["shared/client/"],
    why: "the services are not clients; what both sides need is in shared/protocol (D-124)",
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
    why: "one wide type ties every file to every other; declare the members that the file uses (D-196)",
  },
  {
    from: ["registry/schema/"],
    forbidden: ["*"],
    except: ["registry/schema/", "shared/"],
    why: "records and keys are the ground of the service: they import shared/ and themselves only (D-196)",
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
    why: "one wide type couples all files; declare the members that the file uses (D-196)",
  },
  {
    from: ["proxy/schema/"],
    forbidden: ["*"],
    except: ["proxy/schema/", "shared/"],
    why: "records and keys import shared/ and their own folder only (D-196)",
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
    why: "the composition root imports the parts; no part imports it, and cli/ reaches it through Programs (D-160)",
  },
];

/** Direct children that a folder of the product may have (D-195). */
const MAX_CHILDREN = 24;

/**
 * Most children and arrows between them, by folder (D-195). A change that needs more raises its row and says why. The
 * registry's resources each import configuration, quotas and schema themselves, in place of one wide type (D-196). The
 * connector's folder has a child for each way to run one, start, attach, many in one process (D-119), and for its keys.
 */
const BOUNDS: Readonly<Record<string, readonly [children: number, arrows: number]>> = {
  // 17 children since the commands for messages (D-120) are a folder of their own, which imports seven others. programs.ts
  // and server/ are the command's side of one program (D-160). The commands about the relay (D-175) read it through
  // account and client. mcp/ (D-127) serves an agent's messages through agents, connector and messages. hosts/ writes entries
  // of agents into files of other programs (D-131): it imports agents, connector, files and platforms. a2a/ holds the
  // protocol of both sides of A2A (D-134, D-135): a platform and the local API use it. demo/ (D-162) runs what the commands
  // run: account, agents, connector, mcp.
  cli: [23, 116],
  "cli/connector": [21, 70],
  // The folder of the admin's routes imports admission, relay and schema; app, deps and routes import it (D-173).
  proxy: [13, 42],
  // 20 children: the admin's routes (D-169, D-170), which read accounts, agents and sessions, and admin tokens (D-172),
  // with configuration, signing keys, callers and the audit log.
  registry: [20, 96],
  "shared/server": [14, 24],
};

const SAYS_NOTHING = ["utils", "helpers", "common", "types", "constants", "manager", "base", "index", "service"];
const TABLES = ["errors.ts", "limits.ts", "routes.ts", "kv_keys.ts"];
const MAX_LINES = 400;
const TARGET = { median: 120, p90: 250 };

/** Folders without source of the project, in addition to folders whose name starts with a dot. */
const NOT_SOURCE = ["tests", "shared/jsr", "docs", "dist", "node_modules"];

/** Returns the violations of the files, in the given order, from top to bottom. */
export function check(files: SourceFile[], rules = DEPENDENCY_RULES): Violation[] {
  return files.flatMap((file) => [...nameViolations(file), ...importViolations(file, rules), ...sizeViolations(file)]);
}

/** Returns the violations of the tree: cycles between the children of a folder, their number, tests outside of tests/. */
export function checkTree(files: SourceFile[]): Violation[] {
  return [
    ...cycles(files).map(({ violation }) => violation),
    ...[...childrenOf(files)].flatMap(([folder, children]): Violation[] => {
      if (children.size <= MAX_CHILDREN) return [];
      const why = `more than ${MAX_CHILDREN} files and folders in one place are not read from top to bottom`;
      return [{ path: folder || ".", line: 1, what: `has ${children.size} children`, why }];
    }),
    ...Object.entries(BOUNDS).flatMap(([folder, [children, arrows]]): Violation[] => {
      const found = sizeOf(files, folder);
      if (found.children <= children && found.arrows <= arrows) return [];
      const what = `has ${found.children} children and ${found.arrows} arrows, at most ${children} and ${arrows}`;
      return [{ path: folder, line: 1, what, why: "raise the bound in BOUNDS only with a reason (D-195)" }];
    }),
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

/** For each folder, its direct children. The root is the empty text. */
function childrenOf(files: SourceFile[]): Map<string, Set<string>> {
  const children = new Map<string, Set<string>>();
  for (const { path } of files) {
    const parts = path.split("/");
    parts.forEach((name, i) => {
      const folder = parts.slice(0, i).join("/");
      children.set(folder, (children.get(folder) ?? new Set()).add(name));
    });
  }
  return children;
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
      return { folder, violation: { path, line, what, why: `${shown}. A folder is read from top to bottom (D-195)` } };
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

/** Returns a line for each folder with more than ten children. */
export function treeReport(files: SourceFile[]): string[] {
  const circles = cycles(files);
  return [...childrenOf(files)].filter(([, children]) => children.size > 10).map(([folder]) => {
    const { children, arrows } = sizeOf(files, folder);
    const count = circles.filter((cycle) => cycle.folder === folder).length;
    return `${folder || "."}: ${children} children, ${arrows} arrows, ${count} cycles`;
  });
}

function sizeOf(files: SourceFile[], folder: string): { children: number; arrows: number } {
  const graph = arrowsOf(files).get(folder);
  const arrows = [...graph?.values() ?? []].reduce((sum, { size }) => sum + size, 0);
  return { children: childrenOf(files).get(folder)?.size ?? 0, arrows };
}

export interface Sizes {
  files: number;
  median: number;
  p90: number;
  max: number;
}

/** Returns median, 90th percentile and maximum of the file lengths, in lines. */
export function measure(files: SourceFile[]): Sizes {
  const lines = files.map(({ text }) => lineCount(text)).sort((a, b) => a - b);
  const atMost = (share: number) => lines[Math.ceil(lines.length * share) - 1] ?? 0;
  return { files: lines.length, median: atMost(0.5), p90: atMost(0.9), max: atMost(1) };
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

function sizeViolations({ path, text }: SourceFile): Violation[] {
  const lines = lineCount(text);
  if (lines <= MAX_LINES || TABLES.includes(path.replace(/^.*\//, ""))) return [];
  const why = `over ${MAX_LINES} lines a file holds more than one thing; only tables (${TABLES.join(", ")}) may`;
  return [{ path, line: MAX_LINES + 1, what: `has ${lines} lines`, why }];
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
  for (const line of treeReport(files)) console.log(line);
  const { files: count, median, p90, max } = measure(files);
  console.log(
    `${count} files; lines: median ${median} (aim ${TARGET.median}), p90 ${p90} (aim ${TARGET.p90}), max ${max}`,
  );
  console.log(violations.length === 0 ? "No violations." : `${violations.length} violations.`);
  Deno.exit(violations.length === 0 ? 0 : 1);
}
