/**
 * The story of the README with its exact lines, as two people type them in terminals of 80 columns: a link that
 * pairs, a question and its answer by keys, and the second day, on which everything is there. Needs tmux. Runs with the one file of the npm package and, in the long
 * run, with the compiled binary.
 */
import { assert, assertEquals } from "@std/assert";
import { shellQuote } from "../../cli/connector/local_api/pairing_hint.ts";
import { type Program, programs } from "../cli/program.ts";
import { BOOTSTRAP_SECRET, eventually, ROOT, startServer, tempFolder } from "../support/process.ts";
import { HAS_TMUX, TmuxTerminal } from "../support/tmux_terminal.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const STORY = README.slice(
  README.indexOf("## Two agents in five minutes"),
  README.indexOf("## Use it from your coding agent"),
);
/** The command lines of the story, without the first one, which starts the server. */
const LINES = [...STORY.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = ""]) => block.trim().split("\n")).slice(
  1,
);
const COLUMNS = 80;
const QUESTION = "Which port does the staging server use?";
/** Address at which a runtime without a chosen one would listen. */
const RUNTIME_PORT = 18_789;

/** A shell with `svc` as the README defines it, for this program and folder. */
class Person {
  constructor(readonly program: Program, readonly dir: string, readonly registryUrl: string) {}

  async shell(): Promise<TmuxTerminal> {
    const { program, dir, registryUrl } = this;
    const words = [program.command, ...program.args].map(shellQuote).join(" ");
    const terminal = await TmuxTerminal.run(COLUMNS, "bash --norc --noprofile -i");
    const variables = `NO_COLOR=1 LANG=C.UTF-8 SVC_CONFIG_DIR=${shellQuote(dir)} SVC_REGISTRY_URL=${registryUrl}`;
    await type(terminal, `PS1='ready '; svc() { ${variables} ${words} "$@"; }; clear`);
    await shown(terminal, /^ready/);
    return terminal;
  }
}

async function type(terminal: TmuxTerminal, line: string): Promise<void> {
  await terminal.paste(line);
  await terminal.press("Enter");
}

/** Waits for a line of the screen. */
async function shown(terminal: TmuxTerminal, pattern: RegExp): Promise<string> {
  return await eventually(
    60_000,
    `the terminal shows ${pattern}`,
    async () => (await terminal.lines()).find((line) => pattern.test(line)),
  );
}

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
      await using server = await startServer({
        folder: folder.path,
        env: { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000" },
      });
      const ada = new Person(program, `${folder.path}/ada`, server.address);
      const bob = new Person(program, `${folder.path}/bob`, server.address);
      const story = typed();
      /** Types the next line of the README, which begins with these words. */
      const next = async (terminal: TmuxTerminal, start: string, values: Record<string, string> = {}) => {
        const line = story.next({}).value;
        assert(line.startsWith(start), `The README has "${line}" where the story has "${start}"`);
        await type(terminal, String(story.next(values).value));
      };
      await using adas = await ada.shell();
      await using bobs = await bob.shell();

      await t.step("i makes a link that gives Bob an account and an agent, paired with Ada's", async () => {
        await next(adas, "svc admin bootstrap", { "printed by task dev": BOOTSTRAP_SECRET });
        await shown(adas, /Ada is the admin of/);
        await next(adas, "svc connector start");
        await shown(adas, / · online$/);
        await adas.press("i");
        const link = await eventually(60_000, "the link is shown", async () => {
          const text = (await adas.lines()).map((line) => line.trim()).join("");
          return /'(https?:[^']*#svc_inv_[^']*)'/.exec(text)?.[1];
        });
        await next(bobs, "svc join", { link });
        await shown(bobs, /Paired with alpha of Ada\./);
        await shown(adas, /Paired with beta of Bob\./);
        await shown(bobs, / · online$/);
      });

      /** Ada asks with the keys of the story. */
      const ask = async () => {
        await adas.press("s");
        await shown(adas, /^to beta›/);
        assert(STORY.includes(`\`${QUESTION}\``));
        await adas.paste(QUESTION);
        await afterPaste();
        await adas.press("Enter");
      };

      await t.step("s asks, r answers, and each reads the other", async () => {
        await ask();
        await shown(bobs, /^\d\d:\d\d {2}alpha of Ada asks +1$/);
        await shown(bobs, /^ {5}│ Which port does the staging server use\?$/);
        await bobs.press("r");
        await shown(bobs, /^to alpha›/);
        await bobs.paste("8443");
        await afterPaste();
        await bobs.press("Enter");
        await shown(adas, /^\d\d:\d\d {2}beta (?:of .* )?replies +1$/);
        await shown(adas, /^ {5}│ 8443$/);
        await shown(bobs, /^beta · online$/);
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
          await bobs.press("q");
          await ready(bobs);
          await ask();
          await shown(adas, /waits at the server: beta is offline/);
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
          await adas.press("q");
          await ready(adas);
          await type(adas, "svc connector start");
          await next(bobs, "svc connector start");
          await shown(bobs, /^beta · online · 60 unread/);
          await shown(bobs, /^\d\d:\d\d {2}alpha (?:of .* )?asks +2$/);
          await shown(adas, / · online/);
          for (const terminal of [adas, bobs]) {
            await terminal.press("q");
            await ready(terminal);
          }
          await type(bobs, "clear; svc connector start");
          await shown(bobs, /^\d\d:\d\d {2}alpha (?:of .* )?asks +61$/);
          await shown(bobs, /^beta · online · 60 unread/);
          await bobs.press("q");
          await ready(bobs);
          await type(bobs, "svc inbox --limit 100 | grep -c '^    '");
          await shown(bobs, /^60$/);
          await type(adas, "svc sent --limit 100 | grep -c ' beta '");
          await shown(adas, /^61$/);
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

/** Time after a paste in which keys are dropped. A longer wait does no harm. */
const afterPaste = () => new Promise((resolve) => setTimeout(resolve, 600));

/** Waits until the shell of a terminal reads what is typed: a connector that is stopping still reads it. */
async function ready(terminal: TmuxTerminal): Promise<void> {
  await eventually(
    60_000,
    "the shell is ready",
    async () => /^ready\s*$/.test((await terminal.lines()).at(-1) ?? "") || undefined,
  );
}

function isFree(port: number): boolean {
  try {
    Deno.listen({ port, hostname: "127.0.0.1" }).close();
    return true;
  } catch {
    return false;
  }
}
