/**
 * Output of a running connector: a calm log and one live line on a terminal, one JSON line per event in a pipe. An
 * event never has the content of a message.
 */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { LogQueue } from "../../../shared/log_queue.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { EventFields } from "../../link/link_events.ts";
import { type Line, oneLine, painted } from "../../terminal/escapes.ts";
import type { Terminal } from "../../terminal/output.ts";
import { CalmTexts, quietText } from "./event_texts.ts";
import type { EventName } from "../events.ts";
import { sentenceLines } from "./log_text.ts";

const REDRAW_MS = 1_000;
/** Wrapping is off (DECAWM), because a terminal may count columns differently, and a wrapped line cannot be redrawn. */
const unwrapped = (line: string) => `\x1b[?7l${line}\x1b[?7h`;

/**
 * What is below the log: lines that change. The last one has the cursor in column `cursor`, or at its end for `null`.
 */
export interface LiveLines {
  lines: readonly Line[];
  cursor: number | null;
}

export type ConsoleView = Pick<LiveView, keyof LiveView>;

export interface ViewDeps {
  clock: Clock;
  terminal: Terminal;
  /** True when a program reads the lines. */
  json: boolean;
  colour: boolean;
  /** The terminal cannot move its cursor, so there are no live lines. */
  isDumb?: boolean;
  /** The lines below the log; `null` before there are any. Cut to the columns by the caller. */
  live(columns: number): LiveLines | null;
}

export function viewOf(deps: ViewDeps): ConsoleView {
  return deps.json || !deps.terminal.stdoutIsTerminal ? jsonLines(deps) : new LiveView(deps);
}

/** How long the end of the process waits for its lines. With more, a program that reads none delays the end. */
const LINES_END_MS = 250;

function jsonLines({ clock, terminal }: ViewDeps): ConsoleView {
  // Without the queue, a program that starts a connector and does not read its output would stop it after 64 KiB.
  const queue = terminal.write && new LogQueue(terminal.write, (lines) => event("lines_dropped", { lines }));
  const event: ConsoleView["event"] = (name, fields) => {
    const line = oneLine(JSON.stringify({ time: toIso(clock.now()), event: name, ...fields }));
    if (queue) queue.add(line);
    else terminal.stdout(`${line}\n`);
  };
  const none = () => {}, stop = () => queue?.written(clock, LINES_END_MS);
  return { event, show: none, redraw: none, signal: none, stop, isVerbose: false, columns: null, rows: null };
}

class LiveView {
  /** Whether all events are shown; changed by the person. */
  isVerbose = false;
  readonly #texts = new Map<unknown, CalmTexts>();
  #cancel: Cancel = () => {};
  #stopped = false;
  /** Number of live lines above the last one. */
  #above = 0;

  constructor(private readonly deps: ViewDeps) {
    this.#redrawLater();
  }

  get columns(): number | null {
    return this.deps.terminal.columns?.() ?? null;
  }

  get rows(): number | null {
    return this.deps.terminal.rows?.() ?? null;
  }

  event(name: EventName, fields: EventFields = {}): void {
    const { agent } = fields;
    const texts = this.#texts.getOrInsertComputed(agent, () => new CalmTexts());
    this.#say(
      agent,
      texts.of(name, fields, this.deps.clock.now()) ?? (this.isVerbose ? quietText(name, fields) : null),
    );
  }

  #say(agent: unknown, text: string | null): void {
    if (text === null) return;
    const said = agent === undefined ? text : `${agent} · ${text}`;
    this.show(sentenceLines(this.deps.clock.now(), said, this.columns));
  }

  show(lines: readonly Line[]): void {
    const text = lines.map((line) => `${painted(line, this.deps.colour)}\n`).join("");
    this.deps.terminal.stdout(`${this.#erased()}${text}${this.#drawn()}`);
  }

  redraw(): void {
    if (!this.#stopped && !this.deps.isDumb) this.deps.terminal.stdout(this.#erased() + this.#drawn());
  }

  /** Prints BEL or another sequence that leaves no trace on the screen. */
  signal(sequence: string): void {
    this.deps.terminal.stdout(sequence);
  }

  /** Ends the view, or returns a promise of its end. */
  stop(): void | Promise<void> {
    this.#stopped = true;
    this.#cancel();
    this.deps.terminal.stdout(this.#erased());
  }

  #erased(): string {
    if (this.deps.isDumb) return "";
    const up = this.#above === 0 ? "" : `\x1b[${this.#above}A`;
    this.#above = 0;
    return `\r${up}\x1b[J`;
  }

  #drawn(): string {
    if (this.#stopped || this.deps.isDumb) return "";
    // The last column stays free, because some terminals wrap when it is filled.
    const live = this.deps.live((this.columns ?? 80) - 1);
    if (live === null) return "";
    // With as many lines as rows, the terminal would scroll at each redraw, and the log would be gone.
    const lines = live.lines.slice(-Math.max(1, (this.rows ?? Infinity) - 1));
    this.#above = lines.length - 1;
    const text = lines.map((line) => painted(line, this.deps.colour)).join("\n");
    return unwrapped(text) + (live.cursor === null ? "" : `\r${live.cursor === 0 ? "" : `\x1b[${live.cursor}C`}`);
  }

  #redrawLater(): void {
    this.#cancel = this.deps.clock.after(REDRAW_MS, () => {
      for (const [agent, texts] of this.#texts) this.#say(agent, texts.due(this.deps.clock.now()));
      this.redraw();
      if (!this.#stopped) this.#redrawLater();
    });
  }
}
