/** What the view on a terminal needs of its agents, and the line below the log that shows their state. */
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import type { Peers } from "../peers/peers.ts";
import type { Status } from "../status.ts";
import type { Line, Style } from "../../terminal/escapes.ts";
import { cutToColumns } from "../../terminal/text_width.ts";
import { formatDuration } from "../../terminal/times.ts";

export interface TalkAgent {
  name: string;
  humanName: string;
  calls: LocalCalls;
  /** Also the peers whose pairs have ended. */
  peers(): Peers;
  status(): Status | null;
  /** Opens the connector's web page. Returns the lines to show: without a browser they have its address. */
  openPage(): Promise<string[]>;
  /** Makes an invite that pairs. Returns the command for the other person; `null` when this person may not invite. */
  invite(): Promise<string | null>;
}

/** Number of unread messages of the agents that read their own messages. */
export function unreadOf(agents: readonly TalkAgent[]): number {
  return agents.reduce((sum, agent) => {
    const status = agent.status();
    return sum + (status?.runtime.url === null ? status.inbox.waiting : 0);
  }, 0);
}

/**
 * The line below the log: the agents, their links, and what waits.
 *
 * @param digits the number that a person has begun to type
 */
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

export function whoseOf(agents: readonly TalkAgent[]): string {
  return agents.length === 1 ? agents[0]?.name ?? "" : `${agents.length} agents`;
}

function linkPart({ connection: { state, nextTryAt }, now }: Status): [Style, string] {
  if (state === "connected") return ["green", "online"];
  if (state === "connecting") return ["yellow", "connecting"];
  if (state === "stopped" || nextTryAt === null) return ["yellow", "offline"];
  return ["yellow", `offline · next try in ${formatDuration(Date.parse(nextTryAt) - Date.parse(now))}`];
}
