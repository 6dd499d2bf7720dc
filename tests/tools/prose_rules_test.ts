/** Checks what each rule of prose_rules.ts finds and allows, and that exceptions are few and have reasons. */
import { assertEquals } from "@std/assert";
import { checkMarkdown, checkMessage } from "./check_prose.ts";
import plugin from "./lint_plugin.ts";
import { filesOf, readText } from "./markdown.ts";
import { hitsIn, isChecked, MAX_IGNORES, plainComment, PROSE_RULES } from "./prose_rules.ts";

/** Rule, a text that it must find, a text that it must leave. */
const CASES: [rule: string, bad: string, good: string][] = [
  ["whoever", "Whoever asks is refused", "A client that asks is refused"],
  ["nobody", "Nobody reads it", "No caller reads it"],
  ["who-subject", "One agent. Who is connected gets it", "Who is connected to this instance?"],
  ["no-more", "The session exists no more", "The session no longer exists"],
  ["anew", "reads it anew", "reads it again"],
  ["besides", "besides, it is checked", "beside the file"],
  ["what-became", "what became of a message", "the result of a message"],
  ["all-the-same", "it is sent all the same", "all of the same kind"],
  ["to-the-end", "read to its end", "read completely"],
  ["so-many", "so many of each agent", "at most 5 of each agent"],
  ["unless-given", "20 unless given", "(default 20)"],
  ["for-good", "refused for good", "refused permanently"],
  ["bell", "It knocks at an instance", "It wakes an instance"],
  ["metaphor", "The seams of a program", "The dependencies of a program"],
  ["how-it-is", "show how it is doing", "show the status"],
  ["archaic", "lest it fails", "so that it does not fail"],
  ["sees-to", "sees to it that it ends", "ensures that it ends"],
  ["comes-about", "the connection came about", "the connection opened"],
  ["inversion", "It ends. Should it fail, it is repeated", "It ends. If it fails, it is repeated"],
  ["cure", "what helps", "how to fix it"],
  ["shout", "THE limits", "THE END of a text"],
  ["further", "a further API key", "another API key"],
  ["is-well", "All is well", "All checks passed"],
];

Deno.test("each prose rule finds its example and leaves the plain form", () => {
  assertEquals(CASES.map(([rule]) => rule), PROSE_RULES.map(({ name }) => name));
  for (const [rule, bad, good] of CASES) {
    assertEquals(hitsIn(bad).some(({ rule: { name } }) => name === rule), true, `${rule} finds: ${bad}`);
    assertEquals(hitsIn(good).map(({ rule: { name } }) => name), [], good);
  }
});

Deno.test("the lint rule reports comments and strings, but not in data, copies and generated documents", () => {
  const source =
    '/**\n * Read by\n * whoever asks.\n */\nconst a = "is anew here", b = "anew", c = `besides ${a} all`; // nobody\n';
  const reported = (path: string) =>
    Deno.lint.runPlugin({ name: "svc", rules: { prose: plugin.rules.prose } }, path, source).length;
  assertEquals([reported("cli/main.ts"), reported("shared/jsr/hono/mod.ts")], [4, 0]);
  assertEquals(["docs/cli.md", "tests/vectors/ait.json", "README.md"].map(isChecked), [false, false, true]);
});

Deno.test("a comment of many lines is checked as one text", () => {
  assertEquals(plainComment("*\n * Gives it\n * back.\n "), "Gives it back.");
});

Deno.test("Markdown is checked without code, and with exceptions that have a reason", () => {
  const text = "whoever\n\n```\nwhoever\n```\n\n`whoever` is code\n<!-- prose-ok: a quotation -->\nwhoever\n" +
    "<!-- prose-ok: -->\nwhoever\nwhoever\n";
  assertEquals(checkMarkdown(text).map(({ line }) => line), [1, 10, 12]);
});

Deno.test("a commit message is checked for its subject and its words", () => {
  assertEquals(checkMessage("proxy/relay: read notes in batches\n\nD-101\n# whoever\n"), []);
  assertEquals(checkMessage("read notes\n").length, 1);
  assertEquals(checkMessage(`proxy: ${"x".repeat(100)}\n`).length, 1);
  assertEquals(checkMessage("proxy: read notes anew\n").length, 1);
});

Deno.test("exceptions from the prose rules are few, and each has a reason", async () => {
  const all: string[] = [], unexplained: string[] = [];
  for (const path of await filesOf(/\.(?:ts|md)$/)) {
    if (path === "tests/tools/prose_rules_test.ts" || path === "tests/tools/check_prose.ts") continue;
    for (const line of (await readText(path)).split("\n")) {
      if (!/deno-lint-ignore(?:-file)?\b.*\bsvc\/prose\b|^\s*<!-- prose-ok:/.test(line)) continue;
      all.push(path);
      if (!/svc\/prose\b.* -- \S|prose-ok: *\S.*[^\s-].* *-->/.test(line)) unexplained.push(path);
    }
  }
  assertEquals(unexplained, []);
  assertEquals(all.length <= MAX_IGNORES, true, `${all.length} exceptions: ${all.join(", ")}`);
});
