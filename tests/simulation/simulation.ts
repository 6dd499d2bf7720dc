/**
 * A simulation: two instances of registry and proxy on one store, people, agents and their connectors, in one process,
 * with a scripted network between all of them. It starts one outside operation at a time and waits for idleness before
 * the next, so that a seed fixes everything. Its log is the input of the invariants.
 */
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type NewId, ulidSource } from "../../shared/protocol/ids.ts";
import { fraction, type Random } from "../../shared/random.ts";
import { sleep } from "../../shared/clock.ts";
import { ManualClock } from "../support/manual_clock.ts";
import { seededRandom } from "../support/seeded_random.ts";
import { PROXY_URL, type World } from "../support/world.ts";
import type { HttpDeps } from "../support/agent_client.ts";
import type { Cast } from "./cast.ts";
import type { Area, Event, Logged } from "./events.ts";
import { Gate, gateCrypto } from "./gate.ts";
import { Instance, type SimSocket } from "./instance.ts";
import { INVARIANTS, type Run } from "./invariants.ts";
import { introduce, OPERATIONS } from "./operations.ts";
import { SimStore } from "./store.ts";

/** The subject of a request, for the log. */
export interface Call {
  name: string;
  /** For the bound of a revocation. */
  area?: Area;
  /** Window in which it counts: the agent's, or that of its connections. */
  counts?: string;
  /** Credentials that it needs in addition to those in its headers. */
  credentials?: readonly string[];
  started?(serving: number): void;
  /** Called with the body of an accepted answer, also when the answer is lost on its way. */
  served?(body: unknown, serving: number): void;
}

/** A request on its way. */
interface Packet {
  call: Call;
  url: string;
  method: string;
  headers: Headers;
  body: ArrayBuffer | null;
}

/** Effects of the network on a request, with their frequency in 100. */
const FAULTS = [["request lost", 4], ["answer lost", 6], ["doubled", 6], ["delayed", 5]] as const;
/** Effects of the connection between proxy and registry, with their frequency in 100. */
const CONNECTION_FAULTS = [["lost", 1], ["answer lost", 1], ["doubled", 2], ["slow", 1]] as const;

const START = Date.UTC(2026, 1, 21, 0, 1);
const STEPS = 45;

export class Simulation implements AsyncDisposable {
  readonly clock = new ManualClock(START);
  readonly limit = { requests: 10, windowMs: 10_000 };
  readonly log: Logged[] = [];
  readonly worlds: World[] = [];
  readonly sockets: SimSocket[] = [];
  readonly secrets = new Set<string>();
  readonly instances: Instance[] = [];
  readonly newId: NewId;
  cast!: Cast;
  store!: SimStore;
  readonly #gate: Gate;
  readonly #choices: Random;
  readonly #chances: Random;
  readonly #ids: Random;
  readonly #ungate: () => void;
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #errors: string[] = [];
  readonly #failures: unknown[] = [];
  /** Requests that were sent, for a replay, and requests that have not arrived. */
  readonly #sent: Packet[] = [];
  #held: Packet[] = [];
  #step = 0;
  #servings = 0;
  /** Milliseconds by which all clocks were set. */
  #set = 0;
  #passing = Promise.resolve();
  #isReliable = true;

  private constructor(readonly seed: number) {
    const random = (n: number) => seededRandom(Math.imul(seed * 8 + n, 0x9E3779B1));
    [this.#choices, this.#chances, this.#ids] = [random(0), random(1), random(2)];
    this.#gate = new Gate(random(3));
    this.newId = ulidSource(() => this.clock.now(), this.#ids.bytes);
    this.#ungate = gateCrypto(this.#gate);
  }

  /** Runs a seed completely. Returns the run. */
  static async run(seed: number, steps = STEPS): Promise<Run> {
    await using sim = new Simulation(seed);
    sim.store = await SimStore.open(sim.#gate, sim.#chances);
    sim.instances.push(new Instance(sim, "X1"), new Instance(sim, "X2"));
    for (const instance of sim.instances) await instance.start();
    sim.cast = await introduce(sim);
    sim.#isReliable = false;
    for (sim.#step = 1; sim.#step <= steps; sim.#step++) await sim.#do(sim.chooseWeighted(OPERATIONS).run);
    await sim.#end();
    if (sim.#failures.length > 0) throw sim.#failures[0];
    const lines = sim.worlds.flatMap((world) => world.log).map((line) => Deno.inspect(line, { depth: 20 }));
    return {
      log: [...sim.log],
      limit: sim.limit,
      secrets: [...sim.secrets],
      texts: [...lines, ...sim.#errors, ...await sim.store.dump()],
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const instance of this.instances) instance.crash();
    await this.#gate.rest();
    this.#ungate();
    this.store[Symbol.dispose]();
  }

  /** Starts an operation and waits for idleness. The operation can continue in later steps. */
  async #do(operation: (sim: Simulation) => Promise<void> | void): Promise<void> {
    void Promise.resolve(operation(this)).catch((error) => this.#failures.push(error));
    await this.rest();
    await this.#passing;
  }

  /** Ends all faults, so that waiting operations can end. */
  async #end(): Promise<void> {
    this.#isReliable = true;
    for (const instance of this.instances) {
      instance.skewMs = 0;
      if (!instance.isUp) await this.#do(() => instance.start());
    }
    for (const operation of this.cast.ending) await this.#do(operation);
    await this.pass(13_000);
  }

  /** Appends an event to the log. */
  write(event: Event): void {
    this.log.push({ step: this.#step, at: this.now, ...event });
  }

  /** Milliseconds since the start, independent of the clocks that were set. */
  get now(): number {
    return this.clock.now() - START - this.#set;
  }

  rest(): Promise<void> {
    return this.#gate.rest();
  }

  /** Lets time pass. */
  pass(ms: number): Promise<void> {
    return this.#passing = this.clock.advance(ms, () => this.rest());
  }

  /** Sets all clocks. */
  setClock(ms: number): void {
    this.clock.step(ms);
    this.#set += ms;
  }

  // Choices

  chance(of100: number): boolean {
    return fraction(this.#choices) * 100 < of100;
  }

  below(n: number): number {
    return Math.floor(fraction(this.#choices) * n);
  }

  choose<T>(from: readonly T[]): T | undefined {
    return from[this.below(from.length)];
  }

  chooseWeighted<T extends { weight: number }>(from: readonly T[]): T {
    let rest = fraction(this.#choices) * from.reduce((sum, { weight }) => sum + weight, 0);
    const chosen = from.find(({ weight }) => (rest -= weight) < 0) ?? from.at(-1);
    if (!chosen) throw new Error("Nothing to choose from");
    return chosen;
  }

  // Names

  /** The name of the next item of a kind. */
  next(kind: string): string {
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    return kind + count;
  }

  /** Gives an ID or a secret the name that the log uses for it. */
  name(text: string, name: string, isSecret = false): string {
    this.#names.set(text, name);
    if (isSecret) this.secrets.add(text);
    return name;
  }

  nameOf(text: string): string {
    return this.#names.get(text) ?? "unknown";
  }

  /** Name of the agent whose AIT a request carries. */
  agentOf({ headers }: { headers: Headers }): string {
    return this.nameOf(aitOf(headers)).split(" ")[0] ?? "";
  }

  // The network

  get deps(): Omit<HttpDeps, "fetch"> {
    return { clock: this.clock, random: this.#ids };
  }

  /** The `fetch` of a client: the network decides the result. */
  fetch(call: Call): typeof fetch {
    return async (input, init) => {
      const request = new Request(input, init);
      const { url, method, headers } = request;
      const packet = { call, url, method, headers, body: request.body ? await request.arrayBuffer() : null };
      this.#sent.push(packet);
      const answer = await this.#send(packet);
      if (!answer) throw new TypeError("The network lost the request");
      return answer;
    };
  }

  /** Sends the same request again, as an observer of the network could. */
  async replay(): Promise<void> {
    const packet = this.choose(this.#sent.slice(-20));
    if (packet) await this.#serve(packet);
  }

  /** Delivers a request that the network held. */
  async arrive(): Promise<void> {
    const packet = this.#held.splice(this.below(this.#held.length), 1)[0];
    if (packet) await this.#serve(packet);
  }

  async #send(packet: Packet): Promise<Response | null> {
    const fault = this.#pickFault(FAULTS);
    if (fault) this.write({ kind: "lost", call: packet.call.name, how: fault });
    if (fault === "request lost") return null;
    if (fault === "delayed") {
      this.#held.push(packet);
      return null;
    }
    const second = fault === "doubled" ? this.#serve(packet) : null;
    const answer = await this.#serve(packet);
    await second;
    return fault === "answer lost" ? null : answer;
  }

  /** Sends a request to an instance. Returns `null` when the instance crashes before it answers. */
  async #serve({ call, url, method, headers, body }: Packet): Promise<Response | null> {
    const instance = this.choose(this.instances.filter(({ isUp }) => isUp));
    if (!instance) return null;
    const serving = ++this.#servings;
    const startedAt = this.now;
    this.write({ kind: "started", serving, call: call.name, instance: instance.name });
    call.started?.(serving);
    const { world } = instance;
    const app = url.startsWith(PROXY_URL) ? world.proxy : world.registry;
    const request = new Request(url, { method, headers, body });
    const answer = await Promise.race([app.fetch(request, world.peer), instance.gone]);
    if (!answer) return null;
    const { status } = answer;
    const text = await answer.text();
    const value = text === "" || !text.startsWith("{") ? undefined : JSON.parse(text);
    this.write({ kind: "answered", serving, status, code: value?.error?.code ?? "" });
    if (status >= 400) this.#errors.push(text);
    // A 502 means that the message was admitted.
    const isAdmitted = status < 400 || status === 502;
    const nonce = headers.get(HEADERS.nonce);
    if (nonce && !this.#names.has(nonce)) this.name(nonce, this.next("nonce "));
    if (nonce && isAdmitted) this.write({ kind: "used", thing: this.nameOf(nonce), by: `request ${serving}` });
    if (isAdmitted && call.counts) this.write({ kind: "counted", agent: call.counts, startedAt });
    if (status < 400) {
      const shown = [aitOf(headers), headers.get(HEADERS.access)].flatMap((text) => text ? [this.nameOf(text)] : []);
      const credentials = [...shown, ...call.credentials ?? []];
      if (call.area) this.write({ kind: "accepted", serving, area: call.area, credentials });
      call.served?.(value, serving);
    }
    return new Response(text === "" ? null : text, { status, headers: answer.headers });
  }

  /** Sends a request of an instance's proxy to the registry. */
  async connectionToRegistry(instance: Instance, request: Request): Promise<Response> {
    const ask = (request: Request) => instance.world.registry.fetch(request, { from: "process" });
    const fault = this.#pickFault(CONNECTION_FAULTS);
    if (fault) this.write({ kind: "note", text: `connection of ${instance.name} to the registry: ${fault}` });
    if (fault === "lost") throw new TypeError("The connection failed");
    if (fault === "slow") await sleep(instance.world.clock, 7000);
    if (fault === "doubled") await ask(request.clone());
    const answer = await ask(request);
    if (fault === "answer lost") throw new TypeError("The connection failed after the request");
    return answer;
  }

  #pickFault<F extends string>(faults: readonly (readonly [F, number])[]): F | null {
    let rest = this.#isReliable ? Infinity : fraction(this.#chances) * 100;
    return faults.find(([, of100]) => (rest -= of100) < 0)?.[0] ?? null;
  }
}

function aitOf(headers: Headers): string {
  return headers.get(HEADERS.authorization)?.replace(/^Svc /, "") ?? "";
}

/** Returns the violations of a run: the invariants that do not hold, with the facts. */
export function violations(run: Run): { invariant: string; problem: string }[] {
  return Object.entries(INVARIANTS).flatMap(([invariant, problemsOf]) =>
    problemsOf(run).map((problem) => ({ invariant, problem }))
  );
}
