/** The queues: how many messages wait for each agent. */
import {
  agentCell,
  agentsByDid,
  awayNote,
  connectionTag,
  type ConsoleDeps,
  framed,
  type Input,
  type NamedAgent,
  orAway,
  PAGE_ROWS,
  type RelayState,
  relayStateOf,
} from "./frame.ts";
import { askRelay, RelayAway } from "./relay.ts";
import type { Html } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { duration, msOf } from "../../shared/page/times.ts";
import { type Queue, QueueList } from "../../shared/protocol/api/relay_admin.ts";
import { parseDid } from "../../shared/protocol/did.ts";

export async function queuesPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const found = await orAway(queuesOf(deps, input));
  const isAway = found instanceof RelayAway;
  const main = [
    ui.head("Queues", "Messages that wait at the proxy, the longest queue of a page first."),
    isAway ? awayNote(deps, found) : found ??
      ui.empty("No message waits", "A message waits here while its recipient is not connected."),
  ];
  const kind = isAway ? "away" : found === null ? "none" : "rows";
  return framed(deps, input, { title: "Queues", current: "queues", main, isLive: true, kind });
}

/** Returns one page of the queues, or `null` if nothing waits. @throws {RelayAway} */
async function queuesOf(deps: ConsoleDeps, input: Input): Promise<Html[] | null> {
  const { session, base, query } = input;
  const cursor = query.get("cursor") ?? "";
  const after: Record<string, string> = parseDid(cursor)?.kind === "agent" ? { cursor } : {};
  const wanted = { limit: String(PAGE_ROWS), ...after };
  const { queues, pagination: { nextCursor } } = await askRelay(deps, session, "queues", wanted, QueueList);
  if (queues.length === 0 && nextCursor === null) return null;
  const dids = queues.map(({ recipientAgentDid }) => recipientAgentDid);
  const [names, state] = await Promise.all([
    agentsByDid(deps, dids),
    relayStateOf(deps, input, dids.flatMap((did) => parseDid(did)?.id ?? [])),
  ]);
  const longest = queues.toSorted((a, b) => b.messages - a.messages);
  return [
    queueTable("queues", longest, { base, names, state, now: deps.clock.now() }),
    ui.pager(`${PAGE_ROWS} on a page`, nextCursor === null ? null : `?${new URLSearchParams({ cursor: nextCursor })}`),
  ];
}

export function queueTable(
  id: string,
  queues: readonly Queue[],
  { base, names, state, now }: {
    base: string;
    names: ReadonlyMap<string, NamedAgent>;
    state: RelayState | null;
    now: number;
  },
): Html {
  return ui.table({
    caption: "Queues, the longest first",
    id,
    columns: ["Waits for", { number: "Messages" }, { number: "Senders" }, "Oldest ends", "Connection"],
    rows: queues.map(({ recipientAgentDid, messages, senders, oldestExpiresAt }) => ({
      cells: [
        agentCell(base, names, recipientAgentDid),
        ui.number(messages),
        ui.number(senders),
        `in ${duration(msOf(oldestExpiresAt) - now)}`,
        connectionTag(state, recipientAgentDid, now),
      ],
    })),
  });
}
