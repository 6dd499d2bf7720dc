/**
 * The metrics of a process in memory (D-176): counters, gauges and histograms of the table. A label value outside its
 * closed set becomes `other`, so that no caller adds a series. Recording costs well under a microsecond.
 */
import { type MetricLabel, type MetricName, type MetricRow, METRICS } from "./metrics_table.ts";

type Rows = typeof METRICS;
type NamesOf<T extends MetricRow["type"]> = { [N in MetricName]: Rows[N]["type"] extends T ? N : never }[MetricName];
/** One value for each label of a metric, in the order of its row. */
type ValuesOf<N extends MetricName> = StringsFor<Rows[N]["labels"]>;
type StringsFor<L extends readonly unknown[]> = { [I in keyof L]: string };

/** The present value of one series. A histogram also has its buckets, of which the last has no bound, and its count. */
export interface Series {
  readonly values: readonly string[];
  /** Value of a counter or a gauge; sum of a histogram. */
  value: number;
  readonly counts?: number[];
}

/** A metric with its series. */
export interface Family {
  readonly name: string;
  readonly row: MetricRow;
  readonly series: readonly Series[];
}

/** What `build_info` says about the process. */
export interface BuildInfo {
  version: string;
  deno: string;
  service: string;
}

const OTHER = "other";
/** Largest number of values for which a counter shows each of its series from the start. */
const SHOWN_FROM_START = 20;

interface Kept {
  row: MetricRow;
  /** Allowed values of each label. */
  sets: readonly ReadonlySet<string>[];
  series: Map<string, Series>;
  readers: (() => number)[];
}

export class Metrics {
  readonly #routes = new Set<string>(["none"]);
  readonly #kept: Record<MetricName, Kept>;
  #build: BuildInfo | null = null;
  /** True once something reads the metrics. Gauges over the store are refreshed only then. */
  isRead = false;

  constructor() {
    const rows = Object.entries<MetricRow>(METRICS);
    this.#kept = Object.fromEntries(rows.map(([name, row]) => {
      const sets = row.labels.map(([, values]) => values === "routes" ? this.#routes : new Set(values));
      return [name, { row, sets, series: new Map(firstSeries(row)), readers: [] }];
    })) as unknown as Record<MetricName, Kept>;
  }

  /** Adds the paths of a route table to the values of the label `route`. */
  addRoutes(paths: Iterable<string>): void {
    for (const path of paths) this.#routes.add(path);
  }

  /** Sets what `build_info` says. */
  describe(build: BuildInfo): void {
    this.#build = build;
  }

  /** Adds 1 to a counter. */
  count<N extends NamesOf<"counter">>(name: N, ...values: ValuesOf<N>): void {
    this.#seriesOf(this.#kept[name], values as readonly string[]).value++;
  }

  /** Adds an amount to a counter. */
  add<N extends NamesOf<"counter">>(name: N, amount: number, ...values: ValuesOf<N>): void {
    this.#seriesOf(this.#kept[name], values as readonly string[]).value += amount;
  }

  /** Sets a gauge. */
  set(name: NamesOf<"gauge">, value: number): void {
    this.#seriesOf(this.#kept[name], []).value = value;
  }

  /** Reads a gauge when the metrics are read. Several readers of one gauge add up. */
  read(name: NamesOf<"gauge">, get: () => number): void {
    this.#kept[name].readers.push(get);
  }

  /** Adds a value to a histogram. A negative one, from a clock that stepped back, counts as 0. */
  observe<N extends NamesOf<"histogram">>(name: N, value: number, ...values: ValuesOf<N>): void {
    const kept = this.#kept[name];
    const series = this.#seriesOf(kept, values as readonly string[]);
    const positive = value > 0 ? value : 0;
    const buckets = kept.row.buckets ?? [], counts = series.counts ?? [];
    let at = 0;
    while (at < buckets.length && positive > (buckets[at] ?? 0)) at++;
    counts[at] = (counts[at] ?? 0) + 1;
    series.value += positive;
  }

  /** Returns the name and the row of each metric that there can be. */
  rows(): [string, MetricRow][] {
    return [
      ...buildFamily(this.#build).map((one): [string, MetricRow] => [one.name, one.row]),
      ...Object.entries(METRICS),
    ];
  }

  /** Returns every metric that has a series, with its present values. Reads memory only. */
  families(): Family[] {
    const families = Object.entries<Kept>(this.#kept).map(([name, { row, series, readers }]): Family => {
      if (readers.length === 0) return { name, row, series: [...series.values()] };
      return { name, row, series: [{ values: [], value: readers.reduce((sum, get) => sum + get(), 0) }] };
    });
    return [...buildFamily(this.#build), ...families.filter(({ series }) => series.length > 0)];
  }

  #seriesOf({ row, sets, series }: Kept, values: readonly string[]): Series {
    // A metric has at most three labels; joining is cheap and needs no cache.
    let key = "";
    for (let i = 0; i < sets.length; i++) {
      const value = values[i] ?? OTHER;
      key += sets[i]?.has(value) ? `${value}\0` : `${OTHER}\0`;
    }
    const known = series.get(key);
    if (known) return known;
    const made = newSeries(row, key.split("\0").slice(0, -1));
    series.set(key, made);
    return made;
  }
}

function newSeries(row: MetricRow, values: readonly string[]): Series {
  if (!row.buckets) return { values, value: 0 };
  return { values, value: 0, counts: Array.from({ length: row.buckets.length + 1 }, () => 0) };
}

/** Returns the series that exist before anything is counted, so that a rate over them is never missing. */
function firstSeries(row: MetricRow): [string, Series][] {
  if (row.type === "gauge") return [];
  const [label, ...more] = row.labels;
  if (!label) return [["", newSeries(row, [])]];
  if (more.length > 0 || row.type === "histogram") return [];
  const values = valuesOf(label);
  return values.length > SHOWN_FROM_START ? [] : values.map((value) => [`${value}\0`, newSeries(row, [value])]);
}

function valuesOf([, values]: MetricLabel): readonly string[] {
  return values === "routes" ? [] : values;
}

function buildFamily(build: BuildInfo | null): Family[] {
  if (!build) return [];
  const row: MetricRow = {
    type: "gauge",
    labels: [["version", [build.version]], ["deno", [build.deno]], ["service", [build.service]]],
    help: "1; its labels say what runs",
  };
  return [{ name: "build_info", row, series: [{ values: [build.version, build.deno, build.service], value: 1 }] }];
}
