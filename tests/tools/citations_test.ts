/**
 * Checks that every citation has one of four forms and that its target exists (D-201): decisions, RFCs, requirements and
 * anchors of documents.
 */
import { assertEquals } from "@std/assert";
import { anchorsOf, exists, filesOf, readText, rowsOf } from "./markdown.ts";
import { testNames } from "./test_names.ts";

const ROOT = new URL("../../", import.meta.url);
const DECISIONS = "docs/decisions.md";
const SKIPPED = new Set([".git", ".cache", ".data", "node_modules", "dist", DECISIONS]);
const TEXT = /\.(?:ts|md|json|jsonc|sh|ya?ml|js)$|^\.ci\//;

/** Returns the decisions that a text cites. Two joined by "to" include those between them. */
function citedIn(text: string): Set<string> {
  const cited = new Set<string>();
  for (const [, first, last = first] of text.matchAll(/\bD-(?!00)(\d{2,3})\b(?: to D-(\d{2,3})\b)?/g)) {
    for (let n = Number(first); n <= Number(last); n++) cited.add(`D-${String(n).padStart(2, "0")}`);
  }
  return cited;
}

/** Yields every text file of the project, with its path from the root. */
async function* texts(folder = ""): AsyncGenerator<{ path: string; text: string }> {
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder || ".", ROOT))) {
    const path = folder + name;
    if (SKIPPED.has(path) || SKIPPED.has(name)) continue;
    if (isDirectory) yield* texts(`${path}/`);
    else if (TEXT.test(path)) yield { path, text: await Deno.readTextFile(new URL(path, ROOT)) };
  }
}

interface Entry {
  number: string;
  isMarked: boolean;
  body: string;
}

async function entries(): Promise<Entry[]> {
  const text = await Deno.readTextFile(new URL(DECISIONS, ROOT));
  const sections = text.split(/^(?=##+ )/m);
  return sections.flatMap((section) => {
    const [, number, title = ""] = /^### (D-\d{2,3}) (.+)$/m.exec(section) ?? [];
    return number ? [{ number, isMarked: title.endsWith("(not cited)"), body: section }] : [];
  });
}

/** Returns the paths that cite each decision, without docs/decisions.md. */
async function citations(): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  for await (const { path, text } of texts()) {
    for (const number of citedIn(text)) found.set(number, [...found.get(number) ?? [], path]);
  }
  return found;
}

Deno.test("citedIn() finds numbers and ranges, and nothing that only looks like one", () => {
  const cite = (n: string) => `D${"-"}${n}`;
  const text = `(${cite("42")} to ${cite("44")}, ${cite("07")}) ${cite("123")} ${cite("1234")} x${cite("99")}`;
  assertEquals([...citedIn(text)], ["42", "43", "44", "07", "123"].map(cite));
});

Deno.test("every decision that is cited has an entry in docs/decisions.md", async () => {
  const known = new Set((await entries()).map(({ number }) => number));
  const missing = [...await citations()].filter(([number]) => !known.has(number));
  assertEquals(missing.map(([number, paths]) => `${number}, cited in ${paths.join(", ")}`), []);
});

Deno.test("every entry is cited somewhere else, or is marked (not cited) and says why", async () => {
  const cited = await citations();
  const wrong = (await entries()).filter(({ number, isMarked, body }) =>
    isMarked ? !/^Not cited because /m.test(body) : !cited.has(number)
  );
  assertEquals(wrong.map(({ number }) => number), []);
});

Deno.test("the entries ascend, each number once, and name tests that exist", async () => {
  const all = await entries();
  const numbers = all.map(({ number }) => number);
  const byNumber = (a: string, b: string) => Number(a.slice(2)) - Number(b.slice(2));
  assertEquals(numbers, [...new Set(numbers)].sort(byNumber));
  const named = new Set(
    all.flatMap(({ body }) => [...body.matchAll(/`(tests\/[\w/]+_test\.ts)`/g)].map(([, path]) => path)),
  );
  const missing: string[] = [];
  for (const path of named) {
    const isThere = await Deno.stat(new URL(path ?? "", ROOT)).then((stat) => stat.isFile, () => false);
    if (!isThere) missing.push(path ?? "");
  }
  assertEquals(missing, []);
});

/** Citations of documents outside the project, and identifiers of checks. */
const FOREIGN =
  /\bSPEC\b|\bPROTOCOL\b|\bARCHITECTURE(?: section)? \d|\bARCHITECTURE "|\bCHECKS\b|\bRUNTIMES\b|\b[A-Z]\d\d\b/;

/** Returns the comments of a TypeScript file, found by the parser of the linter. */
function commentsIn(path: string, text: string): string[] {
  const comments: string[] = [];
  const plugin: Deno.lint.Plugin = {
    name: "comments",
    rules: {
      all: {
        create: (context) => ({
          Program: () => void comments.push(...context.sourceCode.getAllComments().map(({ value }) => value)),
        }),
      },
    },
  };
  Deno.lint.runPlugin(plugin, path, text);
  return comments;
}

/** Returns the wrong citations in comments, test names and documents, as `path: fault`. */
async function citationFaults(): Promise<string[]> {
  const faults: string[] = [];
  const protocol = await exists("docs/protocol.md") ? await readText("docs/protocol.md") : null;
  const references = protocol?.split(/^## References$/m)[1] ?? "";
  const requirements = new Set<string>();
  if (await exists("docs/conformance.md")) {
    for (const [number = ""] of rowsOf(await readText("docs/conformance.md"), /^R-\d/)) requirements.add(number);
  }
  const anchors = new Map<string, Set<string> | null>();
  const inspect = async (path: string, prose: string[]) => {
    for (const text of prose) {
      const [foreign] = FOREIGN.exec(text) ?? [];
      if (foreign && !path.endsWith(".md")) faults.push(`${path}: cites ${foreign}`);
      for (const [, number = ""] of text.matchAll(/\bRFC (\d{4,5})\b/g)) {
        if (!references.includes(`RFC ${number}`)) faults.push(`${path}: RFC ${number} is not in the references`);
      }
      for (const [number] of text.matchAll(/\bR-\d{3}\b/g)) {
        if (!requirements.has(number)) faults.push(`${path}: ${number} is not in docs/conformance.md`);
      }
      for (const [, file = "", anchor = ""] of text.matchAll(/\b(docs\/[\w-]+\.md|ARCHITECTURE\.md)#([\w-]+)/g)) {
        if (!anchors.has(file)) anchors.set(file, await exists(file) ? anchorsOf(await readText(file)) : null);
        if (!anchors.get(file)?.has(anchor)) faults.push(`${path}: ${file}#${anchor} is not there`);
      }
    }
  };
  for (const path of await filesOf(/\.ts$/)) {
    if (path.startsWith("shared/jsr/") || path === "tests/tools/citations_test.ts") continue;
    const text = await readText(path);
    const names = path.startsWith("tests/") ? testNames(text).map(({ name }) => name) : [];
    await inspect(path, [...commentsIn(path, text), ...names]);
  }
  for (const path of await filesOf(/\.md$/)) await inspect(path, [await readText(path)]);
  return faults;
}

Deno.test("every citation has one of the four forms, and what it names exists", async () => {
  const faults = await citationFaults();
  assertEquals(faults, []);
});
