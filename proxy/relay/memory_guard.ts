/**
 * Ends sockets that fill the memory with one endless message, or that send so many pings that the store seems silent.
 * The runtime keeps all fragments of a message until the last one has come, and answers pings itself, so this code sees
 * none of them. Meanwhile such a socket sends nothing else. So when memory runs out, when its use grows fast, or when the
 * store does not answer a busy process, every socket gets a heartbeat, and those that send nothing back are closed.
 */
import { type Cancel, repeat, sleep } from "../../shared/clock.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { CLOSE } from "../../shared/protocol/frames.ts";
import { CONNECT_WAIT_MAX_MS, type OwnerBudgets } from "../owner_budgets.ts";
import type { RelaySocket } from "./agent_sockets.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

/** Time between looks. With more, an attacker who sends 100 MB a second gains over 25 MB between two. */
const LOOK_MS = 250;
/**
 * Growth in a second, or above the bound since the last round, at which sockets get a heartbeat. With less, honest load
 * would cause it. With more, a small machine fills up.
 */
const GROWTH_BYTES = 67_108_864;
/**
 * Looks without an answer of the store after which sockets get a heartbeat. With less, honest load would cause it. With
 * more, one person's sockets could hold back all requests for longer. A time would also pass while the machine sleeps.
 */
const HELD_BACK_LOOKS = 3;
/**
 * Part of a processor that this process must have used meanwhile. With less, a disk that stands still would count as
 * pings, and cost people their sockets whose connector is asleep or waits for the same disk. With more, pings would not
 * be noticed on a machine that has much else to do.
 */
const BUSY_SHARE = 0.25;
/** Time for an answer. With less, a connector behind a slow line would be closed. */
const ANSWER_MS = 2_000;
/**
 * In how many steps silent sockets are ended. With one, honest sockets whose answers the server had no time to read
 * would end with those that kept it from reading. With more, these would fill the memory for longer.
 */
const STEPS = 3;
/**
 * Share of the largest suspicion from which an owner's sockets end with those of the most suspect one. With more, several
 * accounts of one person would end one after the other. With less, honest sockets would end with theirs.
 */
const SUSPECT_SHARE = 0.5;
/** Time for an answer after a step. With less, the server could not read the answers that had waited. */
const NEXT_ANSWER_MS = 500;
/** A timer that fires this late shows that the server was busy, so it may not have read all answers yet. */
const LATE_MS = 200;
/** How often a busy server waits for answers. With more, it would close no socket before its memory is full. */
const MAX_WAITS = 3;
/**
 * Time between two rounds while the memory only stays above the bound, because each round is a frame to every socket.
 */
const REST_MS = 30_000;

interface GuardDeps extends Pick<ServiceDeps, "clock" | "log"> {
  owners: OwnerBudgets;
  connectedAgents: ConnectedAgents;
  /** Bytes of memory that the process holds. */
  heldBytes(): number;
  /** The store, if it is a file. One on the network can be away, which says nothing about the sockets. */
  file: Pick<ServiceDeps["kv"], "get"> | null;
  /** Time for which processors have worked for this process, milliseconds. */
  processorMs(): number;
}

export class MemoryGuard {
  /** Bytes at the looks of the last second, oldest first. */
  #looks: number[] = [];
  /** Fewest bytes since the last round. */
  #least = Infinity;
  #askedAt = -Infinity;
  /** Looks since the read that has no answer yet, with that of the read itself. */
  #unanswered = 0;
  /** `processorMs()` at that read. */
  #usedBefore = 0;
  #cancel: Cancel = () => {};

  /** @param boundBytes memory above which sockets get a heartbeat; `Infinity` when only its growth counts */
  constructor(private readonly deps: GuardDeps, private readonly boundBytes: number) {}

  start(): void {
    this.#cancel = repeat(this.deps.clock, () => LOOK_MS, async () => {
      const bytes = this.deps.heldBytes();
      if (this.#isHeldBack() || this.#isFilling(bytes)) await this.#endSilent(bytes);
    });
  }

  stop(): void {
    this.#cancel();
  }

  #isFilling(bytes: number): boolean {
    const before = Math.min(...this.#looks, bytes);
    this.#looks = [...this.#looks, bytes].slice(-1000 / LOOK_MS);
    this.#least = Math.min(this.#least, bytes);
    if (bytes - before >= GROWTH_BYTES) return true;
    if (bytes <= this.boundBytes) return false;
    // A message that grows more slowly and begins after a round would otherwise fill the memory before the next one.
    if (bytes - this.#least >= GROWTH_BYTES) return true;
    // Without the absolute value, a clock that stepped back would stop the rounds for as long as the step.
    return Math.abs(this.deps.clock.now() - this.#askedAt) >= REST_MS;
  }

  /** Tells whether a read has no answer for so long that sockets may keep the process from it. */
  #isHeldBack(): boolean {
    const { file, processorMs } = this.deps, answered = () => void (this.#unanswered = 0);
    if (this.#unanswered === 0) {
      this.#usedBefore = processorMs();
      Promise.resolve(file?.get(KEYS.probe())).then(answered, answered);
    }
    if (++this.#unanswered <= HELD_BACK_LOOKS) return false;
    return processorMs() - this.#usedBefore >= BUSY_SHARE * LOOK_MS * this.#unanswered;
  }

  /** Asks every socket for a heartbeat, and ends those that sent nothing since, in up to three steps. */
  async #endSilent(bytes: number): Promise<void> {
    const { connectedAgents, clock, owners, log } = this.deps;
    const asked = connectedAgents.links().map((link) => ({ link, heard: link.lastHeard }));
    const askedAt = this.#askedAt = clock.now();
    for (const { link } of asked) link.heartbeat();
    const totals = countByOwner(asked.map(({ link }) => link)), ended: RelaySocket[] = [];
    for (let step = 1; step <= STEPS; step++) {
      await this.#wait(step === 1 ? ANSWER_MS : NEXT_ANSWER_MS);
      const open = new Set(connectedAgents.links());
      // Times are compared for being the same, because after a clock stepped back every answer would look too old.
      const silent = asked.filter(({ link, heard }) => open.has(link) && link.lastHeard === heard && heard !== askedAt)
        .map(({ link }) => link);
      if (silent.length === 0) break;
      const ending = step === STEPS ? silent : mostSuspect(silent, totals);
      for (const link of ending) link.drop(CLOSE.silent, "no heartbeat while the server had no room or no time");
      for (const { agent } of ending) owners.holdConnects(agent.ownerDid, CONNECT_WAIT_MAX_MS);
      ended.push(...ending);
    }
    this.#looks = [];
    this.#least = Infinity;
    if (ended.length === 0) return;
    const ownerDids = [...countByOwner(ended).keys()];
    log("warn", "memory_guard", { bytes, sockets: ended.length, ownerDids: ownerDids.slice(0, 20) });
  }

  /** Waits for answers; a busy server for longer. */
  async #wait(answerMs: number): Promise<void> {
    const { clock } = this.deps;
    for (let waits = 0; waits < MAX_WAITS; waits++) {
      const began = clock.now(), ms = waits === 0 ? answerMs : LATE_MS;
      await sleep(clock, ms);
      if (clock.now() - began < ms + LATE_MS) break;
    }
  }
}

/** Returns how many of these sockets each owner has. */
function countByOwner(links: readonly RelaySocket[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { agent: { ownerDid } } of links) counts.set(ownerDid, (counts.get(ownerDid) ?? 0) + 1);
  return counts;
}

/**
 * Returns the silent sockets of the most suspect owners. The most suspect one has most sockets of which none answers. Who
 * answers on another socket is less suspect than anyone who does not.
 */
function mostSuspect(silent: readonly RelaySocket[], totals: ReadonlyMap<string, number>): RelaySocket[] {
  const suspicion = new Map(
    [...countByOwner(silent)].map(([ownerDid, count]) => {
      const total = totals.get(ownerDid) ?? count;
      return [ownerDid, count === total ? count : count / total];
    }),
  );
  const most = Math.max(...suspicion.values());
  return silent.filter(({ agent }) => (suspicion.get(agent.ownerDid) ?? 0) >= most * SUSPECT_SHARE);
}
