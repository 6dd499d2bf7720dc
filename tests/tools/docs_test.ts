/** Checks that links of the documents resolve, and that each document has a bounded size and names its reader (D-200). */
import { assert, assertEquals } from "@std/assert";
import { anchorsOf, brokenLink, exists, linksOf, markdownFiles, readText, wordCount } from "./markdown.ts";

/** Most words of each document. */
const DOCUMENTS: Readonly<Record<string, number>> = {
  "README.md": 1_400,
  "ARCHITECTURE.md": 1_200,
  "CONTRIBUTING.md": 600,
  "docs/protocol.md": 5_000,
  "docs/conformance.md": Infinity,
  "docs/decisions.md": Infinity,
  "docs/performance.md": 1_550,
  "docs/operations.md": 5_800,
  "docs/scaling.md": 1_550,
  "docs/security.md": Infinity,
  "docs/glossary.md": Infinity,
  "docs/runtimes.md": 700,
  "docs/local-api.md": Infinity,
  "docs/agents.md": 1_400,
};

/** The last of the decisions that were made before the protocol had a document of its own. */
const LAST_OF_FIRST = 105;

/** A line such as `For operators.` above the first section. */
const READER = /^(?:\*\*)?For (?:whom:|[a-z])/m;

Deno.test("every relative link and anchor of every document resolves", async () => {
  const broken: (string | null)[] = [];
  for (const file of await markdownFiles()) {
    for (const link of linksOf(await readText(file))) broken.push(await brokenLink(file, link));
  }
  assertEquals(broken.filter((one) => one !== null), []);
});

Deno.test("every document exists, is short enough and names its reader", async () => {
  const faults: string[] = [];
  for (const [path, words] of Object.entries(DOCUMENTS)) {
    const text = await readText(path);
    if (wordCount(text) > words) faults.push(`${path} has ${wordCount(text)} words, at most ${words}`);
    if (!READER.test(text.split(/^## /m)[0] ?? "")) faults.push(`${path} does not say for whom it is`);
  }
  assertEquals(faults, []);
});

Deno.test("the first decisions have 4,500 words together, and each later one at most 60", async () => {
  const faults: string[] = [];
  let first = 0;
  for (const entry of (await readText("docs/decisions.md")).split(/^(?=### D-|## )/m)) {
    const number = Number(/^### D-(\d+)/.exec(entry)?.[1] ?? 0);
    if (number === 0) continue;
    if (number <= LAST_OF_FIRST) first += wordCount(entry);
    const reason = entry.replace(/^### .*$/m, "").replace(/^Tests: [^]*$/m, "");
    if (number > LAST_OF_FIRST && wordCount(reason) > 60) faults.push(`D-${number} has ${wordCount(reason)} words`);
  }
  assertEquals(faults, []);
  assert(first <= 4_500, `${first} words`);
});

Deno.test("every path that ARCHITECTURE.md names exists", async () => {
  const text = await readText("ARCHITECTURE.md");
  const missing: string[] = [];
  for (const [, path = ""] of text.matchAll(/`((?:shared|registry|proxy|cli|tests|docs)\/[\w./-]*)`/g)) {
    if (!await exists(path)) missing.push(path);
  }
  assertEquals(missing, []);
});

Deno.test("anchors are made from headings as the forge makes them", () => {
  const text = "# A `code` & more\n\n```sh\n# no heading\n```\n## Twice\n## Twice\n### D-42 Sessions, refresh\n";
  assertEquals([...anchorsOf(text)], ["a-code--more", "twice", "twice-1", "d-42-sessions-refresh"]);
});
