/** The course of one message. No page of the console shows contents or tickets, or who is paired with whom. */
import {
  agentLink,
  agentsByDid,
  awayNote,
  type ConsoleDeps,
  framed,
  type Input,
  type NamedAgent,
  orAway,
} from "./frame.ts";
import { refusedCard } from "./refusals.ts";
import { askRelay, RelayAway } from "./relay.ts";
import { type Html, markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { duration, exactly, moment, msOf } from "../../shared/page/times.ts";
import {
  type DeliveryEvent,
  DeliveryList,
  type DeliveryTimeline,
  RefusalList,
} from "../../shared/protocol/api/relay_admin.ts";
import { isRequestId, REQUEST_ID_FORM } from "../../shared/protocol/ids.ts";

/** Longest request ID that is looked up. With less, long IDs are not found; with more, the page repeats any text. */
const ID_LENGTH = 128;
const UNTIL = "until ";

/** Each event in words: a text before the name of its agent, and the state in which it leaves the message. */
const EVENTS: Readonly<Record<DeliveryEvent, { mood: "ok" | "bad" | ""; text: string; state: string }>> = {
  began: { mood: "", text: "Accepted from", state: "On its way" },
  queued: { mood: "", text: "Queued while offline:", state: "Waits at the proxy" },
  acked: { mood: "ok", text: "Taken by", state: "Arrived" },
  refused_by_connector: { mood: "bad", text: "Refused by", state: "Refused" },
  waiting: { mood: "", text: "Waits for", state: "Waits at the proxy" },
  handed_over: { mood: "ok", text: "Handed to", state: "Arrived" },
  processed: { mood: "ok", text: "Read by", state: "Read" },
  dead_lettered: { mood: "bad", text: "Not delivered to", state: "Not delivered" },
};

interface Look {
  agents: ReadonlyMap<string, NamedAgent>;
  base: string;
  now: number;
}

export async function deliveriesPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const requestId = (input.query.get("requestId") ?? "").trim().slice(0, ID_LENGTH + 1);
  const isValid = isRequestId(requestId);
  const id = ui.field({
    id: "requestId",
    label: "Request ID",
    value: requestId,
    isId: true,
    error: requestId === "" || isValid ? undefined : `A request ID has ${REQUEST_ID_FORM}.`,
  });
  const found = isValid ? await orAway(foundOf(deps, input, requestId)) : null;
  const main = [
    ui.head("Deliveries", "The course of one message. The proxy keeps no list of messages and shows no content."),
    ui.filter([markup`<div class="wide">${id}</div>`], "Look up"),
    found instanceof RelayAway ? awayNote(deps, found) : found ??
      markup`<p class="soft small">The sender's <code>svc</code> shows the request ID of each message it sends.</p>`,
  ];
  return framed(deps, input, { title: "Deliveries", current: "deliveries", main, hasField: true });
}

/** Returns what the proxy knows of a request ID: its deliveries and its refusals. @throws {RelayAway} */
async function foundOf(deps: ConsoleDeps, { session, base }: Input, requestId: string): Promise<Html[]> {
  const [{ deliveries }, { refusals, since }] = await Promise.all([
    askRelay(deps, session, "deliveries", { requestId }, DeliveryList),
    askRelay(deps, session, "refusals", { requestId, limit: "50" }, RefusalList),
  ]);
  const now = deps.clock.now();
  const agents = await agentsByDid(deps, [
    ...deliveries.flatMap(({ senderAgentDid, recipientAgentDid }) => [senderAgentDid, recipientAgentDid]),
    ...refusals.flatMap(({ agentDid }) => agentDid ?? []),
  ]);
  const look = { agents, base, now };
  if (deliveries.length + refusals.length === 0) {
    const text = markup`No delivery of the last days has it, and this instance has refused none since ${
      moment(since, now)
    }.`;
    return [ui.empty("Nothing with this ID", text)];
  }
  const none = markup`<p class="small soft">None since ${moment(since, now)}, when this instance started.</p>`;
  return [
    ...deliveries.map((delivery) => deliveryCards(delivery, look)),
    ...refusals.length > 0
      ? refusals.map((refusal) => refusedCard(refusal, look))
      : [ui.card("Refusals with this ID", none)],
  ];
}

function deliveryCards({ senderAgentDid, recipientAgentDid, state, events }: DeliveryTimeline, look: Look): Html {
  const { agents, now } = look;
  const nameOf = (did: string) => ui.name(agents.get(did)?.name ?? did);
  const began = msOf(events[0]?.at ?? now), last = msOf(events.at(-1)?.at ?? now);
  const steps = events.map(({ at, event, detail }, i) => {
    const before = events[i - 1]?.at;
    const what = event === "began"
      ? "all checks passed"
      : detail?.startsWith(UNTIL)
      ? markup`kept until ${moment(detail.slice(UNTIL.length), now)}`
      : detail;
    return {
      mood: EVENTS[event].mood,
      title: markup`${EVENTS[event].text} ${nameOf(event === "began" ? senderAgentDid : recipientAgentDid)}`,
      text: markup`${exactly(at, now)}${before !== undefined && ` · ${duration(msOf(at) - msOf(before))} later`}${
        what !== undefined && markup` · ${what}`
      }`,
    };
  });
  const { mood, state: words } = EVENTS[state];
  const time = mood === ""
    ? ui.tag("warn", `for ${duration(now - began)}`)
    : ui.tag(mood, `after ${duration(last - began)}`);
  const parties = ui.lines([["From", partyOf(senderAgentDid, look)], ["To", partyOf(recipientAgentDid, look)]]);
  return markup`<div class="two"><section class="card"><div class="row spread"><h2>${words}</h2>${time}</div>${
    ui.timeline(steps)
  }</section>${ui.card("From and to", parties)}</div>`;
}

function partyOf(did: string, { agents, base }: Look): Html {
  const agent = agents.get(did);
  return markup`${
    agent !== undefined && markup`${agentLink(base, agent)} · ${ui.name(agent.ownerName)}<br>`
  }<span class="id soft">${did}</span>`;
}
