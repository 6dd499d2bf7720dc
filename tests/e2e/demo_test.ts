/**
 * `deno task demo` as a new user runs it: every step succeeds, no secret is shown and no file remains. Two concurrent
 * runs do not disturb each other. The last answer names the revocation (D-235).
 */
import { assert, assertEquals } from "@std/assert";
import { ChildProcess, ROOT, within } from "../support/process.ts";

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
  /** The path of its store. */
  folder: string;
}

async function demo(): Promise<Run> {
  await using child = new ChildProcess(["task", "demo"]);
  await within(30_000, "the demo is done", child.stdout.match(/^Done in .*$/m)).catch(() => {
    throw new Error(child.printed);
  });
  const { code } = await within(60_000, "the demo exits by itself", child.status);
  const { stdout: { text: stdout }, stderr: { text: stderr } } = child;
  const [, folder = ""] = stdout.match(/^\s+store\s+(\S+)\/svc\.kv/m) ?? [];
  return { code, stdout, stderr, folder };
}

Deno.test("deno task demo shows every step, prints no secret and removes its data, also twice at once", async (t) => {
  const runs = await Promise.all([demo(), demo()]);

  for (const [i, { code, stdout, stderr, folder }] of runs.entries()) {
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

    await t.step(`run ${i + 1} leaves nothing in .data`, async () => {
      assert(folder.startsWith(".data/"), stdout);
      const left = await Array.fromAsync(Deno.readDir(`${ROOT}/.data`), (entry) => `.data/${entry.name}`);
      assert(!left.includes(folder), `${folder} is still there`);
    });
  }

  await t.step("each run has a store of its own", () => assert(runs[0]?.folder !== runs[1]?.folder));
});
