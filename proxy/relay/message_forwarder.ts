/**
 * Passes a message to the instance that holds its recipient's sockets, and its result back
 * (ARCHITECTURE.md#many-instances). The message goes over the link to that instance or, without a link, as a note. It
 * never goes both ways, because it would then be delivered twice. The other notes between instances are sent here too.
 */
import { sleep } from "../../shared/clock.ts";
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import { joinedBytes } from "../../shared/protocol/base64url.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { TokenBucket } from "../../shared/server/token_bucket.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { InstanceInbox } from "./instance_inbox.ts";
import type { InstanceLinks } from "./instance_links.ts";
import type { InstanceLeases } from "./instance_leases.ts";
import type { PresenceStore } from "./presence.ts";
import type { MailboxDelivery } from "./mailbox_delivery.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { Attempt, DeliveryOutcome } from "../message/deliveries.ts";
import type { DeliveryId } from "../message/delivery.ts";
import type { Senders, StoredSender } from "../message/sender.ts";
import { FAILED, type ForwardResult, type MessageNote, type Note, OFFLINE, type SendersNote } from "./instance_note.ts";
import type { LocalDelivery } from "./local_delivery.ts";
import { joinMessage, splitMessage } from "./message_content.ts";
import type { Message } from "../schema/records.ts";

/** Notes a second to senders at other instances about their messages. With more, each receipt costs a commit. */
const NEWS_PER_SECOND = 100;
/** Results that are remembered. With fewer, a message of another instance could be delivered twice. */
const RESULTS_MAX = 20_000;
/** How many IDs are in one note that asks for results. With three times as many, a value of the store is too small. */
const ASKED_MAX = 1_000;
/** Time between two looks at leases. With more, a sender learns later that the instance of its recipient has ended. */
const LEASE_LOOK_MS = 1_000;
const NO_BYTES: Uint8Array = new Uint8Array();

/** A message that waits for the result of another instance. */
interface Away {
  instance: string;
  /** True when the message went over the link and not as a note. */
  isOnLink: boolean;
  promise: Promise<ForwardResult>;
  resolve(dispatched: ForwardResult): void;
}

interface ForwarderDeps extends Pick<ServiceDeps, "clock" | "log" | "metrics" | "newId"> {
  commits: GroupCommit;
  here: LocalDelivery;
  leases: InstanceLeases;
  presence: PresenceStore;
  inbox: InstanceInbox;
  links: InstanceLinks;
  connectedAgents: ConnectedAgents;
  mailboxDelivery: MailboxDelivery;
  senders: Senders;
}

export class MessageForwarder {
  /** Messages that wait for the result of another instance, by note ID. */
  readonly #away = new Map<string, Away>();
  /** Results of messages of other instances, `null` while under way. No message in this map is delivered again. */
  readonly #results = new BoundedMap<string, ForwardResult | null>(RESULTS_MAX);
  /** How many messages have gone to other instances since the start, by their way. */
  readonly crossed = { link: 0, note: 0 };
  readonly #news = new TokenBucket(NEWS_PER_SECOND, 1);
  /** Messages of other instances whose results are not sent yet. */
  readonly #underWay = new Set<Promise<void>>();
  #isWatching = false;

  constructor(private readonly deps: ForwarderDeps) {
    deps.inbox.onNote = deps.links.onMessage = (body, bytes) => this.#receive(body as Note, bytes);
    deps.senders.onShared = (senders) => this.#tellSenders(senders);
    deps.links.onLost = (instance) => void this.#askAfterLoss(instance);
  }

  /** Returns the number of messages that wait for the result of another instance. */
  get away(): number {
    return this.#away.size;
  }

  /**
   * Returns the updates that send a message to another instance as a note, or none when the message takes the link.
   * After the commit the caller calls `dispatched`, which sends a message that has no note, and waits for its result.
   * Without a commit it calls `cancel`.
   */
  forwardTo(
    instance: string,
    message: Message,
    attempt: Attempt,
    queueFor: string | null,
  ): { updates: Update<never>[]; dispatched: () => Promise<ForwardResult>; cancel: () => void } {
    const { inbox, links, presence, newId } = this.deps;
    const { envelope, content } = splitMessage(message);
    const note: MessageNote = { kind: "message", id: newId(), message: envelope, queueFor, attempt };
    // Registered before the commit, because the result may arrive before the commit returns.
    const away = this.#register(instance, note.id);
    const takesLink = links.has(instance);
    const dispatched = async () => {
      const result = await this.#result(away, note, content, !takesLink);
      if (result.result !== "offline") return result;
      // The recipient may have moved during the second for which its presence is remembered.
      presence.forget(message.toAgentDid);
      const next = await presence.findInstance(message.toAgentDid).catch(() => null);
      if (next === null || next === instance) return result;
      const again = { ...note, id: newId() };
      return await this.#result(this.#register(next, again.id), again, content, false);
    };
    const cancel = () => void this.#away.delete(note.id);
    return { updates: takesLink ? [] : [inbox.write(instance, note, content)], dispatched, cancel };
  }

  #register(instance: string, id: string): Away {
    const away: Away = { instance, isOnLink: false, ...Promise.withResolvers<ForwardResult>() };
    this.#away.set(id, away);
    if (!this.#isWatching) void this.#watchStops();
    return away;
  }

  /** Sends a message unless its note is written, and waits for its result. */
  async #result(away: Away, note: MessageNote, content: Uint8Array, isWritten: boolean): Promise<ForwardResult> {
    const { links, clock, metrics } = this.deps, { until, startedAt } = note.attempt;
    away.isOnLink = !isWritten && links.send(away.instance, note, content);
    const way = away.isOnLink ? "link" : "note";
    this.crossed[way]++;
    metrics.count("relay_crossings_total", way);
    // When no link takes the message, nothing of it has left, so it goes as a note.
    if (!isWritten && !away.isOnLink) void this.#note(away.instance, note, content);
    const cancel = clock.after(until - startedAt + LIMITS.wayBackMs, () => away.resolve(FAILED));
    try {
      return await away.promise;
    } finally {
      cancel();
      this.#away.delete(note.id);
    }
  }

  /** Fails messages to instances that stop without results. One look a second serves all messages. Never rejects. */
  async #watchStops(): Promise<void> {
    const { clock, leases, inbox } = this.deps;
    const ends = new Map<string, number>();
    for (this.#isWatching = true; this.#away.size > 0;) {
      await sleep(clock, LEASE_LOOK_MS);
      const all = [...this.#away.values()];
      for (const instance of new Set(all.map((away) => away.instance))) {
        const state = await leases.stateOf(instance).catch(() => "serving" as const);
        if (state === "stopped" && !ends.has(instance)) ends.set(instance, clock.now() + LIMITS.noteDrainMs);
        if (state !== "left" && clock.now() < (ends.get(instance) ?? Infinity)) continue;
        // The results that the instance wrote are read first, because a delivered message would otherwise be reported
        // as failed.
        await inbox.catchUp();
        for (const away of all) if (away.instance === instance) away.resolve(FAILED);
      }
    }
    this.#isWatching = false;
  }

  /**
   * Asks an instance for the results of the messages that went over a lost link. The instance never delivers a message
   * that has not reached it by then, because the sender is told that it failed. Never rejects.
   */
  async #askAfterLoss(instance: string): Promise<void> {
    const ids = [...this.#away].flatMap(([id, away]) => away.isOnLink && away.instance === instance ? [id] : []);
    for (let i = 0; i < ids.length; i += ASKED_MAX) {
      await this.#note(instance, { kind: "asked", from: this.deps.leases.instance, ids: ids.slice(i, i + ASKED_MAX) });
    }
  }

  /** Sends a note over the link or the store. Never rejects, because what waits for the note has a deadline. */
  async #send(instance: string, note: Note): Promise<void> {
    if (!this.deps.links.send(instance, note)) await this.#note(instance, note);
  }

  /** Writes a note. Never rejects. */
  async #note(instance: string, note: Note, bytes?: Uint8Array): Promise<void> {
    const { inbox, commits, log } = this.deps;
    try {
      await commits.claim([inbox.write(instance, note, bytes)]);
    } catch (cause) {
      log("warn", "note_lost", { kind: note.kind, cause });
    }
  }

  /** Starts mailbox delivery on the instance that holds the recipient's socket. */
  async startMailboxDelivery(agentDid: string): Promise<void> {
    await this.#sendNote(agentDid, { kind: "kick", agentDid });
  }

  /** Sends a paired frame to an agent, on the instance that holds its socket. */
  async tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile, proxy?: string): Promise<void> {
    await this.#sendNote(agentDid, { kind: "paired", agentDid, peerAgentDid, profile, proxy });
  }

  /**
   * Tells a sender the new state of a message. Beyond 100 a second, news for other instances are dropped, which is safe
   * because the sender asks later for what it missed. Never rejects.
   *
   * @param signed the receipt as its recipient signed it. Without it, a sender that trusts no proxy has to ask for it.
   */
  async tellDelivery(
    { sender, recipient, requestId }: DeliveryId,
    { state, at, status }: DeliveryOutcome,
    signed?: string,
  ): Promise<void> {
    const { clock, connectedAgents, leases } = this.deps;
    const isHere = connectedAgents.socketsOf(sender) !== undefined;
    if (!isHere && !(leases.hasOthers && this.#news.take(1, clock.now()))) return;
    const about = { requestId, recipientAgentDid: recipient };
    const proof = signed === undefined ? {} : { signed };
    const receipt = status === undefined ? {} : { receipt: { ...about, status, receivedAt: toIso(at), ...proof } };
    const news = { ...about, state, at: toIso(at), ...receipt };
    await this.#sendNote(sender, { kind: "delivery", agentDid: sender, news });
  }

  /** Sends a note to the instance that holds an agent's sockets. Never rejects. */
  async #sendNote(agentDid: string, note: Note): Promise<void> {
    const { presence, connectedAgents, log } = this.deps;
    if (connectedAgents.socketsOf(agentDid)) return this.#receive(note);
    try {
      // Sent even to an instance without a lease, because with a different clock or a late renewal it may still hold
      // the sockets.
      const instance = await presence.holderOf(agentDid);
      if (instance && instance !== presence.instance) await this.#send(instance, note);
    } catch (cause) {
      // Only a warning, because the next poll or the agent's next connect has the same effect.
      log("warn", "note_lost", { kind: note.kind, agentDid, cause });
    }
  }

  /** Tells the other instances what a commit has stored of senders. Without a link they read it when they need it. */
  #tellSenders(stored: readonly StoredSender[]): void {
    const { links } = this.deps;
    if (links.size === 0) return;
    const senders = stored.map(({ agentDid, versionstamp, value }) => ({
      agentDid,
      versionstamp,
      bytes: value.length,
    }));
    links.hint({ kind: "senders", senders } satisfies Note, joinedBytes(stored.map(({ value }) => value)));
  }

  #learnSenders(told: SendersNote["senders"], bytes: Uint8Array): void {
    let at = 0;
    try {
      for (const { agentDid, versionstamp, bytes: length } of told) {
        this.deps.senders.learn({ agentDid, versionstamp, value: bytes.slice(at, at += length) });
      }
    } catch (cause) {
      this.deps.log("warn", "note_lost", { kind: "senders", cause });
    }
  }

  /** Waits until the results of the messages of other instances are written. */
  async finish(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  #track(work: Promise<void>): void {
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  /** Handles what a link or a note carried. */
  #receive(note: Note, bytes = NO_BYTES): void {
    const { connectedAgents, mailboxDelivery, metrics } = this.deps;
    metrics.count("bus_notes_total", note.kind);
    switch (note.kind) {
      case "message":
        if (!this.#results.has(note.id)) this.#track(this.#deliverNote(note, bytes));
        break;
      case "dispatched":
        this.#away.get(note.id)?.resolve(note.dispatched);
        break;
      case "asked":
        for (const id of note.ids) this.#tellResult(note.from, id);
        break;
      case "moved":
        void this.moved(note.agentDid);
        break;
      case "kick":
        mailboxDelivery.deliverTo(note.agentDid);
        break;
      case "paired":
        connectedAgents.tellPaired(note.agentDid, note.peerAgentDid, note.profile, note.proxy);
        break;
      case "senders":
        this.#learnSenders(note.senders, bytes);
        break;
      case "delivery":
        connectedAgents.tellDelivery(note.agentDid, note.news);
        break;
    }
  }

  /**
   * Closes the sockets of an agent that has moved to another instance. If the agent is back here its sockets stay,
   * because the note of the move, or the commit that was refused for it, may be older than the return. Never rejects.
   */
  async moved(agentDid: string): Promise<void> {
    const { presence, connectedAgents } = this.deps;
    // A socket that is about to open is waited for, because its presence was claimed before the move.
    const isConnected = connectedAgents.socketsOf(agentDid) ?? await connectedAgents.opened(agentDid);
    if (!isConnected) return;
    const newest = () => connectedAgents.links(agentDid).at(-1);
    let before: ReturnType<typeof newest>, holder: string | null;
    // Read again when a newer socket has come, because an agent that returns during the read would otherwise lose it.
    do {
      before = newest();
      holder = await presence.holderOf(agentDid).catch(() => null);
    } while (before !== newest());
    if (!holder || holder === presence.instance) return;
    connectedAgents.replace(agentDid);
    // The other instance does not know what this one has queued since the move, so it is told to look.
    await this.startMailboxDelivery(agentDid);
  }

  /** Answers an instance that has lost its link. The result of a message that is under way follows by itself. */
  #tellResult(instance: string, id: string): void {
    const known = this.#results.get(id);
    if (known === null) return;
    const dispatched = known ?? FAILED;
    this.#results.set(id, dispatched);
    this.#track(this.#note(instance, { kind: "dispatched", id, dispatched }));
  }

  /** Delivers a message of another instance, and sends the result back. */
  async #deliverNote({ id, message, queueFor, attempt }: MessageNote, content: Uint8Array): Promise<void> {
    const { here, log } = this.deps;
    this.#results.set(id, null);
    let dispatched: ForwardResult = FAILED;
    try {
      // The records are read first, because after a pause this instance may read the note when the message is already
      // answered or queued elsewhere. A lock before each frame would prevent that too, but would cost every crossing
      // message a commit.
      const where = here.restOf(attempt) > 0 ? await here.look(message, attempt) : "over";
      if (where === "here") dispatched = await here.deliver(joinMessage(message, content), attempt, queueFor);
      if (where === "elsewhere") {
        // The other instance has used an older presence.
        dispatched = OFFLINE;
        void this.moved(message.toAgentDid);
      }
    } catch (cause) {
      log("error", "dispatch_failed", { agentDid: message.fromAgentDid, requestId: message.requestId, cause });
    }
    this.#results.set(id, dispatched);
    await this.#send(attempt.instance, { kind: "dispatched", id, dispatched });
  }
}
