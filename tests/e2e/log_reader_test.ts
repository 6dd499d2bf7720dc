/**
 * A server whose standard error is not read: it goes on answering, drops lines within a bound and says how many, and ends
 * when it is asked to.
 */
import { assert, assertEquals } from "@std/assert";
import { childCommand, within } from "../support/child_command.ts";
import { parseExposition } from "../support/exposition.ts";
import { freePort, SOON_MS, tempFolder } from "../support/process.ts";
import { ProcessOutput } from "../support/process_output.ts";
import { longTest } from "../support/trials.ts";

/** Each has a line of about 190 bytes: more than the pipe of the system (64 KiB) and the queue (1 MiB) hold together. */
const REQUESTS = 8_000;
const AT_ONCE = 50;
/** Far longer than an answer takes, so that only a server that stands still has none by then. */
const ANSWER_MS = 30_000;

interface UnreadServer {
  child: Deno.ChildProcess;
  url: string;
  /** Sends a request and returns its status. */
  ask(path: string): Promise<number>;
}

/** Starts a server with a log of every request, which is not read. */
async function start(folder: string, metricsPort: number): Promise<UnreadServer> {
  const paths = ["read", "write"].map((kind) => `--allow-${kind}=${folder}`);
  const child = childCommand(["run", "--no-prompt", "--allow-net", "--allow-env", ...paths, "deploy.ts"], {
    PORT: "0",
    KV_URL: `${folder}/svc.kv`,
    ACCESS_LOG: "on",
    METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
  }, { command: Deno.execPath(), stdin: "null" }).spawn();
  const listening = new ProcessOutput(child.stdout).match(/on (http:\S+)/);
  const [, url = ""] = await within(SOON_MS, "the server listens", listening);
  const ask = async (path: string) => {
    const answer = await within(ANSWER_MS, `an answer of ${path}`, fetch(url + path));
    await answer.body?.cancel();
    return answer.status;
  };
  return { child, url, ask };
}

async function fillLog({ ask }: UnreadServer): Promise<void> {
  const some = async () => {
    for (let i = 0; i < REQUESTS / AT_ONCE; i++) assertEquals(await ask("/v1/metadata"), 200);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
}

longTest(
  "a reader of standard error that stops does not stop the server, and later reads how many lines are missing",
  async () => {
    await using folder = await tempFolder();
    const metricsPort = freePort();
    const server = await start(folder.path, metricsPort);
    await using child = server.child;
    await fillLog(server);
    assertEquals(await server.ask("/nowhere"), 404);
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    const dropped = parseExposition(text).get("svc_log_lines_dropped_total")?.samples[0]?.value ?? 0;
    assert(dropped > 0, "lines were dropped");

    const stderr = new ProcessOutput(child.stderr);
    await within(SOON_MS, "the number of dropped lines is logged", stderr.match(/"log_lines_dropped"/));
    child.kill("SIGTERM");
    assertEquals((await within(SOON_MS, "the server ends", child.status)).code, 0);
    await stderr.ended;
    const lines = stderr.lines.map((line) => JSON.parse(line) as { event: string; lines?: number });
    assertEquals(lines.flatMap((line) => line.event === "log_lines_dropped" ? line.lines : []), [dropped]);
    const done = lines.filter(({ event }) => event === "request_done").length;
    assert(done + dropped >= REQUESTS, `${done} written and ${dropped} dropped of ${REQUESTS}`);
  },
);

longTest("a server whose log is not read ends when it is asked to", async () => {
  await using folder = await tempFolder();
  const server = await start(folder.path, freePort());
  await using child = server.child;
  await fillLog(server);
  child.kill("SIGTERM");
  const stderr = child.stderr;
  assertEquals((await within(SOON_MS, "the server ends", child.status)).code, 0);
  await stderr.cancel();
});
