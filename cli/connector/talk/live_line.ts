/** The line below the log: who, the link, and what is unread. Pure. */
import type { Line, Style } from "../../terminal/styled.ts";
import { cutToColumns } from "../../terminal/text_width.ts";
import { formatDuration, type Status } from "../status.ts";
import { type TalkAgent, unreadOf } from "./talk_agent.ts";

/** @param digits the number that a person has begun to type */
export function liveLine(agents: readonly TalkAgent[], columns: number, digits: string): Line {
  const known = agents.flatMap((agent) => agent.status() ?? []);
  const unread = unreadOf(agents);
  const [only] = known;
  const online = known.filter(({ connection }) => connection.state === "connected").length;
  const parts: [Style, string][] = [["", whoseOf(agents)]];
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

/** The title of the window. */
export function titleText(agents: readonly TalkAgent[]): string {
  const unread = unreadOf(agents);
  return `${whoseOf(agents)}${unread === 0 ? "" : ` · ${unread} unread`}`;
}

function whoseOf(agents: readonly TalkAgent[]): string {
  return agents.length === 1 ? agents[0]?.name ?? "" : `${agents.length} agents`;
}

function linkPart({ connection: { state, nextTryAt }, now }: Status): [Style, string] {
  if (state === "connected") return ["green", "online"];
  if (state === "connecting") return ["yellow", "connecting"];
  if (state === "stopped" || nextTryAt === null) return ["yellow", "offline"];
  return ["yellow", `offline · next try in ${formatDuration(Date.parse(nextTryAt) - Date.parse(now))}`];
}
