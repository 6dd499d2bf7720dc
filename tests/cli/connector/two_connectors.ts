/** The connectors of alpha and beta, which a ticket pairs, and answers that a test holds back. */
import { until } from "../../support/until.ts";
import type { World } from "../../support/world.ts";
import { Bench, type BenchOptions } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";

/** Alpha and beta read their messages; alpha makes tickets, and beta confirms them. */
export async function two(world: World, ofAlpha: BenchOptions = {}, ofBeta: BenchOptions = {}) {
  const [a, b] = [await world.agent(undefined, "alpha"), await world.agent(undefined, "beta")];
  const one = await Bench.open(world, a, { platform: "inbox", ...ofAlpha });
  const other = await Bench.open(world, b, { platform: "inbox", ...ofBeta });
  const ticketOf = async (body: object = {}) => (await asker(one)("/v1/pair/start", post(body))).body.ticket as string;
  const confirm = (ticket: string) => asker(other)("/v1/pair/confirm", post({ ticket }));
  const pinned = () => until(() => one.connector.peers.of(b.agent.did)?.how === "ticket");
  return { a, b, one, other, ticketOf, confirm, pinned };
}

/** `fetch` that gives out the answers for one path only after their release. */
export function held(world: World, path: string) {
  const asked = Promise.withResolvers<void>(), released = Promise.withResolvers<void>();
  const state = {
    requests: 0,
    asked: asked.promise,
    release: () => released.resolve(),
    fetch: (async (input: string, init?: RequestInit) => {
      const response = await world.fetch(input, init);
      if (new URL(input).pathname !== path) return response;
      state.requests++;
      asked.resolve();
      await released.promise;
      return response;
    }) as typeof fetch,
  };
  return state;
}
