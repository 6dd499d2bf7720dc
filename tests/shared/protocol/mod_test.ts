/**
 * Shows that mod.ts is the complete protocol: it exports every value that a file next to it exports. Also that each of
 * those files has a test of its name.
 */
import { assert, assertEquals } from "@std/assert";
import * as mod from "../../../shared/protocol/mod.ts";
import { steps } from "../../support/steps.ts";

const FOLDER = new URL("../../../shared/protocol/", import.meta.url);
const files = ["", "signed/"].flatMap((folder) =>
  [...Deno.readDirSync(new URL(folder, FOLDER))].map(({ name }) => folder + name)
).filter((name) => name.endsWith(".ts") && name !== "mod.ts").sort();

Deno.test("the module exports every value of the files next to it", async (t) => {
  assert(files.length >= 19);
  const exported = new Map<string, unknown>(Object.entries(mod));
  await steps(t, files, async (file) => {
    const own: Record<string, unknown> = await import(new URL(file, FOLDER).href);
    for (const [name, value] of Object.entries(own)) assert(exported.get(name) === value, name);
  });
});

Deno.test("every file of the protocol has its test", () => {
  const tests = new Set([...Deno.readDirSync(new URL(".", import.meta.url))].map(({ name }) => name));
  assertEquals(files.filter((file) => !tests.has(file.replace("signed/", "").replace(".ts", "_test.ts"))), []);
});
