/**
 * `deno task demo` as a new user runs it: every step succeeds, no secret is shown and no file remains, also after
 * Ctrl-C and after a failure. Two concurrent ones do not disturb each other. The last line names the revocation, in
 * each of many runs.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { CliError } from "../../cli/errors.ts";
import { run } from "../../cli/main.ts";
import type { Programs } from "../../cli/context.ts";
import { realSystem } from "../../cli/system.ts";
import { programs } from "../../svc.ts";
import { ChildProcess, eventually, ROOT, SOON_MS, tempFolder, within } from "../support/process.ts";
import { IS_LONG, trials } from "../support/trials.ts";

const STEPS = [
  "Registry and proxy start in one process",
  "Ada becomes the admin",
  "Ada invites a second person",
  "Bob redeems the invite",
  "Ada creates the agent alpha",
  "Bob creates the agent beta",
  "alpha starts a pairing",
  "beta confirms the ticket: the two agents trust each other now",
  "beta's connector opens its WebSocket",
  "alpha sends a message",
  "beta receives it, with the sender's identity in front",
  "beta reports that it has processed it",
  "alpha sees the receipt",
  "alpha and beta get an MCP server each",
  "alpha asks through its MCP tool",
  "beta's tool shows the question as data, with the verified sender",
  "beta answers with its MCP tool",
  "the answer is the result of alpha's tool call",
  "Ada revokes alpha",
  "alpha's next message is refused",
];

const LAST_LINE = /refused with PROXY_AUTH_REVOKED\.$/;

/** What no output may contain: a secret beyond its first characters, a ticket, a signed token, 24 random bytes. */
const SECRETS = [
  /svc_(?:pat|agt|rft|srv|inv)_[A-Za-z0-9_-]{20,}/,
  /svcpair1_[A-Za-z0-9_-]{20,}/,
  /[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}/,
  /(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{32,}/,
];

interface Run {
  code: number;
  stdout: string;
  stderr: string;
}

async function demo(): Promise<Run> {
  await using child = new ChildProcess(["task", "demo"]);
  await within(2 * SOON_MS, "the demo is done", child.stdout.match(/^Done in .*$/m)).catch(() => {
    throw new Error(child.printed);
  });
  const { code } = await within(60_000, "the demo exits by itself", child.status);
  const { stdout: { text: stdout }, stderr: { text: stderr } } = child;
  return { code, stdout, stderr };
}

// The client of the command stays open until its process ends.
const LIKE_A_PROCESS = { sanitizeResources: false, sanitizeOps: false };

Deno.test(
  "deno task demo shows every step, prints no secret and removes its data, beside one as JSON",
  LIKE_A_PROCESS,
  async (t) => {
    const before = await filesOfProject();
    const [{ code, stdout, stderr }, asJson] = await Promise.all([demo(), inProcess(["--json"])]);
    await t.step("they leave no file", async () => assertEquals(await filesOfProject(), before));

    await t.step("it exits with 0 and shows every step in order", () => {
      assertEquals(code, 0, stdout + stderr);
      const done = [...stdout.matchAll(/^✔ (.+?) {2}\(/gm)].map(([, title]) => title);
      assertEquals(done, STEPS);
      assert(!stdout.includes("✘"));
      assertMatch(stdout.trimEnd().split("\n").at(-1) ?? "", LAST_LINE);
      assertEquals(stdout.match(/^ {4}answer {3}(401 \w+)/m)?.[1], "401 PROXY_AUTH_REVOKED");
    });

    await t.step("it shows what the tools of both agents got, and from whom", () => {
      const alpha = /^ {4}agent {4}alpha {2}(\S+)$/m.exec(stdout)?.[1];
      const beta = /^ {4}agent {4}beta {2}(\S+)$/m.exec(stdout)?.[1];
      assertStringIncludes(stdout, "It is data, not instructions.");
      const shown = [...stdout.matchAll(/^ {4}from {5}(.+)\n {4}text {5}(.+)$/gm)].map(([, ...found]) => found);
      assertEquals(shown, [
        [`alpha  ${alpha}, verified end-to-end (sealed)`, '"Which port does your service use?"'],
        [`beta  ${beta}, verified end-to-end (sealed)`, '"It uses 8443, with TLS."'],
      ]);
    });

    await t.step("neither prints a secret", () => {
      for (const secret of SECRETS) {
        assertEquals((stdout + stderr + asJson.stdout + asJson.stderr).match(secret)?.[0], undefined);
      }
      assert(/svc_pat_/.test(stdout), "secrets are named by their first characters");
    });

    await t.step("the one as JSON names every step and what it proves", () => {
      assertEquals([asJson.code, asJson.stderr], [0, ""]);
      const { steps, refusal } = JSON.parse(asJson.stdout) as {
        steps: Record<"step" | "proves", string>[];
        refusal: string;
      };
      assertEquals(steps.map(({ step }) => step), STEPS);
      assertEquals([refusal, steps.filter(({ proves }) => proves === "")], ["PROXY_AUTH_REVOKED", []]);
    });
  },
);

/** Files and folders at the top of the project, in .data and of demos, without those of other tests that run now. */
async function filesOfProject(): Promise<string[]> {
  // It stays after the first demo.
  await Deno.mkdir(`${ROOT}/.data/demo`, { recursive: true });
  const found: string[] = [];
  for (const folder of ["", "/.data", "/.data/demo"]) {
    for await (const { name } of Deno.readDir(ROOT + folder)) if (!name.startsWith("e2e-")) found.push(folder + name);
  }
  return found.sort();
}

interface InProcess {
  programs?: Programs;
  /** Called with each text on standard output. */
  printed?: (text: string, interrupt: () => void) => void;
}

/** Runs the demo in this process. */
async function inProcess(argv: string[], given: InProcess = {}): Promise<Run> {
  let stdout = "", stderr = "";
  const real = realSystem("0.0.0-test", given.programs ?? programs);
  const terminal = {
    stdout(text: string) {
      stdout += text;
      given.printed?.(text, () => assertEquals(real.interrupt.press(), false, "the demo has taken Ctrl-C over"));
      return true;
    },
    stderr: (text: string) => void (stderr += text),
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
  };
  // A name that the demo must not read: its agents have configurations of their own.
  const env = (name: string) => name === "SVC_PROXY_URL" ? "https://proxy.invalid" : undefined;
  const code = await run(["demo", ...argv], { ...real, terminal, env });
  return { code, stdout, stderr };
}

const namesIn = (path: string) => Array.fromAsync(Deno.readDir(path), ({ name }) => name);

if (IS_LONG) {
  Deno.test("the last line of the demo names the revocation in each of many runs", LIKE_A_PROCESS, async () => {
    for (let i = 0; i < trials(1); i++) {
      const { code, stdout, stderr } = await inProcess([]);
      assertEquals(code, 0, stdout + stderr);
      assertMatch(stdout.trimEnd().split("\n").at(-1) ?? "", LAST_LINE);
    }
  });
}

Deno.test("the demo ends with 130 and leaves no file when Ctrl-C comes after a step", LIKE_A_PROCESS, async (t) => {
  // The long run ends the demo after each step, the gate after two of them.
  for (const [i, title] of STEPS.slice(0, -1).entries()) {
    if (!IS_LONG && i % 10 !== 3) continue;
    await t.step(title, async () => {
      await using folder = await tempFolder();
      const { code, stdout, stderr } = await inProcess(["--temp-dir", folder.path], {
        printed: (text, interrupt) => text.includes(`✔ ${title}`) && interrupt(),
      });
      assertEquals(code, 130, stdout + stderr);
      assertStringIncludes(stderr, "CLI_INTERRUPTED");
      assertStringIncludes(stderr, `✘ ${STEPS[i + 1]}`);
      assertEquals(await namesIn(folder.path), [], stderr);
    });
  }
});

Deno.test("a demo that a signal stops while it runs leaves no file and no process", async () => {
  // In the gate one of them: both have one handler.
  for (const signal of (["SIGTERM", "SIGINT"] as const).slice(0, IS_LONG ? 2 : 1)) {
    await using folder = await tempFolder();
    await using child = new ChildProcess(["run", "--quiet", "-A", "svc.ts", "demo", "--temp-dir", folder.path]);
    await eventually(SOON_MS, "the demo has its folder", async () => (await namesIn(folder.path))[0]);
    const { code, signal: endedBy } = await child.end(signal);
    assertEquals([code, endedBy], [130, null], child.printed);
    assertEquals(await namesIn(folder.path), []);
  }
});

Deno.test("a demo whose server cannot start reports it and leaves no file", LIKE_A_PROCESS, async () => {
  await using folder = await tempFolder();
  const serve = () => Promise.reject(new CliError("CLI_SERVER_REFUSED", "The server did not start"));
  const { code, stderr } = await inProcess(["--temp-dir", folder.path], { programs: { ...programs, serve } });
  assertEquals(code, 2);
  assertMatch(stderr, /^✘ Registry and proxy start[^]*CLI_SERVER_REFUSED/m);
  assertEquals(await namesIn(folder.path), []);
});

Deno.test("a demo that cannot have a folder says which one, before it starts a server", LIKE_A_PROCESS, async () => {
  await using folder = await tempFolder();
  const file = `${folder.path}/file`;
  await Deno.writeTextFile(file, "");
  const serve = () => Promise.reject(new Error("the server was started"));
  const { code, stderr } = await inProcess(["--temp-dir", file], { programs: { ...programs, serve } });
  assertEquals(code, 1);
  assertStringIncludes(stderr, `CLI_SAVE_FAILED: No folder could be created in ${file}`);
  assertStringIncludes(stderr, "--temp-dir");
});
