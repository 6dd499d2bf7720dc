/** Checks that links and paths in the documents resolve. */
import { assertEquals } from "@std/assert";
import { anchorsOf, brokenLink, exists, filesOf, linksOf, markdownFiles, readText } from "./markdown.ts";

Deno.test("every relative link and anchor of every document resolves", async () => {
  const broken: (string | null)[] = [];
  for (const file of await markdownFiles()) {
    for (const link of linksOf(await readText(file))) broken.push(await brokenLink(file, link));
  }
  assertEquals(broken.filter((one) => one !== null), []);
});

Deno.test("every path that ARCHITECTURE.md and docs/departures.md name exists", async () => {
  const missing: string[] = [];
  for (const file of ["ARCHITECTURE.md", "docs/departures.md"]) {
    for (
      const [, path = ""] of (await readText(file)).matchAll(/`((?:shared|registry|proxy|cli|tests|docs)\/[\w./-]*)`/g)
    ) {
      if (!await exists(path)) missing.push(`${file}: ${path}`);
    }
  }
  assertEquals(missing, []);
});

Deno.test("operations.md names every log event of level error", async () => {
  const section = (await readText("docs/operations.md")).split("\n- Of level `error` are also ")[1]?.split("\n- ")[0] ??
    "";
  const named = [...section.matchAll(/`(\w+)`/g)].map(([, event]) => event);
  const folders = await Promise.all(["shared/", "registry/", "proxy/"].map((folder) => filesOf(/\.ts$/, folder)));
  const logged = new Set<string>();
  for (const file of ["deploy.ts", ...folders.flat()]) {
    const calls = (await readText(file)).matchAll(/\blog\((?:[^,;]+ : )?"error",\s*"(\w+)"/g);
    for (const [, event = ""] of calls) logged.add(event);
  }
  assertEquals(named.toSorted(), [...logged].toSorted());
});

Deno.test("anchors are made from headings as the forge makes them", () => {
  const text = "# A `code` & more\n\n```sh\n# no heading\n```\n## Twice\n## Twice\n### D-42 Sessions, refresh\n";
  assertEquals([...anchorsOf(text)], ["a-code--more", "twice", "twice-1", "d-42-sessions-refresh"]);
});
