/**
 * The story of the README with its exact lines, as two people type them in terminals of 80 columns: a link that
 * pairs, a question and its answer by keys, and the second day, on which everything is there. Needs tmux. Runs with the one file of the npm package and, in the long
 * run, with the compiled binary.
 */
import { assert, assertEquals } from "@std/assert";
import { programs } from "../cli/program.ts";
import { BOOTSTRAP_SECRET, ROOT, startServerHere, tempFolder } from "../support/process.ts";
import { HAS_TMUX } from "../support/tmux_terminal.ts";
import { Typist } from "../support/typist.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const STORY = README.slice(
  README.indexOf("## Two agents in five minutes"),
  README.indexOf("## Use it from your coding agent"),
);
/** The command lines of the story, without the first one, which starts the server. */
const LINES = [...STORY.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = ""]) => block.trim().split("\n")).slice(
  1,
);
const QUESTION = "Which port does the staging server use?";
/** Address at which a runtime without a chosen one would listen. */
const RUNTIME_PORT = 18_789;

/** The next line of the story, with its placeholders replaced. */
function* typed(): Generator<string, string, Readonly<Record<string, string>>> {
  for (const line of LINES) {
    if (line.startsWith("svc() {")) continue;
    const values = yield line;
    yield Object.entries(values).reduce((text, [name, value]) => text.replace(`<${name}>`, value), line);
  }
  return "";
}

for (const program of await programs()) {
  Deno.test({
    name: `two people ask and answer with the lines of the README (${program.name})`,
    ignore: !HAS_TMUX,
    async fn(t) {
      await using folder = await tempFolder();
      await using server = await startServerHere({
        folder: folder.path,
        env: { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000" },
      });
      const env = { SVC_REGISTRY_URL: server.address };
      const story = typed();
      /** Types the next line of the README, which begins with these words. */
      const next = async (typist: Typist, start: string, values: Record<string, string> = {}) => {
        const line = story.next({}).value;
        assert(line.startsWith(start), `The README has "${line}" where the story has "${start}"`);
        await typist.type(String(story.next(values).value));
      };
      await using adas = await Typist.open(program, { dir: `${folder.path}/ada`, env });
      await using bobs = await Typist.open(program, { dir: `${folder.path}/bob`, env });

      await t.step("i makes a link that gives Bob an account and an agent, paired with Ada's", async () => {
        await next(adas, "svc admin bootstrap", { "printed by task dev": BOOTSTRAP_SECRET });
        await adas.shown(/Ada is the admin of/);
        await next(adas, "svc connector start");
        await adas.shown(/ · online$/);
        await adas.press("i");
        const link = await adas.terminal.seen("the link is shown", (lines) => {
          const text = lines.map((line) => line.trim()).join("");
          return /'(https?:[^']*#svc_inv_[^']*)'/.exec(text)?.[1];
        });
        await next(bobs, "svc join", { link });
        await bobs.shown(/Paired with alpha of Ada\./);
        await adas.shown(/Paired with beta of Bob\./);
        await bobs.shown(/ · online$/);
      });

      /** Ada asks with the keys of the story. */
      const ask = async () => {
        await adas.press("s");
        await adas.shown(/^to beta›/);
        assert(STORY.includes(`\`${QUESTION}\``));
        await adas.send(QUESTION);
      };

      await t.step("s asks, r answers, and each reads the other", async () => {
        await ask();
        await bobs.shown(/^\d\d:\d\d {2}alpha of Ada asks +1$/);
        await bobs.shown(/^ {5}│ Which port does the staging server use\?$/);
        await bobs.press("r");
        await bobs.shown(/^to alpha›/);
        await bobs.send("8443");
        await adas.shown(/^\d\d:\d\d {2}beta (?:of .* )?replies +1$/);
        await adas.shown(/^ {5}│ 8443$/);
        await bobs.shown(/^beta · online$/);
        await bobs.press("l");
        await bobs.shown(/alpha .*end-to-end/);
      });

      await t.step(
        "on the second day sixty questions wait, and a runtime that nothing has chosen gets none",
        async () => {
          let messages = 0;
          const [alpha] = /did:svc:[^"]+:agent:[0-9A-Z]{26}/.exec(
            await Deno.readTextFile(`${folder.path}/ada/agents/alpha/identity.json`),
          ) ?? [];
          assert(alpha);
          // Another program of this machine may have the port; then nothing is counted.
          const serve = () =>
            Deno.serve({ port: RUNTIME_PORT, hostname: "127.0.0.1", onListen: () => {} }, ({ headers }) => {
              // Other programs of this machine may post to the usual port of a runtime, but only this story has this sender.
              if (headers.get("x-svc-agent-did") === alpha) messages++;
              return new Response();
            });
          await using _listener = isFree(RUNTIME_PORT) ? serve() : null;
          await bobs.quit();
          await ask();
          await adas.shown(/waits at the server: beta is offline/);
          const { url, token } = JSON.parse(await Deno.readTextFile(`${folder.path}/ada/agents/alpha/connector.json`));
          for (let n = 2; n <= 60; n++) {
            const body = JSON.stringify({
              to: "beta",
              payload: { message: `${n}` },
              prefer: "respond-async",
              keep: true,
            });
            const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
            const response = await fetch(`${url}/v1/outbound`, { method: "POST", headers, body });
            assertEquals(response.status, 202, await response.text());
          }
          await adas.quit();
          await adas.type("svc connector start");
          await next(bobs, "svc connector start");
          await bobs.shown(/^beta · online · 60 unread/);
          await bobs.shown(/^\d\d:\d\d {2}alpha (?:of .* )?asks +2$/);
          await adas.shown(/ · online/);
          for (const typist of [adas, bobs]) await typist.quit();
          await bobs.type("clear; svc connector start");
          await bobs.shown(/^\d\d:\d\d {2}alpha (?:of .* )?asks +61$/);
          await bobs.shown(/^beta · online · 60 unread/);
          await bobs.quit();
          await bobs.type("svc inbox --limit 100 | grep -c '^    '");
          await bobs.shown(/^60$/);
          await adas.type("svc sent --limit 100 | grep -c ' beta '");
          await adas.shown(/^61$/);
          assertEquals(messages, 0);
        },
      );

      await t.step("each line of the story was typed, at most 10 with the first one", () => {
        assert(story.next({}).done);
        assert(LINES.length + 1 <= 10, `${LINES.length + 1} commands`);
        assertEquals(STORY.includes("curl"), false);
      });
    },
  });
}

function isFree(port: number): boolean {
  try {
    Deno.listen({ port, hostname: "127.0.0.1" }).close();
    return true;
  } catch {
    return false;
  }
}
