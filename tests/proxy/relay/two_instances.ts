/** Two proxy instances on one store, for tests of what they do together. */
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { InstanceLease } from "../../../proxy/schema/records.ts";
import { RENEW_MS } from "../../../proxy/relay/instance_leases.ts";
import { wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import type { LinkNetwork } from "../../support/link_network.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import { type SocketBehaviour, type TestAgent, World, type WorldOptions } from "../../support/world.ts";

/** An empty store for one test. */
export interface SharedStore extends AsyncDisposable {
  kv: Deno.Kv;
  maxChecks: number;
  /** With one the instances have a link. */
  network?: LinkNetwork;
}

/** An empty store for one test, and with a network a link between its instances. */
export async function sharedStore(network?: LinkNetwork): Promise<SharedStore> {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  const store = { kv, maxChecks: MAX_CHECKS, [Symbol.asyncDispose]: () => Promise.resolve(kv.close()) };
  return network ? { ...store, network } : store;
}

export type Run = (w1: World, w2: World, a: TestAgent, b: TestAgent) => Promise<void>;

/** Two instances on one store, with agents a and b paired. */
export async function two(open: () => Promise<SharedStore>, run: Run, options: WorldOptions = {}): Promise<void> {
  const store = await open();
  const { kv, maxChecks, network } = store;
  {
    const place = network ? { ...options, kv, maxChecks, network } : { ...options, kv, maxChecks };
    await using w1 = await World.open({ ...place, seed: 1 });
    await using w2 = await World.open({ ...place, seed: 2, clock: w1.clock });
    if (network) {
      network.at.set("w1", () => w1.proxy.deps.links);
      network.at.set("w2", () => w2.proxy.deps.links);
      await w1.proxy.start({ address: "w1" });
      await w2.proxy.start({ address: "w2" });
      // The one that started first learns of the other at its next look.
      await w1.clock.advance(RENEW_MS);
      await until(() => w1.proxy.deps.links.size === 1 && w2.proxy.deps.links.size === 1);
    } else {
      await Promise.all([w1.proxy.start(), w2.proxy.start()]);
    }
    const { a, b } = await w1.pairedAgents();
    await run(w1, w2, a, b);
  }
  await flushTasks();
  await store[Symbol.asyncDispose]();
}

/** Connects an agent to an instance and waits until its presence is stored. */
export async function connected(w: World, agent: TestAgent, behaviour: SocketBehaviour = "ack") {
  const socket = w.connect(agent, behaviour);
  await until(async () => {
    const { value } = await w.kv.get<{ instance: string }>(KEYS.presence(agent.agent.did));
    return value?.instance === w.proxy.deps.presence.instance;
  });
  return socket;
}

/** Lets an instance renew its lease no longer, as a crash does. It still handles notes, and its sockets stay. */
export async function kill({ kv, clock, proxy }: World): Promise<void> {
  const { leases } = proxy.deps, key = KEYS.instance(leases.instance);
  await leases.stop();
  await kv.set(key, { at: clock.now(), pid: 1, state: "serving" } satisfies InstanceLease);
}
