/** Files of hosts: other users, and a file that another program changes at the same moment. */
import { assertEquals, assertRejects } from "@std/assert";
import { CliError } from "../../../cli/errors.ts";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { readHostFile } from "../../../cli/hosts/host_file.ts";
import { replaceUnchanged } from "../../../cli/files/private_files.ts";
import type { Context } from "../../../cli/context.ts";
import { Machine } from "../cli_world.ts";
import { contextOf } from "../connector/context.ts";

async function withFile(run: (ctx: Context, path: string) => Promise<void>): Promise<void> {
  await using machine = await Machine.open();
  const folder = machine.path("host");
  await Deno.mkdir(folder, { mode: 0o755 });
  await Deno.writeTextFile(`${folder}/mcp.json`, "{}");
  await run(contextOf(machine.world, machine), `${folder}/mcp.json`);
}

const placeOf = (path: string) => ({ path, hostName: "Host", project: null });

async function codeOf(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, CliError)).code;
}

Deno.test("files and folders of another user are refused", async () => {
  await withFile(async (ctx, path) => {
    const other = { ...ctx, uid: (ctx.uid ?? 0) + 4_711 };
    assertEquals(await codeOf(readHostFile(other, placeOf(path))), "CLI_FILE_UNSAFE");
    assertEquals((await readHostFile(ctx, placeOf(path))).text, "{}");
  });
});

Deno.test("a TOML file has a smaller bound, because its parser keeps every value", async () => {
  await withFile(async (ctx, json) => {
    const path = json.replace("mcp.json", "config.toml");
    const place = placeOf(path);
    await Deno.writeTextFile(path, "#".repeat(CONNECTOR_LIMITS.hostTomlBytes));
    assertEquals((await readHostFile(ctx, place)).text?.length, CONNECTOR_LIMITS.hostTomlBytes);
    await Deno.writeTextFile(path, "#", { append: true });
    const { message } = await assertRejects(() => readHostFile(ctx, place), CliError);
    assertEquals(message, `${path} is over 0.25 MiB`);
  });
});

Deno.test("a folder that its group can write to is accepted when the group has the number of the user", async () => {
  await withFile(async (ctx, path) => {
    const folder = path.replace("/mcp.json", "");
    await Deno.chmod(folder, 0o775);
    const { gid } = await Deno.stat(folder);
    const found = await readHostFile(ctx, placeOf(path)).then(() => "accepted", ({ code }: CliError) => code);
    assertEquals(found, gid === ctx.uid ? "accepted" : "CLI_FILE_UNSAFE");
  });
});

Deno.test("a file that has changed since it was read is not replaced, and nothing is left beside it", async (t) => {
  const changes: [name: string, change: (path: string) => Promise<void>][] = [
    ["another text", (path) => Deno.writeTextFile(path, '{"a":1}')],
    ["removed", (path) => Deno.remove(path)],
  ];
  for (const [name, change] of changes) {
    for (const text of ["{ }", null]) {
      await t.step(`${name}, ${text === null ? "to remove" : "to replace"}`, async () => {
        await withFile(async (ctx, path) => {
          const file = await readHostFile(ctx, placeOf(path));
          await change(path);
          const before = await Deno.readTextFile(path).catch(() => null);
          assertEquals(await replaceUnchanged(ctx, file, text, 0o600), false);
          assertEquals(await Deno.readTextFile(path).catch(() => null), before);
          const folder = path.replace("/mcp.json", "");
          assertEquals([...Deno.readDirSync(folder)].map((entry) => entry.name), before === null ? [] : ["mcp.json"]);
        });
      });
    }
  }
});

Deno.test("a file that was created since it was missing is not replaced", async () => {
  await withFile(async (ctx, path) => {
    await Deno.remove(path);
    const file = await readHostFile(ctx, placeOf(path));
    for (const text of [[0x7b, 0x7d], [0xff]]) {
      await Deno.writeFile(path, new Uint8Array(text));
      assertEquals(await replaceUnchanged(ctx, file, "{ }", 0o600), false);
      assertEquals([...await Deno.readFile(path)], text);
    }
  });
});
