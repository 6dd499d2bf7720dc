/**
 * A store that cannot be written: a full file system, and a limit on the size of files. Requests that must write are
 * 503 with `Retry-After`, no message is accepted, health fails, and all of it recovers without a restart.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openStore, StoreRefused } from "../../shared/server/store/open_store.ts";
import { AgentClient, RegistryClient } from "../support/agent_client.ts";
import {
  bootstrap,
  BOOTSTRAP_SECRET,
  ChildProcess,
  deps,
  eventually,
  freePort,
  type LiveAgent,
  newAgent,
  pair,
  tempFolder,
  within,
} from "../support/process.ts";

/** Runs a program of the system; false when it is missing or fails. */
async function can(command: string, ...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command(command, { args, stdout: "null", stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}

const TMPFS_BYTES = 4 * 1024 * 1024;

/** Mounts a small file system on a folder. */
async function mounted(folder: string): Promise<boolean> {
  return await can("mount", "-t", "tmpfs", "-o", `size=${TMPFS_BYTES}`, "tmpfs", folder);
}

async function canMount(): Promise<boolean> {
  await using folder = await tempFolder();
  if (Deno.uid() !== 0 || !(await mounted(folder.path))) return false;
  return await can("umount", folder.path);
}

interface RunningServer {
  server: ChildProcess;
  url: string;
  a: LiveAgent;
  b: LiveAgent;
}

/** A server with two paired agents. */
async function start(folder: string): Promise<RunningServer> {
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const rights = ["--allow-net=127.0.0.1", "--allow-env", `--allow-read=${folder}`, `--allow-write=${folder}`];
  const server = new ChildProcess(["run", "--no-prompt", ...rights, "deploy.ts"], {
    PORT: String(port),
    KV_URL: `${folder}/svc.kv`,
    BOOTSTRAP_SECRET,
    AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000000",
  });
  await within(20_000, "the server listens", server.stdout.match(/listening on/));
  const place = { registryUrl: url, proxyUrl: url };
  const apiKey = await bootstrap(place);
  const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
  await pair(a, b);
  assertEquals(await health(url), 200);
  return { server, url, a, b };
}

async function health(url: string): Promise<number> {
  const answer = await fetch(`${url}/health`);
  await answer.body?.cancel();
  return answer.status;
}

/** Queues a message; returns the status and the answer's `Retry-After`. */
async function queue(
  { a, b, url }: RunningServer,
  text: string,
): Promise<{ status: number; retryAfter: string | null }> {
  let status = 0, retryAfter: string | null = null;
  const watched: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    [status, retryAfter] = [answer.status, answer.headers.get("retry-after")];
    return answer;
  };
  const message = { recipientDid: b.agent.did, payload: JSON.stringify({ text }), prefer: "respond-async" as const };
  await new AgentClient({ ...deps, fetch: watched }, url, a.identity).sendMessage(message).catch(() => {});
  return { status, retryAfter };
}

/** Asserts the answers while the store is full, the health, and the recovery after `free` has made room. */
async function story(running: RunningServer, free: () => Promise<void>): Promise<void> {
  const { server, url } = running;
  const text = "x".repeat(100_000);
  await eventually(
    30_000,
    "a message is refused",
    async () => (await queue(running, text)).status !== 202 || undefined,
  );
  for (let i = 0; i < 10; i++) {
    const { status, retryAfter } = await queue(running, text);
    assertEquals(status, 503, server.printed);
    assertMatch(retryAfter ?? "", /^\d+$/);
  }
  await eventually(30_000, "health is 503", async () => (await health(url)) === 503 || undefined);
  const answer = await new RegistryClient(deps, url).bootstrap(BOOTSTRAP_SECRET).catch((error) => error.status);
  assert([409, 503].includes(answer), String(answer));
  await free();
  await eventually(30_000, "health is 200", async () => (await health(url)) === 200 || undefined);
  assertEquals((await queue(running, "small")).status, 202, server.printed);
  assertEquals((await server.end()).code, 0);
}

Deno.test({
  name: "a full file system is 503 with Retry-After, and no message is accepted until there is room",
  ignore: !(await canMount()),
  async fn() {
    await using folder = await tempFolder();
    assert(await mounted(folder.path));
    try {
      const running = await start(folder.path);
      await using _ = running.server;
      const ballast = `${folder.path}/ballast`;
      await can("dd", "if=/dev/zero", `of=${ballast}`, "bs=4096");
      await story(running, () => Deno.remove(ballast));
    } finally {
      await can("umount", folder.path);
    }
  },
});

Deno.test({
  name: "a store that cannot be opened because the file system is full says so",
  ignore: !(await canMount()),
  async fn() {
    await using folder = await tempFolder();
    assert(await mounted(folder.path));
    try {
      const path = `${folder.path}/svc.kv`;
      (await openStore(path)).close();
      await can("dd", "if=/dev/zero", `of=${folder.path}/ballast`, "bs=4096");
      await assertRejects(() => openStore(path), StoreRefused, "The disk is full: free some space");
      const variables = { PORT: "0", KV_URL: path };
      const { code } = await new ChildProcess(["run", "--no-prompt", "-A", "deploy.ts"], variables).status;
      assertEquals(code, 1, "a supervisor takes 2 for final");
    } finally {
      await can("umount", folder.path);
    }
  },
});

Deno.test({
  name: "a file size limit is 503 with Retry-After, and no message is accepted until it is lifted",
  ignore: !(await can("prlimit", "--version")),
  async fn() {
    await using folder = await tempFolder();
    const running = await start(folder.path);
    await using _ = running.server;
    const pid = `--pid=${running.server.pid}`;
    const sizes = await Promise.all(
      ["svc.kv", "svc.kv-wal"].map((name) => Deno.stat(`${folder.path}/${name}`).then(({ size }) => size, () => 0)),
    );
    assert(await can("prlimit", pid, `--fsize=${Math.max(...sizes)}:unlimited`));
    await story(running, async () => {
      assert(await can("prlimit", pid, "--fsize=unlimited:unlimited"));
    });
  },
});
