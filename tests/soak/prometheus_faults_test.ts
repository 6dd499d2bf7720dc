/**
 * Prometheus with the two example files speaks within two minutes of each fault that docs/operations.md names, and is silent
 * before. A rule that waits longer by itself is pending by then. Each fault is caused as it would be met: a refused sender, a
 * slow connector, a full disk, a message without an end, a registry that is gone.
 * `-- --trials n` sets the minutes of health before.
 */
import { assert, assertEquals } from "@std/assert";
import { AgentClient, RegistryClient } from "../support/agent_client.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { systemRandom } from "../../shared/random.ts";
import { isInstalled } from "../support/installed.ts";
import {
  bootstrap,
  BOOTSTRAP_SECRET,
  Connector,
  deps,
  eventually,
  freePort,
  type LiveAgent,
  messageTo,
  newAgent,
  pair,
  type Place,
  type ServerProcess,
  startServer,
  tempFolder,
} from "../support/process.ts";
import { BareConnector, OPCODE } from "../support/raw_http.ts";
import { trials } from "../support/trials.ts";
import { findFaketime } from "./chaos/cluster.ts";

const EXAMPLES = new URL("../../docs/examples/", import.meta.url);
const HEALTHY_MS = trials(6) * 60_000;
const SPEAKS_MS = 120_000;
const DISK_MIB = 256;
const MIB = 1024 * 1024;
/** Above the 0.8 GiB of the rule. */
const FILL_MIB = 1_000;

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const run = async (command: string, ...args: string[]) =>
  await new Deno.Command(command, { args, stdout: "null", stderr: "null" }).output().then(({ success }) => success);

/** Prometheus with the example files, for one target; `replaced` are numbers that depend on the configuration. */
class Prometheus implements AsyncDisposable {
  private constructor(readonly address: string, readonly child: Deno.ChildProcess) {}

  static async start(folder: string, target: string, replaced: Record<string, string> = {}): Promise<Prometheus> {
    const example = await Deno.readTextFile(new URL("prometheus.yml", EXAMPLES));
    await Deno.writeTextFile(`${folder}/prometheus.yml`, example.replaceAll("127.0.0.1:9464", target));
    let rules = await Deno.readTextFile(new URL("alerts.yml", EXAMPLES));
    for (const [from, to] of Object.entries(replaced)) {
      assert(rules.includes(from), from);
      rules = rules.replaceAll(from, to);
    }
    await Deno.writeTextFile(`${folder}/alerts.yml`, rules);
    const address = `127.0.0.1:${freePort()}`;
    const args = [
      `--config.file=${folder}/prometheus.yml`,
      `--storage.tsdb.path=${folder}/data`,
      `--web.listen-address=${address}`,
    ];
    const child = new Deno.Command("prometheus", { args, stdout: "null", stderr: "null" }).spawn();
    return new Prometheus(address, child);
  }

  /** The state of each alert by its name; `null` while Prometheus does not answer. */
  async states(): Promise<Map<string, string> | null> {
    const answer = await fetch(`http://${this.address}/api/v1/rules?type=alert`).catch(() => null);
    if (!answer?.ok) {
      await answer?.body?.cancel();
      return null;
    }
    const { data: { groups } } = await answer.json() as {
      data: { groups: { rules: { name: string; state: string; health: string }[] }[] };
    };
    const rules = groups.flatMap((group) => group.rules);
    if (rules.some(({ health }) => health !== "ok")) return null;
    return new Map(rules.map(({ name, state }) => [name, state]));
  }

  async isQuiet(): Promise<boolean> {
    const states = await this.states();
    return states !== null && states.size > 0 && [...states.values()].every((state) => state === "inactive");
  }

  /** Waits until an alert is pending or fires, while the fault goes on. */
  async speaks(alert: string, goOn: () => unknown = () => {}): Promise<void> {
    const began = performance.now();
    const state = await eventually(SPEAKS_MS, `${alert} speaks`, async () => {
      await goOn();
      await wait(1_000);
      const state = (await this.states())?.get(alert);
      return state === "inactive" ? undefined : state;
    });
    console.log(`${alert}: ${state} after ${Math.round((performance.now() - began) / 1000)} s`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill("SIGTERM");
    await this.child.status;
  }
}

const hasPrometheus = await isInstalled("prometheus");
const faketime = await findFaketime();

Deno.test({
  name: "each alert of the page for operators speaks within two minutes of its fault, and none before",
  ignore: !hasPrometheus || Deno.uid() !== 0,
  async fn(t) {
    await using folder = await tempFolder();
    const disk = `${folder.path}/disk`;
    await Deno.mkdir(disk);
    if (!await run("mount", "-t", "tmpfs", "-o", `size=${DISK_MIB}m`, "tmpfs", disk)) {
      return console.log("skipped: no mount");
    }
    await using _ = { [Symbol.asyncDispose]: async () => void await run("umount", disk) };
    const [port, metrics] = [freePort(), freePort()];
    const url = `http://127.0.0.1:${port}`;
    const start = (env: Record<string, string> = {}) =>
      startServer({
        folder: disk,
        // Without the guard's bound, so that memory can fill.
        env: { PORT: `${port}`, METRICS_LISTEN: `127.0.0.1:${metrics}`, MEMORY_GUARD: `${2 ** 40}`, ...env },
      });
    let server: ServerProcess = await start();
    const place: Place = { registryUrl: url, proxyUrl: url };
    const apiKey = await bootstrap(place);
    const [a, b, away] = [
      await newAgent(place, apiKey, "a"),
      await newAgent(place, apiKey, "b"),
      await newAgent(place, apiKey, "away"),
    ];
    for (const other of [b, away]) await pair(a, other);
    await using prometheus = await Prometheus.start(folder.path, `127.0.0.1:${metrics}`);
    let connector = await Connector.open(place, b);
    /** Sends, also where the message is refused. */
    const send = (from: AgentClient, to: LiveAgent, members = {}) =>
      from.sendMessage({ ...messageTo(to), ...members }).catch(() => null);

    await t.step("a healthy server: no alert", async () => {
      await eventually(
        90_000,
        "every rule was evaluated after a scrape",
        async () => await prometheus.isQuiet() || undefined,
      );
      const end = performance.now() + HEALTHY_MS;
      while (performance.now() < end) {
        await send(a.client, b);
        assert(await prometheus.isQuiet(), JSON.stringify([...await prometheus.states() ?? []]));
        await wait(5_000);
      }
    });

    await t.step("bad proofs", async () => {
      const { privateKey } = await keyPairFromSeed(systemRandom.bytes(32));
      const wrong = new AgentClient(deps, url, { ...a.identity, privateKey });
      for (let n = 0; n < 40; n++) await send(wrong, b);
      await prometheus.speaks("SvcBadProofs");
    });

    await t.step("tokens that end within 7 days", async () => {
      const keys = await keyPairFromSeed(systemRandom.bytes(32));
      await new RegistryClient(deps, url).registerAgent(apiKey, keys, { name: "short", ttlDays: 5 });
      await prometheus.speaks("SvcTokensEnding");
    });

    await t.step("a sender over its window, a fifth of whose messages is refused then", async () => {
      for (let n = 0; n < 250; n++) await send(a.client, b);
      await prometheus.speaks("SvcRateLimited");
      // A rate needs refusals between two scrapes.
      await prometheus.speaks("SvcMessagesRefused", async () => {
        for (let n = 0; n < 5; n++) await send(a.client, b);
      });
    });

    await t.step("a mailbox that fills", async () => {
      await wait(61_000);
      for (let n = 0; n < 55; n++) await send(a.client, away, { prefer: "respond-async" });
      await wait(61_000);
      for (let n = 0; n < 40; n++) await send(a.client, away, { prefer: "respond-async" });
      await prometheus.speaks("SvcMailboxFilling");
    });

    await t.step("connectors that acknowledge after three seconds", async () => {
      await connector.close();
      connector = await Connector.open(place, b, async () => {
        await wait(3_000);
        return { accepted: true };
      });
      await prometheus.speaks("SvcAcknowledgementsSlow", () => void send(a.client, b));
      await connector.close();
    });

    await t.step("a disk that is full", async () => {
      await fillDisk(disk);
      await prometheus.speaks("SvcDiskFilling");
      // The store has freed blocks of its own meanwhile, and its log has room for some commits.
      const write = async () => {
        await fillDisk(disk);
        await Promise.all(Array.from({ length: 20 }, () => newAgent(place, apiKey, "filler").catch(() => null)));
      };
      await prometheus.speaks("SvcStoreErrors", write);
      await Deno.remove(`${disk}/filler`);
      const health = await fetch(`${url}/healthz`).catch(() => null);
      await health?.body?.cancel();
      assertEquals(health?.status, 200, `a full disk ended the server\n${server.printed.slice(-5_000)}`);
    });

    await t.step("memory that a message without an end fills", async () => {
      const isOver = new AbortController();
      const filling = fillMemory(url, b, isOver.signal);
      await prometheus.speaks("SvcMemory").finally(() => isOver.abort());
      await filling;
    });

    await t.step({
      name: "a message that waits for over an hour",
      ignore: faketime === null,
      async fn() {
        await server.end();
        server = await start({ LD_PRELOAD: faketime ?? "", FAKETIME: "+2h", DONT_FAKE_MONOTONIC: "1" });
        await prometheus.speaks("SvcMailboxOld");
      },
    });

    await t.step("no instance", async () => {
      assertEquals((await server.end()).code, 0);
      await prometheus.speaks("SvcNotReady");
      const fires = async () => (await prometheus.states())?.get("SvcNotReady") === "firing" || undefined;
      await eventually(SPEAKS_MS, "it fires", fires);
    });
  },
});

Deno.test({
  name: "the alert of an old revocation list speaks when the registry is gone",
  ignore: !hasPrometheus,
  async fn() {
    await using folder = await tempFolder();
    const [port, proxyPort, metrics] = [freePort(), freePort(), freePort()];
    const [registryUrl, proxyUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${proxyPort}`];
    const urls = { REGISTRY_URL: registryUrl, PROXY_URL: proxyUrl };
    for (const name of ["registry", "proxy"]) await Deno.mkdir(`${folder.path}/${name}`);
    await using registry = await startServer({
      folder: `${folder.path}/registry`,
      env: { ...urls, SVC_SERVICE: "registry", PORT: `${port}` },
    });
    const { internalService: { id, secret } } = await new RegistryClient(deps, registryUrl).bootstrap(BOOTSTRAP_SECRET);
    await using _proxy = await startServer({
      folder: `${folder.path}/proxy`,
      env: {
        ...urls,
        SVC_SERVICE: "proxy",
        PORT: `${proxyPort}`,
        METRICS_LISTEN: `127.0.0.1:${metrics}`,
        REGISTRY_INTERNAL_SERVICE_ID: id,
        REGISTRY_INTERNAL_SERVICE_SECRET: secret,
        CRL_REFRESH_INTERVAL_MS: "5000",
        CRL_MAX_AGE_MS: "60000",
      },
    });
    // Half of CRL_MAX_AGE_MS, as the comment of the rule says.
    await using prometheus = await Prometheus.start(folder.path, `127.0.0.1:${metrics}`, { "> 450": "> 30" });
    await eventually(90_000, "no alert", async () => await prometheus.isQuiet() || undefined);
    await registry.end();
    await prometheus.speaks("SvcRevocationListOld");
  },
});

/** Sends the fragments of one message, slower than the growth that the memory guard ends, and again when its socket is closed. */
async function fillMemory(url: string, agent: LiveAgent, isOver: AbortSignal): Promise<void> {
  const fragment = new Uint8Array(MIB).fill(120);
  while (!isOver.aborted) {
    await using bare = await BareConnector.open(url, agent);
    for (let sent = 0; sent < FILL_MIB && !isOver.aborted; sent++) {
      if (!await bare.socket.send(sent === 0 ? OPCODE.text : OPCODE.continuation, fragment, false)) break;
      await wait(30);
    }
    const end = new Promise((resolve) => isOver.addEventListener("abort", resolve));
    if (!isOver.aborted) await Promise.race([bare.socket.closed, end]);
  }
}

/** Leaves no byte of a file system free. */
async function fillDisk(folder: string): Promise<void> {
  using file = await Deno.open(`${folder}/filler`, { create: true, append: true });
  const bytes = new Uint8Array(MIB);
  for (let part = bytes; part.length > 0;) {
    try {
      await file.write(part);
    } catch {
      part = part.subarray(0, Math.floor(part.length / 2));
    }
  }
}
