/** The messages that a person sends from a terminal, and the states that they reach. */
import { sinceText } from "../../terminal/times.ts";
import { type Cancel, type Clock, settledWithin } from "../../../shared/clock.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { call, get, sendAndWait } from "../../../shared/client/local_client.ts";
import type { MessageState } from "../../../shared/client/agent_api.ts";
import { SentPage } from "../../../shared/client/local_shapes.ts";
import { connectorPeers } from "../peers/peer_list.ts";
import { problemText, refusalText } from "../states.ts";
import type { Log } from "./log.ts";
import type { TalkAgent } from "./talk_agent.ts";

/** How long a text waits for its answer before it is shown. With less, its row and number may not be stored yet. */
const ROW_MS = 300;
const STATES_EVERY_MS = 2_000;
const REMEMBERED = 1_000;

export interface Recipient {
  alias: string;
  did: string;
  replyTo?: number;
  /** Request ID of the message with the number `replyTo`, because that number may be another message's after a restart. */
  inReplyTo?: string;
}

interface Open {
  agent: TalkAgent;
  alias: string;
  requestId: string;
  seq: number | null;
  state: MessageState;
}

export class SentHere {
  readonly #open = new Map<string, Open>();
  /** Request IDs of own messages that were answered, so no line needs to say that they have arrived or were read. */
  readonly #answered = new Set<string>();
  #cancel: Cancel = () => {};
  #isClosed = false;

  constructor(private readonly deps: { clock: Clock; log: Log; newId(): string }) {}

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  answered(requestId: string): void {
    this.#answered.add(requestId);
    if (this.#answered.size > REMEMBERED) this.#answered.clear();
  }

  /** Sends a text and shows it with its number. Returns false, and says why, when it may not be sent. */
  async send(agent: TalkAgent, to: Recipient, text: string): Promise<boolean> {
    const { log } = this.deps;
    try {
      const open = await this.#send(agent, to, text);
      if (!["processed", "dead_lettered", "refused"].includes(open.state) && this.#open.size < REMEMBERED) {
        this.#open.set(open.requestId, open);
        this.#lookLater();
      }
      return true;
    } catch (error) {
      // A connector that was stopped with Ctrl-Z sends it when it goes on, and the person would send it twice.
      const mayBeSent = error instanceof LocalDown && error.wasSent;
      log.sayFailure(error, mayBeSent ? `Unclear, ${to.alias} may get it: ` : `Not sent to ${to.alias}: `);
      return false;
    }
  }

  async #send(agent: TalkAgent, { alias, did: to, replyTo, inReplyTo }: Recipient, text: string): Promise<Open> {
    const { clock, log, newId } = this.deps;
    const requestId = newId();
    const sending = sendAndWait(agent.calls, clock, {
      members: { to, replyTo, inReplyTo, requestId, prefer: "respond-async", keep: true, origin: "person" },
      payload: JSON.stringify({ message: text }),
      waitSeconds: 0,
    });
    await settledWithin(clock, sending.catch(() => {}), ROW_MS);
    const seq = await rowOf(agent, requestId, to);
    const who = `${log.whose(agent)}You to ${alias}`;
    log.message({ at: clock.now(), who, did: "", number: seq, text, isWhole: true, isOwn: true });
    const { result: { state, problem, nextTryAt } } = await sending;
    const open = { agent, alias, requestId, seq, state };
    const refusal = problem === null ? null : refusalText(problem);
    if (state === "kept" && refusal !== null && nextTryAt !== null) {
      const seconds = Math.max(1, Math.ceil((Date.parse(nextTryAt) - clock.now()) / 1000));
      log.say(`Not sent yet: ${refusal}. Next try in ${seconds} s.`, "yellow");
    } else this.#tellState(open, problem, state === "queued" ? await lastSeenOf(agent, to) : null);
    return open;
  }

  /** Tells the state of a message that has not arrived. `lastSeenAt`: when the recipient, now offline, was last online. */
  #tellState({ agent, alias, seq, state }: Open, problem: string | null, lastSeenAt: string | null = null): void {
    const { log } = this.deps;
    const what = log.whose(agent) + (seq === null ? `The message to ${alias}` : `${seq} to ${alias}`);
    const why = problem === null ? "" : `: ${problemText(problem, alias)}`;
    if (state === "queued") {
      const until = lastSeenAt === null
        ? ` until ${alias} takes it`
        : `: ${alias} is offline since ${sinceText(lastSeenAt, this.deps.clock.now())}`;
      log.say(`${what} waits at the server${until}.`, "yellow");
    }
    if (state === "kept") log.say(`${what} waits here${why}.`, "yellow");
    else if (state === "unknown") log.say(`${what}: unclear, it may have arrived${why}.`, "yellow");
    else if (state === "refused") log.say(`${what} was refused${why}.`, "red");
    else if (state === "dead_lettered") log.say(`${what} was not delivered${why}.`, "red");
  }

  #lookLater(): void {
    this.#cancel();
    if (this.#isClosed) return;
    this.#cancel = this.deps.clock.after(STATES_EVERY_MS, () => void this.#look());
  }

  /** Tells what has become of the messages that were sent here. */
  async #look(): Promise<void> {
    const said = new Map<string, number[]>();
    const say = (what: string, { seq, requestId }: Open) => {
      if (seq !== null && !this.#answered.has(requestId)) said.set(what, [...said.get(what) ?? [], seq]);
    };
    for (const agent of new Set([...this.#open.values()].map((open) => open.agent))) {
      const page = await call(agent.calls, SentPage, get("/v1/sent?limit=100")).catch(() => null);
      for (const { requestId, state, problem } of page?.messages ?? []) {
        const open = this.#open.get(requestId);
        if (open === undefined || open.state === state) continue;
        open.state = state;
        if (state === "processed") {
          this.#open.delete(requestId);
          say(`${open.alias} has read`, open);
        } else if (state === "delivered") say(`${open.alias} has received`, open);
        else if (state === "dead_lettered" || state === "refused") {
          this.#open.delete(requestId);
          this.#tellState(open, problem);
        }
      }
    }
    for (const [what, numbers] of said) this.deps.log.say(`${what} ${numbers.join(", ")}.`, "dim");
    if (this.#open.size > 0) this.#lookLater();
  }
}

/** The number of a sent message; `null` while it has no row. */
async function rowOf({ calls }: TalkAgent, requestId: string, did: string): Promise<number | null> {
  const query = new URLSearchParams({ limit: "20", to: did });
  const page = await call(calls, SentPage, get(`/v1/sent?${query}`)).catch(() => null);
  return page?.messages.find((message) => message.requestId === requestId)?.seq ?? null;
}

/** When a peer was online last, ISO 8601; `null` while it is, and for one that hides it. */
async function lastSeenOf({ calls }: TalkAgent, did: string): Promise<string | null> {
  const peers = await connectorPeers(calls).catch(() => []);
  const peer = peers.find(({ agentDid }) => agentDid === did);
  return peer?.online === false ? peer.lastSeenAt : null;
}
