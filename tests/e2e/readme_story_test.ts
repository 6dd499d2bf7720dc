/**
 * The story of the README with its exact lines, as two people type them: four terminals, a pairing by keys and a paste, a
 * question that waits for its answer, and no `curl`. Needs tmux. Runs with the one file of the npm package and, in the long
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
/** Wide enough for a ticket on one line. */
const COLUMNS = 400;

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
      await using server = await startServer({ folder: folder.path });
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
      await using adasSecond = await ada.shell();
      await using bobsSecond = await bob.shell();

      await t.step("two people get an account and an agent", async () => {
        await next(adas, "svc admin bootstrap", { "the one that task dev printed": BOOTSTRAP_SECRET });
        await shown(adas, /is the admin of/);
        await next(adas, "svc invite create");
        const [code = ""] = /svc_inv_\S+/.exec(await shown(adas, /^ +code +svc_inv_/)) ?? [];
        await next(adas, "svc agent create alpha");
        await shown(adas, /The agent alpha is ready/);
        await next(adas, "svc connector start alpha --inbox");
        await next(bobs, "svc invite redeem", { code });
        await shown(bobs, /Bob has an account/);
        await next(bobs, "svc agent create beta");
        await shown(bobs, /The agent beta is ready/);
        await next(bobs, "svc connector start beta --inbox");
        for (const terminal of [adas, bobs]) await shown(terminal, / · online$/);
      });

      await t.step("p, a paste and y pair their agents", async () => {
        await adas.press("p");
        const ticket = (await shown(adas, /^svcpair1_/)).trim();
        await bobs.paste(ticket);
        await shown(bobs, /\[y\/N\]/);
        // Keys within 500 ms after a paste are dropped. A longer wait does no harm.
        await new Promise((resolve) => setTimeout(resolve, 600));
        await bobs.press("y");
        await shown(bobs, /Paired with alpha of /);
      });

      await t.step("the command that asks prints the answer", async () => {
        await next(adasSecond, "svc send beta --wait ");
        await shown(bobs, /alpha (?:of .* )?asks +1$/);
        await shown(bobs, /^ {5}│ Which port does the staging server use\?$/);
        await next(bobsSecond, "svc reply 1 ");
        await shown(adasSecond, /^8443$/);
      });

      await t.step("the question is read, and q ends both connectors", async () => {
        assert(STORY.includes("`svc sent`"));
        await type(adasSecond, "svc sent");
        await shown(adasSecond, /beta +read/);
        for (const terminal of [adas, bobs]) await terminal.press("q");
        for (const [terminal, n] of [[adas, 1], [bobs, 2]] as const) {
          // A connector that is stopping still reads what is typed.
          await eventually(
            60_000,
            "the shell is ready",
            async () => /^ready\s*$/.test((await terminal.lines()).at(-1) ?? "") || undefined,
          );
          await type(terminal, `echo $((40 + ${n}))`);
          await shown(terminal, new RegExp(`^${40 + n}$`));
        }
      });

      await t.step("each line of the story was typed, at most 12 and the definitions of svc", () => {
        assert(story.next({}).done);
        assert(LINES.filter((line) => !line.startsWith("svc() {")).length + 1 <= 12);
        assertEquals(STORY.includes("curl"), false);
      });
    },
  });
}
