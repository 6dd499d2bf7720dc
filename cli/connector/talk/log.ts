/** The log on a terminal: sentences of svc, and messages with their texts behind a gutter. */
import type { Clock } from "../../../shared/clock.ts";
import { TICKET_PREFIX } from "../../../shared/protocol/ticket.ts";
import { describe } from "../../errors.ts";
import type { Style } from "../../terminal/escapes.ts";
import { sentence } from "../../terminal/output.ts";
import { wordWrap } from "../../terminal/text_width.ts";
import { dateText } from "../../terminal/times.ts";
import { edgeOf, gutterLines, headerLine, sentenceLines } from "./log_text.ts";
import type { ConsoleView } from "./view.ts";

export interface LoggedMessage {
  /** Milliseconds. */
  at: number;
  who: string;
  /** What the peer did, for example `asks`; an empty text for an own message. */
  did: string;
  number: number | null;
  text: string;
  isWhole: boolean;
  isOwn?: boolean;
}

export const PAIRING = "To pair: p, or paste a ticket of the other person.";
/** What a person at this terminal can do about an error. The usual fix of its code names commands, and not keys. */
const KEYS: Readonly<Record<string, string>> = {
  CONNECTOR_PEER_BLOCKED: "To end that: l, then the number of the peer and b.",
  CONNECTOR_PEER_UNKNOWN: `l lists the peers. ${PAIRING}`,
  PROXY_AUTH_FORBIDDEN: PAIRING,
  PROXY_PAIR_INVALID_BODY: PAIRING,
};

export class Log {
  /** Agents whose person was named today. */
  readonly #named = new Set<string>();
  #day: string;

  /**
   * `only`: the agent of the terminal; `null` when it shows several, so that each line names its own. `withHere` is that
   * of `Output`.
   */
  constructor(
    private readonly clock: Clock,
    private readonly view: ConsoleView,
    private readonly only: () => string | null,
    private readonly withHere: (text: string) => string,
  ) {
    this.#day = dayText(clock.now());
  }

  /** The beginning of a line about an agent. */
  whose({ name }: { name: string }): string {
    return this.only() === null ? `${name} · ` : "";
  }

  say(text: string, style: Style = ""): void {
    this.view.show(sentenceLines(this.clock.now(), this.withHere(text), this.view.columns, style));
  }

  sayFailure(error: unknown, what = ""): void {
    const { code, cause, fix } = describe(error);
    const advice = (KEYS[code] ?? fix).replaceAll("<name>", () => this.only() || "<name>");
    this.say(`${sentence(what + cause)} ${advice}`.trimEnd(), "red");
  }

  /** Shows lines that svc has laid out. A line that is too wide is wrapped with the same indent. */
  lines(lines: readonly string[]): void {
    const edge = edgeOf(this.view.columns);
    this.view.show(lines.flatMap((line) => {
      // A ticket is not wrapped, because a person would copy the line breaks with it. Those that the terminal makes are
      // not copied.
      if (line.startsWith(TICKET_PREFIX)) return line;
      const [indent = ""] = /^ */.exec(line) ?? [];
      return wordWrap(line.slice(indent.length), edge - indent.length).map((part) => indent + part);
    }));
  }

  message({ at, who, did, number, text, isWhole, isOwn = false }: LoggedMessage): void {
    const { columns } = this.view, isOld = dayText(at) !== dayText(this.clock.now());
    this.#newDay();
    // An unread message of an earlier day would otherwise seem to be of today.
    const what = isOld ? { who, did: `${did} on ${dateText(new Date(at))}` } : { who, did };
    this.view.show([
      headerLine(at, what, number, columns),
      ...gutterLines(text, { columns, number, isWhole, isOwn }),
    ]);
  }

  unsent(text: string): void {
    this.message({ at: this.clock.now(), who: "Not sent", did: "", number: null, text, isWhole: true, isOwn: true });
  }

  /** ` of Bob`, the first time on a day; else an empty text. */
  person(did: string, humanName: string | null): string {
    this.#newDay();
    const isKnown = humanName === null || this.#named.has(did);
    this.#named.add(did);
    return isKnown ? "" : ` of ${humanName}`;
  }

  /** Notes that another line has named the person of this agent. */
  met(did: string): void {
    this.#named.add(did);
  }

  #newDay(): void {
    const day = dayText(this.clock.now());
    if (day === this.#day) return;
    this.#day = day;
    this.#named.clear();
    this.view.show([[["dim", day]]]);
  }
}

function dayText(ms: number): string {
  return new Date(ms).toDateString();
}
