/**
 * The connector: the process beside an agent's runtime. Connects its parts, starts and stops them. A part changes the
 * store, and the store tells what has changed, so no part calls another part. On the platform `inbox` there is no
 * runtime: the local API reads and sends messages.
 *
 *   proxy ── link ──▶ store (disk, then ack) ──▶ runtime
 *     ▲                  │         ▲
 *     └──── sending ◀────┘         └── local API
 */
import { type Cancel, settledWithin } from "../../shared/clock.ts";
import { type NewId, ulidSource } from "../../shared/protocol/ids.ts";
import type { OpeningKey } from "../../shared/protocol/sealed_body.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { RegistryClient } from "../client/registry_client.ts";
import { type OpenLink, ReconnectingLink } from "../link/reconnect.ts";
import { AskedTasks, Waits } from "./waits.ts";
import { RuntimeRoom } from "./runtime/runtime_room.ts";
import { type EmitEvent, orReport, pairedFields } from "./events.ts";
import { NOT_READ } from "./store/received_messages.ts";
import { type Change, isTaskId } from "./store/received_rows.ts";
import { CONNECTOR_LIMITS as LIMIT } from "./limits.ts";
import { LoopGuard } from "../link/loop_guard.ts";
import { MinuteCounts } from "../link/minute_counts.ts";
import { Sending } from "./sending/sending.ts";
import type { ProxyPlace } from "../link/link.ts";
import { readAllPeers } from "../link/peer_pages.ts";
import { PeerBook } from "./peers/peer_book.ts";
import { aliasesOf, LISTED_PAIRS, mergePeers, type Peers, peersWithOtherKey, presentPeers } from "./peers/peers.ts";
import { Pairing } from "./pairing.ts";
import { Receiving, REPORTS_A_MINUTE } from "./receiving.ts";
import type { RegistryTrust } from "./registry_trust.ts";
import { PeerProxies } from "../link/peer_proxies.ts";
import { ProxyCaller } from "../link/proxy_caller.ts";
import { describeError } from "../../shared/client/refusals.ts";
import type { ConnectorStore, StoreOptions } from "./store/store.ts";
import type { Runtime } from "./runtime/runtime.ts";
import type { ServiceClock } from "../link/service_clock.ts";
import type { WatchedCredentials } from "../link/agent_credentials.ts";
import type { Status } from "./status.ts";
import type { Context } from "../context.ts";

interface ConnectorDeps extends Pick<Context, "clock" | "random" | "fetch" | "onResponse"> {
  serviceClock: ServiceClock;
  open: OpenLink;
  session: WatchedCredentials;
  publicKey: string;
  openingKey: OpeningKey;
  /** Opens the store. The caller closes it after the connector has ended. */
  openStore(options: Omit<StoreOptions, "historyMs">): ConnectorStore;
  /** `null` for an agent that reads its own messages (D-116). */
  runtime: Runtime | null;
  peers: Peers;
  writePeers(peers: Peers): Promise<void>;
  trust: RegistryTrust;
  /** Throws for an origin of another server that must not be called. */
  checkOrigin(origin: string): void;
  emit: EmitEvent;
}

interface ConnectorOptions {
  agent: { name: string; did: string };
  /** Profile that the agent sends when it pairs. */
  profile: { agentName: string; humanName: string };
  proxy: ProxyPlace;
  strict: boolean;
  version: string;
  pid: number;
}

/**
 * Time between deletions of expired records. With more, a message that no one reads stays unread beyond its seven days.
 */
export const CLEANUP_EVERY_MS = 10 * 60_000;

/** With more, the status of an agent with peers at many servers would not fit a screen. */
const SERVERS_SHOWN = 20;

/** The runtime in the status of an agent that reads its messages. */
const NO_RUNTIME: Status["runtime"] = {
  platform: "inbox",
  url: null,
  source: null,
  replies: false,
  reachable: true,
  checkedAt: null,
  problem: null,
};

/**
 * How many new contacts, and how many ended pairs, of one list are reported. With more, a relay whose lists always
 * differ would fill the log.
 */
const CONTACTS_TOLD = 100;

export class Connector {
  readonly store: ConnectorStore;
  readonly proxy: ProxyCaller;
  readonly proxies: PeerProxies;
  readonly sending: Sending;
  readonly waits: Waits;
  readonly askedTasks = new AskedTasks();
  readonly newId: NewId;
  readonly peers: PeerBook;
  readonly #guard = new LoopGuard();
  readonly pairing: Pairing;
  readonly #receiving: Receiving;
  /** Hand-over to the runtime; `null` without one. */
  readonly #runtime: RuntimeRoom | null;
  readonly #connection: ReconnectingLink;
  readonly #startedAt: number;
  /** True once no part of the connector runs. Its database closes next, so it no longer has a status. */
  isOver = false;
  /** Rises with each change of the store and of the peers, so that a page knows whether it is out of date. */
  version = 0;
  /** Address of the local API, once it is open. */
  api: Status["api"] = null;
  #cancelCleanup: Cancel = () => {};
  #cancelLeases: Cancel = () => {};
  readonly #end = Promise.withResolvers<unknown>();

  constructor(readonly deps: ConnectorDeps, readonly options: ConnectorOptions) {
    const { clock, serviceClock, emit, runtime } = deps;
    this.#startedAt = clock.now();
    this.newId = ulidSource(() => clock.now(), deps.random.bytes);
    this.waits = new Waits(clock);
    const onSilence = () => this.#connection.check();
    const proxy = this.proxy = new ProxyCaller({ ...deps, clock: serviceClock, onSilence }, options.proxy);
    const store = this.store = deps.openStore({
      newId: this.newId,
      delivery: runtime === null ? "pull" : "push",
      claims: {
        heldUntil: (question, now) =>
          isTaskId(question.requestId) ? now + LIMIT.heldMs : this.waits.heldUntil(question, now),
        isClaimed: (question) => this.askedTasks.claim(question),
      },
      onChange: (change) => this.#changed(change),
      onDamaged: (error) => void this.stop(error),
    });
    // Done before the API opens, because a message that a program has just sent would otherwise look cut off by a kill,
    // and be sent twice.
    orReport(emit, () => store.recover(clock.now()), undefined);
    const write = async (all: Peers) => {
      // A request may be answered after the end. By then the folder may belong to another connector or be gone, so
      // nothing is written.
      if (this.isOver) throw new Error("The connector has ended");
      await deps.writePeers(all);
    };
    const peers = this.peers = new PeerBook(deps.peers, write);
    const onAnswer = (host: string) => this.sending.answeredBy(host);
    const elsewhere = { ...deps, machine: clock, check: deps.checkOrigin, onAnswer };
    const proxies = this.proxies = new PeerProxies(elsewhere, proxy, (did) => peers.of(did)?.proxy);
    const { agent: { did }, strict } = options, { newId } = this, guard = this.#guard;
    const isOver = () => this.isOver;
    const readPeers = () => this.updatePeers();
    const parts = { ...deps, store, peers, proxy, proxies, guard, newId, did, strict, readPeers, isOver };
    this.sending = new Sending(parts);
    const hasPins = Object.values(peers.all).some(({ key }) => key !== undefined);
    if (store.proofs.begin(hasPins, clock.now())) emit("memory_lost");
    const proxyNamedBy = async (authority: string) =>
      URL.parse((await new RegistryClient(deps, `https://${authority}`).metadata()).proxyUrl)?.origin;
    this.pairing = new Pairing({ ...parts, proxyNamedBy });
    this.#receiving = new Receiving({
      ...parts,
      agent: { did, origin: options.proxy.origin, openingKey: deps.openingKey },
      pairing: this.pairing,
      onUndecided: (why) => this.#connection.drop(why),
    });
    this.#runtime = runtime && new RuntimeRoom({ ...parts, runtime });
    const pairs = new MinuteCounts();
    this.#connection = new ReconnectingLink(parts, {
      ready: () => deps.trust.ready(),
      deliver: async (frame) => {
        const ack = await this.#receiving.deliver(frame);
        if (ack.accepted) this.sending.heardFrom(frame.fromAgentDid);
        return ack;
      },
      paired: ({ peerAgentDid, profile }) => {
        // The alias is made before the event, because a person who reads the event may write to the alias at once.
        void this.updatePeers().then(() => {
          const isReported = pairs.add("all", clock.now()).count <= REPORTS_A_MINUTE;
          const about = { peer: peerAgentDid, ...pairedFields(this.peers.aliasOf(peerAgentDid), profile) };
          if (isReported) emit("paired", about);
          this.sending.heardOf(peerAgentDid);
        });
      },
      delivery: (frame) => {
        const { requestId, recipientAgentDid: toDid, state, receipt } = frame;
        // `processed` is ignored while a caller waits for the reply, because most replies arrive within 1 s, and the
        // caller's own wait asks for receipts after that.
        if (state !== "processed" || !this.waits.isAsked({ toDid, requestId })) this.sending.told(frame, receipt);
      },
      lost: () => proxy.endSlow(),
      connected: () => {
        proxy.endSlow();
        this.sending.sendAllNow();
        void this.sending.refresh();
        void this.updatePeers();
        void this.pairing.resume();
      },
    });
  }

  /** Tells the parts what has changed on disk, because they do not call each other. */
  #changed(change: Change): void {
    this.version++;
    const waiting = change.kind === "arrived" ? change.waiting : null;
    // Not part of the call that stores the message, because a slow hand-over would delay the acknowledgement.
    if (waiting !== null) queueMicrotask(() => this.#runtime?.add([waiting]));
    if (change.kind === "receipt" || change.kind === "kept") this.sending.wake(change.kind);
    if (change.kind === "reply_refused") {
      const { message: { toDid: to, requestId }, why } = change;
      this.deps.emit("reply_refused", { to, requestId, why });
    }
    this.waits.changed(change);
  }

  /**
   * Starts everything; when offline, only answers local calls from what is stored. Resolves when the connector has ended:
   * `null` after `stop()`, else with the error.
   */
  run(isOffline = false): Promise<unknown> {
    // Its stop would otherwise still send what waits.
    if (isOffline) this.sending.end();
    // The connector may have failed already, in a call of its API. Parts that start now would never be stopped.
    if (this.isStopping || isOffline) return this.#end.promise;
    this.#endLeases();
    this.#runtime?.start();
    this.sending.wake("receipt");
    this.sending.wake("kept");
    this.#cleanUp();
    void this.#connection.run().then((why) => this.stop(why));
    return this.#end.promise;
  }

  /**
   * Stops accepting messages, completes the work in progress and ends, within 5 s. @param why the error that ends it
   */
  stop(why: unknown = null): Promise<void> {
    return this.#shutting ??= this.#drain(why);
  }
  #shutting: Promise<void> | null = null;

  /** True from the beginning of the stop: every wait ends at once from then on. */
  get isStopping(): boolean {
    return this.#shutting !== null;
  }

  /** Ends even if a part cannot be stopped, because the lock would stay taken and keep out each later connector. */
  async #drain(why: unknown): Promise<void> {
    try {
      await this.#stopAll();
    } catch (error) {
      why ??= error;
    } finally {
      this.isOver = true;
      this.#end.resolve(why);
    }
  }

  async #stopAll(): Promise<void> {
    this.deps.emit("stopping");
    this.deps.session.stop();
    this.#connection.stop();
    this.waits.stop();
    await this.#runtime?.stop(LIMIT.drainMs * 3 / 4);
    await this.sending.stop(LIMIT.drainMs / 4);
    this.isOver = true;
    this.#cancelCleanup();
    this.#cancelLeases();
    await settledWithin(this.deps.clock, this.peers.settled(), LIMIT.closeMs);
  }

  /** Leases unread messages to a program (D-395). Returns the IDs that the lease holds now. */
  lease(ids: readonly number[], id: string, seconds: number): number[] {
    const now = this.deps.clock.now();
    const held = this.store.received.lease(ids, { id, until: now + seconds * 1000 }, now);
    this.#endLeases();
    return held;
  }

  /** Makes messages unread when their lease is over, now and at each later end, so that waiting calls get them. */
  #endLeases(): void {
    const { clock, emit } = this.deps;
    this.#cancelLeases();
    // A call may take a lease after the end. Its look would fail each second, because the database is closed by then.
    if (this.isOver) return;
    const now = clock.now();
    const retryAt = now + LIMIT.slowFirstMs;
    const next = orReport(emit, () => this.store.received.endLeases(now), retryAt);
    if (next !== null) this.#cancelLeases = clock.after(next - now, () => this.#endLeases());
  }

  /**
   * Reads the peers again. Calls that come while one list is read share the next one, so that a hundred pairings at
   * once cost two lists and not a hundred. Resolves to whether the list was read.
   */
  updatePeers(): Promise<boolean> {
    if (this.#reading === null) return this.#reading = this.#readPeers().finally(() => this.#reading = null);
    // The list that is read now may lack the change that this call is about.
    return this.#nextReading ??= this.#reading.then(() => {
      this.#nextReading = null;
      return this.updatePeers();
    });
  }
  #reading: Promise<boolean> | null = null;
  #nextReading: Promise<boolean> | null = null;

  /** Reads the peers once. A failure is only reported, because the known peers stay. */
  async #readPeers(): Promise<boolean> {
    const { emit } = this.deps;
    // Read before the request, because the answer may lack a peer that pairs meanwhile.
    const had = Object.values(presentPeers(this.peers.all));
    try {
      const peers = await readAllPeers(this.proxy, this.options.agent.did);
      await this.pairing.pinListed(peers);
      const before = aliasesOf(this.peers.all);
      await this.peers.change((known) => mergePeers(known, { peers }));
      this.version++;
      const isContact = (did: string) => this.peers.of(did) !== null && this.peers.of(did)?.how !== "ticket";
      const fresh = peers.filter(({ agentDid: did }) => !before.has(did) && isContact(did));
      for (const { agentDid, profile } of fresh.slice(0, CONTACTS_TOLD)) {
        emit("contact_listed", { from: agentDid, ...profile });
      }
      const present = aliasesOf(presentPeers(this.peers.all));
      const halves = new Set(this.store.pairConfirmations.all().map(({ half }) => half));
      const ended = had.filter(({ did }) => !present.has(did) && !this.peers.of(did)?.removed && !halves.has(did));
      for (const { did: from, agentName, humanName } of ended.slice(0, CONTACTS_TOLD)) {
        emit("pair_ended", { from, agentName, humanName });
      }
      const unknown = peers.filter(({ agentDid }) => this.peers.of(agentDid) === null).length;
      if (unknown > 0) {
        const why = `${unknown} of ${peers.length} are left out, because there is room for ${LISTED_PAIRS}`;
        emit("peers_failed", { why });
      }
      return true;
    } catch (error) {
      if (!this.isOver) emit("peers_failed", { why: describeError(error) });
      return false;
    }
  }

  #cleanUp(): void {
    const { clock, emit } = this.deps;
    const now = clock.now();
    // Tried at each clean-up, because another server that did not answer does not tell when it is back.
    if (this.linkState === "connected") void this.pairing.resume();
    for (const { fromDid: from, requestId } of orReport(emit, () => this.store.deleteExpired(now), [])) {
      emit("dead_letter", { from, requestId, why: NOT_READ });
    }
    this.#cancelCleanup = clock.after(CLEANUP_EVERY_MS, () => this.#cleanUp());
  }

  get linkState(): Status["connection"]["state"] {
    return this.#connection.status.state;
  }

  #servers(): Status["servers"] {
    const origins = Object.values(presentPeers(this.peers.all)).flatMap(({ proxy }) => proxy ?? []).sort();
    return [...Map.groupBy(origins, (origin) => origin)].slice(0, SERVERS_SHOWN).map(([origin, { length: peers }]) => {
      const last = this.proxies.lastOf(origin);
      const calledAt = last === null ? null : toIso(last.at);
      return { host: new URL(origin).host, peers, calledAt, problem: last?.problem ?? null };
    });
  }

  status(): Status {
    const { clock, serviceClock, session } = this.deps;
    const { agent, proxy, version, pid } = this.options;
    const link = this.#connection.status;
    const { waiting, dead, bytes, oldestAt } = this.store.received.counts();
    const iso = (ms: number | null) => ms === null ? null : toIso(ms);
    return {
      agent,
      version,
      pid,
      startedAt: toIso(this.#startedAt),
      now: toIso(clock.now()),
      proxy: { url: proxy.dialUrl, origin: proxy.origin },
      connection: {
        ...link,
        since: toIso(link.since),
        nextTryAt: iso(link.nextTryAt),
        heartbeatAt: iso(link.heartbeatAt),
      },
      inbox: { waiting, oldestAt: iso(oldestAt), bytes, problem: this.#receiving.problem },
      deadLetters: dead,
      receiptsWaiting: this.store.receipts.size,
      loopGuards: this.#guard.refusals,
      refused: this.#receiving.refused,
      runtime: this.#runtime?.status() ?? NO_RUNTIME,
      session: {
        accessExpiresAt: toIso(session.accessExpiresAt),
        identityExpiresAt: toIso(session.identityExpiresAt),
        problem: session.problem,
      },
      clockOffsetMs: serviceClock.offsetMs,
      servers: this.#servers(),
      otherKeys: peersWithOtherKey(this.peers.all, clock.now()),
      api: this.api,
    };
  }
}
