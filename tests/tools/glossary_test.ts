/** Checks that no product file exports a word that means many things, because a reader could not tell which. */
import { assertEquals } from "@std/assert";
import { filesOf, readText } from "./markdown.ts";

const AMBIGUOUS = ["Session", "Verdict", "Fate", "Outcome", "Waiting", "Connection", "Check", "Probe", "Profile"];

async function product(): Promise<string[]> {
  const files: string[] = [];
  for (const folder of ["shared/", "registry/", "proxy/", "cli/"]) files.push(...await filesOf(/\.ts$/, folder));
  return files.filter((path) => !path.startsWith("shared/jsr/"));
}

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
