/** The samples of a metric, in the form of Prometheus: a histogram is a counter for each bucket, a sum and a count. */
import type { Family } from "./metrics.ts";
import type { MetricRow } from "./metrics_table.ts";

/** Prefix of every name that leaves the process. */
export const PREFIX = "svc_";

/** A number with its labels. */
export interface Sample {
  /** Without the prefix. */
  name: string;
  labels: readonly (readonly [name: string, value: string])[];
  value: number;
}

/** Returns the names of the samples that a metric can have. */
export function sampleNames(name: string, { type }: MetricRow): string[] {
  return type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
}

/** Returns the present samples of a metric. */
export function samplesOf({ name, row, series }: Family): Sample[] {
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
