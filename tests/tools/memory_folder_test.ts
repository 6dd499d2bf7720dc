import { assert, assertEquals } from "@std/assert";
import { tempFolder } from "../support/temp_folder.ts";
import { memoryFolder } from "./memory_folder.ts";

Deno.test("a folder in memory is made only where there is a place for it, and is empty", async () => {
  await using temp = await tempFolder();
  const place = temp.path;
  const folder = await memoryFolder("tests_", place);
  assert(folder !== null && folder.startsWith(`${place}/tests_`), "the disk of the tests has no room");
  assertEquals([...Deno.readDirSync(folder)], []);
  assertEquals(await memoryFolder("tests_", `${place}/missing`), null);
});
