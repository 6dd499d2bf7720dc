/**
 * Commands that attach to a connector or run one themselves (D-119): one process runs it, the others go on when that one is
 * killed, and no byte goes to a port whose connector has ended. Real processes.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { attempt, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { ChildProcess, eventually, Service, within } from "../support/process.ts";
import { longTest } from "../support/trials.ts";
import { pairedAgents } from "./harness.ts";

const program = await bundledProgram();
/** Longest time until the commands work again after their connector was killed. */
const AGAIN_MS = 25_000;

interface DiscoveryFile {
  pid: number;
  port: number;
}

function discoveryFile(dir: string): DiscoveryFile | null {
  try {
    return JSON.parse(Deno.readTextFileSync(`${dir}/agents/b/connector.json`)) as DiscoveryFile;
  } catch {
    return null;
  }
}

/** A running command of agent b. */
function start(dir: string, ...args: string[]): ChildProcess {
  return new ChildProcess([...program.args, ...args, "--config-dir", dir, "--json"], {}, program.command);
}

longTest("three commands share one connector; when its process is killed, the others work again", async (t) => {
  await using service = await Service.here();
  const dir = service.home;
  const { a, b } = await pairedAgents(service, dir);
  const { did } = b.agent;
  await svc(dir, ["install", "--for", "inbox"], {}, program);
  /** Sends a message as a sender does that retries with the same request ID while the connector does not acknowledge. */
  const send = (text: string) => {
    const payload = JSON.stringify({ message: text });
    const message = { recipientDid: did, payload, prefer: "respond-async", requestId: `request-${text}` } as const;
    return eventually(AGAIN_MS, `${text} is accepted`, async () => {
      const { delivered, queued } = await a.client.sendMessage(message).catch((error) => {
        if (!(error instanceof ApiError)) throw error;
        return { delivered: false, queued: undefined };
      });
      return delivered || queued || undefined;
    });
  };
  const followers: ChildProcess[] = [];
  try {
    for (let n = 0; n < 3; n++) followers.push(start(dir, "inbox", "--follow", "--agent", "b"));
    await send("one");
    for (const follower of followers) {
      await within(AGAIN_MS, "a command shows it", follower.stdout.match(/"text":"one"/));
    }
    const host = discoveryFile(dir);
    assert(host && followers.some(({ pid }) => pid === host.pid), "one of the commands runs the connector");

    await t.step("connector start beside it is refused with the process that runs it", async () => {
      const { code, error } = await attempt(dir, ["connector", "start", "b"], {}, program);
      assertEquals([code, error?.code], [1, "CLI_BUSY"]);
      assertStringIncludes(error?.message ?? "", String(host.pid));
    });

    await t.step("the others go on, and nothing is lost", async () => {
      Deno.kill(host.pid, "SIGKILL");
      await send("two");
      const others = followers.filter(({ pid }) => pid !== host.pid);
      for (const other of others) await within(AGAIN_MS, "a command shows it", other.stdout.match(/"text":"two"/));
      await send("three");
      for (const other of others) await within(AGAIN_MS, "a command shows it", other.stdout.match(/"text":"three"/));
      for (const { stdout } of others) {
        assertEquals(stdout.lines.map((line) => JSON.parse(line).text), ["one", "two", "three"]);
      }
      const next = discoveryFile(dir);
      assert(next && others.some(({ pid }) => pid === next.pid), "another command runs the connector");
    });

    await t.step("a command that runs the connector releases it when it ends", async () => {
      for (const follower of followers.filter(({ pid }) => pid !== host.pid)) await follower.end("SIGTERM");
      assertEquals(discoveryFile(dir), null);
      const { result } = await attempt(dir, ["inbox", "--agent", "b", "--take"], {}, program);
      assertEquals(result.messages.map(({ text }: { text: string }) => text), ["one", "two", "three"]);
    });
  } finally {
    for (const follower of followers) await follower[Symbol.asyncDispose]();
  }
});
