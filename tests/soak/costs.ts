/**
 * What one operation costs in the store, for each form of deployment: the services themselves, over a store that
 * counts. `docs/scaling.md` holds the tables.
 */
import { RENEW_MS } from "../../proxy/relay/instance_leases.ts";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { confirmCommits } from "../../shared/server/confirmed_commits.ts";
import { WriteWatch } from "../../shared/server/write_watch.ts";
import { CallGate, countingKv, noCounts, type StoreCounts } from "../support/counting_kv.ts";
import { LinkNetwork } from "../support/link_network.ts";
import { until } from "../support/until.ts";
import { Denokv } from "../support/denokv.ts";
import { tempFolder } from "../support/process.ts";
import { PROXY_URL, type TestAgent, type TestSocket, World } from "../support/world.ts";

/** The store of a form. */
export interface OpenedStore extends AsyncDisposable {
  kv: Deno.Kv;
  maxChecks: number;
}

/** A new store in a file. */
export async function fileStore(): Promise<OpenedStore> {
  const folder = await tempFolder();
  const kv = await Deno.openKv(`${folder.path}/svc.kv`);
  return {
    kv,
    maxChecks: LIMITS.commitChecks,
    async [Symbol.asyncDispose]() {
      kv.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** A new store of a denokv. */
export async function denokvStore(program: string): Promise<OpenedStore> {
  const server = await Denokv.start(program);
  const kv = await Deno.openKv(server.address);
  return {
    kv,
    maxChecks: LIMITS.commitChecksConnect,
    async [Symbol.asyncDispose]() {
      kv.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A form of deployment. */
export interface Form {
  name: string;
  /** Instances of it that share the store. */
  instances: 1 | 2;
  /** Registry and proxy are one process. */
  together: boolean;
  /** The instances have links. */
  linked?: boolean;
}

/** The cost of one operation. */
export interface Cost {
  /** Of all instances together, until nothing more follows. */
  counts: StoreCounts;
  /** Consecutive round trips to the store until the answer. */
  roundTrips: number;
  /** Requests of the proxy to the registry over HTTP. */
  requests: number;
}

/** Text of the measured message: 1 KB. */
export const BODY = JSON.stringify({ message: "x".repeat(1_000) });
/** Messages of the sender within the last minute, before the measured one. */
const EARLIER = 10;
/** Turns of the event loop without a call after which no more calls follow. */
const QUIET_TURNS = 20;
const TURN_MS = 1;
/** Turns in which everything that waits for no call comes to its next one. */
const TURNS = 5;

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, TURN_MS));
}

/** Instances of one form over one store, with agents `a` and `b` paired; `b` is connected to the last instance. */
export class Deployment implements AsyncDisposable {
  readonly #gate = new CallGate();
  readonly #counts: StoreCounts[] = [];
  #requests = 0;
  worlds: World[] = [];
  a!: TestAgent;
  b!: TestAgent;
  socket!: TestSocket;

  private constructor(readonly form: Form) {}

  static async open(form: Form, store: OpenedStore): Promise<Deployment> {
    const deployment = new Deployment(form);
    const isFile = store.maxChecks === LIMITS.commitChecks;
    const writes = isFile ? new WriteWatch(store.kv) : null;
    const network = form.linked ? new LinkNetwork() : null;
    for (let i = 0; i < form.instances; i++) {
      const counts = noCounts();
      const kv = countingKv(store.kv, deployment.#gate, counts);
      if (!isFile) confirmCommits(kv, String(i));
      const world = await World.open({
        kv,
        ...(writes ? { writes } : {}),
        ...(network ? { network } : {}),
        maxChecks: store.maxChecks,
        seed: i + 1,
        sharedProcess: form.together,
        ...(i === 0 ? {} : { clock: deployment.first.clock }),
        proxy: { agentRequests: LIMITS.agentRequests },
      });
      world.registryAnswer = () => {
        if (!form.together) deployment.#requests++;
        return null;
      };
      deployment.#counts.push(counts);
      deployment.worlds.push(world);
    }
    const { first } = deployment;
    for (const [i, { proxy }] of deployment.worlds.entries()) {
      network?.at.set(`w${i}`, () => proxy.deps.links);
      await proxy.start(network ? { address: `w${i}` } : {});
    }
    if (network) {
      // The one that started first learns of the other at its next look.
      await first.clock.advance(RENEW_MS);
      await until(() => deployment.worlds.every(({ proxy }) => proxy.deps.links.size === 1));
    }
    deployment.a = await first.agent();
    deployment.b = await first.agent();
    await first.pair(deployment.a, deployment.b);
    await deployment.connect(deployment.b);
    for (let i = 0; i < EARLIER; i++) await deployment.send();
    return deployment;
  }

  /** The instance of the sender. */
  get first(): World {
    return this.worlds[0]!;
  }

  /** The instance of the recipient. */
  get last(): World {
    return this.worlds.at(-1)!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const world of this.worlds) await world[Symbol.asyncDispose]();
  }

  async connect(agent: TestAgent): Promise<void> {
    this.socket = this.last.connect(agent);
    await this.last.connected();
    await until(async () => (await this.first.kv.get(KEYS.presence(agent.agent.did))).value !== null);
  }

  async send(to = this.b, headers: Record<string, string> = {}): Promise<void> {
    const answer = await this.first.message(this.a, to, { body: BODY, headers });
    const { delivered, queued } = await answer.json();
    if (!delivered && !queued) throw new Error(`A message was answered with ${answer.status}`);
  }

  /** Opens a WebSocket of an agent as a client does. Its far end is this test. */
  async openSocket(agent: TestAgent): Promise<void> {
    const { last } = this;
    const socket = { send() {}, close() {}, bufferedAmount: 0 } as unknown as WebSocket;
    last.proxy.deps.upgrade = () => ({ socket, response: new Response() });
    const headers = { Upgrade: "websocket", "Sec-WebSocket-Version": "13" };
    const answer = await last.fetch(await last.signed(agent, { method: "GET", target: "/v1/relay/connect", headers }));
    if (!answer.ok) throw new Error(`A connection to ${PROXY_URL} was answered with ${answer.status}`);
    socket.onopen?.(new Event("open"));
  }

  /**
   * Measures one operation, after everything before it has ended.
   *
   * @param wakeUps how many changes the watches report at least, of all instances; the network delays them
   */
  async measure(run: () => Promise<unknown>, wakeUps = 0): Promise<Cost> {
    this.#flush();
    await this.#quiet();
    this.#gate.hold();
    for (const counts of this.#counts) Object.assign(counts, noCounts());
    this.#requests = 0;
    let roundTrips = 0, isAnswered = false;
    const answer = run().finally(() => isAnswered = true);
    answer.catch(() => {});
    while (true) {
      for (let i = 0; i < TURNS && !isAnswered; i++) await turn();
      if (isAnswered) break;
      if (this.#gate.waiting > 0) roundTrips++;
      await this.#gate.release();
    }
    await answer;
    this.#flush();
    await this.#quiet(wakeUps);
    this.#gate.letThrough();
    return { counts: this.#sum(), roundTrips, requests: this.#requests };
  }

  /** Counts of one instance since `measure`. */
  countsOf(instance: number): StoreCounts {
    return { ...(this.#counts[instance] ?? noCounts()) };
  }

  /** Writes the outcomes of messages that wait: the clock stands still. */
  #flush(): void {
    for (const { proxy } of this.worlds) void proxy.deps.commits.flush();
  }

  #sum(): StoreCounts {
    const sum = noCounts();
    for (const counts of this.#counts) {
      for (const name of Object.keys(sum) as (keyof StoreCounts)[]) sum[name] += counts[name];
    }
    return sum;
  }

  async #quiet(wakeUps = 0): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
      if (this.#gate.open > 0 || this.#sum().wakeUps < wakeUps) quiet = 0;
      await this.#gate.release();
      await turn();
    }
  }
}
