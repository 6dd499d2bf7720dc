/**
 * The connector: the process beside an agent's runtime. Connects its parts, starts and stops them. Each rule has its own
 * file. On the platform `inbox` there is no delivery: the local API reads and sends messages.
 *
 *   proxy ── link ──▶ inbox (disk, then ack) ──▶ delivery ─▶ runtime
 *     ▲                                             │
 *     ├──────────── receipts ◀── outbox (disk) ◀────┤
 *     └──────────── replies  ◀── sent (disk) ◀──────┘
 */
import { type Cancel, type Clock, settledWithin } from "../../shared/clock.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";
import { type NewId, ulidSource } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Random } from "../../shared/random.ts";
import { apiErrorOf } from "../../shared/client/http.ts";
import { type OpenLink, ReconnectingLink } from "../../shared/client/reconnect.ts";
import { AskedTasks, isTaskId } from "./delivery/asked_tasks.ts";
import { ReplySender } from "./delivery/reply_sender.ts";
import { RuntimeDelivery } from "./delivery/runtime_delivery.ts";
import { RuntimeReplies } from "./delivery/runtime_replies.ts";
import { TaskFollower } from "./delivery/task_follower.ts";
import { TaskRows } from "./delivery/task_rows.ts";
import { RuntimeWatch } from "./delivery/runtime_watch.ts";
import type { Database } from "./delivery/database.ts";
import type { EmitEvent } from "./events.ts";
import { Inbox, NOT_READ, type StoreResult } from "./delivery/inbox.ts";
import { CONNECTOR_LIMITS as LIMIT } from "./limits.ts";
import { LoopGuard } from "../../shared/client/loop_guard.ts";
import { MessageSender } from "./delivery/message_sender.ts";
import type { Ack, ProxyPlace } from "../../shared/client/link.ts";
import { Outbox } from "./delivery/outbox.ts";
import { readAllPeers } from "../../shared/client/peer_pages.ts";
import { findPeer, mergePeers, type Peers } from "./peers.ts";
import { ProxyCaller } from "../../shared/client/proxy_caller.ts";
import { ReceiptLookup } from "./delivery/receipt_lookup.ts";
import { ReceiptSender } from "./delivery/receipts.ts";
import { SentMessages } from "./delivery/sent_messages.ts";
import { describeError } from "../../shared/client/refusals.ts";
import type { Runtime } from "./delivery/runtime.ts";
import type { ServiceClock } from "../../shared/client/service_clock.ts";
import type { AgentCredentials } from "../../shared/client/agent_credentials.ts";
import type { Status } from "./status.ts";
import { Waits } from "./delivery/waits.ts";

export interface ConnectorDeps {
  clock: Clock;
  serviceClock: ServiceClock;
  random: Random;
  fetch: typeof fetch;
  /** Called with the headers of each response of the proxy. */
  onResponse?: ((headers: Headers) => void) | undefined;
  open: OpenLink;
  session: AgentCredentials;
  database: Database;
  /** `null`: the agent reads its messages (D-116). */
  runtime: Runtime | null;
  peers: { read(): Peers; write(peers: Peers): Promise<void> };
  /** Called after a peer has confirmed a ticket of this agent, when its alias is known. */
  onPaired?: (peerDid: string) => void;
  tell: EmitEvent;
}

/** The agent and the proxy that the connector serves. */
export interface ConnectorOptions {
  agent: { name: string; did: string };
  /** Profile that the agent sends when it pairs. */
  profile: { agentName: string; humanName: string };
  proxy: ProxyPlace;
  version: string;
  pid: number;
}

/** The runtime in the status of an agent that reads its messages. */
const NO_RUNTIME: Status["runtime"] = {
  platform: "inbox",
  url: null,
  reachable: true,
  checkedAt: null,
  problem: null,
};

/** Hand-over to a runtime. */
interface Push {
  delivery: RuntimeDelivery;
  /** Of a runtime that runs tasks. */
  tasks: TaskFollower | undefined;
  watch: RuntimeWatch;
}

interface Arrival {
  frame: DeliverFrame;
  resolve(taken: StoreResult): void;
  reject(error: unknown): void;
}

export class Connector {
  readonly inbox: Inbox;
  readonly sent: SentMessages;
  readonly proxy: ProxyCaller;
  readonly sender: MessageSender;
  readonly waits: Waits;
  readonly askedTasks = new AskedTasks();
  readonly receiptLookup: ReceiptLookup;
  /** Makes request IDs. */
  readonly newId: NewId;
  readonly #guard = new LoopGuard();
  readonly #outbox: Outbox;
  /** Hand-over to the runtime; `null` without one. */
  readonly #push: Push | null;
  readonly #receipts: ReceiptSender;
  /** Replies of the runtime, also those that an earlier run has left. */
  readonly #replies: ReplySender;
  readonly #connection: ReconnectingLink;
  readonly #startedAt: number;
  readonly #stopped = new AbortController();
  /** Address of the local API, once it is open. */
  api: Status["api"];
  #arrivals: Arrival[] = [];
  #cancelPrune: Cancel = () => {};
  #running: Promise<unknown> = Promise.resolve(null);
  /** The writes of the peers in progress. */
  #writing: Promise<unknown> = Promise.resolve();
  #end: ((why: unknown) => void) | null = null;

  constructor(readonly deps: ConnectorDeps, readonly options: ConnectorOptions) {
    const { clock, random, serviceClock, session, open, tell: emit, database, runtime, fetch, onResponse } = deps;
    this.#startedAt = clock.now();
    this.proxy = new ProxyCaller({ fetch, onResponse, clock: serviceClock, random, session, emit }, options.proxy);
    this.#outbox = new Outbox(database);
    this.sent = new SentMessages(database);
    const delivery = runtime === null ? "pull" : "push";
    this.inbox = new Inbox(database, { outbox: this.#outbox, sent: this.sent, delivery });
    this.newId = ulidSource(() => clock.now(), random.bytes);
    this.waits = new Waits(clock);
    this.receiptLookup = new ReceiptLookup({ clock, sent: this.sent, proxy: this.proxy });
    this.sender = new MessageSender({
      clock,
      newId: this.newId,
      proxy: this.proxy,
      sent: this.sent,
      inbox: this.inbox,
      guard: this.#guard,
      tell: emit,
    });
    this.#push = runtime && this.#pushTo(runtime);
    this.#replies = new ReplySender({ clock, sent: this.sent, sender: this.sender, tell: emit });
    const recipientDid = options.agent.did;
    this.#receipts = new ReceiptSender({ clock, outbox: this.#outbox, proxy: this.proxy, recipientDid, tell: emit });
    this.#connection = new ReconnectingLink({ clock, random, serviceClock, session, open, tell: emit }, {
      deliver: (frame) => this.#deliver(frame),
      paired: ({ peerAgentDid, profile }) => {
        emit("paired", { peer: peerAgentDid, ...profile });
        void this.updatePeers().then(() => deps.onPaired?.(peerAgentDid));
      },
      connected: () => {
        this.#receipts.sendAllNow();
        this.#replies.sendAllNow();
        void this.updatePeers();
      },
    });
    this.inbox.onEnded = () => this.#receipts.wake();
    this.inbox.onStored = (message) => this.waits.changed({ kind: "stored", message });
    this.inbox.heldUntil = (message, now) =>
      isTaskId(message.inReplyTo) ? now + LIMIT.heldMs : this.waits.heldUntil(message, now);
    this.inbox.isClaimed = ({ fromDid: toDid, inReplyTo: requestId }) =>
      isTaskId(requestId) && this.askedTasks.claim({ toDid, requestId });
    this.sent.onChanged = (message) => this.waits.changed({ kind: "sent", message });
    if (this.#push === null) return;
    const { delivery: handOver, tasks, watch } = this.#push;
    if (tasks) tasks.onReply = () => this.#replies.wake();
    handOver.onEnded = () => {
      this.#receipts.wake();
      this.#replies.wake();
    };
    handOver.onRuntime = (reachable, problem) => watch.seen(reachable, problem);
    watch.onBack = () => handOver.wake();
  }

  #pushTo(runtime: Runtime): Push {
    const { clock, tell, database } = this.deps;
    const { inbox, sent } = this, { platform: { replyOf, tasks: protocol }, target } = runtime;
    const replies = target.replies && (replyOf || protocol)
      ? new RuntimeReplies({ clock, guard: this.#guard, replyOf, tell })
      : null;
    const tasks = protocol && new TaskFollower({ clock, database, sent, runtime, protocol, replies, tell });
    const delivery = new RuntimeDelivery({ clock, inbox, runtime, replies, tasks, tell });
    return { delivery, tasks, watch: new RuntimeWatch({ clock, runtime, tell }) };
  }

  /** Starts everything. Resolves when the connector has ended: `null` after `stop()`, else with the error. */
  run(): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.#end = resolve;
    this.#recover();
    this.#push?.delivery.start();
    this.#receipts.wake();
    this.#replies.wake();
    this.#pruneExpired();
    this.#push?.watch.start();
    this.#running = this.#connection.run();
    void this.#running.then((why) => why !== null && this.fail(why));
    return promise;
  }

  /** Ends the connector with an error that a retry cannot fix. */
  fail(why: unknown): void {
    void this.#shutDown(why);
  }

  /** Stops accepting messages, completes the work in progress and ends, within 5 s. */
  stop(): Promise<void> {
    return this.#shutDown(null);
  }

  /** True once nothing of it runs. Its database closes next, so it no longer has a status. */
  get isOver(): boolean {
    return this.#stopped.signal.aborted;
  }

  #shutDown(why: unknown): Promise<void> {
    this.#shutting ??= this.#drain(why);
    return this.#shutting;
  }
  #shutting: Promise<void> | null = null;

  async #drain(why: unknown): Promise<void> {
    this.deps.tell("stopping");
    this.deps.session.stop();
    this.#connection.stop();
    this.waits.stop();
    await this.#push?.delivery.stop(LIMIT.drainMs * 3 / 4);
    await Promise.all([this.#receipts, this.#replies].map((sending) => sending.stop(LIMIT.drainMs / 4)));
    this.#stopped.abort();
    this.#push?.watch.stop();
    this.#cancelPrune();
    await settledWithin(this.deps.clock, this.#writing, LIMIT.closeMs);
    this.#end?.(why);
  }

  /** Stores a message on disk, then acknowledges it. Messages of one event-loop turn share one transaction. */
  async #deliver(frame: DeliverFrame): Promise<Ack> {
    const { tell } = this.deps;
    const about = { from: frame.fromAgentDid, requestId: frame.requestId };
    if (frame.toAgentDid !== this.options.agent.did) return { accepted: false, reason: "wrong_recipient" };
    let taken: StoreResult;
    try {
      taken = await this.#store(frame);
    } catch (error) {
      tell("store_failed", { ...about, why: describeError(error) });
      return { accepted: false, reason: "store_failed" };
    }
    switch (taken.taken) {
      case "full":
        tell("inbox_full", about);
        return { accepted: false, reason: "inbox_full" };
      case "known":
        tell("repeated", about);
        return { accepted: true };
      case "stored":
        tell("received", about);
        this.#guard.received(frame.fromAgentDid);
        // The ack is sent before the hand-over, which may be slow.
        queueMicrotask(() => this.#push?.delivery.add([taken.waiting]));
        return { accepted: true };
    }
  }

  #store(frame: DeliverFrame): Promise<StoreResult> {
    if (this.#stopped.signal.aborted) throw new Error("the connector has stopped");
    const { promise, resolve, reject } = Promise.withResolvers<StoreResult>();
    this.#arrivals.push({ frame, resolve, reject });
    if (this.#arrivals.length === 1) queueMicrotask(() => this.#storeArrivals());
    return promise;
  }

  #storeArrivals(): void {
    const arrivals = this.#arrivals;
    this.#arrivals = [];
    try {
      const taken = this.inbox.take(arrivals.map(({ frame }) => frame), this.deps.clock.now());
      for (const [i, result] of taken.entries()) arrivals[i]?.resolve(result);
    } catch (error) {
      for (const { reject } of arrivals) reject(error);
    }
  }

  /** Makes dead letters wait for the runtime again, or be unread again. Returns their number. */
  replay(ids: readonly number[] | null): number {
    const waiting = this.inbox.replay(ids, this.deps.clock.now());
    this.#push?.delivery.add(waiting);
    return waiting.length;
  }

  /**
   * Reads the peers again. A failure is only reported, because the peers are needed for aliases only. Nothing is written
   * after the end: the folder may be another connector's by then, or removed.
   */
  async updatePeers(): Promise<void> {
    const { peers, tell } = this.deps;
    try {
      const read = await readAllPeers(this.proxy);
      if ("refused" in read) throw apiErrorOf(read.refused);
      if (this.isOver) return;
      const writing = peers.write(mergePeers(peers.read(), read));
      this.#writing = Promise.allSettled([this.#writing, writing]);
      await writing;
    } catch (error) {
      if (!this.#stopped.signal.aborted) tell("peers_failed", { why: describeError(error) });
    }
  }

  /** The DID of a peer, from a DID or an alias. Reads the peers again when the alias is unknown. */
  async findPeer(to: string): Promise<string | null> {
    // A DID needs no file, so a damaged peers.json does not matter.
    if (isAgentDid(to)) return to;
    const known = findPeer(this.deps.peers.read(), to);
    if (known !== null) return known;
    await this.updatePeers();
    return findPeer(this.deps.peers.read(), to);
  }

  /** Ends what an earlier run left open: requests under way, and messages for callers that waited. */
  #recover(): void {
    const { clock, tell } = this.deps;
    try {
      this.sent.markInterrupted(clock.now());
      this.inbox.releaseHeld();
    } catch (error) {
      tell("store_failed", { why: describeError(error) });
    }
  }

  #pruneExpired(): void {
    const { clock, tell, database } = this.deps;
    const now = clock.now();
    try {
      for (const { fromDid: from, requestId } of this.inbox.expireUnread(now)) {
        tell("dead_letter", { from, requestId, why: NOT_READ });
      }
      this.inbox.forget(now);
      this.sent.prune(now);
      this.#outbox.forget(now - LIMIT.receiptKeptMs);
      new TaskRows(database).forget(now);
    } catch (error) {
      tell("store_failed", { why: describeError(error) });
    }
    this.#cancelPrune = clock.after(LIMIT.houseKeepingMs, () => this.#pruneExpired());
  }

  status(): Status {
    const { clock, serviceClock, session } = this.deps;
    const { agent, proxy, version, pid } = this.options;
    const { state, since, nextTryAt, problem, heartbeatMs, heartbeatAt } = this.#connection.status;
    const { waiting, dead, bytes, oldestAt } = this.inbox.counts();
    const iso = (ms: number | null) => ms === null ? null : toIso(ms);
    return {
      agent,
      version,
      pid,
      startedAt: toIso(this.#startedAt),
      now: toIso(clock.now()),
      proxy: { url: proxy.dialUrl, origin: proxy.origin },
      connection: {
        state,
        since: toIso(since),
        nextTryAt: iso(nextTryAt),
        problem,
        heartbeatMs,
        heartbeatAt: iso(heartbeatAt),
      },
      inbox: { waiting, oldestAt: iso(oldestAt), bytes },
      deadLetters: dead,
      receiptsWaiting: this.#outbox.size,
      loopGuards: this.#guard.refusals,
      runtime: this.#push === null ? NO_RUNTIME : this.#push.watch.status,
      session: { accessExpiresAt: toIso(session.accessExpiresAt), identityExpiresAt: toIso(session.identityExpiresAt) },
      clockOffsetMs: serviceClock.offsetMs,
      ...(this.api === undefined ? {} : { api: this.api }),
    };
  }
}
