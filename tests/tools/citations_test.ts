/** Checks that what the project cites exists: decisions, RFCs among the references, and sections of documents. */
import { assertEquals } from "@std/assert";
import { anchorsOf, exists, readText } from "./markdown.ts";

const ROOT = new URL("../../", import.meta.url);
const SKIPPED = new Set([".git", ".cache", ".data", "node_modules", "dist", "jsr", "citations_test.ts"]);
const TEXT = /\.(?:ts|md|json|jsonc|sh|ya?ml|js)$|^\.ci\//;

/** Yields every text file of the project, with its path from the root. */
async function* texts(folder = ""): AsyncGenerator<{ path: string; text: string }> {
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder || ".", ROOT))) {
    const path = folder + name;
    if (SKIPPED.has(name)) continue;
    if (isDirectory) yield* texts(`${path}/`);
    else if (TEXT.test(path)) yield { path, text: await Deno.readTextFile(new URL(path, ROOT)) };
  }
}

/** Returns the decisions that a text cites. Two joined by "to" include those between them. */
function decisionsIn(text: string): string[] {
  return [...text.matchAll(/\bD-(?!00)(\d{2,3})\b(?: to D-(\d{2,3})\b)?/g)].flatMap(([, first, last = first]) => {
    const numbers = Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => Number(first) + i);
    return numbers.map((n) => `D-${String(n).padStart(2, "0")}`);
  });
}

Deno.test("every decision, RFC and section of a document that is cited exists", async () => {
  const decisions = new Set([...(await readText("docs/decisions.md")).matchAll(/^### (D-\d+) /gm)].map(([, n]) => n));
  const references = (await readText("docs/protocol.md")).split(/^## References$/m)[1] ?? "";
  const faults: string[] = [];
  for await (const { path, text } of texts()) {
    for (const number of new Set(decisionsIn(text))) if (!decisions.has(number)) faults.push(`${path}: ${number}`);
    for (const [rfc, number = ""] of text.matchAll(/\bRFC (\d{4,5})\b/g)) {
      if (!references.includes(`RFC ${number}`)) faults.push(`${path}: ${rfc}`);
    }
    for (const [cited, file = "", anchor = ""] of text.matchAll(/\b((?:docs\/[\w-]+|ARCHITECTURE)\.md)#([\w-]+)/g)) {
      if (!await exists(file) || !anchorsOf(await readText(file)).has(anchor)) faults.push(`${path}: ${cited}`);
    }
  }
  assertEquals(faults, []);
});
