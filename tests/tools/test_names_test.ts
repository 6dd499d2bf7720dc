/** Checks that test names have no identifiers and at most 100 characters, and are unique in a file (D-205). */
import { assertEquals } from "@std/assert";
import { filesOf, readText } from "./markdown.ts";
import { nameFaults, testNames } from "./test_names.ts";

/** Folders and files whose names are clean. The list only grows; at the end it is `tests/`. */
const CHECKED: readonly string[] = ["tests/tools/"];

Deno.test("every test name of the checked paths is clean", async () => {
  const faults: string[] = [];
  let unchecked = 0;
  for (const path of await filesOf(/_(?:test|suite)\.ts$/, "tests/")) {
    const found = nameFaults(await readText(path)).map((fault) => `${path}:${fault}`);
    if (CHECKED.some((prefix) => path.startsWith(prefix))) faults.push(...found);
    else unchecked += found.length;
  }
  if (unchecked > 0) console.log(`${unchecked} faults in names of paths that are not checked yet`);
  assertEquals(faults, []);
});

Deno.test("test names are found in every form of a test", () => {
  const call = `Deno${"."}test`;
  const text =
    `${call}("one", f);\n${call}(\n  "two",\n);\n${call}({\n  name: "three",\n});\n${call}(\`four \${x}\`, f);`;
  assertEquals(testNames(text).map(({ name }) => name), ["one", "two", "three", "four ${x}"]);
});

Deno.test("identifiers, long names and names that are there twice are faults", () => {
  const call = `Deno${"."}test`;
  const faults = (...names: string[]) => nameFaults(names.map((name) => `${call}("${name}", f);`).join("\n")).length;
  assertEquals(faults(`G${15}: a walk`), 1);
  assertEquals(faults(`a walk (D${"-"}42)`), 1);
  assertEquals(faults("x".repeat(101)), 1);
  assertEquals(faults("a", "a"), 1);
  assertEquals(faults("the proxy answers 202 when SHA-256 and Ed25519 fit", "x".repeat(100)), 0);
});
