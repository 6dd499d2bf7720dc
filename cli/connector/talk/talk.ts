/**
 * Reading, writing and pairing on the terminal of a connector: what arrives is a log, and keys act on it.
 * Works over the local API, so that it serves a connector of this process and one that runs elsewhere.
 */
import { call, post } from "../../../shared/client/local_client.ts";
import { ChangedPeer, type LocalPeer } from "../../../shared/client/local_shapes.ts";
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { isTicketOf, type Ticket, TICKET_PREFIX } from "../../../shared/protocol/ticket.ts";
import { KeyDecoder } from "../../terminal/key_decoder.ts";
import { type Line, printable, type Style } from "../../terminal/escapes.ts";
import { cutToColumns, wordWrap } from "../../terminal/text_width.ts";
import { aliasesOf, endedPeers, perhapsReplaced, presentPeers } from "../peers/peers.ts";
import { Arrivals } from "./arrivals.ts";
import { Log, PAIRING } from "./log.ts";
import { edgeOf } from "./log_text.ts";
import { noPeers, People } from "./people.ts";
import { Prompt } from "./prompt.ts";
import { SentHere } from "./sent_here.ts";
import { liveLine, type TalkAgent, unreadOf, whoseOf } from "./talk_agent.ts";
import { Tickets } from "./tickets.ts";
import type { ConsoleView, LiveLines } from "./view.ts";

const PASTE_CHARACTERS = 65_536;
/**
 * How long keys are ignored after a paste, a refusal, a failure, and a question about a pasted text. They may belong to
 * the paste, to the answer, or to a text for a prompt that did not open, and as commands they would block, send or stop.
 */
const DEAF_MS = 500;
/** The rest of an escape sequence or a paste arrives within this time, if it does at all. */
const REST_MS = 1_000;
const ESCAPE_MS = 50;
/** An action that takes longer is named below the log, because the terminal would seem to have missed its key. */
const SLOW_MS = 1_000;

const NO_KEYS = "No keys are read here. Use svc send, svc inbox and svc reply in another terminal.";

export interface TalkDeps {
  clock: Clock;
  view: ConsoleView;
  newId(): string;
  /** How many agents the terminal will show. */
  agents: number;
  hasKeys: boolean;
  /** That of `Output`. */
  withHere(text: string): string;
  /** Called when a message arrived, unless the person has turned the sound off. */
  arrived(agent: string, unread: number): void;
  stop(): void;
}

/**
 * A key and what it does: `act` is the same for all agents; `of` and `runs` act on one, with the number typed before
 * the key. `runs` is refused while another action is under way.
 */
type Key =
  & { key: string; name?: string; purpose: string }
  & (
    | { act(): void }
    | { of(agent: TalkAgent, number: number | null): void }
    | { runs(agent: TalkAgent, number: number | null): Promise<void> }
  );

export class Talk {
  readonly #decoder = new KeyDecoder(PASTE_CHARACTERS);
  readonly #agents = new Map<string, { agent: TalkAgent; end: AbortController }>();
  readonly #log: Log;
  readonly #prompt: Prompt;
  readonly #arrivals: Arrivals;
  readonly #sent: SentHere;
  readonly tickets: Tickets;
  readonly #people: People;
  #digits = "";
  #current: string | null = null;
  #lastPeer = "";
  /** Since when an action is under way; `null` without one. */
  #busySince: number | null = null;
  /** What the person has agreed to while another action was under way. */
  readonly #agreed: (() => unknown)[] = [];
  #deafUntil = -Infinity;
  #hasSound = true;
  #hasHead = false;
  #cancelReset: Cancel = () => {};

  /** The keys, in the order of the help. */
  readonly #keys: readonly Key[] = [
    { key: "s", purpose: "send a message", of: (agent) => this.#sendTo(agent) },
    {
      key: "r",
      purpose: "reply to the newest unread message; 12r to message 12",
      runs: (agent, number) => this.#reply(agent, number),
    },
    {
      key: "u",
      purpose: "show unread messages; 12u shows message 12 whole",
      runs: (agent, number) => this.#arrivals.unread(agent, number),
    },
    {
      key: " ",
      name: "space",
      purpose: "mark all messages read that were shown",
      runs: () => this.#arrivals.readAll(),
    },
    { key: "l", purpose: "list the peers with their numbers", runs: (agent) => this.#people.list(agent) },
    {
      key: "h",
      purpose: "show what was written with a peer; 2h with the second of the list",
      of: (agent, number) => this.#history(agent, number),
    },
    { key: "n", name: "2n", purpose: "rename the second peer of the list", of: this.#listed("rename") },
    { key: "x", name: "2x", purpose: "end the pair with the second peer of the list", of: this.#listed("remove") },
    {
      key: "p",
      purpose: "make a ticket that another agent pairs with; pasting one pairs",
      runs: (agent) => this.tickets.make(agent),
    },
    {
      key: "i",
      purpose: "make a link that gives a new person an account and pairs with it",
      runs: (agent) => this.tickets.invite(agent),
    },
    {
      key: "o",
      purpose: "open the web page of this connector",
      runs: async (agent) => this.deps.view.show(await agent.openPage()),
    },
    { key: "a", purpose: "choose the agent that s, u, l, h, p, i and o are for", of: () => this.#choose() },
    {
      key: "b",
      purpose: "turn the sound for new messages on or off; 2b blocks the second peer of the list, or ends that",
      of: (agent, number) => number === null ? this.#toggleSound() : this.#listed("block")(agent, number),
    },
    { key: "v", purpose: "show all events or only what matters", act: () => this.#toggleEvents() },
    { key: "?", purpose: "show the keys", act: () => this.#help() },
    { key: "q", purpose: "leave; a connector of this terminal stops", act: () => this.deps.stop() },
  ];

  constructor(private readonly deps: TalkDeps) {
    const { clock, view, newId } = deps;
    const only = () => {
      const [only, second] = this.#agents.keys();
      // By the number that was started too, because the first agent shows messages before the others are there.
      return second === undefined && deps.agents === 1 ? only ?? "" : null;
    };
    const log = this.#log = new Log(clock, view, only, deps.withHere);
    this.#prompt = new Prompt({
      clock,
      run: (action) => this.#run(action, { isAgreed: true }),
      ended: (say) => {
        if (say !== null) log.say(say);
        // A line is back after a question, and an Enter that was meant for the answer would send it.
        if (this.#prompt.isOpen) this.#ignoreKeys();
        view.redraw();
      },
    });
    this.#sent = new SentHere({ clock, log, newId });
    this.#people = new People({ clock, view, log, prompt: this.#prompt });
    this.tickets = new Tickets({ clock, log, view });
    this.#arrivals = new Arrivals({
      clock,
      log,
      arrived: (agent, { inReplyTo, isReply }) => {
        if (isReply && inReplyTo !== null) this.#sent.answered(inReplyTo);
        if (this.#hasSound) deps.arrived(agent.name, unreadOf([agent]));
      },
      redraw: () => view.redraw(),
    });
  }

  /** Shows the head of the log before the first agent, and follows the messages of the agent until it is removed. */
  add(agent: TalkAgent): void {
    if (!this.#hasHead) this.#head(agent);
    this.remove(agent.name);
    const end = new AbortController();
    this.#agents.set(agent.name, { agent, end });
    void this.#arrivals.follow(agent, end.signal);
  }

  remove(name: string): void {
    this.#agents.get(name)?.end.abort();
    this.#agents.delete(name);
  }

  close(): void {
    for (const name of [...this.#agents.keys()]) this.remove(name);
    this.#cancelReset();
    const { unsent } = this.#prompt;
    // The end of a connector closes the terminal too, and the person would have to write the message again.
    if (unsent.trim() !== "") this.#log.unsent(unsent);
    this.#prompt.close();
    this.#sent.close();
  }

  /** Discards what is being written. Returns false when there is nothing: Ctrl-C then stops. */
  discard(): boolean {
    const { isOpen } = this.#prompt;
    this.#prompt.discard();
    return isOpen;
  }

  receive(bytes: Uint8Array): void {
    const { clock, view } = this.deps;
    this.#cancelReset();
    for (const input of this.#decoder.push(bytes)) {
      if (input.kind === "paste") {
        this.#ignoreKeys();
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
    this.#told(() => view.redraw());
  }

  /**
   * Runs an action, and says why it failed. An exception that reached the reader of the keyboard would end all keys,
   * and one that reached the connector would end its work on a new pair.
   */
  #told(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#log.sayFailure(error);
    }
  }

  /** The lines below the log; `null` before there is an agent. */
  live(columns: number): LiveLines | null {
    if (this.#agents.size === 0) return null;
    const counts = this.#arrivals.counts().map((line): Line => [["yellow", cutToColumns(printable(line), columns)]]);
    const prompt = this.#prompt.live(columns);
    if (prompt !== null) return { lines: [...counts, prompt.line], cursor: prompt.cursor };
    const busyMs = this.#busySince === null ? 0 : this.deps.clock.now() - this.#busySince;
    const shown = this.#digits === "" && busyMs >= SLOW_MS ? "waiting for an answer" : this.#digits;
    return { lines: [...counts, liveLine(this.#all(), columns, shown)], cursor: null };
  }

  /** Whether a new pair comes from a paste here, so that its line is shown already; `null` while that is not known. */
  isOfPaste(did: string): boolean | null {
    return this.#confirming > 0 ? null : this.#pastedFrom.delete(did);
  }
  readonly #pastedFrom = new Set<string>();
  #confirming = 0;

  paired(name: string, did: string): void {
    this.#log.met(did);
    this.#told(() => {
      const known = this.#agents.get(name);
      const peer = Object.values(known?.agent.peers() ?? {}).find((one) => one.did === did);
      this.tickets.paired(peer?.how === "ticket");
      if (known !== undefined) this.#askReplaced(known.agent, did);
    });
  }

  /** Asks whether a new peer is the new agent of a person whose earlier agent is a peer too (D-145). */
  #askReplaced(agent: TalkAgent, did: string): void {
    const peers = agent.peers(), before = perhapsReplaced(peers, did), alias = aliasesOf(peers).get(did);
    if (before === null || alias === undefined) return;
    const later = `If it is the new ${before}: svc peers rename ${alias} ${before} --replaces --agent ${agent.name}`;
    // The next letter of a person who is writing would answer the question.
    if (this.#prompt.isOpen) return this.#log.say(later);
    const replace = async () => {
      await call(agent.calls, ChangedPeer, post("/v1/peers/rename", { peer: did, alias: before, replaces: true }));
      this.#log.say(`${before} is the new agent now. The pair with the old one has ended.`);
    };
    this.#prompt.ask(`Is ${alias} the new agent of ${before}? The old one is then removed.`, replace, later);
    this.deps.view.redraw();
  }

  title(): string {
    const agents = this.#all(), unread = unreadOf(agents);
    return `${whoseOf(agents)}${unread === 0 ? "" : ` · ${unread} unread`}`;
  }

  #head({ name, humanName, status }: TalkAgent): void {
    this.#hasHead = true;
    const { agents } = this.deps, whose = agents > 1 ? `${agents} agents` : name;
    const columns = this.deps.view.columns ?? 80;
    const origin = status()?.proxy.origin;
    const server = origin === undefined ? "" : ` · ${new URL(origin).host}`;
    const keys = "s send  r reply  p pair  i invite  l peers  h history  ? all keys  q stop";
    const shown = keys.length < columns ? keys.split("  ") : ["? shows the keys"];
    const line = shown.flatMap((text, i): [Style, string][] => [
      ["bold", `${i === 0 ? "" : "  "}${text[0]}`],
      ["", text.slice(1)],
    ]);
    const below = this.deps.hasKeys ? [line] : wordWrap(NO_KEYS, edgeOf(columns));
    this.deps.view.show([[["bold", cutToColumns(`${whose} of ${humanName}${server}`, columns - 1)]], ...below, ""]);
  }

  #help(): void {
    const keys = this.#keys.filter(({ key }) => key !== "?");
    const { view } = this.deps;
    view.show(keys.flatMap(({ key, name = key, purpose }): Line[] => {
      const [first = "", ...rest] = wordWrap(purpose, edgeOf(view.columns) - 9);
      return [[["bold", `  ${name.padEnd(5)}`], ["", `  ${first}`]], ...rest.map((line) => " ".repeat(9) + line)];
    }));
  }

  #all(): TalkAgent[] {
    // In the order of their names, because they start in any order, and the keys are for the first one.
    return [...this.#agents.values()].map(({ agent }) => agent).toSorted((a, b) => a.name < b.name ? -1 : 1);
  }

  #agent(): TalkAgent | null {
    return (this.#current === null ? null : this.#agents.get(this.#current)?.agent) ?? this.#all()[0] ?? null;
  }

  #pressed(key: string): void {
    const left = this.#deafUntil - this.deps.clock.now();
    // A longer time comes from a clock that was set back, and would make all keys useless until it is over.
    const isDeaf = left > 0 && left <= DEAF_MS;
    if (this.#prompt.press(key, isDeaf)) return;
    // Each ignored key extends the time, because more letters of the same text may follow.
    if (isDeaf) return this.#ignoreKeys();
    if (/^\d$/.test(key) && this.#digits.length < 9) {
      this.#digits += key;
      return;
    }
    const number = this.#digits === "" ? null : Number(this.#digits);
    this.#digits = "";
    const found = this.#keys.find((known) => known.key === key);
    if (found === undefined) return;
    if ("act" in found) return found.act();
    const agent = this.#agent();
    if (agent === null) return;
    if ("of" in found) found.of(agent, number);
    else void this.#run(() => found.runs(agent, number));
  }

  #ignoreKeys(): void {
    this.#deafUntil = this.deps.clock.now() + DEAF_MS;
  }

  /** Says why no prompt opens, and ignores the next keys, because they may be a text for it. */
  #refuse(text: string): void {
    this.#log.say(text);
    this.#ignoreKeys();
  }

  #pasted(text: string | null): void {
    const prompt = this.#prompt;
    if (prompt.isOpen && prompt.editor === null) prompt.discard();
    const { editor } = prompt;
    const isTicket = text?.includes(TICKET_PREFIX) === true;
    if (editor !== null && text !== null && !isTicket) return editor.insert(text);
    if (text === null) return this.#log.say("The pasted text is too long.");
    const agent = this.#agent();
    const found = agent === null ? null : this.tickets.find(agent, text);
    if (agent === null || found === null) return;
    // With several agents the person may not know for which of them the keys are.
    const pair = this.#agents.size > 1 ? `Pair ${agent.name}` : "Pair";
    const question = editor !== null
      ? `This is a pairing ticket, a secret. ${pair} with it instead?`
      : isTicketOf(found, agent.status()?.proxy.origin ?? found.origin)
      ? `${pair} with an agent of ${found.authority}?`
      : `This ticket is from another server: ${found.authority}. ${pair}?`;
    prompt.ask(question, () => this.#confirm(agent, found), "Not paired.");
  }

  async #confirm(agent: TalkAgent, ticket: Ticket): Promise<void> {
    this.#confirming++;
    const did = await this.tickets.confirm(agent, ticket).finally(() => this.#confirming--);
    if (did === null) return;
    this.#pastedFrom.add(did);
    this.#askReplaced(agent, did);
  }

  #toggleSound(): void {
    this.#hasSound = !this.#hasSound;
    this.#log.say(`The sound for new messages is ${this.#hasSound ? "on" : "off"}.`);
  }

  #toggleEvents(): void {
    const { view } = this.deps;
    view.isVerbose = !view.isVerbose;
    this.#log.say(view.isVerbose ? "All events are shown." : "Only what matters is shown.");
  }

  #choose(): void {
    const names = this.#all().map(({ name }) => name);
    if (names.length < 2) return;
    this.#log.say(`The agents are ${names.join(", ")}. The keys are for ${this.#agent()?.name}.`);
    this.#prompt.pick("agent› ", names, (name) => {
      if (names.includes(name)) this.#current = name;
      this.#log.say(names.includes(name) ? `The keys are for ${name} now.` : `There is no agent ${name} here.`);
    });
  }

  #history(agent: TalkAgent, number: number | null): void {
    const show = (alias: string, did: string) => this.#run(() => this.#people.history(agent, { alias, did }));
    if (number === null) return this.#pick(agent, "history of› ", show);
    this.#numbered(agent, number, ({ alias, agentDid }) => show(alias, agentDid));
  }

  #numbered(agent: TalkAgent, number: number | null, then: (peer: LocalPeer) => void): void {
    const peer = this.#people.find(agent, number);
    if (peer === null) this.#refuse("No peer has this number. l lists the peers with their numbers.");
    else then(peer);
  }

  /** What a key does with the peer of a number in the list. */
  #listed(what: "rename" | "block" | "remove"): (agent: TalkAgent, number: number | null) => void {
    return (agent, number) => this.#numbered(agent, number, (peer) => this.#run(() => this.#people[what](agent, peer)));
  }

  #sendTo(agent: TalkAgent): void {
    this.#pick(
      agent,
      "to› ",
      (alias, did) => this.#prompt.write(alias, (text) => void this.#sent.send(agent, { alias, did }, text)),
    );
  }

  /** Lets a person choose a peer; the only one is chosen at once. */
  #pick(agent: TalkAgent, prompt: string, then: (alias: string, did: string) => void): void {
    const all = agent.peers(), peers = presentPeers(all);
    const names = Object.keys(peers);
    const [only, second] = names;
    if (only === undefined) return this.#refuse(noPeers(agent));
    const chosen = (alias: string) => {
      const did = peers[alias]?.did;
      if (did === undefined) {
        return this.#refuse(
          Object.hasOwn(all, alias) ? endedText(alias) : `No peer is named ${alias}. l lists the peers.`,
        );
      }
      this.#lastPeer = alias;
      then(alias, did);
    };
    if (second === undefined) return chosen(only);
    const last = names.includes(this.#lastPeer) ? this.#lastPeer : "";
    this.#prompt.pick(prompt, names, (text) => chosen(text.trim()), last);
  }

  async #reply(agent: TalkAgent, number: number | null): Promise<void> {
    const known = await this.#arrivals.find(agent, number);
    // The person may have begun to write meanwhile, and the rest of that text would go to another peer.
    if (this.#prompt.isOpen) return;
    if (known === null) return this.#refuse("No unread message is shown. 12r replies to message 12.");
    const { message: { id, from, requestId } } = known;
    const to = { alias: from.alias ?? from.name, did: from.agentDid, replyTo: id, inReplyTo: requestId };
    if (aliasesOf(endedPeers(known.agent.peers())).has(to.did)) return this.#refuse(endedText(to.alias));
    this.#prompt.write(to.alias, async (text) => {
      if (await this.#sent.send(known.agent, to, text)) this.#arrivals.answered(known);
    });
  }

  /**
   * Runs one action at a time; another one is dropped with a sentence about it.
   *
   * @param isAgreed the person has decided it at a prompt. Such an action waits and is never dropped, because the
   * person would believe that it was done
   */
  async #run(action: () => unknown, { isAgreed = false } = {}): Promise<void> {
    if (this.#busySince !== null) {
      if (isAgreed) this.#agreed.push(action);
      else this.#refuse("An earlier key is still under way, so this one did nothing.");
      return;
    }
    this.#busySince = this.deps.clock.now();
    try {
      await action();
    } catch (error) {
      this.#log.sayFailure(error);
      this.#ignoreKeys();
    } finally {
      this.#busySince = null;
      this.deps.view.redraw();
      const next = this.#agreed.shift();
      if (next !== undefined) void this.#run(next);
    }
  }
}

function endedText(alias: string): string {
  return `The pair with ${alias} has ended. ${PAIRING}`;
}
