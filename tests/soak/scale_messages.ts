/**
 * A million agents send messages over a hundred instances with links, on paper. The store answers every call after one round
 * trip; its CPU is added up, not waited for. A link takes no time, because it is one hop where a call of the store is several.
 */
import { numbersFrom } from "../support/seeded_random.ts";
import { CommitQueue, Events, nextWait, quantile, type UnitCosts } from "./scale_store.ts";

export interface MessageLoad {
  agents: number;
  instances: number;
  /** Messages of one agent per minute. */
  perMinute: number;
  /** Simulated time, ms; the second half counts. */
  ms: number;
  seed: number;
}

export interface MessageFigures {
  messagesPerSecond: number;
  /** Share of the messages whose recipient is at another instance. */
  crossing: number;
  /** Of all instances together. */
  commitsPerSecond: number;
  readsPerSecond: number;
  /** Cores of the store that the calls use. */
  storeCores: number;
  /** Writing threads that the commits fill. A denokv has one. */
  storeWriters: number;
  /** Share of a core that messages use at one instance. */
  instanceCore: number;
  /** From the request to the answer, of messages to another instance that were answered, ms. */
  p50Ms: number | null;
  p99Ms: number | null;
  /** False when messages wait longer and longer: the instances cannot commit as much as arrives. */
  isStable: boolean;
}

/** Reads of every message: pair, agent, session and presence together. */
const READS_OF_MESSAGE = 1;
/** Reads of the recipient's instance before it delivers: pair and record of the sender together. */
const READS_OF_DELIVERY = 1;

/** True when the second half of the waits is not much longer than the first. */
function isFlat(waits: readonly number[]): boolean {
  const middle = waits.length >> 1;
  const [early, late] = [waits.slice(0, middle), waits.slice(middle)].map((half) => quantile(half, 0.5) ?? Infinity);
  return late! <= 1.1 * early!;
}

/** Simulates the messages of some seconds. */
export function simulateMessages(load: MessageLoad, costs: UnitCosts): MessageFigures {
  const { agents, instances, perMinute, ms, seed } = load;
  const chance = numbersFrom(seed), events = new Events();
  const at = Uint8Array.from({ length: agents }, () => Math.floor(chance() * instances));
  const queues = Array.from({ length: instances }, () => new CommitQueue(events, costs));
  const waits: number[] = [];
  let sent = 0, crossed = 0, reads = 0;
  const { roundTripMs, messageChecks } = costs;

  const outcome = (sender: number) => queues[sender]!.claim(1, () => {});
  const post = () => {
    const sender = at[Math.floor(chance() * agents)]!, recipient = at[Math.floor(chance() * agents)]!;
    const began = events.now;
    sent++;
    reads += READS_OF_MESSAGE;
    events.after(roundTripMs * READS_OF_MESSAGE, () =>
      queues[sender]!.claim(messageChecks, () => {
        if (sender === recipient) return outcome(sender);
        crossed++;
        reads += READS_OF_DELIVERY;
        events.after(roundTripMs * READS_OF_DELIVERY, () => {
          waits.push(events.now - began);
          outcome(sender);
        });
      }));
  };
  const perMs = agents * perMinute / 60_000;
  const arrive = () => {
    post();
    events.after(nextWait(perMs, chance()), arrive);
  };
  events.after(0, arrive);
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const totals = () => ({
    sent,
    crossed,
    commits: sum(queues.map((queue) => queue.commits)),
    reads,
    answered: waits.length,
  });
  // At the start no message is under way, so the first half does not count.
  events.runUntil(ms / 2);
  const start = totals();
  events.runUntil(ms);
  const end = totals(), late = waits.slice(start.answered);
  const perSecond = (what: keyof typeof end) => (end[what] - start[what]) / (ms / 2) * 1000;
  const within = perSecond("sent") - perSecond("crossed");
  return {
    messagesPerSecond: perSecond("sent"),
    crossing: perSecond("crossed") / perSecond("sent"),
    commitsPerSecond: perSecond("commits"),
    readsPerSecond: perSecond("reads"),
    storeCores: (perSecond("commits") * costs.storeCommitMs + perSecond("reads") * costs.storeReadMs) / 1000,
    storeWriters: perSecond("commits") * costs.storeWriteMs / 1000,
    instanceCore: (within * costs.messageMs + perSecond("crossed") * costs.crossingMs) / instances / 1000,
    p50Ms: quantile(late, 0.5),
    p99Ms: quantile(late, 0.99),
    isStable: isFlat(late),
  };
}
