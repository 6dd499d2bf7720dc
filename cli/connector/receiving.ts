/**
 * Takes messages from the link: checks each one against its sender's proof (D-143), pins the key of a new contact, and
 * stores the message before it is acknowledged. Messages of one sender are stored in the order in which they came.
 */
import * as z from "zod";
import { sleep } from "../../shared/clock.ts";
import type { AckReason } from "../../shared/protocol/ack_reasons.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import { describeError } from "../../shared/client/refusals.ts";
import type { Ack } from "../link/link.ts";
import { Undecided } from "../link/reconnect.ts";
import { MinuteCounts } from "../link/minute_counts.ts";
import { checkProof, type ProofCheck, type ProvenMessage, type Recipient } from "./check_proof.ts";
import type { Parts } from "./parts.ts";
import type { Pairing } from "./pairing.ts";
import { noteOtherKey, pinContact, pinOf } from "./peers/peers.ts";
import { DiskFullError } from "./store/database.ts";
import type { StoreResult, TakenMessage } from "./store/received_messages.ts";

/** Time between two reads of the peers for strangers. With less, their messages cost the proxy requests without end. */
const LOOK_UP_MS = 3_000;
/** Senders with refusals, and pairs, that are reported in a minute. With more, a relay that invents them fills the log. */
export const REPORTS_A_MINUTE = 50;
/** Test messages of a peer that get a receipt. With more, a peer could make this agent send receipts without end. */
export const PROBES_A_MINUTE = 10;

interface ReceivingDeps extends Parts {
  agent: Recipient;
  pairing: Pairing;
  /** Closes the link until messages can be decided, because a refused one would be lost after five attempts. */
  onUndecided(why: string): void;
}

export class Receiving {
  /** The last message of each sender that is being judged or stored, for which the next one waits. */
  readonly #turns = new Map<string, Promise<unknown>>();
  #arrivals: (PromiseWithResolvers<StoreResult> & { message: TakenMessage })[] = [];
  #lookedUpAt = -Infinity;
  #lookingUp: Promise<boolean> | null = null;
  /** Messages that wait until the peers are read again. */
  #strangers = 0;
  readonly #refusals = new MinuteCounts();
  readonly #probes = new MinuteCounts();
  refused = 0;
  #problem: string | null = null;

  constructor(private readonly deps: ReceivingDeps) {}

  /** Why messages cannot be stored, or the last one could not; `null` when they can. */
  get problem(): string | null {
    return this.#problem ?? this.deps.store.database.problem;
  }

  /** Checks and stores a message. Returns its acknowledgement. @throws {Undecided} when it stays at the proxy */
  async deliver(frame: DeliverFrame): Promise<Ack> {
    if (frame.toAgentDid !== this.deps.agent.did) return this.#refuse(frame, "wrong_recipient");
    const from = frame.fromAgentDid, before = this.#turns.get(from);
    const taking = this.#take(frame, this.#judge(frame), before);
    const turn = taking.catch(() => {}).finally(() => {
      if (this.#turns.get(from) === turn) this.#turns.delete(from);
    });
    this.#turns.set(from, turn);
    try {
      return await taking;
    } catch (error) {
      if (error instanceof Undecided) this.deps.onUndecided(error.message);
      throw error;
    }
  }

  /** @throws {Undecided} */
  async #judge(frame: DeliverFrame): Promise<ProofCheck> {
    const { pairing } = this.deps, from = frame.fromAgentDid;
    // The peer of a ticket may write before this agent has read its key, and would be refused without this wait.
    if (this.#pinOf(from)?.how !== "ticket") await pairing.settled(from);
    const isUnread = !this.#isPeer(from) && !(await this.#lookUpFor());
    // If the list could not be read, the sender may still be a peer, and `not_a_peer` would tell its person to pair
    // again for nothing.
    if (!this.#isPeer(from)) return { refused: isUnread ? "failed" : "not_a_peer" };
    if (this.deps.peers.isBlocked(from)) return { refused: "blocked" };
    const result = await this.#check(frame);
    if (!("refused" in result) || result.refused !== "peer_unconfirmed") return result;
    await this.#lookUpFor();
    return await this.#check(frame);
  }

  /** @throws {Undecided} */
  async #check(frame: DeliverFrame): Promise<ProofCheck> {
    const { clock, agent, trust, strict } = this.deps;
    const pin = this.#pinOf(frame.fromAgentDid);
    if (strict && pin?.how !== "ticket") return { refused: "peer_unconfirmed" };
    const result = await checkProof(frame, { agent, pin, trust, nowSeconds: unixSeconds(clock.now()) });
    const isPlain = "proven" in result && result.proven.payloadSha256 === undefined;
    return strict && isPlain ? { refused: "seal_required" } : result;
  }

  /** Reads the peers again for a message, unless too many wait for that already. Returns whether they were read. */
  async #lookUpFor(): Promise<boolean> {
    if (this.#strangers >= STRANGERS_WAITING) return false;
    this.#strangers++;
    return await this.#lookUp().finally(() => this.#strangers--);
  }

  async #take(frame: DeliverFrame, judging: Promise<ProofCheck>, before: Promise<unknown> | undefined): Promise<Ack> {
    const { emit, peers, guard, clock, store } = this.deps;
    judging.catch(() => {});
    await before;
    const result = await judging;
    // The store of a stopped connector is closed, and another connector may have the peers by now.
    if (this.deps.isOver()) return { accepted: false, reason: "store_failed" };
    if ("refused" in result) return this.#refuse(frame, result.refused, result.shown);
    const { proven } = result, { fromAgentDid: from, requestId } = proven;
    const about = { from, requestId };
    const pin = this.#pinOf(from);
    // The message before this one may have been the first of a contact, which has pinned another key since the check.
    if (pin !== null && pin.key !== proven.key) return this.#refuse(frame, "key_mismatch", proven.key);
    // Only a ticket peer's message is sealed here. A plain one is from a contact, or from before its sender's ticket.
    const verified = proven.payloadSha256 === undefined ? "by-registry" : "end-to-end";
    let taken: StoreResult | "probed";
    try {
      // The pin is on disk before the message, because a kill between the two could otherwise let another key be the
      // first.
      if (pin === null) {
        await peers.change((known) => pinContact(known, from, proven.key, toIso(clock.now())) ?? known);
        if (this.#pinOf(from) === null) return this.#refuse(frame, "pins_full");
      }
      if (isProbe(proven.payload)) {
        // Beyond the bound a test gets no receipt, because each receipt costs a write.
        const hasReceipt = this.#probes.add(from, clock.now()).count <= PROBES_A_MINUTE;
        taken = store.answerProbe(proven, clock.now(), hasReceipt);
      } else taken = await this.#store({ ...proven, verified });
      this.#problem = null;
    } catch (error) {
      const why = describeError(error);
      // A full disk is the database's problem, which ends when there is room and not with the next message.
      this.#problem = error instanceof DiskFullError ? null : why;
      emit("store_failed", { ...about, why });
      return { accepted: false, reason: "store_failed" };
    }
    switch (taken) {
      case "full":
        // Once a minute for each sender, because one that goes on writing would push all else off the terminal.
        if (this.#refusals.add(`inbox full for ${from}`, clock.now()).count === 1) emit("inbox_full", about);
        return { accepted: false, reason: "inbox_full" };
      case "known":
        // Once a minute for each sender, because a relay may repeat one message without end.
        if (this.#refusals.add(`repetition of ${from}`, clock.now()).count === 1) emit("repeated", about);
        return { accepted: true };
      case "stored":
        emit("received", { ...about, verified });
        guard.received(from, proven.inReplyTo ?? null);
        return { accepted: true };
      case "probed":
        emit("probed", about);
        return { accepted: true };
      default:
        return this.#refuse(frame, taken);
    }
  }

  #isPeer(did: string): boolean {
    const peer = this.deps.peers.of(did);
    return peer !== null && !peer.gone && !peer.removed;
  }

  #pinOf(did: string) {
    return pinOf(this.deps.peers.of(did));
  }

  /** Reads the peers once for all strangers that write meanwhile. */
  #lookUp(): Promise<boolean> {
    const { clock, readPeers } = this.deps;
    return this.#lookingUp ??= (async () => {
      const wait = this.#lookedUpAt + LOOK_UP_MS - clock.now();
      // A longer wait would come from a clock that was set back, so it is shortened.
      if (wait > 0) await sleep(clock, Math.min(wait, LOOK_UP_MS));
      this.#lookedUpAt = clock.now();
      return await readPeers();
    })().finally(() => this.#lookingUp = null);
  }

  #store(message: ProvenMessage & Pick<TakenMessage, "verified">): Promise<StoreResult> {
    const arrival = { message, ...Promise.withResolvers<StoreResult>() };
    this.#arrivals.push(arrival);
    // Messages of one turn of the event loop share a transaction.
    if (this.#arrivals.length === 1) queueMicrotask(() => this.#storeArrivals());
    return arrival.promise;
  }

  #storeArrivals(): void {
    const { store, clock } = this.deps;
    const arrivals = this.#arrivals;
    this.#arrivals = [];
    try {
      const taken = store.received.take(arrivals.map(({ message }) => message), clock.now());
      for (const [i, result] of taken.entries()) arrivals[i]?.resolve(result);
    } catch (error) {
      for (const { reject } of arrivals) reject(error);
    }
  }

  /**
   * Counts a refusal, and reports those of a sender at most once a minute, because a sender could otherwise fill the
   * log.
   */
  #refuse({ fromAgentDid: from, requestId }: DeliverFrame, reason: AckReason, shown?: string): Ack {
    const { clock, emit, peers } = this.deps, now = clock.now();
    this.refused++;
    // A refusal of a blocked agent emits no event, because that agent could otherwise fill the log.
    if (reason === "blocked") return { accepted: false, reason };
    const { count, before } = this.#refusals.add(from, now);
    const isReported = count === 1 && this.#refusals.add("all senders", now).count <= REPORTS_A_MINUTE;
    if (isReported) emit("proof_refused", { from, requestId, reason, before: Math.max(0, before - 1) });
    // Counted apart, because another refused message of the same minute would otherwise hide the other key.
    if (shown !== undefined && this.#refusals.add(`key of ${from}`, now).count === 1) {
      emit("peer_key_changed", { from, key: this.#pinOf(from)?.key ?? null, shown });
      peers.change((all) => noteOtherKey(all, from, toIso(now)))
        .catch((error) => emit("store_failed", { from, why: describeError(error) }));
    }
    return { accepted: false, reason };
  }
}

/** Messages that may wait for a read of the peers. With more, a relay that invents senders would fill the memory. */
const STRANGERS_WAITING = 64;
/** A longer payload is no probe, so that the long payloads of peers are not parsed in vain. */
const PROBE_CHARACTERS = 256;
const Probe = z.strictObject({ svcProbe: z.string() });

/**
 * Whether a payload, which is JSON, is a test of `provider relay-test`: the connector answers it, and no agent sees it.
 */
export function isProbe(payload: string): boolean {
  if (payload.length > PROBE_CHARACTERS || !payload.includes('"svcProbe"')) return false;
  return Probe.safeParse(JSON.parse(payload)).success;
}
