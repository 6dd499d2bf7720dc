/**
 * Checks docs/conformance.md (D-200): each row `| R-001 | requirement | rule | test |` has its own
 * number, a rule that exists and a test that exists. Without the document there is nothing to check.
 */
import { assertEquals } from "@std/assert";
import { brokenLink, exists, linksOf, readText, rowsOf } from "./markdown.ts";

const PATH = "docs/conformance.md";
const isWritten = await exists(PATH);

Deno.test({
  name: "requirements ascend, and each names a requirement, a rule and a test",
  ignore: !isWritten,
  async fn() {
    const rows = rowsOf(await readText(PATH), /^R-\d/);
    const numbers = rows.map(([number = ""]) => number);
    assertEquals(numbers, [...new Set(numbers)].sort());
    assertEquals(numbers.filter((number) => !/^R-\d{3}$/.test(number)), []);
    assertEquals(rows.filter((row) => row.length !== 4 || row.some((cell) => cell === "")), []);
  },
});

Deno.test({
  name: "every rule of a requirement is a decision that exists or a link that resolves",
  ignore: !isWritten,
  async fn() {
    const decisions = await readText("docs/decisions.md");
    const faults: (string | null)[] = [];
    for (const [number = "", , rule = ""] of rowsOf(await readText(PATH), /^R-\d/)) {
      const cited = [...rule.matchAll(/\bD-\d{2,3}\b/g)].map(([id]) => id);
      const links = linksOf(rule);
      if (cited.length + links.length === 0) faults.push(`${number} names no rule`);
      for (const id of cited) if (!new RegExp(`^### ${id} `, "m").test(decisions)) faults.push(`${number}: ${id}`);
      for (const link of links) faults.push(await brokenLink(PATH, link));
    }
    assertEquals(faults.filter((one) => one !== null), []);
  },
});

Deno.test({
  name: "every test of a requirement exists",
  ignore: !isWritten,
  async fn() {
    const faults: string[] = [];
    for (const [number = "", , , test = ""] of rowsOf(await readText(PATH), /^R-\d/)) {
      const paths = [...test.matchAll(/tests\/[\w./-]+\.ts/g)].map(([path]) => path);
      if (paths.length === 0) faults.push(`${number} names no test`);
      for (const path of paths) if (!await exists(path)) faults.push(`${number}: ${path}`);
    }
    assertEquals(faults, []);
  },
});
