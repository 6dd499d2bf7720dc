/** The clients of a chaos run: agents with the links of the client library, and what they saw. */
import { ReconnectingLink } from "../../../cli/link/reconnect.ts";
import { openLink } from "../../../cli/link/link.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { systemClock } from "../../../shared/clock.ts";
import { CLOSE } from "../../../shared/protocol/frames.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { systemRandom } from "../../../shared/random.ts";
import { AgentClient, ApiError, type HttpDeps, RegistryClient, signedHeaders } from "../../support/agent_client.ts";
import { deps, type LiveAgent, newId } from "../../support/process.ts";
import type { Cluster } from "./cluster.ts";
import type { Fact } from "./history.ts";
import { INSTANCES } from "./plan.ts";

type Sent = { instance: number; path: string; init: RequestInit };

/** Every connection is new: the runtime repeats a request on a kept one that ends. */
const single = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });

let address = 0;

/** The clients of one run, with one history. */
export class World {
  readonly history: Fact[] = [];
  readonly began = performance.now();
  #requests = 0;

  constructor(readonly cluster: Cluster) {}

  get now(): number {
    return performance.now() - this.began;
  }

  note(fact: { [K in Fact["kind"]]: Omit<Extract<Fact, { kind: K }>, "at"> }[Fact["kind"]]): void {
    this.history.push({ at: this.now, ...fact } as Fact);
  }

  /** Returns the instance to which a load balancer passes a connection; `preferred` is the one that it used before. */
  balance = (preferred: number): number => preferred;

  /** Codes of the connections that were refused. */
  readonly refusedLinks: string[] = [];

  newRequest(): number {
    return ++this.#requests;
  }

  /** Sends requests to an instance. Each has an address of its own, so that no limit per address applies. */
  async dial(instance: number, path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    address++;
    headers.set("X-Forwarded-For", `10.${(address >> 16) & 255}.${(address >> 8) & 255}.${address & 255}`);
    return await fetch(this.cluster.dial(instance) + path, { ...init, headers, client: single });
  }

  /** What the clients of the services need, at an instance. */
  depsAt(instance: () => number, seen?: (sent: Sent) => void): HttpDeps {
    const dial = (input: string | URL | Request, init: RequestInit = {}) => {
      const { pathname, search } = new URL(String(input));
      const sent = { instance: instance(), path: pathname + search, init };
      seen?.(sent);
      return this.dial(sent.instance, sent.path, init);
    };
    return { ...deps, fetch: dial as typeof fetch };
  }

  registryAt(instance: number): RegistryClient {
    return new RegistryClient(this.depsAt(() => instance), this.cluster.origin);
  }
}

/** An agent of a run. */
export class ChaosAgent {
  /** The instance that it uses. */
  instance: number;
  /** The instance to which it sends in a restart of instances. */
  sendsAt: number;
  /** Refresh tokens that it was given. */
  readonly tokens: string[];
  readonly #world: World;
  #links = 0;
  readonly #running = new Set<ReconnectingLink>();
  readonly #done: Promise<unknown>[] = [];

  constructor(world: World, readonly number: number, readonly live: LiveAgent) {
    this.#world = world;
    this.instance = this.sendsAt = number % INSTANCES;
    this.tokens = [live.agentAuth.refreshToken];
  }

  /** True while a link is open. */
  get isConnected(): boolean {
    return [...this.#running].some(({ status }) => status.state === "connected");
  }

  /** Why no link is open. */
  get problem(): string {
    return [...this.#running].map(({ status }) => `${status.state}: ${status.problem}`).join("; ") || "no link";
  }

  /** Keeps a link open at the agent's instance, or at another one while it fails. */
  connect(): void {
    const { live, number } = this;
    let at = this.instance, used = "";
    const session = {
      current: () => Promise.resolve({ ...live.identity, accessToken: used = live.identity.accessToken }),
      renew: () => this.renew(used),
      accessExpiresAt: Infinity,
      identityExpiresAt: Infinity,
      stop: () => {},
    };
    const link = new ReconnectingLink({
      clock: systemClock,
      random: systemRandom,
      serviceClock: new ServiceClock(systemClock),
      session,
      open: async (agent, events) => {
        const instance = this.#world.balance(at);
        const place = { dialUrl: this.#world.cluster.dial(instance), origin: this.#world.cluster.origin };
        const mine = this.#links + 1;
        const deliver: typeof events.deliver = (frame) => {
          this.#world.note({ kind: "received", message: frame.requestId, agent: number, link: mine });
          return events.deliver(frame);
        };
        // A load balancer sends the next attempt elsewhere.
        at = (instance + 1) % INSTANCES;
        const opened = await openLink({ ...deps, newId }, place, agent, { ...events, deliver });
        at = instance;
        this.#links = Math.max(this.#links, mine);
        this.instance = instance;
        this.#world.note({ kind: "opened", agent: number, link: mine, instance });
        return opened;
      },
      // The older link of a move stops, because otherwise it would come back and replace the newer one.
      emit: (event, fields) => {
        if (event === "disconnected" && fields?.code === CLOSE.replaced) link.stop();
        if (event === "refused") this.#world.refusedLinks.push(String(fields?.code));
      },
    }, {
      deliver: () => Promise.resolve({ accepted: true }),
      paired: () => {},
      delivery: () => {},
      connected: () => {},
      lost: () => {},
    });
    this.#running.add(link);
    this.#done.push(link.run().finally(() => this.#running.delete(link)));
  }

  /** Opens a link at another instance, without closing the first. */
  move(): void {
    this.instance = (this.instance + 1) % INSTANCES;
    this.connect();
  }

  /** Sends a message, with its requests noted. Returns how it was answered. */
  async send(to: ChaosAgent, message: string, prefer: boolean, instance = this.instance): Promise<string> {
    const request = this.#world.newRequest();
    let isNoted = false;
    const noting = new AgentClient(
      this.#world.depsAt(() => instance, (sent) => {
        this.#last = sent;
        isNoted = true;
        this.#sent(message, sent, to, request);
      }),
      this.#world.cluster.origin,
      this.live.identity,
    );
    const body = {
      recipientDid: to.live.identity.did,
      payload: `{"n":"${message}"}`,
      requestId: message,
      ...(prefer ? { prefer: "respond-async" as const } : {}),
    };
    try {
      const { delivered, queued } = await noting.sendMessage(body);
      return this.#answered(request, queued ? "queued" : delivered ? "delivered" : "refused", "");
    } catch (error) {
      if (!isNoted) throw error;
      if (error instanceof ApiError) return this.#answered(request, "refused", error.code ?? String(error.status));
      return this.#answered(request, "lost", String(error));
    }
  }
  #last: Sent | null = null;

  /** Sends the agent's last request again, with the same nonce, at another instance. */
  async replay(to: ChaosAgent, message: string): Promise<void> {
    const last = this.#last;
    if (!last || new Headers(last.init.headers).get(HEADERS.requestId) !== message) return;
    const request = this.#world.newRequest();
    const sent = { ...last, instance: (last.instance + 1) % INSTANCES };
    this.#sent(message, sent, to, request);
    try {
      const response = await this.#world.dial(sent.instance, sent.path, sent.init);
      const answer = await response.json();
      if (response.status === 202) this.#answered(request, answer.queued ? "queued" : "delivered", "");
      else this.#answered(request, "refused", answer.error?.code ?? String(response.status));
    } catch (error) {
      this.#answered(request, "lost", String(error));
    }
  }

  #sent(message: string, { instance, init }: Sent, to: ChaosAgent, request: number): void {
    const nonce = new Headers(init.headers).get(HEADERS.nonce) ?? "";
    this.#world.note({ kind: "sent", message, nonce, from: this.number, to: to.number, instance, request });
  }

  #answered(request: number, as: "delivered" | "queued" | "refused" | "lost", code: string): string {
    this.#world.note({ kind: "answered", request, as, code });
    return code || as;
  }

  /** Runs a refresh of the session, one after the other. */
  async refreshing<T>(refresh: () => Promise<T>): Promise<T> {
    const before = this.#refreshed;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#refreshed = promise;
    await before;
    try {
      return await refresh();
    } finally {
      resolve();
    }
  }
  #refreshed = Promise.resolve();

  /**
   * Replaces a refused access token: a refresh without an answer may have ended it. Returns false when the registry gives
   * no new one.
   */
  renew(refused: string): Promise<boolean> {
    const { identity } = this.live;
    return this.refreshing(async () => {
      if (identity.accessToken !== refused) return true;
      const token = this.tokens.at(-1) ?? "";
      const registry = this.#world.registryAt(this.instance);
      // As a connector does: the answer of an earlier refresh with this token may be lost.
      const auth = await registry.refresh(identity, token).catch(() => registry.refresh(identity, token, true))
        .catch(() => null);
      if (!auth) return false;
      this.tokens.push(auth.refreshToken);
      identity.accessToken = auth.accessToken;
      return true;
    });
  }

  /** Sends a signed request to the proxy. Returns its status. */
  async signed(path: string, body: unknown, instance = this.instance): Promise<number> {
    const text = JSON.stringify(body);
    const request = { method: "POST", url: this.#world.cluster.origin, target: path, body: text };
    const headers = {
      ...await signedHeaders(deps, this.live.identity, request),
      "Content-Type": "application/json",
      [HEADERS.access]: this.live.identity.accessToken,
    };
    const response = await this.#world.dial(instance, path, { method: "POST", headers, body: text });
    await response.body?.cancel();
    return response.status;
  }

  async stop(): Promise<void> {
    for (const link of this.#running) link.stop();
    await Promise.allSettled(this.#done);
  }
}
