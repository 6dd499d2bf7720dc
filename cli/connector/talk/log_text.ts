/**
 * The lines of a log of messages. Column 1 belongs to svc, and a peer's text stands behind a gutter, because it could
 * otherwise pass for a line of svc.
 */
import type { LocalMessage, LogEntry } from "../../../shared/client/local_shapes.ts";
import { clockText } from "../../terminal/times.ts";
import { type Line, printable, type Style } from "../../terminal/escapes.ts";
import { cutToColumns, textColumns, wordWrap, wrapSentence } from "../../terminal/text_width.ts";
import { READABLE } from "../peers/peer_columns.ts";
import { stateText } from "../states.ts";

/** Widest line, because wider ones are hard to read. The numbers of messages stand at this edge. */
const WIDEST = 77;
/** Below this width the gutter is narrow. */
const NARROW_BELOW = 60;
/** Columns for the name in the header of a message, also in a narrow window. */
const WHO_MIN = 8;
const LINES_MAX = 12;
const CHARACTERS_MAX = 1_000;

/** The usable columns; the last one stays free, because some terminals wrap when it is filled. */
export function edgeOf(columns: number | null): number {
  return Math.max(10, Math.min((columns ?? 80) - 1, WIDEST));
}

/** A sentence of svc, with a hanging indent behind the time. */
export function sentenceLines(ms: number, text: string, columns: number | null, style: Style = ""): Line[] {
  const [first = "", ...rest] = wrapSentence(printable(text), edgeOf(columns) - 7);
  return [[["dim", clockText(ms)], [style, `  ${first}`]], ...rest.map((line): Line => [[style, `       ${line}`]])];
}

/**
 * The header of a message, with its number at the edge. `who` is cut first, because a peer with a long name could
 * otherwise hide what it did, and that the server can read its message.
 */
export function headerLine(
  ms: number,
  { who, did }: { who: string; did: string },
  number: number | null,
  columns: number | null,
): Line {
  const shown = number === null ? "" : String(number);
  const room = edgeOf(columns) - 7 - (shown === "" ? 0 : shown.length + 1);
  const end = did === "" ? "" : ` ${printable(did)}`;
  const text = cutToColumns(cutToColumns(printable(who), Math.max(WHO_MIN, room - textColumns(end))) + end, room);
  const gap = shown === "" ? "" : " ".repeat(room + 1 - textColumns(text));
  return [["dim", clockText(ms)], ["", "  "], ["bold", text], ["dim", gap + shown]];
}

/** A text behind the gutter; at most 12 lines and 1,000 characters of it, unless `isWhole`. */
export function gutterLines(
  text: string,
  { columns, number, isWhole = false, isOwn = false }: {
    columns: number | null;
    number: number | null;
    isWhole?: boolean;
    isOwn?: boolean;
  },
): Line[] {
  const gutter = (columns ?? 80) < NARROW_BELOW ? " │ " : "     │ ";
  const width = edgeOf(columns) - gutter.length;
  // Counting the lines of a long text costs as much as wrapping it, so those of the rest are estimated.
  const head = isWhole ? text : text.slice(0, CHARACTERS_MAX).toWellFormed();
  const rest = text.slice(head.length);
  const all = head.split("\n").flatMap((line) => wordWrap(printable(line.replaceAll("\t", "    ")), width));
  const shown = isWhole ? all : all.slice(0, LINES_MAX);
  const more = all.length - shown.length + rest.split("\n").length - 1 +
    (rest === "" ? 0 : Math.ceil(rest.length / width));
  const style = isOwn ? "dim" as const : "" as const;
  const lines: Line[] = shown.map((line) => [["dim", gutter], [style, line]]);
  const hint = `… ${more} more ${more === 1 ? "line" : "lines"}: ${number}u`;
  return more > 0 ? [...lines, [["dim", cutToColumns(gutter + hint, edgeOf(columns))]]] : lines;
}

/**
 * The lines of what an agent and its peers have written, oldest first. Each day has a line, unless all are of today.
 *
 * @param place `columns`: `null` for a pipe, whose lines are not wrapped. `isWhole`: also the long texts of peers
 */
export function messageLines(
  entries: readonly LogEntry[],
  { columns, now, isWhole }: { columns: number | null; now: number; isWhole: boolean },
): Line[] {
  const lines: Line[] = [];
  const named = new Set<string>();
  let day = new Date(now).toDateString();
  for (const entry of entries) {
    const isOwn = entry.kind === "sent";
    const at = Date.parse(isOwn ? entry.sentAt : entry.receivedAt);
    const date = new Date(at).toDateString();
    if (date !== day) {
      day = date;
      named.clear();
      lines.push([["dim", date]]);
    }
    const { number, text, ...what } = described(entry, named, now);
    lines.push(headerLine(at, what, number, columns));
    lines.push(
      ...columns === null
        ? text.split("\n").map((line) => `     │ ${line}`)
        : gutterLines(text, { columns, number, isWhole: isWhole || isOwn, isOwn }),
    );
  }
  return lines;
}

/** The number, the header and the text of a message. `named` are agents whose person was named on this day. */
function described(entry: LogEntry, named: Set<string>, now: number): ReturnType<typeof partsOf> {
  if (entry.kind === "sent") {
    const { seq: number, to, state, text, payload } = entry;
    const alias = to.alias ?? to.agentDid;
    const did = state === "processed" || state === "delivered" ? "" : `· ${stateText(entry, now, alias)}`;
    return { number, who: `You to ${alias}`, did, text: text ?? JSON.stringify(payload) ?? "" };
  }
  const { agentDid, humanName } = entry.from;
  const person = humanName === null || named.has(agentDid) ? "" : ` of ${humanName}`;
  named.add(agentDid);
  return partsOf(entry, person);
}

/** The number, the header and the text of a received message. `person` follows the name of its sender. */
export function partsOf(message: LocalMessage, person: string) {
  const { id: number, from: { alias, name }, text, error, payload } = message;
  const who = `${alias ?? name}${person}`;
  return { number, who, did: didWhat(message), text: text ?? error?.message ?? JSON.stringify(payload) ?? "" };
}

/** What the sender of a message did, and what a person must know of one that was not sealed. */
export function didWhat(
  { error, auto, isReply, verified }: Pick<LocalMessage, "error" | "auto" | "isReply" | "verified">,
): string {
  const did = error !== null
    ? `could not answer: ${error.code}`
    : auto
    ? "replies automatically"
    : isReply
    ? "replies"
    : "asks";
  return verified === "end-to-end" ? did : `${did} (${READABLE})`;
}
