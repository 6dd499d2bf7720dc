/** The README's lines for two servers, typed at two loopback addresses; tests/soak has them on two machines, with TLS. */
import { assert, assertStringIncludes } from "@std/assert";
import { freePort, ROOT, tempFolder } from "../support/process.ts";
import { IS_LONG, longTest } from "../support/trials.ts";
import { svcHere } from "../cli/connector/people.ts";
import { Person } from "./machine_person.ts";
import type { Team } from "./server_team.ts";
import { twoServers } from "./two_servers.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const SECTION = README.slice(README.indexOf("## Two servers"), README.indexOf("## How a message is delivered"));

/** A person at this machine, whose commands and requests that end by themselves need no process. */
class PersonHere extends Person {
  override async svc(...words: string[]): Promise<string> {
    return JSON.stringify(await svcHere(this.folder, words.filter((word) => word !== "--json")));
  }

  override async call(agent: string, path: string, body?: unknown): Promise<Record<string, string>> {
    const { url, token } = JSON.parse(Deno.readTextFileSync(`${this.folder}/agents/${agent}/connector.json`));
    const headers = { Authorization: `Bearer ${token}` };
    return await (await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  }
}

Deno.test("the section of the README has at most ten lines of text, and its command is the one that is typed", () => {
  assert(SECTION.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")).length <= 10);
  assertStringIncludes(SECTION, 'svc send beta@b.example --wait "Which port does the staging server use?"');
});

longTest("two servers of one machine: a ticket, questions and answers in both directions, and what waits", async () => {
  await using folder = await tempFolder();
  const here = (address: string) => ({ address, program: <P>(program: P) => program });
  const team = (name: string, agent: string, address: string): Team => {
    const port = String(freePort());
    return {
      person: new PersonHere(here(address), `${folder.path}/${name}`),
      agent,
      alias: `${agent}@${address}`,
      serve: ["serve", "--host", address, "--port", port, "--public-url", `http://${address}:${port}`],
    };
  };
  await twoServers(team("ada", "alpha", "127.0.0.1"), team("bob", "beta", "127.0.0.2"), IS_LONG);
});
