/** What the metrics say about the process itself (D-177). */
import type { Clock } from "../../clock.ts";
import type { Metrics } from "./metrics.ts";

/** Adds version, start time and memory of this process to the metrics. */
export function describeProcess(metrics: Metrics, build: { version: string; service: string }, clock: Clock): void {
  const started = clock.now() / 1000;
  metrics.describe({ ...build, deno: Deno.version.deno });
  metrics.read("process_start_time_seconds", () => started);
  metrics.read("process_resident_memory_bytes", () => Deno.memoryUsage().rss);
}
