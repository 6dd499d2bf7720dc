/**
 * The keys of `connector start` in a pseudo-terminal: two people pair with a ticket, a paste alone sends nothing, a
 * connector in the background is not stopped, and the terminal is as before after every end. Needs tmux.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { shellWord } from "../../cli/terminal/output.ts";
import { createAgents, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service } from "../support/process.ts";
import { HAS_TMUX, TmuxTerminal } from "../support/tmux_terminal.ts";

const COLUMNS = 80;
const program = await bundledProgram();

/** The command line of an agent's connector, for a shell. */
function start(dir: string, agent: string): string {
  return shellLine(["connector", "start", agent, "--config-dir", dir, "--inbox"]);
}

function shellLine(args: readonly string[]): string {
  return `NO_COLOR=1 LANG=C.UTF-8 ${[program.command, ...program.args, ...args].map(shellWord).join(" ")}`;
}

/** Waits for a file with content. */
async function written(path: string): Promise<string> {
  return await eventually(60_000, `${path} is written`, async () => {
    const text = await Deno.readTextFile(path).catch(() => "");
    return text.endsWith("\n") ? text.trim() : undefined;
  });
}

/** Time after a paste or a refusal in which keys are dropped. A longer wait does no harm. */
const afterPaste = () => new Promise((resolve) => setTimeout(resolve, 600));

Deno.test({
  name: "p here, a paste and y there pair two agents; a paste and another key send nothing",
  ignore: !HAS_TMUX,
  async fn(t) {
    await using service = await Service.here();
    const [here, there] = [`${service.home}/here`, `${service.home}/there`];
    await createAgents(here, service, ["alpha"]);
    await createAgents(there, service, ["beta"]);
    await using alpha = await TmuxTerminal.run(COLUMNS, start(here, "alpha"));
    await using beta = await TmuxTerminal.run(COLUMNS, start(there, "beta"));
    for (const terminal of [alpha, beta]) {
      await terminal.shown(/^s send {2}r reply {2}p pair/);
      await terminal.shown(/ · online$/);
    }

    let ticket = "";
    await t.step("another key than y leaves the ticket unconfirmed", async () => {
      await alpha.press("p");
      ticket = (await alpha.shown(/^svcpair1_/)).trim();
      await beta.paste(ticket);
      assertStringIncludes(await beta.shown(/^Pair with an agent of /), `${new URL(service.url).host}? [y/N]`);
      await afterPaste();
      await beta.press("n");
      await beta.shown(/Not paired\./);
      const file = JSON.parse(await Deno.readTextFile(`${here}/agents/alpha/connector.json`));
      const response = await fetch(`${file.url}/v1/pair/status`, {
        method: "POST",
        headers: { Authorization: `Bearer ${file.token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ ticket }),
      });
      assertEquals((await response.json()).status, "pending");
    });

    await t.step("y pairs, and both sides say with whom", async () => {
      await beta.paste(ticket);
      await beta.shown(/^Pair with an agent of /);
      await afterPaste();
      await beta.press("y");
      await beta.shown(/Paired with alpha of /);
      await alpha.shown(/Paired with beta of /);
      await beta.press("l");
      await beta.shown(/^1 +alpha +.* online/);
    });

    await t.step("a message is shown by the alias of its sender, and r answers it", async () => {
      await alpha.press("s");
      await alpha.shown(/^to beta›/);
      await alpha.paste("a question\nof two lines");
      await alpha.shown(/^to beta› a question⏎of two lines/);
      await afterPaste();
      await alpha.press("Enter");
      await alpha.shown(/^\d\d:\d\d {2}You to beta +1$/);
      await beta.shown(/^\d\d:\d\d {2}alpha (?:of .* )?asks +1$/);
      await beta.shown(/^ {5}│ of two lines$/);
      await beta.shown(/^beta · online · 1 unread \(space: all read\)/);
      await beta.press("r");
      await beta.shown(/^to alpha›/);
      await beta.write("to alpha›", "no");
      await beta.press("Enter");
      await alpha.shown(/^\d\d:\d\d {2}beta (?:of .* )?replies +1$/);
      await beta.shown(/^beta · online$/);
    });

    await t.step("Ctrl-C and Esc discard a line first", async () => {
      for (const key of ["C-c", "Escape"]) {
        await beta.press("s");
        await beta.shown(/^to alpha›/);
        await beta.press("x");
        await beta.shown(/^to alpha› x/);
        await beta.press(key);
        await beta.shown(/^beta · online$/);
      }
    });

    await t.step("another terminal has the same view and keys, and leaves the connector as it is", async () => {
      const talk = "inbox --follow --agent alpha";
      await assertRejects(() => svc(here, ["connector", "start", "alpha"], {}, program), Error, talk);
      const args = ["inbox", "--follow", "--agent", "alpha", "--config-dir", here];
      await using other = await TmuxTerminal.run(40, shellLine(args));
      await other.shown(/^alpha · online/);
      await other.press("s");
      await other.shown(/^to beta›/);
      await other.write("to beta›", "hi");
      await other.press("Enter");
      await other.shown(/^\d\d:\d\d {2}You to beta +\d+$/);
      await beta.shown(/^ {5}│ hi$/);
      await other.press("p");
      await other.shown(/^svcpair1_/);
      await service.stopHere();
      await other.shown(/^\d\d:\d\d {2}The link is lost\. Messages wait\.$/);
      await service.restartHere();
      await other.shown(/^\d\d:\d\d {2}Online again after \d+ s\.$/);
      await beta.press("Space");
      await beta.shown(/^beta · online$/);
      await beta.press("l");
      await beta.shown(/^1 +alpha .*[^–]$/);
      await beta.press("1");
      await beta.press("x");
      await beta.shown(/^End the pair with alpha of .*\[y\/N\]/);
      await beta.press("y");
      await beta.shown(/^\d\d:\d\d {2}The pair with alpha of .* has ended\.$/);
      await alpha.press("l");
      for (const terminal of [alpha, other]) await terminal.shown(/^\d\d:\d\d {2}The pair with beta of /);
      await alpha.shown(/^\d\d:\d\d {2}No peers: all pairs have ended\./);
      await alpha.press("r");
      await alpha.shown(/^\d\d:\d\d {2}The pair with beta has ended\. To pair: p/);
      await afterPaste();
      await other.press("q");
      await alpha.shown(/^alpha · online/);
    });

    await t.step("q ends both", async () => {
      for (const terminal of [alpha, beta]) await terminal.press("q");
      for (const [dir, agent] of [[here, "alpha"], [there, "beta"]]) {
        await eventually(
          60_000,
          `${agent} has ended`,
          async () => await Deno.stat(`${dir}/agents/${agent}/connector.json`).then(() => undefined, () => true),
        );
      }
    });
  },
});

Deno.test({
  name: "a connector in the background of a shell is not stopped and reads no keys",
  ignore: !HAS_TMUX,
  async fn() {
    await using service = await Service.here();
    await createAgents(service.home, service, ["alpha"]);
    await using shell = await TmuxTerminal.run(COLUMNS, "bash --norc --noprofile -i");
    await shell.press(`${start(service.home, "alpha")} &`, "Enter");
    await shell.shown(/alpha · online$/);
    // The shell reads the key.
    await shell.press("echo $((20 + 2))q", "Enter");
    await shell.shown(/^22q/);
    assertEquals((await svc(service.home, ["connector", "status"], {}, program)).connection.state, "connected");
    await shell.press("jobs", "Enter");
    await shell.shown(/^\[1\]\S* +Running/);
    await shell.press("kill %1; wait", "Enter");
    await shell.shown(/^\[1\]\S* +Done/);
  },
});

Deno.test({
  name: "the terminal is as before after q, SIGTERM, Ctrl-C and Ctrl-\\",
  ignore: !HAS_TMUX,
  async fn(t) {
    await using service = await Service.here();
    const dir = service.home;
    await createAgents(dir, service, ["alpha"]);
    const ends: Record<string, (terminal: TmuxTerminal) => Promise<void>> = {
      q: (terminal) => terminal.press("q"),
      SIGTERM: async () => {
        const { pid } = JSON.parse(await Deno.readTextFile(`${dir}/agents/alpha/connector.json`));
        Deno.kill(pid, "SIGTERM");
      },
      "Ctrl-C": (terminal) => terminal.press("C-c"),
      "Ctrl-\\": (terminal) => terminal.press("C-\\"),
    };
    for (const [n, [name, end]] of Object.entries(ends).entries()) {
      await t.step(name, async () => {
        const file = (what: string) => shellWord(`${dir}/${n}-${what}`);
        const script = [
          `stty -g > ${file("before")}`,
          `${start(dir, "alpha")}; echo $? > ${file("code")}`,
          `stty -g > ${file("after")}`,
          `head -n 1 > ${file("pasted")}`,
        ];
        await using terminal = await TmuxTerminal.run(COLUMNS, script.join("; "));
        await terminal.shown(/alpha · online$/);
        await end(terminal);
        assertEquals(await written(`${dir}/${n}-code`), "0");
        const before = await written(`${dir}/${n}-before`);
        assertEquals(await written(`${dir}/${n}-after`), before);
        assert(before.length > 20, before);
        // Without the marks of a bracketed paste.
        await terminal.paste("plain\n");
        assertEquals(await written(`${dir}/${n}-pasted`), "plain");
      });
    }
  },
});
