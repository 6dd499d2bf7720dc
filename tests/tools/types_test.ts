/** `tests/tools/types.ts` in a project of its own: it accepts right files, and names the line of each wrong one. */
import { assertEquals } from "@std/assert";
import project from "../../deno.json" with { type: "json" };
import { tempFolder } from "../support/temp_folder.ts";

const ROOT = new URL("../../", import.meta.url);
const RIGHT = {
  "main.ts": 'import { basename } from "node:path";\nimport { n } from "./shared/protocol/a.ts";\n' +
    "export const text: string = basename(Deno.cwd()) + n;\n",
  "shared/protocol/a.ts": "export const n: number = 1;\n",
  "texts.d.ts": "declare const text: string;\n",
  "shared/page/page.js": "document.title = location.href;\n",
};

/** What the check prints for a project with these files, line by line, and whether it succeeds. */
async function checked(files: Record<string, string>): Promise<{ success: boolean; lines: string[] }> {
  await using temp = await tempFolder();
  const folder = temp.path;
  for (const path of ["shared/protocol", "shared/page", "tests/tools"]) {
    await Deno.mkdir(`${folder}/${path}`, { recursive: true });
  }
  for (
    const path of [
      ...["deno.lock", "shared/protocol/deno.json", "shared/page/deno_browser.json"],
      ...["tests/tools/types.lock", "tests/tools/types.ts"],
    ]
  ) {
    await Deno.copyFile(new URL(path, ROOT), `${folder}/${path}`);
  }
  const { workspace: _workspace, links: _links, ...config } = project;
  for (const [path, text] of Object.entries({ "deno.json": JSON.stringify(config), ...files })) {
    await Deno.writeTextFile(`${folder}/${path}`, text);
  }
  const args = ["run", "-A", "--quiet", "tests/tools/types.ts"];
  const { success, stdout } = await new Deno.Command(Deno.execPath(), { args, cwd: folder }).output();
  return { success, lines: new TextDecoder().decode(stdout).trim().split("\n") };
}

Deno.test("a project without a type error passes the check of types", async () => {
  assertEquals(await checked(RIGHT), { success: true, lines: ["4 files, no type error"] });
});

Deno.test("a wrong type, import, global, declaration or script fails the check of types with its file and line", async () => {
  const { success, lines } = await checked({
    ...RIGHT,
    "main.ts": `${RIGHT["main.ts"]}export const wrong: string = n;\n`,
    "imports.ts": '\nimport "./missing.ts";\n',
    "shared/protocol/a.ts": `${RIGHT["shared/protocol/a.ts"]}export const folder = Deno.cwd();\n`,
    "texts.d.ts": "\ndeclare const text: Missing;\n",
    "shared/page/page.js": "\n\ndocument.title = 1;\n",
  });
  const places = lines.map((line) => line.split(":").slice(0, 2).join(":"));
  assertEquals([success, [...new Set(places)].toSorted()], [
    false,
    ["imports.ts:2", "main.ts:4", "shared/page/page.js:3", "shared/protocol/a.ts:2", "texts.d.ts:2"],
  ]);
});
