/** The packages of the libraries, without npm; the long run installs them. */
import { assertEquals } from "@std/assert";
import { tempFolder } from "../support/temp_folder.ts";
import { declaration, PUBLIC_FILES, writeClientPackage } from "./pack_client.ts";

Deno.test("task pack finds all that the client library imports", async () => {
  await using folder = await tempFolder();
  await writeClientPackage(folder.path);
  const { LocalAgent } = await import(`file://${folder.path}/client.js`);
  assertEquals(typeof LocalAgent.open, "function");
  const declared = [...Deno.readDirSync(`${folder.path}/types`)].map(({ name }) => name);
  assertEquals(declared.sort(), PUBLIC_FILES.map((name) => `${name}.d.ts`).sort());
});

Deno.test("the declarations of the packages have no type that TypeScript before 5.7 does not know", () => {
  assertEquals(
    declaration("export type Bytes = Uint8Array<ArrayBuffer>;\n").split("\n")[1],
    "export type Bytes = (Uint8Array & { buffer: ArrayBuffer });",
  );
});
