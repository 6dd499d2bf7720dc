/** Writes metrics in the text format of Prometheus, version 0.0.4 (D-176). */
import type { Family, Metrics } from "./metrics.ts";
import { PREFIX, type Sample, samplesOf } from "./samples.ts";

/** Content type of the text. */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Returns the present values of all metrics as text. */
export function expositionOf(metrics: Metrics): string {
  return metrics.families().map(familyText).join("");
}

function familyText(family: Family): string {
  const { name, row } = family;
  const head = `# HELP ${PREFIX}${name} ${escapeHelp(row.help)}\n# TYPE ${PREFIX}${name} ${row.type}\n`;
  return head + samplesOf(family).map(sampleText).join("");
}

function sampleText({ name, labels, value }: Sample): string {
  return `${PREFIX}${name}${labelText(labels)} ${numberText(value)}\n`;
}

function labelText(labels: readonly (readonly [string, string])[]): string {
  if (labels.length === 0) return "";
  return `{${labels.map(([name, value]) => `${name}="${escapeLabel(value)}"`).join(",")}}`;
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
