/** The commands of docs/operations.md for people and agents, each run as it stands with its placeholders filled in. */
import { assert, assertEquals } from "@std/assert";
import { Machine } from "../cli_world.ts";

const PAGE = await Deno.readTextFile(new URL("../../../docs/operations.md", import.meta.url));

Deno.test("each command of operations.md for people and agents does what it says", async () => {
  const section = PAGE.split("\n## People and agents\n")[1]?.split("\n## ")[0] ?? "";
  const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = ""]) => block);
  const lines = blocks.flatMap((block) => block.trim().split("\n"));
  assert(lines.length >= 10, section);
  await using admin = await Machine.ofAdmin();
  const { a, b } = await admin.world.story();
  const more = await admin.world.agent(await admin.world.person("Eve"), "crawler");
  const requestId = "request-1";
  assertEquals((await admin.world.message(a, b, { headers: { "x-request-id": requestId } })).status, 202);
  const values: Record<string, string> = { person: "Eve", agent: `crawler@Eve`, prefix: "craw", requestId };
  const wordsOf = (line: string) =>
    [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word = ""]) =>
      quoted ?? word.replace(/<(\w+)>/g, (_, name) => values[name] ?? "")
    );
  for (const line of lines) {
    const [command = "", comment = ""] = line.split(/ +# /);
    const [program, ...words] = wordsOf(command);
    assertEquals(program, "svc", line);
    const also = [...comment.matchAll(/--[a-z-]+(?: (?!repeats)[<>\w]+)?/g)].map(([option]) => wordsOf(option));
    for (const options of [[], ...also.filter(([option]) => option !== "--watch")]) {
      const yes = /suspend|revoke|end-session/.test(command) ? ["--yes"] : [];
      const { code, stderr } = await admin.svc(...words, ...options, ...yes);
      assertEquals(code, 0, `${line} ${options.join(" ")} ${stderr}`);
    }
  }
  const { agent } = await admin.json("admin", "agents", "show", more.agent.id);
  assertEquals(agent.status, "revoked");
});
