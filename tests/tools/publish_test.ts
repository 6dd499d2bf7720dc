/** Checks that the protocol package exports every file of `api/`. */
import { assert, assertEquals } from "@std/assert";
import * as protocol from "../../shared/protocol/mod.ts";

const PACKAGE = new URL("../../shared/protocol/", import.meta.url);

Deno.test("mod.ts exports each file of api/ as a namespace, except the field rules", async () => {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(new URL("api/", PACKAGE))) {
    const camelCase = name.replace(".ts", "").replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    if (name !== "fields.ts") names.push(`${camelCase}Api`);
  }
  assertEquals(Object.keys(protocol).filter((name) => name.endsWith("Api")), names.sort());
  const { agentsApi } = protocol;
  assert(!agentsApi.RegisterBody.safeParse({}).success);
});
