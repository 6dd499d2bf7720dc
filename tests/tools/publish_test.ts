/**
 * Checks that the protocol package can be published: explicit types (D-236) and exports of every file of `api/`. The task
 * `doclint` checks its texts (D-207).
 */
import { assert, assertEquals } from "@std/assert";
import * as protocol from "../../shared/protocol/mod.ts";

const PACKAGE = new URL("../../shared/protocol/", import.meta.url);

Deno.test("shared/protocol passes a dry run of deno publish without slow types", async () => {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["publish", "--dry-run", "--allow-dirty"],
    cwd: decodeURIComponent(PACKAGE.pathname),
    env: { NO_COLOR: "1" },
    stdout: "null",
    stderr: "piped",
  }).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr).slice(-4_000));
});

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
