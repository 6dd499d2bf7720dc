/**
 * The shape of the tree: who may import whom, which file names say nothing, how long a file may be. Prints each
 * violation with its reason, and the size report; exits with 1 on any. Knows imports and lines, never what code does:
 * that is lint_plugin.ts.
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
  /** Whose imports: a path, `folder/`, or `*`. */
  from: string[];
  /** Imports that are refused: the same, or the name of a package. */
  forbidden: string[];
  /** Imports that are allowed all the same. */
  except?: string[];
  why: string;
}

/** THE directions. Of the rules that refuse an import, the first one is reported. */
export const DEPENDENCY_RULES: readonly DependencyRule[] = [
  {
    from: ["*"],
    forbidden: ["tests/"],
    why: "tests are not shipped; what both need belongs to the source",
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
    why: "everything stands on the clock and the entropy, so they stand on the protocol only",
  },
  {
    from: ["shared/"],
    forbidden: ["registry/", "proxy/", "cli/"],
    why: "shared code serves both services and knows neither; hand in what it needs",
  },
  {
    from: ["registry/"],
    forbidden: ["proxy/", "cli/"],
    why: "the registry runs alone; what it shares with the proxy or the CLI goes over HTTP or into shared/protocol",
  },
  {
    from: ["proxy/"],
    forbidden: ["registry/", "cli/"],
    why: "the proxy knows the registry by its HTTP API (registry_client.ts) only, also in one process",
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
    why: "the composition root puts the parts together; no part knows it",
  },
];

const SAYS_NOTHING = ["utils", "helpers", "common", "types", "constants", "manager", "base", "index", "service"];
const TABLES = ["errors.ts", "limits.ts", "routes.ts", "keys.ts"];
const MAX_LINES = 400;
const TARGET = { median: 120, p90: 250 };

/** Folders that hold no source of the project; as is any folder whose name starts with a dot. */
const NOT_SOURCE = ["tests", "shared/jsr", "docs", "dist", "node_modules"];

/** Judges the files; in the order given, from top to bottom. */
export function check(files: SourceFile[]): Violation[] {
  return files.flatMap((file) => [...nameViolations(file), ...importViolations(file), ...sizeViolations(file)]);
}

export interface Sizes {
  files: number;
  median: number;
  p90: number;
  max: number;
}

/** Lines of the files: middle, nine in ten, longest. */
export function measure(files: SourceFile[]): Sizes {
  const lines = files.map(({ text }) => lineCount(text)).sort((a, b) => a - b);
  const atMost = (share: number) => lines[Math.ceil(lines.length * share) - 1] ?? 0;
  return { files: lines.length, median: atMost(0.5), p90: atMost(0.9), max: atMost(1) };
}

/** Imports and re-exports, static and dynamic, with the line of the specifier. Relies on `deno fmt`. */
export function importsOf(text: string): { specifier: string; line: number }[] {
  const statements = [
    /^\s*import\b\s*(?:[\w$*\s{},]+?\bfrom\s*)?["']([^"'\n]+)["']/gm,
    /^\s*export\s+(?:type\s*)?(?:\*(?:\s*as\s+[\w$]+)?|\{[^}]*\})\s*from\s*["']([^"'\n]+)["']/gm,
    /(?<!^[ \t]*(?:\*|\/\/|\/\*).*)\bimport\(\s*["'`]([^"'`$\n]+)["'`]/gm,
  ];
  return statements
    .flatMap((pattern) => [...text.matchAll(pattern)])
    .map((match) => ({ specifier: match[1] ?? "", line: lineCount(text.slice(0, match.index + match[0].length)) }))
    .sort((a, b) => a.line - b.line);
}

function importViolations({ path, text }: SourceFile): Violation[] {
  return importsOf(text).flatMap(({ specifier, line }) => {
    const target = resolved(path, specifier);
    const rule = DEPENDENCY_RULES.find(({ from, forbidden, except = [] }) =>
      matches(path, from) && matches(target, forbidden) && !matches(target, except)
    );
    return rule ? [{ path, line, what: `imports ${target}`, why: rule.why }] : [];
  });
}

function nameViolations({ path }: SourceFile): Violation[] {
  const name = path.replace(/^.*\//, "");
  if (!SAYS_NOTHING.includes(name.replace(/\.ts$/, ""))) return [];
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

/** The path from the project root, or the package's name: `../errors.ts` → `shared/errors.ts`, `npm:zod@4` → `zod`. */
function resolved(from: string, specifier: string): string {
  if (/^\.{0,2}\//.test(specifier)) return new URL(specifier, `file:///${from}`).pathname.slice(1);
  const name = specifier.replace(/^(?:npm|jsr):\/?/, "");
  if (name === "@svc/protocol" || name.startsWith("@svc/protocol/")) return "shared/protocol/mod.ts";
  return /^(?:@[^/]+\/)?[^/@]+/.exec(name)?.[0] ?? name;
}

function lineCount(text: string): number {
  return text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}

/** All source files under the folder, sorted by path. */
async function sourceFiles(root: URL, folder = ""): Promise<SourceFile[]> {
  const files: SourceFile[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder, root))) {
    const path = folder + name;
    if (isDirectory) {
      if (!name.startsWith(".") && !NOT_SOURCE.includes(path)) files.push(...await sourceFiles(root, `${path}/`));
    } else if (name.endsWith(".ts")) {
      files.push({ path, text: await Deno.readTextFile(new URL(path, root)) });
    }
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

if (import.meta.main) {
  const files = await sourceFiles(new URL("../../", import.meta.url));
  const violations = check(files);
  for (const { path, line, what, why } of violations) console.error(`${path}:${line} ${what}\n    ${why}`);
  const { files: count, median, p90, max } = measure(files);
  console.log(
    `${count} files; lines: median ${median} (aim ${TARGET.median}), p90 ${p90} (aim ${TARGET.p90}), max ${max}`,
  );
  console.log(violations.length === 0 ? "No violations." : `${violations.length} violations.`);
  Deno.exit(violations.length === 0 ? 0 : 1);
}
