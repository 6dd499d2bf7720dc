/**
 * Joining and pairing with one link: real processes, and once as two people type it. The keys are pinned on both
 * sides; without its pairing part the link still gives an account.
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { shellWord } from "../../cli/terminal/output.ts";
import { attemptHere, createAgents, RunningConnector, svc, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { ChildProcess, eventually, Service } from "../support/process.ts";
import { HAS_TMUX, TmuxTerminal } from "../support/tmux_terminal.ts";
import { trials } from "../support/trials.ts";

const program = await bundledProgram();

/** An administrator with the agent alpha. */
async function administrator(service: Service, dir: string): Promise<void> {
  await createAgents(dir, service, ["alpha"]);
  for (const words of [["apiKey", service.apiKey], ["humanName", "Ada"]]) {
    await svcHere(dir, ["config", "set", ...words]);
  }
}

/** How each peer of an agent is known, by alias. */
function pinsOf(dir: string, agent: string): Record<string, string | undefined> {
  const path = `${dir}/agents/${agent}/peers.json`;
  const peers: Record<string, { how?: string }> = isThere(path) ? JSON.parse(Deno.readTextFileSync(path)) : {};
  return Object.fromEntries(Object.entries(peers).map(([alias, { how }]) => [alias, how]));
}

Deno.test("one link makes the account and the agent, and pairs it", async (t) => {
  await using service = await Service.here();
  const ada = `${service.home}/ada`;
  await administrator(service, ada);
  await using alpha = await RunningConnector.start(ada, "alpha", ["--inbox"], { program });
  const invited = () => svcHere(ada, ["invite", "create", "--pair", "alpha"]);
  const join = (who: string, link: string, ...more: string[]) =>
    attemptHere(`${service.home}/${who}`, ["join", link, "--display-name", who, ...more]);

  await t.step("also broken at 76 columns", async () => {
    const { joinLink, pairing } = await invited();
    assertEquals(pairing.agent, "alpha");
    const { code, result } = await join("bob", joinLink.replace(/.{76}/, "$&\n  "), "--agent", "beta");
    assertEquals([code, result.pairing.paired, result.pairing.humanName], [0, true, "Ada"]);
    assertEquals(pinsOf(`${service.home}/bob`, "beta"), { alpha: "ticket" });
    await eventually(60_000, "alpha has pinned beta", () => pinsOf(ada, "alpha").beta === "ticket" || undefined);
  });

  await t.step("a link needs an agent, or --no-pair, before anything is spent", async () => {
    const { joinLink } = await invited();
    const { code, error } = await join("erin", joinLink);
    assertEquals([code, error?.code], [2, "CLI_USAGE"]);
    const { result } = await join("erin", joinLink, "--no-pair", "--agent", "epsilon");
    assertEquals([result.human.displayName, result.agent.name, result.pairing], ["erin", "epsilon", undefined]);
  });

  await t.step("a pairing part that is over or used leaves the account", async () => {
    const { ticket } = await alpha.json("POST", "/v1/pair/start", { ttlSeconds: 1, silent: true });
    await eventually(60_000, "the ticket is over", async () => {
      const response = await alpha.call("POST", "/v1/pair/status", { ticket });
      await response.body?.cancel();
      return response.ok ? undefined : true;
    });
    const [, first = "", second = ""] = /^svcpair1_([^.]+)\.([^.]+)\./.exec(ticket) ?? [];
    const plain = async () => (await svcHere(ada, ["invite", "create"])).joinLink as string;
    const { result, code } = await join("frank", `${await plain()}.${first}.${second}`, "--agent", "phi");
    assertEquals([code, result.pairing, result.agent.name], [
      0,
      { paired: false, code: "PROXY_PAIR_TICKET_EXPIRED" },
      "phi",
    ]);
    const used = await invited();
    await join("grace", used.joinLink, "--agent", "gamma");
    const fields = new URL(used.joinLink).hash.split(".").slice(1);
    const again = await join("heidi", `${await plain()}.${fields.join(".")}`, "--agent", "eta");
    assertEquals([again.code, again.result.pairing.paired], [0, false]);
    assertEquals(pinsOf(ada, "alpha")["eta"], undefined);
    // Behind this command comes the shell, whose history would keep a ticket.
    const words = [
      "join",
      `${await plain()}.${fields.join(".")}`,
      "--agent",
      "iota",
      "--config-dir",
      `${service.home}/i`,
    ];
    const typed = new Deno.Command(program.command, { args: [...program.args, ...words], stdin: "null" });
    assertMatch(
      new TextDecoder().decode((await typed.output()).stderr),
      /paste that ticket into svc .* start iota\.\n/,
    );
  });
});

Deno.test("after a join that pairs, svc send needs no connector: the first message is sealed and delivered", async () => {
  await using service = await Service.here();
  const [ada, bob] = [`${service.home}/ada`, `${service.home}/bob`];
  await administrator(service, ada);
  const { joinLink } = await svcHere(ada, ["invite", "create", "--pair", "alpha"]);
  await attemptHere(bob, ["join", joinLink, "--display-name", "Bob", "--agent", "beta"]);
  await using beta = await RunningConnector.start(bob, "beta", ["--inbox"], { program });
  const { peers: [peer] } = await svcHere(ada, ["peers"]);
  assertEquals(peer.alias, "contact-beta");
  assertEquals((await svcHere(ada, ["send", peer.alias, "hello"])).state, "delivered");
  const { messages: [message] } = await beta.json("GET", "/v1/inbox");
  assertEquals([message.text, message.verified], ["hello", "end-to-end"]);
});

Deno.test({
  name: "i here, and the command there: an account, an agent and a pair, and both can write",
  ignore: !HAS_TMUX,
  async fn() {
    await using service = await Service.here();
    const [ada, bob] = [`${service.home}/ada`, `${service.home}/bob`];
    await administrator(service, ada);
    const words = [program.command, ...program.args];
    const line = (...args: string[]) => `NO_COLOR=1 LANG=C.UTF-8 ${[...words, ...args].map(shellWord).join(" ")}`;
    await using alpha = await TmuxTerminal.run(160, line("connector", "start", "alpha", "--config-dir", ada));
    await alpha.shown(/ · online$/);
    await alpha.press("i");
    const command = await alpha.shown(/^svc join '.*' --start/);
    const [, link = ""] = /'([^']+)'/.exec(command) ?? [];
    const joining = line("join", link, "--config-dir", bob, "--display-name", "Bob", "--agent", "beta", "--start");
    await using beta = await TmuxTerminal.run(160, joining);
    assertStringIncludes(await beta.shown(/Paired with alpha of Ada\./), "Paired");
    await alpha.shown(/Paired with beta of Bob\./);
    await beta.shown(/^beta · online$/);
    await beta.press("s");
    await beta.shown(/^to alpha›/);
    await beta.write("to alpha›", "hi");
    await beta.press("Enter");
    await alpha.shown(/beta (?:of Bob )?asks/);
    for (const terminal of [alpha, beta]) await terminal.press("q");
  },
});

const TRIALS = trials(1);

Deno.test(`a join that pairs, killed at ${TRIALS} moments, leaves what its repetition and a new ticket complete`, async () => {
  for (let trial = 0; trial < TRIALS; trial++) {
    // A server for each, because the registry limits what one address asks for in a minute.
    await using service = await Service.here();
    const ada = `${service.home}/ada`;
    await administrator(service, ada);
    await using alpha = await RunningConnector.start(ada, "alpha", ["--inbox"], { program });
    const invited = async () => (await svcHere(ada, ["invite", "create", "--pair", "alpha"])).joinLink as string;
    const words = (link: string, name: string) => ["join", link, "--display-name", name, "--agent", name];
    const started = performance.now();
    await svc(`${service.home}/whole`, words(await invited(), "whole"), {}, program);
    const wholeMs = performance.now() - started;
    const dir = `${service.home}/${trial}`, name = `beta${trial}`, link = await invited();
    const moment = wholeMs * Math.random(), what = `trial ${trial}, killed after ${Math.round(moment)} ms`;
    {
      const line = [...program.args, ...words(link, name), "--config-dir", dir, "--json"];
      await using child = new ChildProcess(line, {}, program.command);
      await new Promise((resolve) => setTimeout(resolve, moment));
      await child.end("SIGKILL");
    }
    const again = await attemptHere(dir, words(link, name));
    if (again.code !== 0) {
      const code = again.error?.code ?? "";
      assertEquals(code, "CLI_CONFIG_IN_USE", what);
      if (isThere(`${dir}/agents/.${name}.pending`)) {
        assertStringIncludes(JSON.stringify(again.error), `svc --config-dir ${dir} agent create ${name}`, what);
      }
      if (!isThere(`${dir}/agents/${name}`)) await svcHere(dir, ["agent", "create", name]);
    }
    await using beta = await RunningConnector.start(dir, name, ["--inbox"], { program });
    const isPinned = () => [pinsOf(ada, "alpha")[name] === "ticket", pinsOf(dir, name)["alpha"] === "ticket"] as const;
    // A kill between the two pins leaves one of them: the next ticket of the other person ends that too.
    if (isPinned().every(Boolean)) continue;
    const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
    await beta.json("POST", "/v1/pair/confirm", { ticket });
    await eventually(30_000, `both know the keys, ${what}`, () => isPinned().every(Boolean) || undefined);
  }
});

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path) !== null;
  } catch {
    return false;
  }
}
