/**
 * Reading, writing and pairing on the terminal of a connector: what arrives is a log, and keys act on it.
 * Works over the local API, so that it serves a connector of this process and one that runs elsewhere.
 */
import { type Cancel, type Clock, settledWithin, sleep } from "../../../shared/clock.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { call, get, type LocalCalls, post, readMessages, sendAndWait } from "../../../shared/client/local_client.ts";
import { InboxPage, LocalMessage, SentPage, type SentState } from "../../../shared/client/local_shapes.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../../../shared/protocol/api/pairing.ts";
import { ticketInPaste } from "../../../shared/protocol/pasted_ticket.ts";
import { parseTicket, type Ticket, TICKET_PREFIX } from "../../../shared/protocol/ticket.ts";
import { describe } from "../../errors.ts";
import { KeyDecoder } from "../../terminal/key_decoder.ts";
import { LineEditor } from "../../terminal/line_editor.ts";
import type { Line, Style } from "../../terminal/styled.ts";
import { printable, table } from "../../terminal/output.ts";
import { cutToColumns } from "../../terminal/text_width.ts";
import type { ConsoleView, LiveLines } from "./view.ts";
import { aliasesOf, type Peers } from "../peers.ts";
import { formatDuration, type Status } from "../status.ts";
import { ticketPicture } from "./ticket_picture.ts";
import { Flood } from "./flood.ts";
import { clockText, edgeOf, gutterLines, headerLine, sentenceLines } from "./log_text.ts";

const PASTE_CHARACTERS = 65_536;
/** Keys that arrive so soon after a paste may belong to it. */
const DEAF_MS = 500;
/** A question that was left open must not be answered by a key that is meant for something else. */
const QUESTION_MS = 60_000;
/** The rest of an escape sequence or a paste arrives within this time, if it does at all. */
const REST_MS = 1_000;
const ESCAPE_MS = 50;
/** A message whose row is stored by then is shown with its number before the answer is there. */
const ROW_MS = 300;
const STATES_EVERY_MS = 2_000;
const WAIT_S = 25;
const RETRY_MS = 2_000;
/** Messages that are remembered as shown, and sent ones whose state is followed. */
const REMEMBERED = 1_000;
const UNREAD_PAGE = 5;

/** An agent on this terminal. */
export interface TalkAgent {
  name: string;
  humanName: string;
  calls: LocalCalls;
  /** The peers whose pair has not ended. */
  peers(): Peers;
  /** The latest status; `null` before there is one. */
  status(): Status | null;
  /** Opens the connector's web page. Returns the lines to show: without a browser they have its address. */
  openPage(): Promise<string[]>;
}

export interface TalkDeps {
  clock: Clock;
  view: ConsoleView;
  newId(): string;
  /** Called when a message arrived, unless the person has turned the sound off. */
  arrived(agent: string, unread: number): void;
  stop(): void;
}

/** What the next keys are for. */
type Mode =
  | { kind: "edit"; editor: LineEditor; names: readonly string[]; done(text: string): void }
  | { kind: "question"; text: string; yes(): unknown; no: string };

/** A sent message whose state is not final. */
interface Open {
  agent: TalkAgent;
  alias: string;
  requestId: string;
  seq: number | null;
  state: SentState;
}

const HELP: readonly (readonly [key: string, purpose: string])[] = [
  ["s", "send a message"],
  ["r", "reply to the newest unread message; 12r to message 12"],
  ["u", "show unread messages; 12u shows message 12 whole"],
  ["space", "mark all messages read that were shown"],
  ["l", "list the peers"],
  ["p", "make a ticket that another agent pairs with"],
  ["o", "open the web page of this connector"],
  ["a", "choose the agent that s, l, p and o are for"],
  ["b", "turn the sound for new messages on or off"],
  ["v", "show all events or only what matters"],
  ["q", "stop"],
];

export class Talk {
  readonly #deps: TalkDeps;
  readonly #decoder = new KeyDecoder(PASTE_CHARACTERS);
  readonly #agents = new Map<string, { agent: TalkAgent; end: AbortController }>();
  readonly #flood = new Flood();
  readonly #past: string[] = [];
  /** Unread messages that were shown, by number. */
  readonly #shown = new Map<number, { agent: TalkAgent; message: LocalMessage }>();
  readonly #open = new Map<string, Open>();
  /** Request IDs of own messages that were answered: that they were read needs no line. */
  readonly #answered = new Set<string>();
  /** Persons that were named today. */
  #named = new Set<string>();
  #day = "";
  #mode: Mode | null = null;
  #digits = "";
  #current: string | null = null;
  #lastPeer = "";
  #isBusy = false;
  #deafUntil = -Infinity;
  #ticket: { agent: string; text: string; until: number } | null = null;
  #hasSound = true;
  #cancelQuestion: Cancel = () => {};
  #cancelReset: Cancel = () => {};
  #cancelStates: Cancel = () => {};

  constructor(deps: TalkDeps) {
    this.#deps = deps;
    this.#day = dayText(deps.clock.now());
  }

  /** Shows the head of the log for the first agent, and follows the messages of the agent until it is removed. */
  add(agent: TalkAgent): void {
    if (this.#agents.size === 0) this.#head(agent);
    this.remove(agent.name);
    const end = new AbortController();
    this.#agents.set(agent.name, { agent, end });
    void this.#follow(agent, end.signal);
  }

  remove(name: string): void {
    this.#agents.get(name)?.end.abort();
    this.#agents.delete(name);
  }

  close(): void {
    for (const name of [...this.#agents.keys()]) this.remove(name);
    this.#cancelReset();
    this.#cancelQuestion();
    this.#cancelStates();
  }

  /** Discards what is being written. Returns false when there is nothing: Ctrl-C then stops. */
  discard(): boolean {
    const isOpen = this.#mode !== null;
    this.#end(this.#mode?.kind === "question" ? this.#mode.no : null);
    return isOpen;
  }

  /** Handles the bytes of the terminal. */
  receive(bytes: Uint8Array): void {
    const { clock, view } = this.#deps;
    this.#cancelReset();
    for (const input of this.#decoder.push(bytes)) {
      if (input.kind === "paste") {
        this.#deafUntil = clock.now() + DEAF_MS;
        this.#told(() => this.#pasted(input.text));
      } else this.#told(() => this.#pressed(input.key));
    }
    if (this.#decoder.isIncomplete) {
      const { isEscape } = this.#decoder;
      this.#cancelReset = clock.after(isEscape ? ESCAPE_MS : REST_MS, () => {
        this.#decoder.reset();
        if (isEscape) this.#told(() => this.#pressed("Escape"));
        view.redraw();
      });
    }
    view.redraw();
  }

  /** Says why an action failed: an exception that reached the reader of the keyboard would end it, and with it all keys. */
  #told(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#sayFailure(error);
    }
  }

  #sayFailure(error: unknown): void {
    const { cause, fix } = describe(error);
    this.#say(`${cause}. ${fix}`.trimEnd(), "red");
  }

  /** The lines below the log; `null` before there is an agent. */
  live(columns: number): LiveLines | null {
    if (this.#agents.size === 0) return null;
    const counts = this.#flood.lines().map((line): Line => [["yellow", cutToColumns(printable(line), columns)]]);
    const mode = this.#mode;
    if (mode?.kind === "edit") {
      const { text, cursor } = mode.editor.draw(columns);
      return { lines: [...counts, text], cursor };
    }
    if (mode !== null) return { lines: [...counts, cutToColumns(printable(mode.text), columns)], cursor: null };
    return { lines: [...counts, statusParts(this.#all(), columns, this.#digits)], cursor: null };
  }

  /** A ticket was confirmed, so the one that was shown is used up. */
  paired(): void {
    this.#ticket = null;
  }

  /** The title of the window. */
  title(): string {
    const agents = this.#all();
    const who = agents.length === 1 ? agents[0]?.name : `${agents.length} agents`;
    const unread = unreadOf(agents);
    return `${who}${unread === 0 ? "" : ` · ${unread} unread`}`;
  }

  /** Shows a ticket of an agent, whichever program asked for it. */
  showTicket(agent: string, ticket: string, until: string): void {
    const { clock } = this.#deps;
    this.#ticket = { agent, text: ticket, until: Date.parse(until) };
    const left = formatDuration(this.#ticket.until - clock.now());
    const whose = this.#agents.size > 1 ? `${agent} · ` : "";
    this.#say(`${whose}Give this ticket to the other person. It works once, for ${left}.`);
    this.#show(["       It is a secret. They paste it into the terminal of their connector.", "", ticket, ""]);
  }

  #head({ name, humanName, status }: TalkAgent): void {
    const columns = this.#deps.view.columns ?? 80;
    const origin = status()?.proxy.origin;
    const server = origin === undefined ? "" : ` · ${new URL(origin).host}`;
    const keys = "s send  r reply  p pair  l peers  ? all keys  q stop";
    const shown = keys.length < columns ? keys : "? shows the keys";
    this.#deps.view.show([[["bold", cutToColumns(`${name} of ${humanName}${server}`, columns - 1)]], shown, ""]);
  }

  #all(): TalkAgent[] {
    return [...this.#agents.values()].map(({ agent }) => agent);
  }

  #agent(): TalkAgent | null {
    return (this.#current === null ? null : this.#agents.get(this.#current)?.agent) ?? this.#all()[0] ?? null;
  }

  // What arrives

  async #follow(agent: TalkAgent, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    let after: number | null = null;
    while (!signal.aborted) {
      try {
        const query: string = after === null ? "newest=true&limit=1" : `after=${after}&wait=${WAIT_S}`;
        const page: InboxPage = await call(agent.calls, InboxPage, {
          ...get(`/v1/inbox?${query}`),
          waitSeconds: after === null ? 0 : WAIT_S,
        });
        if (signal.aborted) return;
        if (after !== null) { for (const message of page.messages) this.#arrived(agent, message); }
        after = page.messages.at(-1)?.id ?? after ?? 0;
      } catch (error) {
        // A connector that starts again has the messages; a runtime that gets them needs no reader.
        if (!(error instanceof LocalDown) && describe(error).code === "CONNECTOR_RUNTIME_PUSHES") return;
        await sleep(clock, RETRY_MS);
      }
    }
  }

  #arrived(agent: TalkAgent, message: LocalMessage): void {
    const { clock, view } = this.#deps;
    const { from, inReplyTo, isReply } = message;
    if (isReply && inReplyTo !== null) this.#answered.add(inReplyTo);
    if (this.#answered.size > REMEMBERED) this.#answered.clear();
    if (this.#hasSound) this.#deps.arrived(agent.name, unreadOf([agent]));
    const peer = from.alias ?? from.name;
    for (const line of this.#flood.take(clock.now())) this.#say(line);
    if (!this.#flood.isShown(peer, clock.now())) return view.redraw();
    this.#showMessage(agent, message, false);
  }

  #showMessage(agent: TalkAgent, message: LocalMessage, isWhole: boolean): void {
    const { columns } = this.#deps.view;
    const { id, from, receivedAt, readAt, error } = message;
    this.#newDay();
    const alias = from.alias ?? from.name;
    const person = from.humanName !== null && !this.#named.has(from.agentDid) ? ` of ${from.humanName}` : "";
    this.#named.add(from.agentDid);
    const what = error !== null
      ? "could not answer"
      : message.auto
      ? "replies automatically"
      : message.isReply
      ? "replies"
      : "asks";
    const whose = this.#agents.size > 1 ? `${agent.name} · ` : "";
    const text = message.text ?? error?.message ?? JSON.stringify(message.payload) ?? "";
    this.#deps.view.show([
      headerLine(Date.parse(receivedAt), `${whose}${alias}${person} ${what}`, id, columns),
      ...gutterLines(text, { columns, number: id, isWhole }),
    ]);
    if (readAt === null) this.#shown.set(id, { agent, message });
    const [oldest] = this.#shown.keys();
    if (this.#shown.size > REMEMBERED && oldest !== undefined) this.#shown.delete(oldest);
  }

  #newDay(): void {
    const day = dayText(this.#deps.clock.now());
    if (day === this.#day) return;
    this.#day = day;
    this.#named.clear();
    this.#deps.view.show([[["dim", day]]]);
  }

  // Keys

  #pressed(key: string): void {
    const mode = this.#mode;
    const isDeaf = this.#deps.clock.now() < this.#deafUntil;
    if (mode?.kind === "edit") {
      if (!(isDeaf && key === "Enter")) this.#edit(mode, key);
      return;
    }
    if (isDeaf) return;
    if (mode !== null) {
      const isYes = /^y$/i.test(key);
      this.#end(isYes ? null : mode.no);
      if (isYes) this.#run(mode.yes);
      return;
    }
    if (/^\d$/.test(key) && this.#digits.length < 9) this.#digits += key;
    else {
      const number = this.#digits === "" ? null : Number(this.#digits);
      this.#digits = "";
      this.#act(key, number);
    }
  }

  #edit(mode: Mode & { kind: "edit" }, key: string): void {
    if (key === "Escape") return this.#end(null);
    if (key === "Tab") {
      const { editor, names } = mode;
      const fits = names.filter((name) => name.startsWith(editor.text));
      if (fits[0] !== undefined) editor.set(fits.length === 1 ? fits[0] : commonStart(fits));
      return;
    }
    const text = mode.editor.press(key);
    if (text === null) return;
    this.#end(null);
    if (text.trim() !== "") mode.done(text);
  }

  #act(key: string, number: number | null): void {
    const agent = this.#agent();
    if (key === "q") return this.#deps.stop();
    if (key === "?") {
      return this.#deps.view.show(HELP.map(([key, purpose]) => [["bold", `  ${key.padEnd(5)}`], ["", `  ${purpose}`]]));
    }
    if (key === "b") {
      this.#hasSound = !this.#hasSound;
      return this.#say(`The sound for new messages is ${this.#hasSound ? "on" : "off"}.`);
    }
    if (key === "v") {
      this.#deps.view.isVerbose = !this.#deps.view.isVerbose;
      return this.#say(this.#deps.view.isVerbose ? "All events are shown." : "Only what matters is shown.");
    }
    if (agent === null) return;
    switch (key) {
      case "s":
        return this.#pick(
          agent,
          (alias, did) => this.#write(alias, (text) => this.#send(agent, { to: did }, alias, did, text)),
        );
      case "r":
        return this.#run(() => this.#reply(agent, number));
      case "u":
        return this.#run(() => this.#unread(agent, number));
      case " ":
        return this.#run(() => this.#readAll());
      case "l":
        return this.#show(peerLines(agent.peers()));
      case "p":
        // A new ticket is shown by `showTicket`, as for every other caller of the route.
        return this.#run(() => this.#pair(agent));
      case "o":
        return this.#run(async () => this.#deps.view.show(await agent.openPage()));
      case "a":
        return this.#choose();
    }
  }

  /** Makes a ticket; while one is open, shows it as a picture that another device can read. */
  async #pair(agent: TalkAgent): Promise<void> {
    const { clock, view } = this.#deps;
    const open = this.#ticket;
    if (open === null || open.agent !== agent.name || open.until <= clock.now()) {
      return void await call(agent.calls, PairStartAnswer, post("/v1/pair/start", {}));
    }
    // A picture that is cut cannot be read, so it is as wide as it is.
    view.show(await ticketPicture(open.text, view.columns ?? 80, view.rows ?? 24));
  }

  #choose(): void {
    const names = this.#all().map(({ name }) => name);
    if (names.length < 2) return;
    this.#prompt("agent› ", names, (name) => {
      if (names.includes(name)) this.#current = name;
      this.#say(names.includes(name) ? `The keys are for ${name} now.` : `There is no agent ${name} here.`);
    });
  }

  #pick(agent: TalkAgent, then: (alias: string, did: string) => void): void {
    const peers = agent.peers();
    const names = Object.keys(peers);
    const [only, second] = names;
    if (only === undefined) return this.#say("No peers yet. p makes a ticket for another person.");
    const chosen = (alias: string) => {
      const did = peers[alias]?.did;
      if (did === undefined) return this.#say(`No peer is named ${alias}. l lists the peers.`);
      this.#lastPeer = alias;
      then(alias, did);
    };
    if (second === undefined) return chosen(only);
    this.#prompt("to› ", names, (text) => chosen(text.trim()), names.includes(this.#lastPeer) ? this.#lastPeer : "");
  }

  #write(alias: string, done: (text: string) => void): void {
    const editor = new LineEditor(`to ${alias}› `, this.#past);
    this.#mode = { kind: "edit", editor, names: [], done };
  }

  #prompt(prompt: string, names: readonly string[], done: (text: string) => void, text = ""): void {
    this.#mode = { kind: "edit", editor: new LineEditor(prompt, [], text), names, done };
  }

  #ask(text: string, yes: () => unknown, no: string): void {
    this.#mode = { kind: "question", text: `${text} [y/N] `, yes, no };
    this.#cancelQuestion = this.#deps.clock.after(QUESTION_MS, () => this.#end(no));
  }

  /** Ends what the keys were for. */
  #end(say: string | null): void {
    this.#mode = null;
    this.#cancelQuestion();
    if (say !== null) this.#say(say);
    this.#deps.view.redraw();
  }

  #pasted(text: string | null): void {
    const mode = this.#mode;
    if (mode?.kind === "edit" && text !== null) {
      if (!text.includes(TICKET_PREFIX)) return mode.editor.insert(text);
      const found = this.#ticketIn(text);
      if (found === null) return;
      const yes = () => this.#confirm(found);
      return this.#ask("This is a pairing ticket, a secret. Pair with it instead?", yes, "Not paired.");
    }
    if (mode !== null) this.#end(mode.kind === "question" ? mode.no : null);
    if (text === null) return this.#say("The pasted text is too long.");
    const found = this.#ticketIn(text);
    if (found === null) return;
    this.#ask(`Pair with an agent of ${found.authority}?`, () => this.#confirm(found), "Not paired.");
  }

  /** The ticket of a paste, if the agent can pair with it; says why not. */
  #ticketIn(text: string): Ticket | null {
    const agent = this.#agent();
    const origin = agent?.status()?.proxy.origin;
    if (agent === null || origin === undefined) return null;
    const { host } = new URL(origin);
    const found = ticketInPaste(text, origin);
    if ("problem" in found) this.#say(found.problem);
    else if (found.ticket.authority !== host) {
      const whose = `${agent.name} is an agent of ${host}.`;
      this.#say(`This ticket is from another server: ${found.ticket.authority}. ${whose}`);
    } else if (found.ticket.plain === parseTicket(this.#ticket?.text ?? "")?.plain) {
      this.#say("This is your own ticket. Give it to the other person.");
    } else return found.ticket;
    return null;
  }

  async #confirm({ ticket }: Ticket): Promise<void> {
    const agent = this.#agent();
    if (agent === null) return;
    const answer = await call(agent.calls, PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
    const { initiatorAgentDid: did, initiatorProfile: { agentName, humanName } } = answer;
    const alias = aliasesOf(agent.peers()).get(did);
    const known = alias === undefined || alias === agentName ? "" : ` It is called ${alias} here.`;
    this.#named.add(did);
    this.#say(`Paired with ${agentName} of ${humanName}.${known}`);
  }

  // Messages

  async #reply(agent: TalkAgent, number: number | null): Promise<void> {
    const last = [...this.#shown.keys()].at(-1) ?? null;
    const wanted = number ?? last;
    const known = wanted === null
      ? null
      : this.#shown.get(wanted) ?? { agent, message: await messageOf(agent, wanted) };
    if (known === null) return this.#say("No unread message is shown. 12r replies to message 12.");
    const { message: { id, from } } = known;
    const alias = from.alias ?? from.name;
    this.#write(alias, (text) => this.#send(known.agent, { replyTo: id }, alias, from.agentDid, text));
  }

  #send(agent: TalkAgent, to: { to: string } | { replyTo: number }, alias: string, did: string, text: string): void {
    const { clock } = this.#deps;
    const requestId = this.#deps.newId();
    const message = {
      members: { ...to, requestId, prefer: "respond-async" as const, keep: true, origin: "person" as const },
      payload: JSON.stringify({ message: text }),
      waitSeconds: 0,
    };
    const send = async () => {
      const sending = sendAndWait(agent.calls, clock, message);
      await settledWithin(clock, sending.catch(() => {}), ROW_MS);
      const seq = await rowOf(agent, requestId, did);
      const { columns } = this.#deps.view;
      this.#newDay();
      this.#deps.view.show([
        headerLine(clock.now(), `You to ${alias}`, seq, columns),
        ...gutterLines(text, { columns, number: seq, isWhole: true, isOwn: true }),
      ]);
      const { result } = await sending;
      if ("replyTo" in to) this.#shown.delete(to.replyTo);
      const open = { agent, alias, requestId, seq, state: result.state };
      this.#tellState(open, result.problem);
      this.#watch(open);
    };
    void send().catch((error) => {
      const { cause, fix } = describe(error);
      this.#say(`Not sent to ${alias}: ${cause}. ${fix}`.trimEnd(), "red");
    });
  }

  /** A line for a state that is not the good one. */
  #tellState({ alias, seq, state }: Open, problem: string | null): void {
    const what = seq === null ? `The message to ${alias}` : `${seq} to ${alias}`;
    const why = problem === null ? "" : `: ${problem}`;
    if (state === "queued") this.#say(`${what} waits at the server: ${alias} is offline.`, "yellow");
    else if (state === "kept") this.#say(`${what} waits here${why}.`, "yellow");
    else if (state === "unknown") this.#say(`${what}: unclear, it may have arrived${why}.`, "yellow");
    else if (state === "refused") this.#say(`${what} was refused${why}.`, "red");
    else if (state === "dead_lettered") this.#say(`${what} was not delivered${why}.`, "red");
  }

  #watch(open: Open): void {
    if (["processed", "dead_lettered", "refused"].includes(open.state) || this.#open.size >= REMEMBERED) return;
    this.#open.set(open.requestId, open);
    this.#cancelStates();
    this.#cancelStates = this.#deps.clock.after(STATES_EVERY_MS, () => void this.#states());
  }

  /** Tells what has become of the messages that were sent here. */
  async #states(): Promise<void> {
    const read = new Map<string, number[]>();
    for (const agent of new Set([...this.#open.values()].map((open) => open.agent))) {
      const page = await call(agent.calls, SentPage, get("/v1/sent?limit=100")).catch(() => null);
      for (const { requestId, state, problem } of page?.messages ?? []) {
        const open = this.#open.get(requestId);
        if (open === undefined || open.state === state) continue;
        Object.assign(open, { state });
        if (state === "processed") {
          this.#open.delete(requestId);
          const isAnswered = this.#answered.has(requestId) || open.seq === null;
          if (!isAnswered) read.set(open.alias, [...read.get(open.alias) ?? [], open.seq ?? 0]);
        } else if (state === "dead_lettered" || state === "refused") {
          this.#open.delete(requestId);
          this.#tellState(open, problem);
        }
      }
    }
    for (const [alias, numbers] of read) this.#say(`${alias} has read ${numbers.join(", ")}.`, "dim");
    if (this.#open.size === 0) return;
    this.#cancelStates();
    this.#cancelStates = this.#deps.clock.after(STATES_EVERY_MS, () => void this.#states());
  }

  async #unread(agent: TalkAgent, number: number | null): Promise<void> {
    if (number !== null) return this.#showMessage(agent, await messageOf(agent, number), true);
    const page = await call(agent.calls, InboxPage, get(`/v1/inbox?unread=true&newest=true&limit=${UNREAD_PAGE}`));
    if (page.messages.length === 0) return this.#say("No unread messages.");
    for (const message of page.messages) this.#showMessage(agent, message, false);
    if (page.more) this.#say("There are older ones: svc inbox lists them.");
  }

  /** Marks read what was shown, and nothing else. */
  async #readAll(): Promise<void> {
    const shown = [...this.#shown];
    for (const agent of new Set(shown.map(([, { agent }]) => agent))) {
      const ids = shown.filter(([, message]) => message.agent === agent).map(([id]) => id);
      await readMessages(agent.calls, { ids });
      for (const id of ids) this.#shown.delete(id);
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
        this.#sayFailure(error);
      } finally {
        this.#isBusy = false;
        this.#deps.view.redraw();
      }
    };
    void done();
  }

  #say(text: string, style: Style = ""): void {
    const { view, clock } = this.#deps;
    const [first, ...rest] = sentenceLines(clock.now(), text, view.columns);
    const styled = rest.map((line): Line => [[style, String(line)]]);
    const head: Line = [["dim", clockText(clock.now())], [
      style,
      String(Array.isArray(first) ? first[1]?.[1] ?? "" : first),
    ]];
    view.show([head, ...styled]);
  }

  #show(lines: readonly string[]): void {
    const edge = edgeOf(this.#deps.view.columns);
    // A ticket must stay whole: a terminal that wraps it copies it as one line.
    this.#deps.view.show(lines.map((line) => line.startsWith(TICKET_PREFIX) ? line : cutToColumns(line, edge)));
  }
}

/** The number of a sent message; `null` while it has no row. */
async function rowOf(agent: TalkAgent, requestId: string, did: string): Promise<number | null> {
  const query = new URLSearchParams({ limit: "20", to: did });
  const page = await call(agent.calls, SentPage, get(`/v1/sent?${query}`)).catch(() => null);
  return page?.messages.find((message) => message.requestId === requestId)?.seq ?? null;
}

function messageOf({ calls }: TalkAgent, id: number): Promise<LocalMessage> {
  return call(calls, LocalMessage, get(`/v1/inbox/${id}`));
}

function peerLines(peers: Peers): string[] {
  const rows = Object.entries(peers).map(([alias, { agentName, humanName }]) => [alias, agentName, humanName]);
  return rows.length === 0
    ? ["No peers yet. p makes a ticket for another person."]
    : table(["PEER", "AGENT", "OF"], rows);
}

/** Unread messages of agents that read them. */
function unreadOf(agents: readonly TalkAgent[]): number {
  return agents.reduce((sum, agent) => {
    const status = agent.status();
    return sum + (status?.runtime.url === null ? status.inbox.waiting : 0);
  }, 0);
}

/** The live line: who, the link, and what is unread. */
function statusParts(agents: readonly TalkAgent[], columns: number, digits: string): Line {
  const known = agents.flatMap((agent) => agent.status() ?? []);
  const unread = unreadOf(agents);
  const [only] = known;
  const who = agents.length === 1 ? agents[0]?.name ?? "" : `${agents.length} agents`;
  const online = known.filter(({ connection }) => connection.state === "connected").length;
  const parts: [Style, string][] = [["", who]];
  if (agents.length === 1 && only !== undefined) parts.push(["", " · "], linkPart(only));
  else if (online < agents.length) parts.push(["", " · "], ["yellow", `${agents.length - online} offline`]);
  const hint = columns + 1 < 60 ? "" : " (space: all read)";
  if (unread > 0) parts.push(["", ` · ${unread} unread${hint}`]);
  for (const { runtime, deadLetters } of known) {
    if (runtime.reachable === false) parts.push(["", " · "], ["red", `${runtime.platform} does not answer`]);
    if (deadLetters > 0) parts.push(["", " · "], ["red", `${deadLetters} dead letters`]);
  }
  if (digits !== "") parts.push(["", ` · ${digits}`]);
  let left = columns;
  return parts.map(([style, text]) => {
    const cut = cutToColumns(text, Math.max(0, left));
    left -= [...cut].length;
    return [style, cut] as const;
  });
}

function linkPart({ connection: { state, nextTryAt }, now }: Status): [Style, string] {
  if (state === "connected") return ["green", "online"];
  if (state === "connecting") return ["yellow", "connecting"];
  if (state === "stopped" || nextTryAt === null) return ["yellow", "offline"];
  return ["yellow", `offline · next try in ${formatDuration(Date.parse(nextTryAt) - Date.parse(now))}`];
}

function dayText(ms: number): string {
  return new Date(ms).toDateString();
}

function commonStart(names: readonly string[]): string {
  const [first = ""] = names;
  let length = first.length;
  while (!names.every((name) => name.startsWith(first.slice(0, length)))) length--;
  return first.slice(0, length);
}
