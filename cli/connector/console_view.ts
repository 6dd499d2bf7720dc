/**
 * Output of a running connector: sentences and one live status line on a terminal, one JSON line per event in a pipe. An
 * event never has the content of a message.
 */
import type { Cancel, Clock } from "../../shared/clock.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { oneLine, printable, type Terminal } from "../terminal/output.ts";
import type { EventFields } from "../../shared/client/link_events.ts";
import { type EventName, EVENTS } from "./events.ts";
import { cutToColumns } from "../terminal/text_width.ts";

const REDRAW_MS = 1_000;
/** Characters of a DID that stand for it on a terminal. */
const SHORT_DID = 8;
/** A wrapped line cannot be redrawn, so wrapping is off (DECAWM) for a terminal that counts columns differently. */
const unwrapped = (line: string) => `\x1b[?7l${line}\x1b[?7h`;

export interface ConsoleView {
  event(name: EventName, fields?: EventFields): void;
  /** Prints more lines on a terminal; nothing in a pipe. */
  show(lines: readonly string[]): void;
  stop(): void;
}

export interface ViewDeps {
  clock: Clock;
  terminal: Terminal;
  /** True when a program reads the lines. */
  json: boolean;
  /** The status in one line; `null` before there is one. */
  line: () => string | null;
}

export function viewOf(deps: ViewDeps): ConsoleView {
  return deps.json || !deps.terminal.stdoutIsTerminal ? new JsonLines(deps) : new LiveView(deps);
}

/** One JSON document per line. */
class JsonLines implements ConsoleView {
  constructor(readonly deps: ViewDeps) {}

  event(name: EventName, fields: EventFields = {}): void {
    const line = JSON.stringify({ time: toIso(this.deps.clock.now()), event: name, ...fields });
    this.deps.terminal.stdout(`${oneLine(line)}\n`);
  }

  show(): void {}

  stop(): void {}
}

class LiveView implements ConsoleView {
  #cancel: Cancel = () => {};
  #stopped = false;

  constructor(readonly deps: ViewDeps) {
    this.#redrawLater();
  }

  event(name: EventName, fields: EventFields = {}): void {
    const time = toIso(this.deps.clock.now()).slice(11, 19);
    const details = detailsOf(fields);
    this.show([`${time}  ${EVENTS[name]}${details === "" ? "" : `  (${details})`}`]);
  }

  show(lines: readonly string[]): void {
    this.deps.terminal.stdout(`\r\x1b[K${lines.map(printable).join("\n")}\n`);
    this.#redraw();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
    this.deps.terminal.stdout("\r\x1b[K");
  }

  #redraw(): void {
    if (this.#stopped) return;
    const line = this.deps.line();
    if (line === null) return;
    const columns = this.deps.terminal.columns?.() ?? null;
    // The last column stays free: some terminals wrap when it is filled.
    const cut = columns === null ? printable(line) : cutToColumns(printable(line), columns - 1);
    this.deps.terminal.stdout(`\r\x1b[K${unwrapped(cut)}`);
  }

  #redrawLater(): void {
    this.#cancel = this.deps.clock.after(REDRAW_MS, () => {
      this.#redraw();
      if (!this.#stopped) this.#redrawLater();
    });
  }
}

/** The fields of an event for a person: a peer by its alias, else by the end of its DID (D-122). */
function detailsOf(fields: EventFields): string {
  const alias = isAgentDid(fields.peer) ? undefined : fields.peer;
  return Object.entries(fields)
    .filter(([key, value]) => value !== null && (key !== "peer" || alias === undefined))
    .map(([key, value]) => `${key} ${isAgentDid(value) ? alias ?? value.slice(-SHORT_DID) : value}`)
    .join(", ");
}
