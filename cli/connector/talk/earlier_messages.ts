/** What an agent and its peers have written, as the view and `svc log` show it. Pure. */
import type { LogEntry } from "../../../shared/client/local_shapes.ts";
import type { Line } from "../../terminal/escapes.ts";
import { stateText } from "../states.ts";
import { didWhat } from "./arrivals.ts";
import { gutterLines, headerLine } from "./log_text.ts";

export interface LinesPlace {
  /** Columns of the terminal; `null`: a pipe, whose lines are not wrapped. */
  columns: number | null;
  /** Milliseconds. */
  now: number;
  /** Shows long texts of peers whole. */
  isWhole: boolean;
}

/** The lines of these messages, oldest first, with a line for each day that is not today. */
export function messageLines(entries: readonly LogEntry[], { columns, now, isWhole }: LinesPlace): Line[] {
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
    const { id, what, text } = described(entry, named, now);
    lines.push(headerLine(at, what, id, columns));
    lines.push(
      ...columns === null
        ? text.split("\n").map((line) => `     │ ${line}`)
        : gutterLines(text, { columns, number: id, isWhole: isWhole || isOwn, isOwn }),
    );
  }
  return lines;
}

/** The number, the header and the text of a message. `named`: agents whose person was named on this day. */
function described(entry: LogEntry, named: Set<string>, now: number): { id: number; what: string; text: string } {
  const json = JSON.stringify(entry.payload) ?? "";
  if (entry.kind === "sent") {
    const { seq: id, to, state, text } = entry;
    const alias = to.alias ?? to.agentDid;
    const how = state === "processed" || state === "delivered" ? "" : ` · ${stateText(entry, now, alias)}`;
    return { id, what: `You to ${alias}${how}`, text: text ?? json };
  }
  const { id, from: { agentDid, alias, name, humanName }, text, error } = entry;
  const person = humanName === null || named.has(agentDid) ? "" : ` of ${humanName}`;
  named.add(agentDid);
  return { id, what: `${alias ?? name}${person} ${didWhat(entry)}`, text: text ?? error?.message ?? json };
}
