/**
 * Two people with a folder each on one machine, by `svc` and `curl` only: their connectors, a pairing through the local
 * API, a message, a plain HTTP listener in place of the runtimes, a receipt, and the end of the connectors. Runs with
 * the one file of the npm package and with the compiled binary. readme_story_test.ts has the lines of the README.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { shellWord } from "../../cli/terminal/output.ts";
import { attempt, Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { ended, type Program, programs } from "../cli/program.ts";
import {
  BOOTSTRAP_SECRET,
  ChildProcess,
  eventually,
  ROOT,
  startServer,
  tempFolder,
  within,
} from "../support/process.ts";
import { longTest } from "../support/trials.ts";

/** `script` of util-linux, which gives a program a terminal. */
const HAS_TERMINAL = await new Deno.Command("script", { args: ["--version"] }).output().then(
  (r) => r.success,
  () => false,
);
if (!HAS_TERMINAL) console.log("What a connector shows on a terminal is NOT checked here: there is no script(1)");

/** A line with some words replaced for this machine. */
function typed(line: string, others: Readonly<Record<string, string>>): string {
  const words = Object.keys(others).map((word) => word.replace(/[.?*+]/g, "\\$&"));
  return words.length === 0 ? line : line.replace(new RegExp(words.join("|"), "g"), (word) => others[word] ?? word);
}

/** A shell in which `svc` is the program. */
async function shell(line: string, program: Program, env: Record<string, string> = {}): Promise<string> {
  const words = [program.command, ...program.args].map(shellWord).join(" ");
  const child = new Deno.Command("sh", {
    args: ["-c", `svc() { ${words} "$@"; }\n${line}`],
    cwd: ROOT,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { code, stdout, stderr } = await within(60_000, line, ended(child));
  assertEquals(code, 0, `${line}\n${stdout}\n${stderr}`);
  return stdout;
}

/** An answer that is not an error. */
// deno-lint-ignore no-explicit-any
function succeeded(text: string): any {
  const answer = JSON.parse(text);
  assertEquals(answer.error, undefined, text);
  return answer;
}

/** `svc connector start` as a person runs it: on a terminal when one is available. */
function startedByHand(dir: string, agent: string, runtime: string, program: Program): Promise<RunningConnector> {
  const line = typed(`svc connector start ${agent} --runtime-base-url http://127.0.0.1:9900`, {
    "http://127.0.0.1:9900": runtime,
  });
  const words = [program.command, ...program.args, ...line.split(" ").slice(1)];
  const env = { SVC_CONFIG_DIR: dir };
  const child = HAS_TERMINAL
    ? new ChildProcess(["-qfc", words.map(shellWord).join(" "), "/dev/null"], env, "script")
    : new ChildProcess(words.slice(1), env, program.command);
  return RunningConnector.of(dir, agent, child);
}

/** Ends a connector that may run under a terminal's `script`. */
function terminate({ file }: RunningConnector): void {
  Deno.kill(file.pid, "SIGTERM");
}

for (const program of await programs()) {
  longTest(`two people pair, send a message and see its receipt through the local API (${program.name})`, async (t) => {
    await using folder = await tempFolder();
    await using server = await startServer({ folder: folder.path });
    const [ada, bob] = [`${folder.path}/ada`, `${folder.path}/bob`];
    const at = { SVC_REGISTRY_URL: server.address };
    const asAda = (line: string, others = {}) => shell(typed(line, others), program, { ...at, SVC_CONFIG_DIR: ada });
    const asBob = (line: string, others = {}) => shell(typed(line, others), program, { ...at, SVC_CONFIG_DIR: bob });
    await asAda(`svc admin bootstrap --bootstrap-secret "<the one that task dev printed>"`, {
      "<the one that task dev printed>": BOOTSTRAP_SECRET,
    });
    const [code = ""] = /svc_inv_\S+/.exec(await asAda("svc invite create")) ?? [];
    await asAda("svc agent create alpha");
    await asBob(`svc invite redeem "<code>" --display-name Bob`, { "<code>": code });
    await asBob("svc agent create beta");

    await using runtime = new Listener();
    await using alpha = await startedByHand(ada, "alpha", runtime.url, program);
    await using beta = await RunningConnector.start(bob, "beta", ["--runtime-base-url", runtime.url], { program });
    /** The differences between this machine and the lines below. */
    const here = {
      ".data/ada": ada,
      ".data/bob": bob,
      "http://127.0.0.1:19400": alpha.file.url,
      "http://127.0.0.1:19401": beta.file.url,
    };
    // deno-lint-ignore no-explicit-any
    const curl = async (line: string, others: Record<string, string> = {}): Promise<any> =>
      succeeded(await shell(typed(line, { ...here, ...others }), program));

    await t.step("svc connector prints lines for curl", async () => {
      const lines = await shell(typed("svc connector --config-dir .data/ada", here), program);
      for (const route of ["pair/start", "outbound"]) {
        const start = `curl -K ${ada}/agents/alpha/connector.curl ${alpha.file.url}/v1/${route} -d '`;
        assertStringIncludes(lines, start);
      }
      await shell(typed("svc connector --config-dir .data/bob", here), program);
    });

    let ticket = "";
    await t.step("a ticket is in the answer and on the terminal", async () => {
      ({ ticket } = await curl(
        "curl -K .data/ada/agents/alpha/connector.curl http://127.0.0.1:19400/v1/pair/start -d '{}'",
      ));
      assert(ticket.startsWith("svcpair1_"));
      if (!HAS_TERMINAL) return;
      await within(10_000, "the ticket is shown", alpha.child.stdout.match(/It works once, for/));
      await eventually(20_000, "the ticket in a line", () => {
        return alpha.child.stdout.text.replaceAll("\r", "").split("\n").includes(ticket) || undefined;
      });
    });

    await t.step("they pair", async () => {
      const paired = await curl(
        `curl -K .data/bob/agents/beta/connector.curl http://127.0.0.1:19401/v1/pair/confirm -d '{"ticket":"<ticket>"}'`,
        { "<ticket>": ticket },
      );
      assertEquals([paired.initiatorProfile.agentName, paired.responderProfile], ["alpha", {
        agentName: "beta",
        humanName: "Bob",
      }]);
      await within(
        5_000,
        "alpha reports the pair",
        alpha.child.stdout.match(HAS_TERMINAL ? /\d {2}Paired/ : /"event":"paired"/),
      );
    });

    await t.step("a message by alias arrives at the listener, and its receipt is listed", async () => {
      const { requestId, delivered } = await curl(
        `curl -K .data/ada/agents/alpha/connector.curl http://127.0.0.1:19400/v1/outbound -d '{"to":"beta","payload":{"message":"Hello beta"}}'`,
      );
      assertEquals(delivered, true);
      const receipts = await eventually(10_000, "the receipt is there", async () => {
        const answer = await curl(
          "curl -K .data/ada/agents/alpha/connector.curl 'http://127.0.0.1:19400/v1/receipts?to=beta&requestId=<requestId>'",
          { "<requestId>": requestId },
        );
        return answer.receipts.length > 0 ? answer.receipts : undefined;
      });
      assertEquals(receipts[0].status, "processed_by_svc");
      assertEquals(runtime.received.length, 1);
      const { message } = JSON.parse(runtime.received[0]?.body ?? "");
      assert(message.startsWith("[Svc Identity]\n") && message.endsWith("\n\nHello beta"), message);
      assertEquals(runtime.received[0]?.headers.get("x-request-id"), requestId);
    });

    await t.step("no ticket and no token is in the events", () => {
      for (const secret of [ticket, alpha.file.token, beta.file.token]) assert(!beta.child.printed.includes(secret));
    });

    await t.step("connector status shows the state", async () => {
      const status = await svc(bob, ["connector", "status"], {}, program);
      assertEquals([status.well, status.connection.state, status.inbox.waiting, status.deadLetters], [
        true,
        "connected",
        0,
        0,
      ]);
      assert(status.connection.heartbeatMs >= 0 && status.runtime.reachable);
    });

    await t.step("relay-test sends and gets an answer", async () => {
      const result = await svc(ada, ["provider", "relay-test", "--peer", "beta"], {}, program);
      assertEquals([result.healthy, result.status], [true, "processed_by_svc"]);
      // The connector was started with its runtime: all checks pass although no settings are saved.
      assertEquals(result.warnings, undefined, JSON.stringify(result));
    });

    await t.step("doctor is read-only", async () => {
      // Files that the running connector writes itself are left out.
      const tree = (path = bob): unknown[] =>
        [...Deno.readDirSync(path)].filter(({ name }) => !name.startsWith("connector.db")).flatMap(
          ({ name, isDirectory }) => {
            const { mtime, mode } = Deno.lstatSync(`${path}/${name}`);
            const inside = isDirectory ? tree(`${path}/${name}`) : Deno.readTextFileSync(`${path}/${name}`);
            return [[`${path}/${name}`, mtime?.getTime(), mode, inside]];
          },
        );
      await svc(bob, ["install", "--for", "generic", "--port", new URL(runtime.url).port], {}, program);
      const before = tree();
      const report = await svc(bob, ["provider", "doctor", "--peer", "alpha"], {}, program);
      assertEquals(report.healthy, true, JSON.stringify(report));
      assertEquals(tree(), before);
    });

    await t.step("a second connector of the same agent is refused and names the first", async () => {
      const { code, error } = await attempt(bob, ["connector", "start", "beta"], {}, program);
      assertEquals([code, error?.code], [1, "CLI_BUSY"]);
      assertStringIncludes(error?.message ?? "", `pid ${beta.child.pid}`);
    });

    await t.step("SIGTERM ends it, and its files show a clean stop", async () => {
      assertEquals((await beta.child.end("SIGTERM")).code, 0);
      assertEquals(beta.events.at(-1)?.event, "stopped");
      assertEquals(Deno.readTextFileSync(`${bob}/agents/beta/identity.json`).length > 0, true);
      const left = [...Deno.readDirSync(`${bob}/agents/beta`)].map(({ name }) => name);
      assertEquals(left.includes("connector.json"), false);
      for (const name of left) assertEquals((Deno.statSync(`${bob}/agents/beta/${name}`).mode ?? 0) & 0o077, 0, name);
    });

    await t.step("connector commands without a connector report it, with the fix", async () => {
      for (const line of [["connector"], ["connector", "status"], ["provider", "relay-test"]]) {
        const { code, error } = await attempt(bob, line, {}, program);
        assertEquals([code, error?.code], [5, "CLI_CONNECTOR_DOWN"]);
        assertStringIncludes(error?.message ?? "", "connector start beta");
      }
      terminate(alpha);
      await within(10_000, "alpha ends", alpha.child.status);
    });
  });
}
