/**
 * What the relay did in the last hour and the last day, for the plots of the console. Once a minute the metrics are
 * read into two rings of a fixed size, so a plot slows no message down and needs no record in the store.
 */
import {
  ACK_OVER_MS,
  type RelayPoint,
  type RelaySeriesAnswer,
  type SeriesQuery,
} from "../../shared/protocol/api/relay_admin.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Cancel, type Clock, MINUTE_MS } from "../../shared/clock.ts";
import { type Answer, type Input, json } from "../../shared/server/http/route.ts";
import type { Metrics, Series } from "../../shared/server/metrics/metrics.ts";
import { METRICS } from "../../shared/server/metrics/metrics_table.ts";
import type { SharedCount } from "../../shared/server/store/shared_count.ts";
import type { InstanceLeases } from "../relay/instance_leases.ts";
import type { Admin } from "./authenticator.ts";
import type { RelayCounts } from "./overview.ts";

/** How many points are kept, and the time from one to the next. */
const SPANS = { hour: { stepMs: MINUTE_MS, points: 60 }, day: { stepMs: 15 * MINUTE_MS, points: 96 } } as const;
type Span = keyof typeof SPANS;

type Group = keyof RelayPoint["refusals"];

interface SeriesDeps {
  clock: Clock;
  metrics: Pick<Metrics, "families">;
  counts: Pick<SharedCount<RelayCounts>, "current">;
}

/** The counters at one moment. */
interface Reading {
  delivered: number;
  queued: number;
  failed: number;
  refusals: Record<Group, number>;
  /** Acknowledgements in each bucket of their time; the last bucket has no upper bound. */
  acks: readonly number[];
}

export class RelaySeries {
  readonly #points: Record<Span, RelayPoint[]> = { hour: [], day: [] };
  /** The reading at which the present step of each span began. */
  readonly #began: Record<Span, Reading>;
  /** Number of the present step of the day since the Unix epoch. */
  #dayStep: number;
  readonly #since: number;
  #cancel: Cancel = () => {};

  constructor(private readonly deps: SeriesDeps) {
    this.#since = deps.clock.now();
    const reading = readingOf(deps.metrics);
    this.#began = { hour: reading, day: reading };
    this.#dayStep = dayStepAt(this.#since);
  }

  /** Reads the metrics at the end of each minute. */
  start(): void {
    const { clock } = this.deps;
    this.#cancel = clock.after(MINUTE_MS - clock.now() % MINUTE_MS, () => {
      this.start();
      void this.take();
    });
  }

  stop(): void {
    this.#cancel();
  }

  /** Ends the present minute, and after 15 minutes also the longer step. Never rejects. */
  async take(): Promise<void> {
    const { clock, metrics, counts } = this.deps;
    // Rounded, because a timer fires a little late, and the steps of two instances could then not be compared.
    const at = Math.round(clock.now() / MINUTE_MS) * MINUTE_MS;
    const reading = readingOf(metrics);
    const dayStep = dayStepAt(at), ends = [{ span: "hour" as Span, end: at }];
    // The numbers of steps are compared, because a pause or a clock that is set can skip the minute in which one ends.
    // When the clock is set back into the step before, none ends, because its point would replace the one of that step.
    if (dayStep > this.#dayStep || dayStep < this.#dayStep - 1) {
      ends.push({ span: "day", end: dayStep * SPANS.day.stepMs });
      this.#dayStep = dayStep;
    }
    const steps = ends.map(({ span, end }) => ({ span, end, from: this.#began[span] }));
    for (const { span } of steps) this.#began[span] = reading;
    const now = await counts.current().catch(() => null);
    const state = { waiting: now?.queues.messages ?? null, agents: now?.agents.online ?? null };
    for (const { span, end, from } of steps) {
      const points = this.#points[span];
      points.push({ at: toIso(end), ...changeOf(from, reading), ...state });
      if (points.length > SPANS[span].points) points.shift();
    }
  }

  /** The points of a span, oldest first. A step in which this instance did not run has none. */
  of(span: Span): { since: string; stepSeconds: number; points: RelayPoint[] } {
    const { stepMs, points: most } = SPANS[span];
    const oldest = this.deps.clock.now() - most * stepMs;
    const points = this.#points[span].filter(({ at }) => Date.parse(at) > oldest);
    return { since: toIso(this.#since), stepSeconds: stepMs / 1000, points };
  }
}

function dayStepAt(at: number): number {
  return Math.floor(at / SPANS.day.stepMs);
}

export function series(
  { series, leases }: { series: Pick<RelaySeries, "of">; leases: Pick<InstanceLeases, "instance"> },
  { query }: Input<undefined, SeriesQuery, undefined, Admin>,
): Answer {
  return json({ instance: leases.instance, ...series.of(query.span) } satisfies RelaySeriesAnswer);
}

function readingOf(metrics: Pick<Metrics, "families">): Reading {
  const families = new Map(metrics.families().map(({ name, series }) => [name, series]));
  const messages = families.get("relay_messages_total") ?? [];
  const sum = (series: readonly Series[], fits: (values: readonly string[]) => boolean) =>
    series.reduce((total, { values, value }) => total + (fits(values) ? value : 0), 0);
  const refused = families.get("refusals_total") ?? [];
  return {
    delivered: sum(messages, ([outcome]) => outcome === "delivered"),
    queued: sum(messages, ([outcome]) => outcome === "queued"),
    failed: sum(messages, ([outcome]) => !["delivered", "queued", "repeat"].includes(outcome ?? "")),
    refusals: eachGroup((group) => sum(refused, ([code = ""]) => refusalGroup(code) === group)),
    acks: [...families.get("relay_ack_seconds")?.[0]?.counts ?? []],
  };
}

function changeOf(from: Reading, to: Reading): Omit<RelayPoint, "at" | "waiting" | "agents"> {
  const acks = to.acks.map((count, i) => count - (from.acks[i] ?? 0));
  return {
    delivered: to.delivered - from.delivered,
    queued: to.queued - from.queued,
    failed: to.failed - from.failed,
    refusals: eachGroup((group) => to.refusals[group] - from.refusals[group]),
    ackP50Ms: boundOf(acks, 0.5),
    ackP95Ms: boundOf(acks, 0.95),
  };
}

function eachGroup(numberOf: (group: Group) => number): Reading["refusals"] {
  return { rate: numberOf("rate"), pair: numberOf("pair"), identity: numberOf("identity"), other: numberOf("other") };
}

/** Returns the group of an error code. An operator can treat all codes of one group in the same way. */
export function refusalGroup(code: string): Group {
  if (code.includes("RATE_LIMIT") || code === "QUOTA_EXCEEDED") return "rate";
  if (code === "PROXY_AUTH_FORBIDDEN" || code.startsWith("PROXY_PAIR_")) return "pair";
  if (code === "PROXY_AUTH_DEPENDENCY_UNAVAILABLE") return "other";
  return code.startsWith("PROXY_AUTH_") || code.startsWith("PROXY_AGENT_ACCESS_") ? "identity" : "other";
}

/**
 * Returns a percentile of the acknowledgement times as the upper bound of its bucket, in milliseconds; `null` without
 * values. The last bucket has no bound, so `ACK_OVER_MS` stands for it.
 */
function boundOf(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let below = 0;
  for (const [i, count] of counts.entries()) {
    below += count;
    if (below < total * share) continue;
    const bound = METRICS.relay_ack_seconds.buckets[i];
    return bound === undefined ? ACK_OVER_MS : bound * 1000;
  }
  return null;
}
