/** The README's lines for two servers, typed at two loopback addresses; tests/soak has them on two machines, with TLS. */
import { assert, assertStringIncludes } from "@std/assert";
import { freePort, ROOT, tempFolder } from "../support/process.ts";
import { IS_LONG } from "../support/trials.ts";
import { Person } from "./machine_person.ts";
import type { Team } from "./server_team.ts";
import { twoServers } from "./two_servers.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const SECTION = README.slice(README.indexOf("## Two servers"), README.indexOf("## How a message is delivered"));

Deno.test("the section of the README has at most ten lines of text, and its command is the one that is typed", () => {
  assert(SECTION.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")).length <= 10);
  assertStringIncludes(SECTION, 'svc send beta@b.example --wait "Which port does the staging server use?"');
});

Deno.test("two servers of one machine: a ticket, questions and answers in both directions, and what waits", async () => {
  await using folder = await tempFolder();
  const here = (address: string) => ({ address, program: <P>(program: P) => program });
  const team = (name: string, agent: string, address: string): Team => {
    const port = String(freePort());
    return {
      person: new Person(here(address), `${folder.path}/${name}`),
      agent,
      alias: `${agent}@${address}`,
      serve: ["serve", "--host", address, "--port", port, "--public-url", `http://${address}:${port}`],
    };
  };
  await twoServers(team("ada", "alpha", "127.0.0.1"), team("bob", "beta", "127.0.0.2"), IS_LONG);
});
