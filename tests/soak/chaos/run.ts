/** Runs the events of a chaos run against three instances and returns what broke. */
import { BOOTSTRAP_SECRET, newAgent, newId } from "../../support/process.ts";
import { numbersFrom } from "../../support/seeded_random.ts";
import { ApiError, UnreachableError } from "../../support/agent_client.ts";
import { ChaosAgent, World } from "./clients.ts";
import { Cluster, findFaketime } from "./cluster.ts";
import { type Fact, violationsOf } from "./history.ts";
import { AGENTS, type ChaosEvent, INSTANCES, LASTING, peersOf } from "./plan.ts";

/** Least duration of the load, milliseconds. */
const LOAD_MS = 10_000;
/** Time in which every client must work again after the last fault. */
const RECOVERY_MS = 30_000;
/** Pause between the messages of one agent, and most of them without an answer: more would only measure the machine. */
const BETWEEN_MS = 250;
const OPEN = 4;
/** Time in which agents that moved away from an instance get messages there, and pause between these. */
const TO_MOVED_MS = 2_500;
const TO_MOVED_EVERY_MS = 250;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** The result of a run. */
export interface Outcome {
  violations: string[];
  history: Fact[];
}

/** Result of a call that a fault may interrupt; `null` for a refusal or no answer. */
async function tried<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ApiError || error instanceof UnreachableError || error instanceof TypeError) return null;
    throw error;
  }
}

/** Runs the events. `entry` is the program of the instances (default: this version). */
export async function runPlan(
  program: string,
  plan: readonly ChaosEvent[],
  seed: number,
  entry?: readonly string[],
): Promise<Outcome> {
  const folder = await Deno.makeTempDir({ prefix: "svc_chaos_" });
  try {
    const options = { ...(entry ? { entry } : {}), delayMs: 2, faketime: await findFaketime() };
    await using cluster = await Cluster.open(program, folder, options);
    return await new Run(cluster, seed).run(plan);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

class Run {
  readonly #world: World;
  readonly #next: () => number;
  readonly #agents: ChaosAgent[] = [];
  readonly #gone = new Set<number>();
  #apiKey = "";
  #isLoaded = true;
  /** Events that keep the store away. */
  #storeKills = 0;
  /** Messages of events that have no answer yet. */
  readonly #waiting: Promise<unknown>[] = [];

  constructor(readonly cluster: Cluster, seed: number) {
    this.#world = new World(cluster);
    this.#next = numbersFrom(seed ^ 0x5eed);
  }

  async run(plan: readonly ChaosEvent[]): Promise<Outcome> {
    await this.#cast();
    const world = this.#world;
    const loads = this.#agents.map((agent) => this.#load(agent));
    const started = world.now;
    const events = plan.map(async (event) => {
      await pause(Math.max(0, started + event.at - world.now));
      await this.#play(event);
    });
    await Promise.all([...events, pause(LOAD_MS)]);
    await this.cluster.heal();
    for (let i = 0; i < INSTANCES; i++) await this.cluster.startAgain(i);
    const healed = world.now;
    world.note({ kind: "event", what: "healed", untilMs: healed });
    await this.#recover(healed);
    this.#isLoaded = false;
    await Promise.all([...loads, ...this.#waiting]);
    await this.#settle();
    for (const agent of this.#agents) await agent.stop();
    for (const line of this.cluster.defects()) world.note({ kind: "defect", line: line.slice(0, 600) });
    return { violations: violationsOf(world.history), history: world.history };
  }

  async #cast(): Promise<void> {
    const world = this.#world, place = { registryUrl: this.cluster.origin, proxyUrl: this.cluster.origin };
    this.#apiKey = (await world.registryAt(0).bootstrap(BOOTSTRAP_SECRET)).apiKey.token;
    await Promise.all(Array.from({ length: AGENTS }, async (_, i) => {
      const live = await newAgent(place, this.#apiKey, `agent-${i}`, world.depsAt(() => i % INSTANCES));
      this.#agents[i] = new ChaosAgent(world, i, live);
    }));
    await Promise.all(this.#agents.map(async (agent, i) => {
      for (const peer of peersOf(i).slice(0, 2)) {
        const other = this.#agents[peer] as ChaosAgent;
        const { ticket } = await agent.live.client.pairStart({ agentName: `agent-${i}`, humanName: "A" });
        await other.live.client.pairConfirm(ticket, { agentName: `agent-${peer}`, humanName: "B" });
      }
    }));
    for (const agent of this.#agents) agent.connect();
    for (const end = performance.now() + 10_000; !this.#agents.every((agent) => agent.isConnected);) {
      if (performance.now() > end) throw new Error("Not every agent connects before the first fault");
      await pause(20);
    }
  }

  /** Messages of one agent: some with a replay, and each one without an answer is sent again. */
  async #load(agent: ChaosAgent): Promise<void> {
    const peers = peersOf(agent.number);
    const open = new Set<Promise<void>>();
    while (this.#isLoaded) {
      const to = this.#agents[peers[Math.floor(this.#next() * peers.length)] ?? 0] as ChaosAgent;
      const one = this.#message(agent, to, this.#next()).finally(() => open.delete(one));
      open.add(one);
      await pause(BETWEEN_MS * (0.5 + this.#next()));
      while (open.size >= OPEN) await Promise.race(open);
    }
    await Promise.all(open);
  }

  async #message(agent: ChaosAgent, to: ChaosAgent, chance: number): Promise<void> {
    const id = newId();
    const prefer = chance < 0.5;
    const first = agent.send(to, id, prefer);
    const isReplayed = chance * 10 % 1 < 0.2;
    if (isReplayed) {
      await pause(chance < 0.7 ? 5 : 100);
      await agent.replay(to, id);
    }
    const answer = await first;
    const isLost = /UNAVAILABLE|FAILED|lost|Error/.test(answer);
    if (isLost && this.#isLoaded) await agent.send(to, id, prefer, Math.floor(chance * 100) % INSTANCES);
  }

  async #play(event: ChaosEvent): Promise<void> {
    const { cluster } = this, world = this.#world;
    const { at: _, ...what } = event;
    world.note({ kind: "event", what: JSON.stringify(what), untilMs: world.now + ("ms" in event ? event.ms : 0) });
    const links = cluster.instances.map(({ back }) => back);
    switch (event.kind) {
      case "kill_instance":
        await cluster.kill(event.instance);
        await pause(event.ms);
        return await cluster.startAgain(event.instance);
      case "kill_store":
        this.#storeKills++;
        await cluster.store.kill();
        await pause(event.ms);
        return --this.#storeKills === 0 ? await cluster.store.restart() : undefined;
      case "stall_store":
        return await this.#during(event.ms, () => links.forEach((link) => link.stall()), () => this.#healAll());
      case "stall_store_link":
        links[event.instance]?.stall();
        await pause(300);
        for (const agent of this.#someAt(event.instance)) agent.move();
        await pause(event.ms);
        return links[event.instance]?.heal();
      case "cut_store_link":
        return await this.#cut(event.instance, event.ms);
      case "reset_store_links":
        return links.forEach((link) => link.reset());
      case "reconnect_all":
        return cluster.instances.forEach(({ front }) => front.reset());
      case "clock":
        await cluster.setClock(event.instance, event.seconds);
        await pause(event.ms);
        return await cluster.setClock(event.instance, 0);
      default:
        return await this.#change(event);
    }
  }

  /** Two agents of an instance. */
  #someAt(instance: number): ChaosAgent[] {
    return this.#agents.filter((agent) => agent.instance === instance).slice(0, 2);
  }

  /**
   * Two agents move away from an instance while it cannot reach the store. Later its store works, and its look at the notes
   * of the moves still waits for Deno's next try. Only the check of the presence in the commit keeps messages from the old
   * sockets.
   */
  async #cut(instance: number, ms: number): Promise<void> {
    const link = this.cluster.instances[instance]?.back, moving = this.#someAt(instance);
    link?.cut();
    for (const agent of moving) agent.move();
    await pause(ms);
    link?.heal();
    for (const end = this.#world.now + TO_MOVED_MS; this.#world.now < end; await pause(TO_MOVED_EVERY_MS)) {
      for (const agent of moving) this.#sendTo(agent, instance);
    }
  }

  /** Sends a message of some peer of an agent to it, at an instance. */
  #sendTo(agent: ChaosAgent, instance: number): void {
    const peers = this.#pairedWith(agent);
    const peer = peers[Math.floor(this.#next() * peers.length)] ?? agent;
    this.#waiting.push(peer.send(agent, newId(), false, instance));
  }

  /** The agents that an agent is paired with. */
  #pairedWith({ number }: ChaosAgent): ChaosAgent[] {
    return this.#agents.filter((peer) =>
      peersOf(number).slice(0, 2).includes(peer.number) || peersOf(peer.number).slice(0, 2).includes(number)
    );
  }

  async #change(event: ChaosEvent): Promise<void> {
    const world = this.#world;
    const [one, other] = [0, 1].map(() => Math.floor(this.#next() * INSTANCES)) as [number, number];
    switch (event.kind) {
      case "revoke": {
        const { live, number } = this.#agents[event.agent] as ChaosAgent;
        this.#gone.add(number);
        world.note({ kind: "revoking", agent: number });
        const answer = await tried(world.registryAt(one).deleteAgent(this.#apiKey, live.agent.id).then(() => true));
        if (answer) world.note({ kind: "revoked", agent: number });
        return;
      }
      case "remove_pair": {
        const [agent, peer] = [this.#agents[event.agent], this.#agents[event.peer]] as [ChaosAgent, ChaosAgent];
        const agents: [number, number] = [agent.number, peer.number];
        world.note({ kind: "unpairing", agents });
        const body = { peerAgentDid: peer.live.identity.did };
        if (await tried(agent.signed("/pair/remove", body, one)) === 204) world.note({ kind: "unpaired", agents });
        return;
      }
      case "rotate_keys":
        return void await tried(world.registryAt(one).rotateKeys(this.#apiKey));
      case "refresh_twice": {
        const agent = this.#agents[event.agent] as ChaosAgent;
        await agent.refreshing(() => this.#refreshTwice(agent, [one, other]));
        return;
      }
      case "redeem_twice": {
        const made = await tried(world.registryAt(one).createInvite(this.#apiKey));
        if (!made) return;
        await Promise.all([one, other, (other + 1) % INSTANCES].map(async (instance, i) => {
          const human = await tried(world.registryAt(instance).redeemInvite(made.invite.code));
          if (human) world.note({ kind: "won", thing: `invite ${made.invite.id}`, by: `${i}` });
        }));
        return;
      }
    }
  }

  /** Uses one refresh token at several instances at once. */
  async #refreshTwice(agent: ChaosAgent, instances: readonly number[]): Promise<void> {
    const world = this.#world, { identity } = agent.live;
    const number = agent.tokens.length - 1, token = agent.tokens[number] ?? "";
    await Promise.all(instances.map(async (instance, i) => {
      const auth = await tried(world.registryAt(instance).refresh(identity, token));
      if (!auth) return;
      world.note({ kind: "won", thing: `token ${number} of agent ${agent.number}`, by: `${i}` });
      agent.tokens.push(auth.refreshToken);
      identity.accessToken = auth.accessToken;
    }));
  }

  async #during(ms: number, begin: () => void, end: () => void): Promise<void> {
    begin();
    await pause(ms);
    end();
  }

  #healAll(): void {
    for (const { back } of this.cluster.instances) back.heal();
  }

  /** Waits until every lasting agent has a link and a message of it is delivered to a lasting agent. */
  async #recover(healed: number): Promise<void> {
    const world = this.#world;
    await Promise.all(
      this.#agents.slice(0, LASTING).map(async (agent, i) => {
        const to = this.#agents[(i + 1) % LASTING] as ChaosAgent;
        const peer = i + 1 < LASTING ? to : this.#agents[i - 1] as ChaosAgent;
        let last = "nothing was sent";
        while (world.now < healed + RECOVERY_MS) {
          if (agent.isConnected) {
            last = await agent.send(peer, newId(), false);
            if (last === "delivered") return;
            if (last === "PROXY_AGENT_ACCESS_INVALID") await agent.renew(agent.live.identity.accessToken);
          } else last = agent.problem;
          await pause(300);
        }
        world.note({ kind: "stuck", who: `agent ${agent.number}`, why: last });
      }),
    );
  }

  /** Waits for the last queued messages, reads receipts of those that are missing, and counts live tokens. */
  async #settle(): Promise<void> {
    const world = this.#world;
    const missing = () => violationsOf(world.history).filter((line) => line.endsWith("never arrived"));
    for (const end = world.now + 15_000; missing().length > 0 && world.now < end;) await pause(100);
    for (const line of missing()) {
      const [message = "", , from = ""] = line.split(" ");
      const sent = world.history.find((fact) => fact.kind === "sent" && fact.message === message);
      const to = sent?.kind === "sent" ? this.#agents[sent.to] : undefined;
      const receipts = to && await tried(
        this.#agents[Number(from)]?.live.client.receipts(message, to.live.identity.did) ?? Promise.resolve(null),
      );
      if (receipts && receipts.receipts.length > 0) world.note({ kind: "receipt", message });
    }
    for (const agent of this.#agents.filter(({ tokens }) => tokens.length > 1)) {
      const live = await Promise.all(
        agent.tokens.map((token, i) => tried(world.registryAt(i % INSTANCES).refresh(agent.live.identity, token))),
      );
      world.note({ kind: "live_tokens", agent: agent.number, count: live.filter((auth) => auth !== null).length });
    }
  }
}
