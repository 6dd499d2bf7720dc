/** docs/decisions.md and the rest of the project hold each other: every number that is cited has its entry there. */
import { assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);
const DECISIONS = "docs/decisions.md";
const SKIPPED = new Set([".git", ".data", "node_modules", "dist", DECISIONS]);
const TEXT = /\.(?:ts|md|json|jsonc|sh|ya?ml|js)$|^\.ci\//;

/** Numbers that a text cites; two joined by "to" cite those between them as well. There is no 00. */
function citedIn(text: string): Set<string> {
  const cited = new Set<string>();
  for (const [, first, last = first] of text.matchAll(/\bD-(?!00)(\d{2,3})\b(?: to D-(\d{2,3})\b)?/g)) {
    for (let n = Number(first); n <= Number(last); n++) cited.add(`D-${String(n).padStart(2, "0")}`);
  }
  return cited;
}

/** Every text file of the project, by its path from the root. */
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

/** Where each number is cited, outside of the decisions themselves. */
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
