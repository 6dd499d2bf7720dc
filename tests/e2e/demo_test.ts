/**
 * `deno task demo` as a new user runs it (D-162): every step succeeds, no secret is shown and no file remains. Two
 * concurrent runs do not disturb each other. The last line names the revocation (D-235), in each of many runs.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { run } from "../../cli/main.ts";
import { realSystem } from "../../cli/system.ts";
import { programs } from "../../svc.ts";
import { ChildProcess, ROOT, within } from "../support/process.ts";
import { trials } from "../support/trials.ts";

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
  "Ada revokes alpha",
  "alpha's next message is refused",
];

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
  await within(30_000, "the demo is done", child.stdout.match(/^Done in .*$/m)).catch(() => {
    throw new Error(child.printed);
  });
  const { code } = await within(60_000, "the demo exits by itself", child.status);
  const { stdout: { text: stdout }, stderr: { text: stderr } } = child;
  return { code, stdout, stderr };
}

Deno.test("deno task demo shows every step, prints no secret and removes its data, also twice at once", async (t) => {
  const before = await filesOfProject();
  const runs = await Promise.all([demo(), demo()]);
  await t.step("they leave no file", async () => assertEquals(await filesOfProject(), before));

  for (const [i, { code, stdout, stderr }] of runs.entries()) {
    await t.step(`run ${i + 1} exits with 0 and shows every step in order`, () => {
      assertEquals(code, 0, stdout + stderr);
      const done = [...stdout.matchAll(/^✔ (.+?) {2}\(/gm)].map(([, title]) => title);
      assertEquals(done, STEPS);
      assert(!stdout.includes("✘"));
      assertEquals(stdout.match(/^ {4}answer {3}(401 \w+)/m)?.[1], "401 PROXY_AUTH_REVOKED");
    });

    await t.step(`run ${i + 1} prints no secret`, () => {
      for (const secret of SECRETS) assertEquals((stdout + stderr).match(secret)?.[0], undefined);
      assert(/svc_pat_/.test(stdout), "secrets are named by their first characters");
    });
  }
});

/** Files and folders at the top of the project and in .data, without those of other tests that run now. */
async function filesOfProject(): Promise<string[]> {
  const found: string[] = [];
  for (const folder of ["", "/.data"]) {
    for await (const { name } of Deno.readDir(ROOT + folder)) if (!name.startsWith("e2e-")) found.push(folder + name);
  }
  return found.sort();
}

// The client of the command stays open until its process ends.
const LIKE_A_PROCESS = { sanitizeResources: false, sanitizeOps: false };

Deno.test("the last line of the demo names the revocation in each of many runs", LIKE_A_PROCESS, async () => {
  for (let i = 0; i < trials(20); i++) {
    let stdout = "", stderr = "";
    const terminal = {
      stdout: (text: string) => (stdout += text) !== "",
      stderr: (text: string) => void (stderr += text),
      stdoutIsTerminal: false,
      stderrIsTerminal: false,
    };
    const system = { ...realSystem("0.0.0-test", programs), terminal, env: () => undefined };
    assertEquals(await run(["demo"], system), 0, stdout + stderr);
    const last = stdout.trimEnd().split("\n").at(-1);
    assertMatch(last ?? "", /refused with PROXY_AUTH_REVOKED\.$/);
  }
});
