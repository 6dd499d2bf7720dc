/**
 * Passes a message to the instance that holds its recipient's sockets, and its result back
 * (ARCHITECTURE.md#many-instances). Another instance gets the message as a note and answers with a note. Also sends the
 * other notes between instances.
 */
import { type Cancel, type Clock, sleep } from "../../shared/clock.ts";
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { GroupCommit, Update } from "../../shared/server/store/group_commit.ts";
import type { Log } from "../../shared/server/log.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import { arePaired } from "../trust/store.ts";
import type { InstanceInbox } from "./instance_inbox.ts";
import type { ConnectRequest, PresenceStore } from "./presence.ts";
import type { MailboxDelivery } from "./mailbox_delivery.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { Mailbox } from "./mailbox.ts";
import type { Message } from "../schema/records.ts";

/** The result of a message. */
export type ForwardResult =
  | { result: "acked"; accepted: boolean; reason?: string; connectedSockets: number }
  | { result: "queued"; expiresAt: number; connectedSockets: number }
  | { result: "full" }
  | { result: "failed" }
  | { result: "offline" };

/** A message on its way to another instance, without its payload. */
interface MessageNote {
  kind: "message";
  id: string;
  from: string;
  message: Omit<Message, "payload">;
  mayQueue: boolean;
  timeoutMs: number;
}

type Note =
  | MessageNote
  | { kind: "dispatched"; id: string; dispatched: ForwardResult }
  | { kind: "moved"; agentDid: string }
  | { kind: "kick"; agentDid: string }
  | { kind: "paired"; agentDid: string; peerAgentDid: string; profile: PairingProfile };

interface DispatchDeps {
  kv: Deno.Kv;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  newId: () => string;
  commits: GroupCommit;
  presence: PresenceStore;
  inbox: InstanceInbox;
  hub: ConnectedAgents;
  drain: MailboxDelivery;
  mailbox: Mailbox;
}

export class MessageForwarder {
  readonly #deps: DispatchDeps;
  /** Messages that wait for the result of another instance, by note ID. */
  readonly #away = new Map<string, (dispatched: ForwardResult) => void>();
  /** Messages of other instances whose result is not written. */
  readonly #underWay = new Set<Promise<void>>();

  constructor(deps: DispatchDeps) {
    this.#deps = deps;
    deps.inbox.onNote = (body, bytes) => this.#receive(body as Note, bytes);
  }

  /** Returns the number of messages that wait for the result of another instance. */
  get away(): number {
    return this.#away.size;
  }

  /**
   * Delivers to the recipient's sockets on this instance, after its queued messages. Queues instead when `mayQueue`.
   *
   * @param timeoutMs milliseconds, with the wait for queued messages
   * @throws {StoreUnavailable}
   */
  async deliverHere(message: Message, mayQueue: boolean, timeoutMs: number): Promise<ForwardResult> {
    const { hub, drain, clock } = this.#deps;
    const { toAgentDid: recipient } = message;
    if (mayQueue && drain.inProgress(recipient)) return await this.#queue(message);
    const deadline = clock.now() + timeoutMs;
    const isStillAllowed = () => this.#isStillAllowed(message);
    const line = await this.#lineEnd(recipient, timeoutMs);
    // The pair may have ended during the wait.
    if (line === "late" || line === "over" && !(await isStillAllowed())) return { result: "failed" };
    const session = hub.session(recipient);
    if (!session) return { result: "offline" };
    const rest = deadline - clock.now();
    const delivery = rest > 0 ? await session.deliver(message, rest, isStillAllowed) : { acked: false as const };
    if (!delivery.acked) return { result: "failed" };
    const { accepted, reason } = delivery;
    const connectedSockets = session.links.length;
    return { result: "acked", accepted, connectedSockets, ...(reason === undefined ? {} : { reason }) };
  }

  /**
   * Returns the update that sends a message to another instance. The caller then calls `dispatched` to wait for the
   * result, or `cancel` when the update was not committed.
   */
  forwardTo(
    instance: string,
    message: Message,
    mayQueue: boolean,
    timeoutMs: number,
  ): { update: Update<never>; dispatched: () => Promise<ForwardResult>; cancel: () => void } {
    const { inbox, clock, newId } = this.#deps;
    const { payload, ...rest } = message;
    const id = newId();
    const note: MessageNote = { kind: "message", id, from: inbox.instance, message: rest, mayQueue, timeoutMs };
    const { promise, resolve } = Promise.withResolvers<ForwardResult>();
    // Registered before the commit: the result may arrive before the commit returns.
    this.#away.set(id, resolve);
    const dispatched = async () => {
      const fail = () => resolve({ result: "failed" });
      const cancels = [clock.after(timeoutMs + LIMITS.wayBackMs, fail), this.#whenStopped(instance, fail)];
      try {
        return await promise;
      } finally {
        for (const cancel of cancels) cancel();
        this.#away.delete(id);
      }
    };
    const cancel = () => void this.#away.delete(id);
    return { update: inbox.write(instance, note, utf8Bytes(payload)), dispatched, cancel };
  }

  /** Calls `late` when another instance has stopped and its last results have been read. */
  #whenStopped(instance: string, late: () => void): Cancel {
    const { clock, presence, inbox } = this.#deps;
    let isCancelled = false, endsAt = Infinity;
    let cancelTimer: Cancel = () => {};
    const look = async () => {
      const state = await presence.stateOf(instance).catch(() => "alive" as const);
      if (state === "stopping") endsAt = Math.min(endsAt, clock.now() + LIMITS.noteDrainMs);
      const isOver = state === "left" || clock.now() >= endsAt;
      // The instance writes its results before it leaves.
      if (isOver) await inbox.catchUp();
      if (isCancelled) return;
      if (isOver) late();
      else cancelTimer = clock.after(LIMITS.leaseLookMs, look);
    };
    cancelTimer = clock.after(LIMITS.leaseLookMs, look);
    return () => {
      isCancelled = true;
      cancelTimer();
    };
  }

  /**
   * Moves an agent's presence to this instance. The previous instance closes its sockets.
   *
   * @throws {OvertakenError} when the agent has connected elsewhere since
   * @throws {StoreUnavailable}
   */
  async claim(agentDid: string, request?: ConnectRequest): Promise<void> {
    const { presence, inbox, hub } = this.#deps;
    const note: Note = { kind: "moved", agentDid };
    const isHere = () => hub.session(agentDid) !== undefined;
    await presence.claim(agentDid, isHere, ({ instance }) => inbox.writesOf(instance, note), request);
  }

  /**
   * Handles a socket that was attached after `claim`. The previous socket may have released the presence in between, or the
   * agent may have moved on: then its sockets here are closed.
   *
   * @throws {StoreUnavailable}
   */
  async attached(agentDid: string): Promise<void> {
    const { presence, hub } = this.#deps;
    if (!(await presence.keep(agentDid, () => hub.session(agentDid) !== undefined))) hub.replace(agentDid);
  }

  /** Starts mailbox delivery on the instance that holds the recipient's socket. */
  async startMailboxDelivery(agentDid: string): Promise<void> {
    await this.#sendNote(agentDid, { kind: "kick", agentDid });
  }

  /** Sends a paired frame to an agent, on the instance that holds its socket. */
  async tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile): Promise<void> {
    await this.#sendNote(agentDid, { kind: "paired", agentDid, peerAgentDid, profile });
  }

  async #sendNote(agentDid: string, note: Note): Promise<void> {
    const { presence, inbox, hub, log } = this.#deps;
    if (hub.session(agentDid)) return this.#receive(note, new Uint8Array());
    try {
      // Also to an instance without a lease: with a different clock or a late renewal it may still hold the sockets.
      const instance = await presence.lastSeenAt(agentDid);
      if (instance) await inbox.send(instance, note);
    } catch (cause) {
      // Not an error: the next poll or the agent's next connect has the same effect.
      log("warn", "note_lost", { kind: note.kind, agentDid, cause });
    }
  }

  /** Waits until the results of the messages of other instances are written (D-267). */
  async finish(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  #track(work: Promise<void>): void {
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  #receive(note: Note, bytes: Uint8Array): void {
    const { hub, drain, metrics } = this.#deps;
    metrics.count("bus_notes_total", note.kind);
    switch (note.kind) {
      case "message":
        this.#track(this.#deliverNote(note, new TextDecoder().decode(bytes)));
        break;
      case "dispatched":
        this.#away.get(note.id)?.(note.dispatched);
        break;
      case "moved":
        void this.moved(note.agentDid);
        break;
      case "kick":
        drain.deliverTo(note.agentDid);
        break;
      case "paired":
        hub.tellPaired(note.agentDid, note.peerAgentDid, note.profile);
        break;
    }
  }

  /**
   * Closes the sockets of an agent that has moved to another instance, unless it is back here: the note of the move, or the
   * commit that met it, may be older (D-271). Never rejects.
   */
  async moved(agentDid: string): Promise<void> {
    const { presence, hub } = this.#deps;
    if (!hub.session(agentDid) || await presence.isHere(agentDid).catch(() => false)) return;
    hub.replace(agentDid);
    // The other instance does not know what this one has queued since the move.
    await this.startMailboxDelivery(agentDid);
  }

  async #deliverNote({ id, from, message, mayQueue, timeoutMs }: MessageNote, payload: string): Promise<void> {
    const { inbox, commits, log } = this.#deps;
    const deliver = async (): Promise<ForwardResult> => {
      // The pair may have ended before this instance read the note.
      if (!(await this.#isStillAllowed(message))) return { result: "failed" };
      return await this.deliverHere({ ...message, payload }, mayQueue, timeoutMs);
    };
    const dispatched = await deliver().catch((cause): ForwardResult => {
      log("error", "dispatch_failed", { agentDid: message.fromAgentDid, requestId: message.requestId, cause });
      return { result: "failed" };
    });
    const note: Note = { kind: "dispatched", id, dispatched };
    try {
      await commits.claim([inbox.write(from, note)]);
    } catch (cause) {
      log("warn", "note_lost", { kind: note.kind, cause });
    }
  }

  #isStillAllowed({ fromAgentDid, toAgentDid }: Pick<Message, "fromAgentDid" | "toAgentDid">): Promise<boolean> {
    return arePaired(this.#deps.kv, fromAgentDid, toAgentDid);
  }

  async #queue(message: Message): Promise<ForwardResult> {
    const { mailbox, commits, hub } = this.#deps;
    const expiresAt = mailbox.expiry();
    const claim = await commits.claim([mailbox.enqueue(message, expiresAt)]);
    if (!claim.taken) return { result: "full" };
    void this.startMailboxDelivery(message.toAgentDid);
    const connectedSockets = hub.session(message.toAgentDid)?.links.length ?? 0;
    return { result: "queued", expiresAt, connectedSockets };
  }

  /** Waits for the end of the recipient's mailbox delivery. Returns "late" after `timeoutMs` milliseconds. */
  async #lineEnd(recipient: string, timeoutMs: number): Promise<"none" | "over" | "late"> {
    const { drain, clock } = this.#deps;
    if (!drain.inProgress(recipient)) return "none";
    const late = new AbortController();
    const timeout = sleep(clock, timeoutMs, late.signal).then(() => "late" as const);
    for (let line = drain.inProgress(recipient); line; line = drain.inProgress(recipient)) {
      if (await Promise.race([line, timeout]) === "late") return "late";
    }
    late.abort();
    return "over";
  }
}
