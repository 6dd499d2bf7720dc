/** Two servers, each with an agent and its connector, for tests of pairs and messages between them. */
import { assert } from "@std/assert";
import { answered } from "../../support/registry_world.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { until } from "../../support/until.ts";
import { Bench, type BenchOptions } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";

export interface Side {
  world: World;
  agent: TestAgent;
  bench: Bench;
}

/** A server with an agent and its connector. */
export async function side(
  host: string,
  name: string,
  clock: ManualClock,
  seed: number,
  options: BenchOptions = {},
): Promise<Side> {
  const at = { registryUrl: `https://${host}`, proxyUrl: `https://relay.${host}` };
  const world = await World.open({
    clock,
    at,
    seed,
    sharedProcess: true,
    registry: { accessTokenTtlSeconds: 100_000 },
    proxy: { agentRequests: 10_000 },
  });
  const agent = await world.agent(undefined, name);
  const bench = await Bench.open(world, agent, { platform: "inbox", ...options });
  bench.session.onVisit = async (audience) => {
    const body = JSON.stringify({ audience }), base = at.registryUrl;
    const target = "/v1/agents/auth/visit";
    const answer = await world.fetch(await world.signed(agent, { base, target, body }));
    return (await answered<{ token: string }>(answer, 201)).token;
  };
  return { world, agent, bench };
}

export const GONE = new TypeError("client error (Connect)");

export class TwoServers implements AsyncDisposable {
  private constructor(readonly clock: ManualClock, readonly a: Side, readonly b: Side) {}

  /** @param options of the connector of beta */
  static async open(options: BenchOptions = {}): Promise<TwoServers> {
    const clock = new ManualClock();
    const a = await side("a.example", "alpha", clock, 1);
    const b = await side("b.example", "beta", clock, 2, options);
    a.world.others.push(b.world);
    b.world.others.push(a.world);
    return new TwoServers(clock, a, b);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { bench } of [this.a, this.b]) await bench[Symbol.asyncDispose]();
    for (const { world } of [this.a, this.b]) await world[Symbol.asyncDispose]();
  }

  /** alpha makes a ticket. */
  async ticket(): Promise<string> {
    return (await local<{ ticket: string }>(this.a.bench, "/v1/pair/start", {})).ticket;
  }

  async pair(): Promise<void> {
    await local(this.b.bench, "/v1/pair/confirm", { ticket: await this.ticket() });
    await until(() => "beta@b.example" in this.a.bench.peers);
  }

  /** Answers requests of beta in place of alpha's server, which gets those for which there is none. Returns what ends it. */
  intercept(answer: (request: Request) => Response | TypeError | null): () => void {
    const { proxy } = this.a.world, reach = proxy.fetch;
    proxy.fetch = async (request, peer) => {
      const isOfBeta = request.headers.get("authorization")?.includes(this.b.agent.identity.ait);
      const answered = isOfBeta ? answer(request) : null;
      if (answered instanceof TypeError) throw answered;
      return answered ?? await reach(request, peer);
    };
    return () => void (proxy.fetch = reach);
  }

  /** Beta cannot reach alpha's server. Returns what ends it. */
  away(): () => void {
    return this.intercept(() => GONE);
  }

  async passHalfAnHour(): Promise<void> {
    for (let minute = 0; minute < 30; minute++) await this.clock.advance(60_000);
  }
}

/** Loses the answers of a server for one path: `instead` comes in their place. Returns what ends it. */
export function losing(
  server: Pick<World["proxy"], "fetch">,
  path: string,
  instead: () => Promise<Response>,
): () => void {
  const reach = server.fetch;
  server.fetch = async (request, peer) => {
    const answer = await reach(request, peer);
    if (!request.url.endsWith(path)) return answer;
    await answer.body?.cancel();
    return await instead();
  };
  return () => void (server.fetch = reach);
}

export const request = (bench: Bench, path: string, body: unknown) => asker(bench)(path, post(body));

/** A call of the local API, answered. */
export async function local<T>(bench: Bench, path: string, body: unknown): Promise<T> {
  const { status, body: answer, text } = await request(bench, path, body);
  assert(status < 300, `${path}: ${status} ${text}`);
  return answer;
}

/** A message that waits at its sender while it cannot leave. */
export const KEEP = { prefer: "respond-async", keep: true };

export const send = (bench: Bench, to: string, text: string, more: Record<string, unknown> = {}) =>
  local<{ delivered: boolean; queued?: boolean; state?: string; requestId: string }>(bench, "/v1/outbound", {
    to,
    payload: { message: text },
    ...more,
  });

export const texts = (bench: Bench) =>
  bench.connector.store.received.list({ unread: true, limit: 50 }).messages.map(({ payload }) =>
    JSON.parse(payload).message
  );
