/**
 * Shows that the vector files can be read without this project: each has `valid` and `invalid` cases, each invalid one says
 * why it must be refused, and the README of the folder names every file.
 */
import { assert, assertEquals } from "@std/assert";
import { steps } from "../../support/steps.ts";

const FOLDER = new URL("../../vectors/", import.meta.url);
const names = [...Deno.readDirSync(FOLDER)].map(({ name }) => name).filter((name) => name.endsWith(".json")).sort();

Deno.test("every vector file has valid cases, and invalid ones with a reason", async (t) => {
  await steps(t, names, (name) => {
    const { valid, invalid = [] } = JSON.parse(Deno.readTextFileSync(new URL(name, FOLDER)));
    assert(valid.length > 0);
    // An identity block is only written, so there is none to refuse.
    assertEquals(invalid.length > 0, name !== "identity-block.json");
    for (const { reason } of invalid) assert(typeof reason === "string" && reason.length > 0);
  });
});

Deno.test("the README of the vectors names every file once", () => {
  const readme = Deno.readTextFileSync(new URL("README.md", FOLDER));
  assertEquals([...readme.matchAll(/^\| \[([a-z-]+\.json)\]/gm)].map(([, name]) => name).sort(), names);
});
