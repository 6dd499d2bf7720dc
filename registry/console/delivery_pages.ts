/** The course of one message, and what waits for whom. No page has contents, tickets or who is paired with whom. */
import {
  agentCell,
  agentLink,
  agentsByDid,
  awayNote,
  connectionTag,
  type ConsolePages,
  type ConsoleRow,
  framed,
  type Input,
  type NamedAgent,
  PAGE_ROWS,
  relayStateOf,
  sentence,
} from "./frame.ts";
import { QUEUE_COLUMNS, queueRow, todoOf } from "./overview_page.ts";
import { RelayAway } from "./relay.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import {
  card,
  empty,
  field,
  filter,
  head,
  lines,
  type Mood,
  name,
  pager,
  table,
  tag,
  timeline,
} from "../../shared/page/parts.ts";
import { clockTime, dayOf, duration, moment } from "../../shared/page/times.ts";
import {
  type DeliveryEvent,
  DeliveryList,
  type DeliveryTimeline,
  QueueList,
  type Refusal,
  RefusalList,
} from "../../shared/protocol/api/relay_admin.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import { isRequestId } from "../../shared/protocol/ids.ts";
import { parseIso } from "../../shared/protocol/time.ts";

/** Largest request ID. */
const ID_LENGTH = 128;
/** Checks of a request, as the proxy counts them. */
const CHECKS = 9;

export const deliveryRows: readonly ConsoleRow[] = [
  { method: "GET", path: "deliveries", render: deliveriesPage },
  { method: "GET", path: "queues", live: true, render: queuesPage },
];

/** Each event in words; `of` is the recipient. */
const EVENTS: Readonly<
  Record<DeliveryEvent, { mood: "ok" | "bad" | ""; text(from: Html, of: Html): Value; state: string }>
> = {
  began: { mood: "", text: (from) => markup`Accepted from ${from}`, state: "On its way" },
  queued: { mood: "", text: (_, of) => markup`Queued: ${of} was offline`, state: "Waits at the proxy" },
  acked: { mood: "ok", text: (_, of) => markup`Taken by ${of}`, state: "Arrived" },
  refused_by_connector: { mood: "bad", text: (_, of) => markup`Refused by ${of}`, state: "Refused" },
  waiting: { mood: "", text: (_, of) => markup`Waits for ${of}`, state: "Waits at the proxy" },
  handed_over: { mood: "ok", text: (_, of) => markup`Handed to ${of}`, state: "Arrived" },
  processed: { mood: "ok", text: (_, of) => markup`Read by ${of}`, state: "Read" },
  dead_lettered: { mood: "bad", text: (_, of) => markup`Not delivered to ${of}`, state: "Not delivered" },
};

async function deliveriesPage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { relay, deps } = pages, { query, session, base } = input;
  const requestId = (query.get("requestId") ?? "").trim().slice(0, ID_LENGTH + 1);
  const isGiven = requestId !== "", isValid = isRequestId(requestId);
  const form = filter([
    markup`<div class="wide">${
      field({
        id: "requestId",
        label: "Request ID",
        value: requestId,
        isId: true,
        error: isGiven && !isValid ? "A request ID has 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'." : undefined,
      })
    }</div>`,
  ], "Look up");
  let found: Value =
    markup`<p class="soft small">The sender's <code>svc</code> shows the request ID of each message it sends.</p>`;
  if (isValid) {
    try {
      const [{ deliveries }, refusals] = await Promise.all([
        relay.get(session, "deliveries", { requestId }, DeliveryList),
        relay.get(session, "refusals", { requestId, limit: "50" }, RefusalList),
      ]);
      const agents = await agentsByDid(pages, [
        ...deliveries.flatMap(({ senderAgentDid, recipientAgentDid }) => [senderAgentDid, recipientAgentDid]),
        ...refusals.refusals.flatMap(({ agentDid }) => agentDid ?? []),
      ]);
      found = foundOf({ deliveries, refusals, agents, base, now: deps.clock.now() });
    } catch (error) {
      if (!(error instanceof RelayAway)) throw error;
      found = awayNote(pages, error);
    }
  }
  const main = markup`<div class="stack">${
    head("Deliveries", "The course of one message. The proxy keeps no list of messages and shows no content.")
  }${form}${found}</div>`;
  return framed(pages, input, { title: "Deliveries", current: "deliveries", main, hasField: true });
}

function foundOf(
  { deliveries, refusals, agents, base, now }: {
    deliveries: readonly DeliveryTimeline[];
    refusals: RefusalList;
    agents: ReadonlyMap<string, NamedAgent>;
    base: string;
    now: number;
  },
): Html {
  const since = parseIso(refusals.since) ?? now;
  if (deliveries.length === 0 && refusals.refusals.length === 0) {
    return empty(
      "Nothing with this ID",
      markup`No delivery of the last days has it, and this instance has refused none since ${moment(since, now)}.`,
    );
  }
  const refused = refusals.refusals.map((refusal) => refusedCard(refusal, { agents, base, now }));
  if (deliveries.length === 0) return markup`<div class="stack">${refused}</div>`;
  return markup`${deliveries.map((delivery) => deliveryCards(delivery, { agents, base, now }))}${
    refused.length > 0 ? refused : card(
      "Refusals with this ID",
      markup`<p class="small soft">None since ${moment(since, now)}, when this instance started.</p>`,
    )
  }`;
}

interface Look {
  agents: ReadonlyMap<string, NamedAgent>;
  base: string;
  now: number;
}

function deliveryCards({ senderAgentDid, recipientAgentDid, state, events }: DeliveryTimeline, look: Look): Html {
  const { agents, now } = look;
  const nameOf = (did: string) => name(agents.get(did)?.name ?? did);
  const from = nameOf(senderAgentDid), of = nameOf(recipientAgentDid);
  const began = parseIso(events[0]?.at ?? "") ?? now, last = parseIso(events.at(-1)?.at ?? "") ?? now;
  const steps = events.map(({ at, event, detail }, i) => {
    const time = parseIso(at) ?? now, before = parseIso(events[i - 1]?.at ?? "");
    const what = event === "began"
      ? "all checks passed"
      : detail?.startsWith("until ")
      ? markup`kept until ${moment(parseIso(detail.slice(6)) ?? now, now)}`
      : detail;
    return {
      mood: EVENTS[event].mood,
      title: EVENTS[event].text(from, of),
      text: markup`${exactly(time, now)}${before !== null && ` · ${duration(Math.max(0, time - before))} later`}${
        what !== undefined && markup` · ${what}`
      }`,
    };
  });
  const mood: Mood = EVENTS[state].mood === "" ? "warn" : EVENTS[state].mood;
  return markup`<div class="two"><section class="card"><div class="row spread"><h2>${EVENTS[state].state}</h2>${
    tag(mood, `after ${duration(Math.max(0, last - began))}`)
  }</div>${timeline(steps)}</section>${
    card(
      "From and to",
      lines([["From", partyOf(senderAgentDid, look)], ["To", partyOf(recipientAgentDid, look)]]),
    )
  }</div>`;
}

/** A time with seconds, and its day when that is not today. */
function exactly(ms: number, now: number): Value {
  return dayOf(ms) === dayOf(now) ? clockTime(ms) : markup`${moment(ms, now)}, ${clockTime(ms)}`;
}

function partyOf(did: string, { agents, base }: Look): Html {
  const agent = agents.get(did);
  return markup`${
    agent !== undefined && markup`${agentLink(base, agent)} · ${name(agent.ownerName)}<br>`
  }<span class="id soft">${did}</span>`;
}

function refusedCard({ at, code, check, method, route, agentDid }: Refusal, { agents, now }: Look): Html {
  const agent = agentDid === null ? "" : agents.get(agentDid)?.name ?? agentDid;
  const time = parseIso(at) ?? now;
  const why = isErrorCode(code) ? sentence(ERRORS[code].when) : code;
  return markup`<section class="card form"><div class="row spread"><h2>Refused</h2>${
    tag("bad", check === null ? "by none of the checks" : `at check ${check} of ${CHECKS}`)
  }</div>${
    timeline([
      {
        mood: "",
        title: agent === "" ? "Request without a verified identity" : markup`Request of ${name(agent)}`,
        text: markup`${exactly(time, now)} · ${method} ${route ?? ""}`,
      },
      { mood: "bad", title: why, text: markup`${todoOf({ code }, agent)} <span class="id">${code}</span>` },
    ])
  }</section>`;
}

async function queuesPage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { relay, deps } = pages, { session, base, query } = input;
  const cursor = query.get("cursor") ?? "";
  const now = deps.clock.now();
  let body: Value, kind = "rows";
  try {
    const after: Record<string, string> = parseDid(cursor)?.kind === "agent" ? { cursor } : {};
    const { queues, pagination } = await relay.get(
      session,
      "queues",
      { limit: String(PAGE_ROWS), ...after },
      QueueList,
    );
    const dids = queues.map(({ recipientAgentDid }) => recipientAgentDid);
    const [agents, { connections }] = await Promise.all([
      agentsByDid(pages, dids),
      relayStateOf(pages, session, dids.flatMap((did) => parseDid(did)?.id ?? [])),
    ]);
    const rows = queues.toSorted((a, b) => b.messages - a.messages).map((queue) =>
      queueRow(queue, agentCell(base, agents, queue.recipientAgentDid), {
        connection: connectionTag(connections.get(queue.recipientAgentDid), now),
        now,
      })
    );
    const next = pagination.nextCursor;
    if (rows.length === 0 && next === null) kind = "none";
    body = kind === "none"
      ? empty("No message waits", "A message waits here while its recipient is not connected.")
      : markup`${table({ caption: "Queues", id: "queues", columns: QUEUE_COLUMNS, rows })}${
        pager(`${PAGE_ROWS} on a page`, next === null ? null : `?${new URLSearchParams({ cursor: next })}`)
      }`;
  } catch (error) {
    if (!(error instanceof RelayAway)) throw error;
    kind = "away";
    body = awayNote(pages, error);
  }
  const main = markup`<div class="stack">${
    head("Queues", "Messages that wait at the proxy, the longest queue first.")
  }${body}</div>`;
  return framed(pages, input, { title: "Queues", current: "queues", main, isLive: true, kind });
}
