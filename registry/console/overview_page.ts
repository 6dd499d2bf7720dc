/**
 * The overview: what was delivered, which requests were refused, and what waits. While the proxy does not answer, the
 * parts that only it knows are missing.
 */
import {
  agentsByDid,
  awayNote,
  type ConsoleDeps,
  EVERY_SECONDS,
  framed,
  type Input,
  orAway,
  relayStateOf,
  shortId,
} from "./frame.ts";
import { queueTable } from "./queue_page.ts";
import { refusalTable } from "./refusals.ts";
import { askRelay, RelayAway } from "./relay.ts";
import { registryReady } from "../meta/handlers.ts";
import { chart, type Plot } from "../../shared/page/chart.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { duration, moment, msOf } from "../../shared/page/times.ts";
import type { AdminCounts } from "../../shared/protocol/api/admin.ts";
import {
  ACK_OVER_MS,
  QueueList,
  RefusalList,
  RelayOverview,
  type RelayPoint,
  RelaySeriesAnswer,
} from "../../shared/protocol/api/relay_admin.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { parseDid } from "../../shared/protocol/did.ts";

const REFUSALS_SHOWN = 12;
const QUEUES_SHOWN = 5;
type Span = "hour" | "day";

type Relay = Awaited<ReturnType<typeof relayOf>>;

export async function overviewPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const span = input.query.get("span") === "day" ? "day" : "hour";
  const [counts, isReady, relay] = await Promise.all([
    deps.counts.current(),
    registryReady(deps),
    orAway(relayOf(deps, input, span)),
  ]);
  const now = deps.clock.now();
  const isAway = relay instanceof RelayAway;
  const states = markup`<div id="states" data-live><div class="row" id="states-both">${
    isReady ? ui.tag("ok", "Registry ready") : ui.tag("bad", "Registry not ready")
  }${isAway ? ui.tag("bad", "Proxy does not answer") : ui.tag("ok", "Proxy ready")}</div></div>`;
  // `moment` leaves out the day when both times are on the same one, so it gets a time of the day before to show it.
  const line = markup`<span id="now" data-live><span id="now-line">${
    moment(now, now - DAY_MS)
  } · version ${deps.config.version}${
    !isAway && ` · up ${duration(now - msOf(relay.overview.startedAt))}`
  }</span></span>`;
  const main = [
    ui.head("Overview", line, states),
    ...isAway ? await withoutRelay(deps, counts, relay) : await withRelay(deps, input, { counts, relay, span, now }),
  ];
  const kind = isAway ? "away" : "whole";
  return framed(deps, input, { title: "Overview", current: "overview", main, isLive: true, kind });
}

/** @throws {RelayAway} */
async function relayOf(deps: ConsoleDeps, { session }: Input, span: Span) {
  const [overview, series, refusals, queues] = await Promise.all([
    askRelay(deps, session, "overview", {}, RelayOverview),
    askRelay(deps, session, "series", { span }, RelaySeriesAnswer),
    askRelay(deps, session, "refusals", { group: "agent", limit: "1" }, RefusalList),
    askRelay(deps, session, "queues", { limit: "100" }, QueueList),
  ]);
  return { overview, series, refusals, queues };
}

async function withoutRelay(deps: ConsoleDeps, counts: AdminCounts, away: RelayAway): Promise<Html[]> {
  const fill = Math.round(await deps.crl.fill() * 100);
  const { agents, people, expiring7d } = counts;
  return [
    awayNote(deps, away),
    ui.tiles([
      { name: "Agents", value: ui.number(agents.active), small: "online: not known" },
      { name: "People", value: ui.number(people.active), small: `${ui.number(people.suspended)} suspended` },
      { name: "Identities end soon", value: ui.number(expiring7d), small: "within 7 days" },
      { name: "Revocation list", value: `${fill} %`, small: "full" },
    ]),
    ui.empty(
      "No numbers from the proxy",
      `Messages, queues and refusals come back here as soon as it answers. This page asks every ${EVERY_SECONDS} s.`,
    ),
  ];
}

interface Seen {
  counts: AdminCounts;
  relay: Relay;
  span: Span;
  now: number;
}

async function withRelay(deps: ConsoleDeps, input: Input, seen: Seen): Promise<Value[]> {
  const { base } = input, { relay: { series, refusals, queues }, span, now } = seen;
  const groups = refusals.groups?.byAgent.slice(0, REFUSALS_SHOWN) ?? [];
  const longest = queues.queues.toSorted((a, b) => b.messages - a.messages).slice(0, QUEUES_SHOWN);
  const names = await agentsByDid(deps, [
    ...groups.flatMap(({ agentDid }) => agentDid ?? []),
    ...longest.map(({ recipientAgentDid }) => recipientAgentDid),
  ]);
  const ids = longest.flatMap(({ recipientAgentDid }) => parseDid(recipientAgentDid)?.id ?? []);
  const state = await orAway(relayStateOf(deps, input, ids));
  const isYoung = now - msOf(series.since) < (span === "hour" ? DAY_MS / 24 : DAY_MS);
  const link = (to: Span, text: string) =>
    to === span ? markup`<b>${text}</b>` : markup`<a href="${`?span=${to}`}">${text}</a>`;
  const spans = markup`<div class="row small">${link("hour", "Last hour")}${link("day", "Last day")}</div>`;
  const isCut = queues.pagination.nextCursor !== null;
  const allQueues = markup`<a class="small" href="${`${base}/queues`}">All queues</a>`;
  return [
    ui.tiles(tilesOf(seen)),
    isYoung &&
    markup`<p class="note">Instance ${shortId(series.instance)} started at ${
      moment(series.since, now)
    }; what was before is not kept. Another instance has other numbers.</p>`,
    ui.section(
      "What passed",
      markup`<div class="two" id="charts" data-live>${plotsOf(series, now).map(chart)}</div>`,
      spans,
    ),
    ui.section(
      "Refusals that someone should look at",
      refusalTable(groups, base, names),
    ),
    ui.section(
      isCut ? "Longest queues of the first 100" : "Longest queues",
      longest.length === 0
        ? ui.note("ok", "No message waits.")
        : queueTable("longest", longest, { base, names, state: state instanceof RelayAway ? null : state, now }),
      allQueues,
    ),
  ];
}

function tilesOf({ counts, relay: { overview, series, refusals: { groups } }, span, now }: Seen) {
  const sum = (of: (point: RelayPoint) => number) => series.points.reduce((total, point) => total + of(point), 0);
  const delivered = sum((point) => point.delivered), queued = sum((point) => point.queued);
  const failed = sum((point) => point.failed), all = delivered + queued + failed;
  const share = (part: number) => `${(part / all * 100).toFixed(1)} %`;
  const { oldestAt, messages } = overview.queues;
  const byAgent = groups?.byAgent ?? [];
  const refused = byAgent.reduce((total, { count }) => total + count, groups?.others ?? 0);
  const refusedAgents = new Set(byAgent.flatMap(({ agentDid }) => agentDid ?? [])).size;
  return [
    { name: "Agents online", value: ui.number(overview.agents.online), small: `of ${ui.number(counts.agents.active)}` },
    { name: "Messages", value: ui.number(all), small: span === "hour" ? "in the last hour" : "in the last day" },
    {
      name: "Delivered at once",
      value: all === 0 ? "–" : share(delivered),
      small: all === 0 ? "no message" : `${share(queued)} queued, ${share(failed)} failed`,
    },
    {
      name: "Wait in queues",
      value: ui.number(messages),
      small: oldestAt === null ? "none" : `the oldest for ${duration(now - msOf(oldestAt))}`,
    },
    { name: "Refusals", value: ui.number(refused), small: ui.counted(refusedAgents, "agent") },
  ];
}

/** Returns the four charts. A step in which the instance did not run has no value. */
function plotsOf({ points, stepSeconds }: RelaySeriesAnswer, now: number): Plot[] {
  const stepMs = stepSeconds * 1000, count = stepSeconds === 60 ? 60 : 96;
  const known = new Map(points.map((point) => [msOf(point.at), point]));
  const last = Math.max(Math.floor(now / stepMs) * stepMs, ...known.keys());
  const ends = Array.from({ length: count }, (_, i) => last - (count - 1 - i) * stepMs);
  const times = ends.map((end) => end - stepMs);
  const steps = ends.map((at) => known.get(at));
  const line = (name: string, of: (point: RelayPoint) => number | null) => ({
    name,
    values: steps.map((point) => point === undefined ? null : of(point)),
  });
  const bars = { kind: "bars", unit: stepSeconds === 60 ? "a minute" : "in 15 minutes", times } as const;
  const lines = { kind: "lines", times } as const;
  return [
    {
      id: "c1",
      title: "Messages",
      ...bars,
      lines: (["delivered", "queued", "failed"] as const).map((name) => line(name, (point) => point[name])),
    },
    {
      id: "c2",
      title: "Time to acknowledgement",
      unit: "milliseconds, at most",
      ...lines,
      lines: [line("p50", (point) => point.ackP50Ms), line("p95", (point) => point.ackP95Ms)],
      over: { above: ACK_OVER_MS - 1, text: "over 10 s" },
    },
    {
      id: "c3",
      title: "Messages that wait",
      unit: "messages",
      ...lines,
      // Counted at the end of each step, and not during it.
      times: ends,
      lines: [line("waiting", (point) => point.waiting)],
    },
    {
      id: "c4",
      title: "Refusals",
      ...bars,
      lines: (["rate", "pair", "identity", "other"] as const).map((name) =>
        line(name, ({ refusals }) => refusals[name])
      ),
    },
  ];
}
