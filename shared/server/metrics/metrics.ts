/**
 * The metrics of a process, kept in memory: the counters, gauges and histograms of the table. A label value that the
 * table does not list becomes `other`, because callers could otherwise add series without end. Recording takes well
 * under a microsecond.
 */
import type { Clock } from "../../clock.ts";
import type { AtomicOperation, CommitOptions, KvCommitError, KvCommitResult } from "../kv.ts";
import { type MetricName, type MetricRow, METRICS } from "./metrics_table.ts";

type Rows = typeof METRICS;
type NamesOf<T extends MetricRow["type"]> = { [N in MetricName]: Rows[N]["type"] extends T ? N : never }[MetricName];
type ValuesOf<N extends MetricName> = StringsFor<Rows[N]["labels"]>;
type StringsFor<L extends readonly unknown[]> = { [I in keyof L]: string };

/** The present value of one series. A histogram also has its count and its buckets, of which the last has no bound. */
export interface Series {
  readonly values: readonly string[];
  /** Value of a counter or gauge, or the sum of a histogram. */
  value: number;
  readonly counts?: number[];
}

export interface Family {
  readonly name: string;
  readonly row: MetricRow;
  readonly series: readonly Series[];
}

export const PREFIX = "svc_";

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const OTHER = "other";
/** Up to this many values, a counter shows each series from the start. With more, an answer has hundreds of zeros. */
const SHOWN_FROM_START = 20;

type Tree = Map<string, Tree> | Series | null;

interface Kept {
  row: MetricRow;
  /** The allowed values of each label. */
  sets: readonly Set<string>[];
  series: Series[];
  /** The series by the values of their labels, one map for each label: joined values would cost more than the count. */
  tree: Tree;
  readers: (() => number | null)[];
}

export class Metrics {
  readonly #routes = new Set<string>(["none"]);
  readonly #kept: Record<MetricName, Kept>;
  readonly #measures: (() => Promise<unknown>)[] = [];

  constructor() {
    const rows = Object.entries<MetricRow>(METRICS);
    this.#kept = Object.fromEntries(rows.map(([name, row]) => {
      const sets = row.labels.map(([, values]) => values === "routes" ? this.#routes : new Set(values));
      return [name, { row, sets, series: [], tree: null, readers: [] }];
    })) as unknown as Record<MetricName, Kept>;
    for (const kept of Object.values(this.#kept)) {
      for (const values of firstValues(kept.row)) this.#seriesOf(kept, values);
    }
  }

  /** Adds the paths of a route table to the values of the label `route`. */
  addRoutes(paths: Iterable<string>): void {
    for (const path of paths) this.#routes.add(path);
  }

  /** Adds version, start time and memory of this process. */
  describe({ version, service }: { version: string; service: string }, clock: Clock): void {
    const values = [version, Deno.version.deno, service] as const, started = clock.now() / 1000;
    for (const [i, value] of values.entries()) this.#kept.build_info.sets[i]?.add(value);
    this.set("build_info", 1, ...values);
    this.read("process_start_time_seconds", () => started);
    this.read("process_resident_memory_bytes", () => Deno.memoryUsage().rss);
  }

  count<N extends NamesOf<"counter">>(name: N, ...values: ValuesOf<N>): void {
    this.#seriesOf(this.#kept[name], values as readonly string[]).value++;
  }

  add<N extends NamesOf<"counter">>(name: N, amount: number, ...values: ValuesOf<N>): void {
    this.#seriesOf(this.#kept[name], values as readonly string[]).value += amount;
  }

  set<N extends NamesOf<"gauge">>(name: N, value: number, ...values: ValuesOf<N>): void {
    this.#seriesOf(this.#kept[name], values as readonly string[]).value = value;
  }

  /** Adds a function that measures what is not in memory and sets gauges. It is called before the metrics are read. */
  beforeRead(measure: () => Promise<unknown>): void {
    this.#measures.push(measure);
  }

  /** Measures what is not in memory. It never rejects, because a value that cannot be measured stays the same. */
  async measure(): Promise<void> {
    await Promise.allSettled(this.#measures.map((measure) => measure()));
  }

  /**
   * Registers `get` for a gauge or for `log_lines_dropped_total`. It is called whenever the metrics are read. The
   * values of all functions for the same name are added; the metric is absent while all of them return `null`.
   */
  read(name: NamesOf<"gauge"> | "log_lines_dropped_total", get: () => number | null): void {
    this.#kept[name].readers.push(get);
  }

  /** Adds a value to a histogram. A negative value counts as 0, because it comes from a clock that was set back. */
  observe<N extends NamesOf<"histogram">>(name: N, value: number, ...values: ValuesOf<N>): void {
    const kept = this.#kept[name];
    const series = this.#seriesOf(kept, values as readonly string[]);
    const positive = value > 0 ? value : 0;
    const { buckets = [] } = kept.row, { counts = [] } = series;
    let at = 0;
    while (at < buckets.length && positive > (buckets[at] ?? 0)) at++;
    counts[at] = (counts[at] ?? 0) + 1;
    series.value += positive;
  }

  /** Returns every metric that has a series, with its present values. It reads only memory. */
  families(): Family[] {
    const families = Object.entries<Kept>(this.#kept).map(([name, { row, series, readers }]): Family => {
      if (readers.length === 0) return { name, row, series };
      const found = readers.map((get) => get()).filter((value) => value !== null);
      const value = found.reduce((sum, one) => sum + one, 0);
      return { name, row, series: found.length === 0 ? [] : [{ values: [], value }] };
    });
    return families.filter(({ series }) => series.length > 0);
  }

  #seriesOf(kept: Kept, values: readonly string[]): Series {
    const found = leafOf(kept.tree, values);
    if (found) return found;
    const known = values.map((value, i) => kept.sets[i]?.has(value) ? value : OTHER);
    const other = leafOf(kept.tree, known);
    if (other) return other;
    const one = newSeries(kept.row, known);
    kept.series.push(one);
    kept.tree = grown(kept.tree, known, one);
    return one;
  }
}

function leafOf(tree: Tree, values: readonly string[]): Series | null {
  let at = tree;
  for (let i = 0; i < values.length && at instanceof Map; i++) at = at.get(values[i] ?? "") ?? null;
  return at instanceof Map ? null : at;
}

/** Returns the tree with one more series. */
function grown(tree: Tree, [value, ...rest]: readonly string[], series: Series): Tree {
  if (value === undefined) return series;
  const map = tree instanceof Map ? tree : new Map<string, Tree>();
  return map.set(value, grown(map.get(value) ?? null, rest, series));
}

function newSeries({ buckets }: MetricRow, values: readonly string[]): Series {
  return { values, value: 0, ...buckets && { counts: [...buckets.map(() => 0), 0] } };
}

/** Returns the labels of the series that exist from the start, because a rate would be missing without them. */
function firstValues({ type, labels: [label, ...more] }: MetricRow): (readonly string[])[] {
  if (type === "gauge") return [];
  if (!label) return [[]];
  const [, values] = label;
  const isLong = values === "routes" || values.length > SHOWN_FROM_START;
  return isLong || more.length > 0 || type === "histogram" ? [] : values.map((value) => [value]);
}

/** Commits an operation, counts the result, and returns what the store answers. Without `metrics`, only commits. */
export async function countedCommit(
  operation: AtomicOperation,
  metrics: Metrics | undefined,
  how?: CommitOptions,
): Promise<KvCommitResult | KvCommitError> {
  try {
    const result = await operation.commit(how);
    metrics?.count("store_commits_total", result.ok ? "ok" : "conflict");
    return result;
  } catch (error) {
    metrics?.count("store_commits_total", "error");
    throw error;
  }
}

interface Sample {
  name: string;
  labels: readonly (readonly [name: string, value: string])[];
  value: number;
}

/** Returns the samples of a metric as Prometheus has them: for a histogram its buckets, its sum and its count. */
function samplesOf({ name, row, series }: Family): Sample[] {
  return series.flatMap(({ values, value, counts }) => {
    const labels = row.labels.map(([label], i): [string, string] => [label, values[i] ?? ""]);
    if (!counts) return [{ name, labels, value }];
    let below = 0;
    const buckets = counts.map((count, i): Sample => {
      below += count;
      return { name: `${name}_bucket`, labels: [...labels, ["le", String(row.buckets?.[i] ?? "+Inf")]], value: below };
    });
    return [...buckets, { name: `${name}_sum`, labels, value }, { name: `${name}_count`, labels, value: below }];
  });
}

/**
 * Returns the present values of all metrics in the text format of Prometheus, version 0.0.4. This needs no library,
 * because it takes only a few lines.
 */
export function expositionOf(metrics: Metrics): string {
  const lines = metrics.families().flatMap((family) => [
    `# HELP ${PREFIX}${family.name} ${family.row.help}`,
    `# TYPE ${PREFIX}${family.name} ${family.row.type}`,
    ...samplesOf(family).map(({ name, labels, value }) => `${PREFIX}${name}${labelText(labels)} ${value}`),
  ]);
  return lines.map((line) => `${line}\n`).join("");
}

function labelText(labels: Sample["labels"]): string {
  if (labels.length === 0) return "";
  const escaped = (value: string) => value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
  return `{${labels.map(([name, value]) => `${name}="${escaped(value)}"`).join(",")}}`;
}

/**
 * Exports the metrics by OpenTelemetry, with an instrument for each sample that a metric can have. OpenTelemetry has no
 * histogram that is read only at export, so a histogram is exported as its buckets, sum and count. The instruments read
 * the memory of `Metrics` when Deno exports, because a second count could differ from the first.
 *
 * @returns a function that sets `http.route` on the span of the present request
 */
export async function exportTelemetry(metrics: Metrics, version: string): Promise<(route: string) => void> {
  const { metrics: api, trace } = await import("@opentelemetry/api");
  const meter = api.getMeter("svc", version);
  const instruments = new Map(
    Object.entries<MetricRow>(METRICS).flatMap(([name, row]) => {
      const options = { description: row.help };
      const samples = row.type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
      return samples.map((sample) => [
        sample,
        row.type === "gauge"
          ? meter.createObservableGauge(PREFIX + sample, options)
          : meter.createObservableCounter(PREFIX + sample, options),
      ]);
    }),
  );
  meter.addBatchObservableCallback(async (result) => {
    await metrics.measure();
    for (const { name, labels, value } of metrics.families().flatMap(samplesOf)) {
      const instrument = instruments.get(name);
      if (instrument) result.observe(instrument, value, Object.fromEntries(labels));
    }
  }, [...instruments.values()]);
  return (route) => void trace.getActiveSpan()?.setAttribute("http.route", route);
}
