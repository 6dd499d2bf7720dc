/** The messages that arrive for the agents of a terminal, and which of them were shown and are not read yet. */
import { type Clock, sleep } from "../../../shared/clock.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { call, get, readMessages } from "../../../shared/client/local_client.ts";
import { InboxPage, LocalMessage } from "../../../shared/client/local_shapes.ts";
import { describe } from "../../errors.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { Unseen } from "../unseen.ts";
import type { Log } from "./log.ts";
import { partsOf } from "./log_text.ts";
import type { TalkAgent } from "./talk_agent.ts";

const WINDOW_MS = 10_000;
const OF_ONE_PEER = 5;
const OF_ALL = 20;

const WAIT_S = 25;
const RETRY_MS = 2_000;
const UNREAD_PAGE = 5;
/** With more, the local API would refuse the page. */
const PAGED_MAX = CONNECTOR_LIMITS.pageMessagesMax;
const REMEMBERED = 1_000;

export interface ShownMessage {
  agent: TalkAgent;
  message: LocalMessage;
}

export interface ArrivalsDeps {
  clock: Clock;
  log: Log;
  /** Called for each message that arrives, before it is shown. */
  arrived(agent: TalkAgent, message: LocalMessage): void;
  redraw(): void;
}

export class Arrivals {
  readonly #flood = new Flood();
  /** Unread messages that were shown, by agent and number: each agent counts its own. */
  readonly #shown = new Map<string, ShownMessage>();
  /**
   * How many unread messages of an agent were paged, and the newest of them. After a newer one, paging begins again.
   */
  #paged = { agent: "", newest: 0, count: 0 };

  constructor(private readonly deps: ArrivalsDeps) {}

  /** Shows the newest unread messages of an agent, and those that arrive until the signal. */
  async follow(agent: TalkAgent, signal: AbortSignal): Promise<void> {
    const unseen = new Unseen();
    /** The newest message at the start, then 0. Older ones are new only when they come later. */
    let newest: number | null = null;
    while (!signal.aborted) {
      try {
        const isFirst = newest === null;
        const query = isFirst ? `newest=true&limit=${UNREAD_PAGE}` : `after=${unseen.after}&wait=${WAIT_S}`;
        const page: InboxPage = await call(agent.calls, InboxPage, {
          ...get(`/v1/inbox?held=true&${query}`),
          waitSeconds: isFirst ? 0 : WAIT_S,
        });
        if (signal.aborted) return;
        if (newest === null) {
          this.#showPage(agent, page);
          newest = page.messages.at(-1)?.id ?? 0;
          continue;
        }
        for (const message of unseen.news(page)) if (message.id > newest) this.#arrived(agent, message);
        if (unseen.after === 0) newest = 0;
      } catch (error) {
        // If a runtime gets the messages, there are none to show. Any other failure is followed by another try, because
        // a connector that starts again still has the messages.
        if (!(error instanceof LocalDown) && describe(error).code === "CONNECTOR_RUNTIME_PUSHES") return;
        await sleep(this.deps.clock, RETRY_MS, signal);
      }
    }
  }

  counts(): string[] {
    return this.#flood.lines();
  }

  #arrived(agent: TalkAgent, message: LocalMessage): void {
    const { clock, log, arrived, redraw } = this.deps;
    arrived(agent, message);
    const peer = log.whose(agent) + (message.from.alias ?? message.from.name);
    if (!this.#flood.isShown(peer, clock.now(), (line) => log.say(line))) return redraw();
    this.#show(agent, message);
  }

  #show(agent: TalkAgent, message: LocalMessage, { isWhole = false } = {}): void {
    const { log } = this.deps, { id, from, receivedAt, readAt } = message;
    const { who, ...parts } = partsOf(message, log.person(from.agentDid, from.humanName));
    log.message({ ...parts, who: log.whose(agent) + who, at: Date.parse(receivedAt), isWhole });
    if (readAt === null) this.#shown.set(`${agent.name} ${id}`, { agent, message });
    const [oldest] = this.#shown.keys();
    if (this.#shown.size > REMEMBERED && oldest !== undefined) this.#shown.delete(oldest);
  }

  /**
   * Returns the message with this number: the one that was shown for this agent, else the one that was shown for
   * another agent if only one agent has it, else this agent's. Without a number: the newest message that was shown and
   * is unread; `null` if there is none.
   */
  async find(agent: TalkAgent, number: number | null): Promise<ShownMessage | null> {
    const shown = [...this.#shown.values()];
    if (number === null) return shown.at(-1) ?? null;
    const fits = shown.filter(({ message: { id } }) => id === number);
    const own = fits.find((one) => one.agent.name === agent.name);
    return own ?? (fits.length === 1 ? fits[0] : null) ?? { agent, message: await messageOf(agent, number) };
  }

  answered({ agent, message }: ShownMessage): void {
    this.#shown.delete(`${agent.name} ${message.id}`);
  }

  /**
   * Shows the newest unread messages, and at each further call older ones. With a number: the message with this number,
   * read or unread, with its whole text.
   */
  async unread(agent: TalkAgent, number: number | null): Promise<void> {
    const { log } = this.deps;
    if (number !== null) {
      const found = await this.find(agent, number);
      if (found !== null) this.#show(found.agent, await messageOf(found.agent, number), { isWhole: true });
      return;
    }
    const whose = log.whose(agent);
    this.#flood.clear(whose);
    const count = this.#paged.agent === agent.name ? this.#paged.count : 0;
    const limit = Math.min(count + UNREAD_PAGE, PAGED_MAX);
    const page = await call(agent.calls, InboxPage, get(`/v1/inbox?held=true&newest=true&limit=${limit}`));
    if (page.messages.length === 0) return log.say(`${whose}No unread messages.`);
    this.#showPage(agent, page);
  }

  #showPage(agent: TalkAgent, { messages, more }: InboxPage): void {
    const newest = messages.at(-1)?.id ?? 0, { agent: before, newest: known, count } = this.#paged;
    const goesOn = before === agent.name && known === newest && count < messages.length;
    const end = messages.length - (goesOn ? count : 0), start = Math.max(0, end - UNREAD_PAGE);
    this.#paged = { agent: agent.name, newest, count: messages.length - start };
    for (const message of messages.slice(start, end)) this.#show(agent, message);
    if (!more && start === 0) return;
    const { log } = this.deps;
    const shows = this.#paged.count < PAGED_MAX ? "u shows" : `svc inbox --agent ${agent.name} lists`;
    log.say(`${log.whose(agent)}There are older ones: ${shows} them.`);
  }

  /** Marks read what was shown, and nothing else. */
  async readAll(): Promise<void> {
    const shown = [...this.#shown];
    if (shown.length === 0) this.deps.log.say("No message that was shown is unread. u shows unread messages.");
    for (const agent of new Set(shown.map(([, { agent }]) => agent))) {
      const own = shown.filter(([, one]) => one.agent === agent);
      await readMessages(agent.calls, { ids: own.map(([, { message }]) => message.id) });
      for (const [key] of own) this.#shown.delete(key);
    }
  }
}

function messageOf({ calls }: TalkAgent, id: number): Promise<LocalMessage> {
  return call(calls, LocalMessage, get(`/v1/inbox/${id}`));
}

/** Bounds the messages shown at once, because a peer that writes a thousand would push the others off the screen. */
class Flood {
  #began = -Infinity;
  #shown = new Map<string, number>();
  #hidden = new Map<string, number>();

  /**
   * Whether this message of a peer is shown; else it is counted. The counts go to `say` when their time is over,
   * because they change before that.
   */
  isShown(peer: string, now: number, say: (line: string) => void): boolean {
    // A window that begins in the future comes from a clock that was set back. It ends, because it would hide messages
    // until then.
    if (Math.abs(now - this.#began) >= WINDOW_MS) {
      const lines = this.lines();
      this.#began = now;
      this.#shown.clear();
      this.clear();
      // After the clear, because each line draws the screen, which would show the same counts below it.
      for (const line of lines) say(line);
    }
    const all = [...this.#shown.values()].reduce((sum, count) => sum + count, 0);
    const isShown = all < OF_ALL && (this.#shown.get(peer) ?? 0) < OF_ONE_PEER;
    const counts = isShown ? this.#shown : this.#hidden;
    counts.set(peer, (counts.get(peer) ?? 0) + 1);
    return isShown;
  }

  /** Forgets the hidden messages of peers that begin so, because the person looks at the unread ones now. */
  clear(whose = ""): void {
    for (const peer of [...this.#hidden.keys()]) if (peer.startsWith(whose)) this.#hidden.delete(peer);
  }

  /** A line for each peer with messages that are not shown, at most five. */
  lines(): string[] {
    return [...this.#hidden].slice(0, OF_ONE_PEER).map(([peer, count]) =>
      `${peer}: ${count} more ${count === 1 ? "message" : "messages"}; u shows them`
    );
  }
}
