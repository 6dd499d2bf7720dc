/**
 * The invariants of the network. Each is a pure function from the log of a simulation to its violations. I7 concerns
 * the files of the command line: `tests/e2e/cli_kill_test.ts` checks it.
 */
import { LIMITS } from "../../shared/protocol/limits.ts";
import { JOINING_WAIT_MS } from "../../shared/server/store/group_commit.ts";
import type { Area, Event, Logged } from "./events.ts";

/** The result of a simulation. */
export interface Run {
  log: readonly Logged[];
  /** Requests that an agent may make in a window. */
  limit: { requests: number; windowMs: number };
  /** Every secret that was returned. */
  secrets: readonly string[];
  /** Texts that must not hold a secret: log lines, records of the store, bodies of errors. */
  texts: readonly string[];
}

/** Time after its acknowledgement within which a revocation may still be unknown, milliseconds. */
const BOUND_MS: Readonly<Record<Area, number>> = {
  message: 0,
  connect: 0,
  receipt: 0,
  refresh: 0,
  // Checked without an access token, by the revocation list, which is used up to this age.
  pairing: LIMITS.crlMaxAgeMs,
};

export const INVARIANTS: Readonly<Record<string, (run: Run) => string[]>> = {
  I1: ({ log }) => singleUse(log),
  I2: ({ log }) => oneGeneration(log),
  I3: ({ log }) => revokedStaysOut(log),
  I4: ({ log }) => deliveredMeansAcked(log),
  I5: ({ log }) => framesOnlyToPeers(log),
  I6: ({ log, limit }) => withinLimit(log, limit.requests, limit.windowMs),
  I8: ({ log }) => listKeepsEntries(log),
  I9: ({ log }) => inOrder(log),
  I10: ({ secrets, texts }) => noSecrets(secrets, texts),
};

type Of<K extends Event["kind"]> = Extract<Logged, { kind: K }>;

function of<K extends Event["kind"]>(log: readonly Logged[], kind: K): Of<K>[] {
  return log.filter((event): event is Of<K> => event.kind === kind);
}

function grouped<T>(items: readonly T[], nameOf: (item: T) => string): [string, T[]][] {
  return [...Map.groupBy(items, nameOf)];
}

/** I1: one request uses each single-use item. */
function singleUse(log: readonly Logged[]): string[] {
  return grouped(of(log, "used"), ({ thing }) => thing).flatMap(([thing, uses]) => {
    const users = new Set(uses.map(({ by }) => by));
    return users.size > 1 ? [`${thing} was used by ${[...users].join(" and by ")}`] : [];
  });
}

/** I2: a refresh uses the newest token, or as recovery the one before, whose successor was not used. */
function oneGeneration(log: readonly Logged[]): string[] {
  return grouped(of(log, "refreshed"), ({ session }) => session).flatMap(([session, refreshes]) => {
    let current = 1, previous = 0;
    return refreshes.flatMap(({ presented, issued, recovery }) => {
      const isLive = presented === current || recovery && presented === previous;
      if (presented === current) previous = current;
      const was = current;
      current = issued;
      return isLive ? [] : [`${session} took generation ${presented} when ${was} was live`];
    });
  });
}

/** I3: a request that starts after a revocation was acknowledged is not accepted after the bound. */
function revokedStaysOut(log: readonly Logged[]): string[] {
  const revokedAt = new Map<string, number>();
  const startedAt = new Map<number, number>();
  const problems: string[] = [];
  for (const event of log) {
    if (event.kind === "revoked" && !revokedAt.has(event.credential)) revokedAt.set(event.credential, event.at);
    if (event.kind === "started") startedAt.set(event.serving, revokedAt.size);
    if (event.kind !== "accepted") continue;
    const before = [...revokedAt].slice(0, startedAt.get(event.serving));
    for (const [credential, at] of before) {
      if (!event.credentials.includes(credential) || event.at - at < BOUND_MS[event.area]) continue;
      problems.push(`a ${event.area} under ${credential} was accepted ${event.at - at} ms after its revocation`);
    }
  }
  return problems;
}

/**
 * I4: 202 `delivered:true` means that an acknowledgement was accepted, and then the message is not delivered again. An
 * acknowledged message gets no other answer. A message that a crash interrupted in between, or within the 20 ms in
 * which its outcome may wait for a commit, may be delivered once more.
 */
function deliveredMeansAcked(log: readonly Logged[]): string[] {
  const problems: string[] = [];
  const acked = new Map<string, number>(), delivered = new Map<string, Logged>();
  const startedAt = new Map<number, number>();
  const crashes = of(log, "crashed");
  const isInterrupted = (taken: Logged) =>
    crashes.some(({ step, at }) => step === taken.step || at >= taken.at && at < taken.at + JOINING_WAIT_MS);
  log.forEach((event, i) => {
    if (event.kind === "sent") startedAt.set(event.serving, i);
    if (event.kind === "acked" && event.accepted) acked.set(event.message, i);
    if (event.kind === "taken" && event.as === "delivered") {
      if (!acked.has(event.message)) problems.push(`${event.message} counts as delivered without an ack`);
      delivered.set(event.message, event);
    }
    if (
      event.kind === "taken" && event.as === "refused" &&
      (acked.get(event.message) ?? -1) > Number(startedAt.get(event.serving))
    ) {
      problems.push(`${event.message} was acknowledged and answered as refused`);
    }
    if (event.kind === "frame") {
      const taken = delivered.get(event.message);
      if (taken && taken.step < event.step && !isInterrupted(taken)) {
        problems.push(`${event.message} was delivered again after its 202`);
      }
    }
  });
  return problems;
}

/** I5: no frame goes to an agent that is not paired with the sender. */
function framesOnlyToPeers(log: readonly Logged[]): string[] {
  const pairs = new Set<string>();
  const nameOf = (agents: readonly string[]) => [...agents].sort().join(" and ");
  return log.flatMap((event) => {
    if (event.kind === "paired") pairs.add(nameOf(event.agents));
    if (event.kind === "unpaired") pairs.delete(nameOf(event.agents));
    if (event.kind !== "frame" || pairs.has(nameOf([event.from, event.to]))) return [];
    return [`${event.message} went from ${event.from} to ${event.to}, who are not a pair`];
  });
}

/** I6: no window has more accepted requests than the limit while the clocks agree and are not set. */
function withinLimit(log: readonly Logged[], requests: number, windowMs: number): string[] {
  const problems: string[] = [];
  let counted = new Map<string, number[]>();
  let isSkewed = false;
  for (const event of log) {
    if (event.kind === "clock") {
      isSkewed = event.skewed;
      counted = new Map();
    }
    if (event.kind !== "counted" || isSkewed) continue;
    const { agent, startedAt } = event;
    const moments = [...counted.get(agent) ?? [], startedAt];
    counted.set(agent, moments);
    const inWindow = moments.filter((at) => Math.abs(startedAt - at) < windowMs);
    const most = Math.max(
      ...inWindow.map((from) => inWindow.filter((at) => at >= from && at < from + windowMs).length),
    );
    if (most > requests) problems.push(`${agent} made ${most} requests in a window of ${windowMs} ms`);
  }
  return problems;
}

/** I8: a revoked or listed entry stays listed, and the sequence number of the list does not fall. */
function listKeepsEntries(log: readonly Logged[]): string[] {
  const known = new Set<string>();
  let last = 0;
  return log.flatMap((event) => {
    // A session is not on the list.
    if (event.kind === "revoked" && / ait \d+$/.test(event.credential)) known.add(event.credential);
    if (event.kind !== "listed") return [];
    const gone = [...known].filter((ait) => !event.aits.includes(ait));
    const problems = gone.map((ait) => `list ${event.seq} has lost ${ait}`);
    if (event.seq < last) problems.push(`list ${event.seq} came after ${last}`);
    last = event.seq;
    for (const ait of event.aits) known.add(ait);
    return problems;
  });
}

/**
 * I9: a message that was accepted before another of the same sender was sent is delivered before it, while the clocks
 * agree: with a clock that is off by more than a lease, an instance that is alive counts as dead.
 */
function inOrder(log: readonly Logged[]): string[] {
  const first = (kind: "taken" | "sent" | "frame") => {
    const at = new Map<string, number>();
    let isSkewed = false;
    log.forEach((event, i) => {
      if (event.kind === "clock") isSkewed = event.skewed;
      if (event.kind !== kind || at.has(event.message)) return;
      at.set(event.message, isSkewed && kind === "taken" ? Infinity : i);
    });
    return at;
  };
  const taken = first("taken"), sent = first("sent"), handed = first("frame");
  const lines = grouped(of(log, "frame"), ({ from, to }) => `${from} ${to}`);
  return lines.flatMap(([, frames]) => {
    const messages = [...new Set(frames.map(({ message }) => message))];
    return messages.flatMap((a) =>
      messages
        .filter((b) => sent.has(b) && at(taken, a) < at(sent, b) && at(handed, b) < at(handed, a))
        .map((b) => `${b} overtook ${a}, which was accepted before it was sent`)
    );
  });
}

/** No secret is in records, logs or error answers. */
function noSecrets(secrets: readonly string[], texts: readonly string[]): string[] {
  return texts.filter((text) => secrets.some((secret) => text.includes(secret)))
    .map((text) => `a secret is in: ${text.slice(0, 120)}`);
}

function at(moments: ReadonlyMap<string, number>, name: string): number {
  return moments.get(name) ?? Infinity;
}
