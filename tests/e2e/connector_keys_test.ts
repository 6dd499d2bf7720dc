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

/** Waits for a line of the screen. */
async function shown(terminal: TmuxTerminal, pattern: RegExp): Promise<string> {
  return await eventually(
    60_000,
    `the terminal shows ${pattern}`,
    async () => (await terminal.lines()).find((line) => pattern.test(line)),
  );
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
      await shown(terminal, /^s send {2}r reply {2}p pair/);
      await shown(terminal, / · online$/);
    }

    let ticket = "";
    await t.step("another key than y leaves the ticket unconfirmed", async () => {
      await alpha.press("p");
      ticket = (await shown(alpha, /^svcpair1_/)).trim();
      await beta.paste(ticket);
      assertStringIncludes(await shown(beta, /^Pair with an agent of /), `${new URL(service.url).host}? [y/N]`);
      await afterPaste();
      await beta.press("n");
      await shown(beta, /Not paired\./);
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
      await shown(beta, /^Pair with an agent of /);
      await afterPaste();
      await beta.press("y");
      await shown(beta, /Paired with alpha of /);
      await shown(alpha, /Paired with beta of /);
      await beta.press("l");
      await shown(beta, /^1 +alpha +.* online/);
    });

    await t.step("a message is shown by the alias of its sender, and r answers it", async () => {
      await alpha.press("s");
      await shown(alpha, /^to beta›/);
      await alpha.paste("a question\nof two lines");
      await shown(alpha, /^to beta› a question⏎of two lines/);
      await afterPaste();
      await alpha.press("Enter");
      await shown(alpha, /^\d\d:\d\d {2}You to beta +1$/);
      await shown(beta, /^\d\d:\d\d {2}alpha (?:of .* )?asks +1$/);
      await shown(beta, /^ {5}│ of two lines$/);
      await shown(beta, /^beta · online · 1 unread \(space: all read\)/);
      await beta.press("r");
      await shown(beta, /^to alpha›/);
      await beta.write("to alpha›", "no");
      await beta.press("Enter");
      await shown(alpha, /^\d\d:\d\d {2}beta (?:of .* )?replies +1$/);
      await shown(beta, /^beta · online$/);
    });

    await t.step("Ctrl-C and Esc discard a line first", async () => {
      for (const key of ["C-c", "Escape"]) {
        await beta.press("s");
        await shown(beta, /^to alpha›/);
        await beta.press("x");
        await shown(beta, /^to alpha› x/);
        await beta.press(key);
        await shown(beta, /^beta · online$/);
      }
    });

    await t.step("another terminal has the same view and keys, and leaves the connector as it is", async () => {
      const talk = "inbox --follow --agent alpha";
      await assertRejects(() => svc(here, ["connector", "start", "alpha"], {}, program), Error, talk);
      const args = ["inbox", "--follow", "--agent", "alpha", "--config-dir", here];
      await using other = await TmuxTerminal.run(40, shellLine(args));
      await shown(other, /^alpha · online/);
      await other.press("s");
      await shown(other, /^to beta›/);
      await other.write("to beta›", "hi");
      await other.press("Enter");
      await shown(other, /^\d\d:\d\d {2}You to beta +\d+$/);
      await shown(beta, /^ {5}│ hi$/);
      await other.press("p");
      await shown(other, /^svcpair1_/);
      await service.stopHere();
      await shown(other, /^\d\d:\d\d {2}The link is lost\. Messages wait\.$/);
      await service.restartHere();
      await shown(other, /^\d\d:\d\d {2}Online again after \d+ s\.$/);
      await beta.press("Space");
      await shown(beta, /^beta · online$/);
      await beta.press("l");
      await shown(beta, /^1 +alpha .*[^–]$/);
      await beta.press("1");
      await beta.press("x");
      await shown(beta, /^End the pair with alpha of .*\[y\/N\]/);
      await beta.press("y");
      await shown(beta, /^\d\d:\d\d {2}The pair with alpha of .* has ended\.$/);
      await alpha.press("l");
      for (const terminal of [alpha, other]) await shown(terminal, /^\d\d:\d\d {2}The pair with beta of /);
      await shown(alpha, /^\d\d:\d\d {2}No peers: all pairs have ended\./);
      await alpha.press("r");
      await shown(alpha, /^\d\d:\d\d {2}The pair with beta has ended\. To pair: p/);
      await afterPaste();
      await other.press("q");
      await shown(alpha, /^alpha · online/);
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
    await shown(shell, /alpha · online$/);
    // The shell reads the key.
    await shell.press("echo $((20 + 2))q", "Enter");
    await shown(shell, /^22q/);
    assertEquals((await svc(service.home, ["connector", "status"], {}, program)).connection.state, "connected");
    await shell.press("jobs", "Enter");
    await shown(shell, /^\[1\]\S* +Running/);
    await shell.press("kill %1; wait", "Enter");
    await shown(shell, /^\[1\]\S* +Done/);
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
        await shown(terminal, /alpha · online$/);
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
