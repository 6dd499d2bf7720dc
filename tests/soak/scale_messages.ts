/**
 * A million agents send messages over a hundred instances, on paper: commits in claims, notes in the inbox of an
 * instance, one wake-up for all notes of a commit that the watch reports together, reads of fifty notes at once. The
 * store answers every call after one round trip; its CPU is added up, not waited for.
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
  notesPerSecond: number;
  wakeUpsPerSecond: number;
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

/** Notes that one commit takes out of an inbox, as in proxy/relay/instance_inbox.ts. */
const NOTES_AT_ONCE = 50;
/** Half of a round trip: from the commit of a note to the watch. */
const WATCH_SHARE = 0.5;

/** The inbox of one instance. */
class Inbox {
  wakeUps = 0;
  readCalls = 0;
  commits = 0;
  #notes: { hasBody: boolean; handle: () => void }[] = [];
  #isReading = false;
  #isRung = false;

  constructor(readonly events: Events, readonly roundTripMs: number) {}

  add(hasBody: boolean, handle: () => void): void {
    this.#notes.push({ hasBody, handle });
    this.events.after(this.roundTripMs * WATCH_SHARE, () => this.#ring());
  }

  /** A change of the wake key. A busy reader receives any number of changes as one. */
  #ring(): void {
    if (this.#isReading) {
      this.#isRung = true;
      return;
    }
    this.#isReading = true;
    this.wakeUps++;
    this.#read();
  }

  #read(): void {
    this.readCalls++;
    this.events.after(this.roundTripMs, () => {
      const notes = this.#notes.splice(0, NOTES_AT_ONCE);
      if (notes.length === 0) return this.#rest();
      const bodies = notes.filter(({ hasBody }) => hasBody).length;
      this.readCalls += bodies;
      // The parts of all notes are read together. One commit deletes the notes; only a full read waits for it.
      this.events.after(bodies > 0 ? this.roundTripMs : 0, () => {
        for (const { handle } of notes) handle();
        this.commits++;
        if (notes.length < NOTES_AT_ONCE) return this.#rest();
        this.events.after(this.roundTripMs, () => this.#read());
      });
    });
  }

  #rest(): void {
    this.#isReading = false;
    if (!this.#isRung) return;
    this.#isRung = false;
    this.#ring();
  }
}

/** Read of a note's message before it is delivered: is the pair still there? */
const READS_OF_DELIVERY = 1;
/** Reads of every message: pair, agent, session and presence together. */
const READS_OF_MESSAGE = 1;
/** Read of a sender's instance: the lease of the recipient's instance. */
const READS_OF_FORWARD = 1;

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
  const inboxes = Array.from({ length: instances }, () => new Inbox(events, costs.roundTripMs));
  const waits: number[] = [];
  let sent = 0, crossed = 0, notes = 0, reads = 0;
  const { roundTripMs, messageChecks } = costs;

  const outcome = (sender: number) => queues[sender]!.claim(1, () => {});
  const post = () => {
    const sender = at[Math.floor(chance() * agents)]!, recipient = at[Math.floor(chance() * agents)]!;
    const began = events.now;
    sent++;
    reads += READS_OF_MESSAGE;
    if (sender === recipient) {
      return events.after(
        roundTripMs * READS_OF_MESSAGE,
        () => queues[sender]!.claim(messageChecks, () => outcome(sender)),
      );
    }
    crossed++;
    reads += READS_OF_FORWARD;
    events.after(roundTripMs * (READS_OF_MESSAGE + READS_OF_FORWARD), () =>
      queues[sender]!.claim(messageChecks, () => {
        notes++;
        inboxes[recipient]!.add(true, () => {
          reads += READS_OF_DELIVERY;
          events.after(roundTripMs * READS_OF_DELIVERY, () =>
            queues[recipient]!.claim(1, () => {
              notes++;
              inboxes[sender]!.add(false, () => {
                waits.push(events.now - began);
                outcome(sender);
              });
            }));
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
    notes,
    wakeUps: sum(inboxes.map((inbox) => inbox.wakeUps)),
    commits: sum(queues.map((queue) => queue.commits)) + sum(inboxes.map((inbox) => inbox.commits)),
    reads: reads + sum(inboxes.map((inbox) => inbox.readCalls)),
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
    notesPerSecond: perSecond("notes"),
    wakeUpsPerSecond: perSecond("wakeUps"),
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
