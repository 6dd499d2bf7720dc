/** The overview: what passed, who is refused, what waits. What only the proxy knows is missing while it is away. */
import {
  agentCell,
  agentsByDid,
  awayNote,
  connectionTag,
  type ConsolePages,
  type ConsoleRow,
  framed,
  type Input,
  relayStateOf,
  sentence,
  shortId,
} from "./frame.ts";
import { RelayAway } from "./relay.ts";
import { chart, type Plot } from "../../shared/page/chart.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import { counted, empty, head, type Mood, note, number, type Row, table, tag, tiles } from "../../shared/page/parts.ts";
import { duration, moment } from "../../shared/page/times.ts";
import type { AdminCounts } from "../../shared/protocol/api/admin.ts";
import {
  ACK_OVER_MS,
  type Queue,
  QueueList,
  type RefusalGroup,
  RefusalList,
  RelayOverview,
  type RelayPoint,
  RelaySeriesAnswer,
} from "../../shared/protocol/api/relay_admin.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import { parseIso } from "../../shared/protocol/time.ts";

const REFUSALS_SHOWN = 12;
const QUEUES_SHOWN = 5;
/** Codes that an operator meets often, in words, with what to do. Others have the words of the error table. */
const REASONS: Readonly<Record<string, { mood: Mood; text: string; todo(agent: string): Value }>> = {
  RATE_LIMIT_EXCEEDED: { mood: "warn", text: "Too many requests", todo: () => "Ask its owner, or end its session." },
  PROXY_RATE_LIMIT_EXCEEDED: {
    mood: "warn",
    text: "Too many requests",
    todo: () => "Ask its owner, or end its session.",
  },
  PROXY_AUTH_INVALID_AIT: {
    mood: "bad",
    text: "Identity not valid",
    todo: (agent) => markup`The owner runs <code>svc agent reissue ${agent}</code>.`,
  },
  PROXY_AUTH_REVOKED: {
    mood: "bad",
    text: "Identity revoked",
    todo: () => "Nothing, when the revocation was meant.",
  },
  PROXY_AUTH_FORBIDDEN: { mood: "", text: "Not paired", todo: () => "Nothing: the pair has ended, or never was." },
};

export const overviewRows: readonly ConsoleRow[] = [
  { method: "GET", path: "overview", live: true, render: overviewPage },
];

/** What the proxy says. */
interface Relay {
  overview: RelayOverview;
  series: RelaySeriesAnswer;
  refusals: RefusalList;
  queues: QueueList;
}

async function overviewPage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const span = input.query.get("span") === "day" ? "day" : "hour";
  const [counts, isReady, relay] = await Promise.all([
    pages.deps.counts.current(),
    pages.isReady(),
    relayOf(pages, input, span),
  ]);
  const now = pages.deps.clock.now();
  const isAway = relay instanceof RelayAway;
  const states = markup`<div id="states" data-live><div class="row" id="states-both">${
    isReady ? tag("ok", "Registry ready") : tag("bad", "Registry not ready")
  }${isAway ? tag("bad", "Proxy does not answer") : tag("ok", "Proxy ready")}</div></div>`;
  const up = isAway ? null : now - (parseIso(relay.overview.startedAt) ?? now);
  // Seen from the day before, a moment has its day.
  const line = markup`<span id="now" data-live><span id="now-line">${
    moment(now, now - DAY_MS)
  } · version ${pages.deps.config.version}${up !== null && ` · up ${duration(up)}`}</span></span>`;
  const main = markup`<div class="stack">${head("Overview", line, states)}${
    relay instanceof RelayAway
      ? await withoutRelay(pages, counts, relay)
      : await withRelay(pages, input, { counts, relay, span, now })
  }</div>`;
  return framed(pages, input, {
    title: "Overview",
    current: "overview",
    main,
    isLive: true,
    kind: isAway ? "away" : "whole",
  });
}

async function relayOf({ relay }: ConsolePages, { session }: Input, span: string): Promise<Relay | RelayAway> {
  try {
    const [overview, series, refusals, queues] = await Promise.all([
      relay.get(session, "overview", {}, RelayOverview),
      relay.get(session, "series", { span }, RelaySeriesAnswer),
      relay.get(session, "refusals", { group: "agent", limit: "1" }, RefusalList),
      relay.get(session, "queues", { limit: "100" }, QueueList),
    ]);
    return { overview, series, refusals, queues };
  } catch (error) {
    if (error instanceof RelayAway) return error;
    throw error;
  }
}

async function withoutRelay(pages: ConsolePages, counts: AdminCounts, away: RelayAway): Promise<Html> {
  const fill = Math.round(await pages.deps.crl.fill() * 100);
  return markup`${awayNote(pages, away)}${
    tiles([
      { name: "Agents", value: number(counts.agents.active), small: "online: not known" },
      { name: "People", value: number(counts.people.active), small: `${number(counts.people.suspended)} suspended` },
      { name: "Identities end soon", value: number(counts.expiring7d), small: "within 7 days" },
      { name: "Revocation list", value: `${fill} %`, small: "full" },
    ])
  }${
    empty(
      "No numbers from the proxy",
      "Messages, queues and refusals come back here as soon as it answers. This page asks every 10 s.",
    )
  }`;
}

async function withRelay(
  pages: ConsolePages,
  input: Input,
  { counts, relay, span, now }: { counts: AdminCounts; relay: Relay; span: "hour" | "day"; now: number },
): Promise<Html> {
  const { overview, series, refusals, queues } = relay;
  const groups = refusals.groups?.byAgent ?? [];
  const longest = queues.queues.toSorted((a, b) => b.messages - a.messages).slice(0, QUEUES_SHOWN);
  const names = await agentsByDid(pages, [
    ...groups.slice(0, REFUSALS_SHOWN).flatMap(({ agentDid }) => agentDid ?? []),
    ...longest.map(({ recipientAgentDid }) => recipientAgentDid),
  ]);
  const ids = longest.flatMap(({ recipientAgentDid }) => parseDid(recipientAgentDid)?.id ?? []);
  const { connections } = await relayStateOf(pages, input.session, ids);
  const refused = groups.reduce((sum, { count }) => sum + count, 0) + (refusals.groups?.others ?? 0);
  const since = parseIso(series.since) ?? now, isYoung = now - since < (span === "hour" ? 1 : 24) * 3_600_000;
  const link = (to: "hour" | "day", text: string) =>
    to === span ? markup`<b>${text}</b>` : markup`<a href="${`?span=${to}`}">${text}</a>`;
  return markup`${tiles(tilesOf({ counts, overview, series, groups, refused, span, now }))}${
    isYoung &&
    markup`<p class="note">Instance ${shortId(series.instance)} started at ${
      moment(since, now)
    }; what was before is not kept. Another instance has other numbers.</p>`
  }<section class="stack tight" aria-labelledby="pl"><div class="row spread"><h2 id="pl">What passed</h2><div class="row small">${
    link("hour", "Last hour")
  }${link("day", "Last day")}</div></div><div class="two" id="charts" data-live>${
    plotsOf(series, now).map(chart)
  }</div></section><section class="stack tight" aria-labelledby="rf"><h2 id="rf">Refusals that someone should look at</h2>${
    groups.length === 0 ? note("ok", "No refusals in the last hour.") : table({
      caption: "Refusals of this hour and the one before, by reason and agent",
      id: "need",
      columns: [{ text: "Reason" }, { text: "Agent" }, { text: "Times", isNumber: true }, { text: "What to do" }],
      rows: groups.slice(0, REFUSALS_SHOWN).map((group): Row => ({
        cells: [
          reasonCell(group.code),
          agentCell(input.base, names, group.agentDid),
          number(group.count),
          markup`<small>${todoOf(group, names.get(group.agentDid ?? "")?.name ?? "")}</small>`,
        ],
      })),
    })
  }</section><section class="stack tight" aria-labelledby="qu"><div class="row spread"><h2 id="qu">Longest queues${
    queues.pagination.nextCursor !== null && " of the first 100"
  }</h2><a class="small" href="${`${input.base}/queues`}">All queues</a></div>${
    longest.length === 0 ? note("ok", "No message waits.") : table({
      caption: "Longest queues",
      id: "longest",
      columns: QUEUE_COLUMNS,
      rows: longest.map((queue) =>
        queueRow(queue, agentCell(input.base, names, queue.recipientAgentDid), {
          connection: connectionTag(connections.get(queue.recipientAgentDid), now),
          now,
        })
      ),
    })
  }</section>`;
}

export const QUEUE_COLUMNS = [
  { text: "Waits for" },
  { text: "Messages", isNumber: true },
  { text: "Senders", isNumber: true },
  { text: "Oldest ends" },
  { text: "Connection" },
] as const;

export function queueRow(
  { messages, senders, oldestExpiresAt }: Queue,
  agent: Html,
  { connection, now }: { connection: Html; now: number },
): Row {
  const left = Math.max(0, (parseIso(oldestExpiresAt) ?? now) - now);
  return { cells: [agent, number(messages), number(senders), `in ${duration(left)}`, connection] };
}

export function reasonCell(code: string): Html {
  const known = REASONS[code];
  const text = known?.text ?? (isErrorCode(code) ? sentence(ERRORS[code].when).slice(0, -1) : code);
  // A long reason wraps; a tag does not.
  return markup`${
    known === undefined ? markup`<span>${text}</span>` : tag(known.mood, text)
  }<small class="id">${code}</small>`;
}

export function todoOf({ code }: Pick<RefusalGroup, "code">, agent: string): Value {
  return REASONS[code]?.todo(agent) ?? (isErrorCode(code) ? ERRORS[code].fix : "");
}

function tilesOf(
  { counts, overview, series, groups, refused, span, now }: {
    counts: AdminCounts;
    overview: RelayOverview;
    series: RelaySeriesAnswer;
    groups: readonly RefusalGroup[];
    refused: number;
    span: "hour" | "day";
    now: number;
  },
) {
  const sum = (of: (point: RelayPoint) => number) => series.points.reduce((total, point) => total + of(point), 0);
  const delivered = sum((point) => point.delivered), queued = sum((point) => point.queued);
  const failed = sum((point) => point.failed), all = delivered + queued + failed;
  const share = (part: number) => `${(part / all * 100).toFixed(1)} %`;
  const { oldestAt, messages } = overview.queues;
  const refusedAgents = new Set(groups.flatMap(({ agentDid }) => agentDid ?? [])).size;
  return [
    { name: "Agents online", value: number(overview.agents.online), small: `of ${number(counts.agents.active)}` },
    { name: "Messages", value: number(all), small: span === "hour" ? "in the last hour" : "in the last day" },
    {
      name: "Delivered at once",
      value: all === 0 ? "–" : share(delivered),
      small: all === 0 ? "no message yet" : `${share(queued)} queued, ${share(failed)} failed`,
    },
    {
      name: "Wait in queues",
      value: number(messages),
      small: oldestAt === null ? "none" : `the oldest for ${duration(Math.max(0, now - (parseIso(oldestAt) ?? now)))}`,
    },
    { name: "Refusals", value: number(refused), small: counted(refusedAgents, "agent") },
  ];
}

/** The four plots. Steps in which the instance did not run are empty. */
function plotsOf({ points, stepSeconds }: RelaySeriesAnswer, now: number): Plot[] {
  const stepMs = stepSeconds * 1000, count = stepSeconds === 60 ? 60 : 96;
  const known = new Map(points.map((point) => [parseIso(point.at) ?? 0, point]));
  const last = Math.max(Math.floor(now / stepMs) * stepMs, ...known.keys());
  const times = Array.from({ length: count }, (_, i) => last - (count - 1 - i) * stepMs);
  const line = (name: string, of: (point: RelayPoint) => number | null) => ({
    name,
    values: times.map((at) => {
      const point = known.get(at);
      return point === undefined ? null : of(point);
    }),
  });
  const unit = stepSeconds === 60 ? "a minute" : "in 15 minutes";
  return [
    {
      id: "c1",
      title: "Messages",
      unit,
      kind: "bars",
      times,
      lines: [
        line("delivered", (point) => point.delivered),
        line("queued", (point) => point.queued),
        line("failed", (point) => point.failed),
      ],
    },
    {
      id: "c2",
      title: "Time to acknowledgement",
      unit: "milliseconds, at most",
      kind: "lines",
      times,
      lines: [line("p50", (point) => point.ackP50Ms), line("p95", (point) => point.ackP95Ms)],
      over: { above: ACK_OVER_MS - 1, text: "over 10 s" },
    },
    {
      id: "c3",
      title: "Messages that wait",
      unit: "messages",
      kind: "lines",
      times,
      lines: [line("waiting", (point) => point.waiting)],
    },
    {
      id: "c4",
      title: "Refusals",
      unit,
      kind: "bars",
      times,
      lines: [
        line("rate", (point) => point.refusals.rate),
        line("pair", (point) => point.refusals.pair),
        line("identity", (point) => point.refusals.identity),
        line("other", (point) => point.refusals.other),
      ],
    },
  ];
}
