/**
 * Checks that the code names of docs/glossary.md exist (D-191), and that no product file exports an ambiguous word.
 */
import { assertEquals } from "@std/assert";
import { exists, filesOf, readText, rowsOf } from "./markdown.ts";

const PATH = "docs/glossary.md";
const AMBIGUOUS = ["Session", "Verdict", "Fate", "Outcome", "Waiting", "Connection", "Check", "Probe", "Profile"];

async function product(): Promise<string[]> {
  const files: string[] = [];
  for (const folder of ["shared/", "registry/", "proxy/", "cli/"]) files.push(...await filesOf(/\.ts$/, folder));
  return files.filter((path) => !path.startsWith("shared/jsr/"));
}

Deno.test({
  name: "every code name of the glossary exists",
  ignore: !await exists(PATH),
  async fn() {
    const text = (await Promise.all((await product()).map(readText))).join("\n");
    const missing: string[] = [];
    for (const [term = "", , code = ""] of rowsOf(await readText(PATH), /^(?!-|Term)/)) {
      for (const [, name = ""] of code.matchAll(/`([^`]+)`/g)) {
        const isThere = /^[\w]+\/[\w/]+$/.test(name)
          ? await exists(name) || await exists(`${name}.ts`)
          : name === "D-nn" || name.split(".").every((part) => new RegExp(`(?<!\\w)${RegExp.escape(part)}`).test(text));
        if (!isThere) missing.push(`${term}: ${name}`);
      }
    }
    assertEquals(missing, []);
  },
});

Deno.test({
  name: "no product file exports a word that means many things",
  async fn() {
    const found: string[] = [];
    const pattern = new RegExp(
      `^export (?:abstract )?(?:class|interface|type|const|function|enum) (${AMBIGUOUS.join("|")})\\b`,
      "gm",
    );
    for (const path of await product()) {
      for (const [, name] of (await readText(path)).matchAll(pattern)) found.push(`${path}: ${name}`);
    }
    assertEquals(found, []);
  },
});
