import { assert, assertEquals } from "@std/assert";
import { memoryFolder } from "./memory_folder.ts";

Deno.test("a folder in memory is made only where there is a place for it, and is empty", async () => {
  const place = await Deno.makeTempDir();
  try {
    const folder = await memoryFolder("tests_", place);
    assert(folder !== null && folder.startsWith(`${place}/tests_`), "the disk of the tests has no room");
    assertEquals([...Deno.readDirSync(folder)], []);
    assertEquals(await memoryFolder("tests_", `${place}/missing`), null);
  } finally {
    await Deno.remove(place, { recursive: true });
  }
});
