/**
 * Bringing a message to the instance that holds its recipient's session, and the answer back (ARCHITECTURE "Delivery
 * between instances"). Here it goes straight to the session; elsewhere it travels as a note, and so does what came of
 * it. Also the other news that instances have for each other.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { GroupCommit, Update } from "../../shared/server/store/group_commit.ts";
import type { Log } from "../../shared/server/log.ts";
import { arePaired } from "../trust/store.ts";
import type { InstanceInbox } from "./instance_inbox.ts";
import type { PresenceStore } from "./presence.ts";
import type { MailboxDelivery } from "./mailbox_delivery.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { Mailbox } from "./mailbox.ts";
import type { Message } from "../schema/records.ts";

/** What came of a message. */
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
  /** Messages that are with other instances. */
  readonly #away = new Map<string, (dispatched: ForwardResult) => void>();

  constructor(deps: DispatchDeps) {
    this.#deps = deps;
    deps.inbox.onNote = (body, bytes) => this.#receive(body as Note, bytes);
  }

  /** Messages that are with other instances. */
  get away(): number {
    return this.#away.size;
  }

  /** Delivers to the session on this instance, behind what waits in line, within `timeoutMs`. */
  async deliverHere(message: Message, mayQueue: boolean, timeoutMs: number): Promise<ForwardResult> {
    const { hub, drain, clock } = this.#deps;
    const { toAgentDid: recipient } = message;
    if (mayQueue && drain.inProgress(recipient)) return await this.#queue(message);
    const deadline = clock.now() + timeoutMs;
    const isStillAllowed = () => this.#isStillAllowed(message);
    const line = await this.#lineEnd(recipient, timeoutMs);
    // While it waited the pair may have ended.
    if (line === "late" || line === "over" && !(await isStillAllowed())) return { result: "failed" };
    const session = hub.session(recipient);
    if (!session) return { result: "offline" };
    const rest = deadline - clock.now();
    const outcome = rest > 0 ? await session.deliver(message, rest, isStillAllowed) : { acked: false as const };
    if (!outcome.acked) return { result: "failed" };
    const { accepted, reason } = outcome;
    const connectedSockets = session.links.length;
    return { result: "acked", accepted, connectedSockets, ...(reason === undefined ? {} : { reason }) };
  }

  /**
   * The update that sends a message to another instance, and the wait for its result. The caller ends with `dispatched`
   * when the update has taken effect, and with `cancel` when it has not.
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
    // Before the commit: the answer may be quicker than its return.
    this.#away.set(id, resolve);
    const dispatched = async () => {
      inbox.wakeUp(instance);
      const cancelTimeout = clock.after(timeoutMs + LIMITS.wayBackMs, () => resolve({ result: "failed" }));
      try {
        return await promise;
      } finally {
        cancelTimeout();
        this.#away.delete(id);
      }
    };
    const cancel = () => void this.#away.delete(id);
    return { update: inbox.write(instance, note, utf8Bytes(payload)), dispatched, cancel };
  }

  /** Takes an agent's session to this instance; the one that had it closes its sockets. */
  async claim(agentDid: string): Promise<void> {
    const { presence, inbox, hub } = this.#deps;
    const note: Note = { kind: "moved", agentDid };
    const isHere = () => hub.session(agentDid) !== undefined;
    const left = await presence.claim(agentDid, isHere, ({ instance }) => inbox.writesOf(instance, note));
    if (left) inbox.wakeUp(left);
  }

  /** Sees to it that what was queued for a recipient is handed over, wherever it is connected. */
  async startMailboxDelivery(agentDid: string): Promise<void> {
    await this.#tell(agentDid, { kind: "kick", agentDid });
  }

  /** Tells an agent that it has a new peer, wherever it is connected. */
  async tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile): Promise<void> {
    await this.#tell(agentDid, { kind: "paired", agentDid, peerAgentDid, profile });
  }

  async #tell(agentDid: string, note: Note): Promise<void> {
    const { presence, inbox, hub, log } = this.#deps;
    if (hub.session(agentDid)) return this.#receive(note, new Uint8Array());
    try {
      // Also to one that seems dead: with a clock that differs, or a lease that came late, it may hold the session still.
      const instance = await presence.lastSeenAt(agentDid);
      if (instance) await inbox.send(instance, note);
    } catch (cause) {
      // News: the store's next look, or the agent's next connect, brings the same.
      log("warn", "note_lost", { kind: note.kind, agentDid, cause });
    }
  }

  #receive(note: Note, bytes: Uint8Array): void {
    const { hub, drain } = this.#deps;
    switch (note.kind) {
      case "message":
        void this.#serve(note, new TextDecoder().decode(bytes));
        break;
      case "dispatched":
        this.#away.get(note.id)?.(note.dispatched);
        break;
      case "moved":
        hub.replace(note.agentDid);
        break;
      case "kick":
        drain.deliverTo(note.agentDid);
        break;
      case "paired":
        hub.tellPaired(note.agentDid, note.peerAgentDid, note.profile);
        break;
    }
  }

  async #serve({ id, from, message, mayQueue, timeoutMs }: MessageNote, payload: string): Promise<void> {
    const { inbox, commits, log } = this.#deps;
    const deliver = async (): Promise<ForwardResult> => {
      // The note may have waited for this instance to look, and the pair may have ended meanwhile.
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
      inbox.wakeUp(from);
    } catch (cause) {
      log("warn", "note_lost", { kind: note.kind, cause });
    }
  }

  #isStillAllowed({ fromAgentDid, toAgentDid }: Pick<Message, "fromAgentDid" | "toAgentDid">): Promise<boolean> {
    return arePaired(this.#deps.kv, fromAgentDid, toAgentDid);
  }

  async #queue(message: Message): Promise<ForwardResult> {
    const { mailbox, commits, drain, hub } = this.#deps;
    const expiresAt = mailbox.expiry();
    const fate = await commits.claim([mailbox.enqueue(message, expiresAt)]);
    if (!fate.taken) return { result: "full" };
    drain.deliverTo(message.toAgentDid);
    const connectedSockets = hub.session(message.toAgentDid)?.links.length ?? 0;
    return { result: "queued", expiresAt, connectedSockets };
  }

  /** Waits until nothing is in line before a message to this recipient, or it is too late. */
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
