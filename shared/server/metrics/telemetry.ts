/**
 * Exports the metrics by OpenTelemetry (D-178). Deno sends what its API is given. The instruments read the memory of
 * `Metrics` when Deno exports, so nothing is counted twice.
 */
import type { Metrics } from "./metrics.ts";
import { PREFIX, sampleNames, samplesOf } from "./samples.ts";

/**
 * Makes an instrument for each sample that a metric can have. OpenTelemetry has no histogram that is read at export, so a
 * histogram is exported as its buckets, sum and count.
 *
 * @returns what puts `http.route` on the span of the present request
 */
export async function exportTelemetry(metrics: Metrics, version: string): Promise<(route: string) => void> {
  const { metrics: api, trace } = await import("@opentelemetry/api");
  const meter = api.getMeter("svc", version);
  const instruments = new Map(
    metrics.rows().flatMap(([name, row]) => {
      const options = { description: row.help };
      return sampleNames(name, row).map((sample) => [
        sample,
        row.type === "gauge"
          ? meter.createObservableGauge(PREFIX + sample, options)
          : meter.createObservableCounter(PREFIX + sample, options),
      ]);
    }),
  );
  metrics.isRead = true;
  meter.addBatchObservableCallback((result) => {
    for (const { name, labels, value } of metrics.families().flatMap(samplesOf)) {
      const instrument = instruments.get(name);
      if (instrument) result.observe(instrument, value, Object.fromEntries(labels));
    }
  }, [...instruments.values()]);
  return (route) => void trace.getActiveSpan()?.setAttribute("http.route", route);
}
