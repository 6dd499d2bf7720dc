/**
 * The second day in a terminal: three agents in one view, wide and narrow and in a pipe; and a peer that is looked up,
 * renamed, written to, blocked and removed. Real processes. Needs tmux.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service } from "../support/process.ts";
import { HAS_TMUX } from "../support/tmux_terminal.ts";
import { longTest } from "../support/trials.ts";
import { Typist } from "../support/typist.ts";
import { pairedNames } from "./harness.ts";

const program = await bundledProgram();
const NAMES = ["alpha", "beta", "gamma"];

/** A person with three agents that are paired with each other. */
async function threeAgents(service: Service, dir: string): Promise<void> {
  await pairedNames(service, dir, NAMES);
  await svc(dir, ["config", "set", "humanName", "Ada"], {}, program);
  // A sound would only disturb who runs the tests.
  await svc(dir, ["profile", "set", "notify", "off"], {}, program);
}

longTest({
  name: "three agents in one view: read, choose, send and reply, at 80 columns, at 40 and in a pipe",
  ignore: !HAS_TMUX,
  async fn(t) {
    await using service = await Service.here({ AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000" });
    const dir = service.home;
    await threeAgents(service, dir);
    for (const columns of [80, 40]) {
      await t.step(`${columns} columns`, async () => {
        await using ada = await Typist.open(program, { dir, columns });
        await ada.type("clear; svc connector start --all");
        await ada.shown(/^3 agents of Ada · 127\.0\.0\.1:\d+$/);
        await ada.shown(/^3 agents$/);
        await ada.press("a");
        await ada.shown(/^agent›/);
        await ada.send("gamma");
        await ada.shown(/The keys are for gamma now\.$/);
        await ada.press("s");
        await ada.shown(/^to›/);
        await ada.send("alpha");
        await ada.shown(/^to alpha›/);
        const question = "Which port does the staging server use, and which of its neighbours?";
        await ada.send(question);
        await ada.shown(/^\d\d:\d\d {2}gamma · You to alpha +\d+$/);
        const asks = await ada.shown(/^\d\d:\d\d {2}alpha · gamma (?:of .* )?asks +\d+$/);
        const gutter = columns === 80 ? / {5}│ / : / │ /;
        const lines = await ada.terminal.lines();
        const quoted = lines.filter((line) => new RegExp(`^${gutter.source}`).test(line));
        assert(quoted.map((line) => line.replace(gutter, "")).join(" ").includes(question), lines.join("\n"));
        assert(lines.every((line) => [...line].length <= columns), lines.join("\n"));
        await ada.shown(/^3 agents · 1 unread/);
        for (const key of `${/\d+$/.exec(asks)}r`) await ada.press(key);
        await ada.shown(/^to gamma›/);
        await ada.send("8443");
        await ada.shown(/^\d\d:\d\d {2}gamma · alpha (?:of .* )?replies +\d+$/);
        await ada.press("Space");
        await ada.shown(/^3 agents$/);
        assertEquals(await ada.terminal.title().then((title) => title.includes("agents")), false, "notify is off");
        await ada.quit();
      });
    }

    await t.step("a pipe gets events as JSON without texts", async () => {
      await using ada = await Typist.open(program, { dir });
      await ada.type("clear; svc connector start --all | cat");
      await ada.shown(/"event":"connected"/);
      await svc(dir, ["send", "beta", "no text in a pipe", "--agent", "alpha"], {}, program);
      const events = await eventually(60_000, "the event", async () => {
        const lines = (await ada.terminal.printed()).filter((line) => line.startsWith("{"));
        return lines.some((line) => line.includes('"event":"received"')) ? lines : undefined;
      });
      for (const line of events) assert(!JSON.stringify(JSON.parse(line)).includes("no text"), line);
      await ada.press("C-c");
      await ada.ready();
    });
  },
});

Deno.test({
  name: "a peer is searched for, renamed, written to, blocked and removed, and each line says what to do next",
  ignore: !HAS_TMUX,
  async fn() {
    await using service = await Service.here({ AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000" });
    const dir = service.home;
    await threeAgents(service, dir);
    await using view = await Typist.open(program, { dir });
    await using bob = await Typist.open(program, { dir });
    await using ada = await Typist.open(program, { dir, env: { SVC_AGENT: "alpha" } });
    await view.type("clear; svc connector start alpha");
    await view.shown(/^alpha · online/);
    await bob.type("clear; svc connector start beta");
    await bob.shown(/^beta · online/);
    /** What a command prints, as one line. */
    const says = async (line: string) => (await ada.run(line)).map((one) => one.trim()).join(" ");

    await says('svc send beta "Which port does the staging server use?"');
    await bob.shown(/│ Which port does the staging server use\?$/);
    assertStringIncludes(await says("svc log beta --search PORT"), "Which port does the staging server use?");
    assertStringIncludes(await says("svc log beta --search nothing"), "No message has this text.");
    assertStringIncludes(await says("svc peers rename beta bob"), "bob");
    assertStringIncludes(await says("svc send bob hi"), "Sent to bob: arrived");
    // A person who has the old name in the fingers still reaches the same agent.
    assertStringIncludes(await says("svc send beta again"), "Sent to bob: arrived");
    await bob.shown(/│ again$/);

    assertStringIncludes(await says("svc peers block bob"), "svc peers unblock bob");
    const ask = async (text: string) => {
      await bob.press("s");
      // The peer that was chosen last is offered.
      const offered = await bob.shown(/^to›/);
      if (offered.endsWith("alpha")) await bob.press("Enter");
      else await bob.send("alpha");
      await bob.shown(/^to alpha›/);
      await bob.send(text);
    };
    await ask("are you there?");
    await bob.shown(/was refused: alpha does not accept your messages\.$/);
    assertStringIncludes(await says("svc send bob hi"), "svc peers unblock bob");
    assertMatch(await says("svc peers"), /bob +A|bob +B/);
    assertStringIncludes(await says("svc inbox"), "No unread messages.");

    await using narrow = await Typist.open(program, { dir, columns: 44, env: { SVC_AGENT: "alpha" } });
    await narrow.type("clear; svc peers remove bob");
    await narrow.shown(/\[y\/N\]/);
    const question = (await narrow.terminal.lines()).join(" ");
    assertMatch(question, /End the pair with bob of .*\? Neither can write to the other\. \[y\/N\]$/);
    await narrow.press("n", "Enter");
    await narrow.ready();
    assertStringIncludes(await says("svc peers remove bob --yes"), "has ended");
    assertStringIncludes(await says("svc send bob hi"), "The pair with bob has ended");
    await ask("and now?");
    await bob.shown(/Not sent to alpha: The two agents are not a confirmed pair\. To pair:$/);
    await bob.shown(/The pair with alpha of .* has ended\.$/);
    await bob.quit();
    await bob.shown(/^Next, to go on; messages wait meanwhile: svc connector start beta$/);
  },
});
