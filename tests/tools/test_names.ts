/** Finds the names of the tests in a file and their faults (D-205). */

export interface TestName {
  name: string;
  line: number;
}

const MAX_LENGTH = 100;
/** Identifiers of checks (a letter and two digits), decisions (`D-42`) and requirements (`R-007`). */
const IDENTIFIER = /\b(?:[A-Z]\d{2}|[DR]-\d{2,3})\b/;

/** Names in `Deno.test("…")`, `Deno.test({ name: "…" })` and `Deno.test(function …)`; a template as it is written. */
export function testNames(text: string): TestName[] {
  const literal = String.raw`(?:"((?:[^"\\]|\\.)*)"|${"`"}((?:[^${"`"}\\]|\\.)*)${"`"})`;
  const pattern = new RegExp(String.raw`\bDeno\.test(?:\.(?:ignore|only))?\(\s*(?:\{\s*name:\s*)?` + literal, "g");
  return [...text.matchAll(pattern)].map(({ 1: plain, 2: template, index }) => ({
    name: plain ?? template ?? "",
    line: text.slice(0, index).split("\n").length,
  }));
}

/** Faults of the names of one file, each with its line. */
export function nameFaults(text: string): string[] {
  const seen = new Set<string>();
  return testNames(text).flatMap(({ name, line }) => {
    const faults: string[] = [];
    const plain = name.replace(/\$\{[^}]*\}/g, "x");
    if (IDENTIFIER.test(plain)) faults.push(`${line}: has an identifier: ${name}`);
    if (plain.length > MAX_LENGTH) faults.push(`${line}: has ${plain.length} characters: ${name}`);
    if (seen.has(name)) faults.push(`${line}: is there twice: ${name}`);
    seen.add(name);
    return faults;
  });
}
