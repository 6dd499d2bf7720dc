/**
 * Keys of `connector start` on a terminal (D-122): pair, list peers, show unread messages, stop. A pasted pairing ticket is
 * confirmed only after a question, because a paste is not a decision.
 */
import type { Cancel, Clock } from "../../shared/clock.ts";
import { PairConfirmAnswer } from "../../shared/protocol/api/pairing.ts";
import { parseTicket, type Ticket } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { describe } from "../errors.ts";
import { KeyDecoder } from "../terminal/key_decoder.ts";
import { table } from "../terminal/output.ts";
import { CONNECTOR_LIMITS as LIMIT } from "./limits.ts";
import { aliasesOf, type Peers } from "./peers.ts";
import { formatDuration } from "./status.ts";

export interface ConsoleKeysDeps {
  clock: Clock;
  show(lines: readonly string[]): void;
  /** Calls the connector's local API. */
  call(method: "GET" | "POST", target: string, body?: unknown): Promise<unknown>;
  /** The peers whose pair has not ended. */
  peers(): Peers;
  /** The oldest unread messages, at most `limit`; each as a line about it and its indented text. */
  unread(limit: number): Promise<string[][]>;
  /** What to do after a pairing with this peer, an alias or a DID. */
  nextLines(peer: string): string[];
  /** Origin of the agent's proxy. */
  proxyOrigin: string;
  stop(): void;
}

const TICKET = /svcpair1_[A-Za-z0-9_-]+/g;
/** The last time that a date can express. */
const MAX_TIME_MS = 8.64e15;

const HELP = {
  p: "make a ticket that another agent pairs with",
  l: "list the peers",
  u: "show the unread messages",
  "?": "show this help",
  q: "stop the connector",
} as const;

export class ConsoleKeys {
  readonly #deps: ConsoleKeysDeps;
  readonly #decoder = new KeyDecoder(LIMIT.pasteCharacters);
  /** The pasted ticket that a question is about. */
  #question: Ticket | null = null;
  #isBusy = false;
  /** Keys before this time are dropped: they may belong to the paste. */
  #deafUntil = -Infinity;
  #cancelQuestion: Cancel = () => {};
  #cancelReset: Cancel = () => {};

  constructor(deps: ConsoleKeysDeps) {
    this.#deps = deps;
  }

  /** Handles the bytes of the terminal. */
  receive(bytes: Uint8Array): void {
    const { clock } = this.#deps;
    this.#cancelReset();
    for (const input of this.#decoder.push(bytes)) {
      if (input.kind === "paste") {
        this.#deafUntil = clock.now() + LIMIT.keysDroppedMs;
        this.#pasted(input.text);
      } else if (clock.now() >= this.#deafUntil) this.#pressed(input.key);
    }
    if (this.#decoder.isIncomplete) {
      this.#cancelReset = clock.after(LIMIT.pasteTimeoutMs, () => this.#decoder.reset());
    }
  }

  /** Forgets a question. */
  close(): void {
    this.#cancelReset();
    this.#takeQuestion();
  }

  #pressed(key: string): void {
    const question = this.#takeQuestion();
    if (question === null) return this.#act(key);
    if (/^y$/i.test(key)) this.#run(() => this.#confirm(question));
    else this.#deps.show(["Not paired."]);
  }

  #act(key: string): void {
    switch (key) {
      case "p":
        // The ticket is printed by the connector's `onTicket`, as for every other caller of this route.
        return this.#run(() => this.#deps.call("POST", "/v1/pair/start", {}));
      case "l":
        return this.#run(() => this.#deps.show(peerLines(this.#deps.peers())));
      case "u":
        return this.#run(() => this.#showUnread());
      case "?":
        return this.#deps.show([
          ...Object.entries(HELP).map(([key, purpose]) => `  ${key}  ${purpose}`),
          "  A pasted ticket pairs with the agent behind it, after a question.",
        ]);
      case "q":
        return this.#deps.stop();
    }
  }

  /** Runs one action at a time; keys during an action are ignored. */
  #run(action: () => unknown): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    const done = async () => {
      try {
        await action();
      } catch (error) {
        const { cause, fix } = describe(error);
        this.#deps.show([cause, ...fix === "" ? [] : [`  ${fix}`]]);
      } finally {
        this.#isBusy = false;
      }
    };
    void done();
  }

  #pasted(text: string | null): void {
    if (this.#takeQuestion() !== null) this.#deps.show(["Not paired."]);
    const ticket = text === null ? null : ticketIn(text);
    if (ticket === null) return this.#deps.show(["The pasted text has no pairing ticket, or more than one."]);
    const { clock, show, proxyOrigin } = this.#deps;
    const leftMs = ticket.exp * 1000 - clock.now();
    const left = leftMs > 0 ? `in ${formatDuration(leftMs)}` : "EXPIRED";
    show([
      `Ticket of ${ticket.iss}, valid until ${toIso(ticket.exp * 1000)} (${left}).`,
      ...ticket.iss === proxyOrigin ? [] : [`This agent uses another proxy: ${proxyOrigin}.`],
      "Pair with the agent behind this ticket? [y/N]",
    ]);
    this.#question = ticket;
    this.#cancelQuestion = clock.after(LIMIT.questionMs, () => {
      if (this.#takeQuestion() !== null) show(["Not paired: no answer."]);
    });
  }

  /** Shows unread messages and leaves them unread. */
  async #showUnread(): Promise<void> {
    const { unread, show } = this.#deps;
    const messages = await unread(LIMIT.unreadShown);
    if (messages.length === 0) return show(["No unread messages."]);
    const isFull = messages.length === LIMIT.unreadShown;
    show([...messages.flatMap(cut), ...isFull ? ["There may be more: svc inbox lists them."] : []]);
  }

  #takeQuestion(): Ticket | null {
    const question = this.#question;
    this.#question = null;
    this.#cancelQuestion();
    return question;
  }

  async #confirm({ ticket }: Ticket): Promise<void> {
    const { call, peers, show, nextLines } = this.#deps;
    const response = PairConfirmAnswer.parse(await call("POST", "/v1/pair/confirm", { ticket }));
    const { initiatorAgentDid: did, initiatorProfile: { agentName, humanName } } = response;
    const alias = aliasesOf(peers()).get(did);
    const known = alias === undefined ? "" : `, alias ${alias}`;
    show([`Paired with ${agentName} of ${humanName}${known} (${did}).`, ...nextLines(alias ?? did)]);
  }
}

/** The only ticket in a text; `null` when there is none, or when its content is not an origin and a time. */
function ticketIn(text: string): Ticket | null {
  const found = new Set(text.match(TICKET));
  const [ticket = null] = found.size === 1 ? Array.from(found, parseTicket) : [];
  if (ticket === null) return null;
  const { iss, exp } = ticket;
  const isPrintable = URL.canParse(iss) && new URL(iss).origin === iss && exp * 1000 <= MAX_TIME_MS;
  return isPrintable ? ticket : null;
}

/** The first lines of a message, with an ellipsis when there are more characters. */
function cut(lines: readonly string[]): string[] {
  let left = LIMIT.unreadCharacters;
  const shown: string[] = [];
  for (const line of lines) {
    shown.push(line.length <= left ? line : `${line.slice(0, left)}…`);
    left -= line.length;
    if (left < 0) break;
  }
  return shown;
}

function peerLines(peers: Peers): string[] {
  const rows = Object.entries(peers).map((
    [alias, { agentName, humanName, did }],
  ) => [alias, agentName, humanName, did]);
  return rows.length === 0 ? ["No peers."] : table(["ALIAS", "AGENT", "HUMAN", "DID"], rows);
}
