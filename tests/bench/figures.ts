/**
 * What a row gives, and how all rows are shown: one table for people, one object for programs. A ratio is a result and
 * is marked as one; a time is only what this machine did just now. Never judges a figure.
 */

/** One measured number; `null` where the machine cannot tell. */
export interface Figure {
  name: string;
  value: number | null;
  unit: string;
  /** True for a result: both sides were measured in this run. */
  isRatio: boolean;
}

/** What became of a row. */
export type Outcome =
  | { figures: Figure[]; notes?: string[] }
  | { skipped: string }
  | { failed: string };

/** A row after its turn. */
export type Finished = { name: string; seconds: number } & Outcome;

/** A number with its unit. */
export function figure(name: string, value: number | null, unit: string): Figure {
  return { name, value, unit, isRatio: false };
}

/** A ratio of two numbers of the same run. */
export function ratio(name: string, above: number | null, below: number | null): Figure {
  const value = above === null || below === null || below === 0 ? null : above / below;
  return { name, value, unit: "×", isRatio: true };
}

/** The value below which a share of the sorted values lies; nearest rank. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return NaN;
  return sorted[Math.min(sorted.length, Math.max(1, Math.ceil(sorted.length * share))) - 1] ?? NaN;
}

/** The middle of some values, leaving out what could not be measured. */
export function median(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const sorted = known.sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return null;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}

/** Three significant digits, and as many as the whole part has. */
export function shown(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "n/a";
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, digits === 0 ? " " : "");
}

/** The table: a line for each figure, ratios marked with `▸`. */
export function table(rows: readonly Finished[]): string {
  const names = rows.flatMap((row) => "figures" in row ? row.figures.map(({ name }) => name.length) : []);
  const width = Math.max(20, ...names);
  return rows.map((row) => [`${row.name}  (${row.seconds.toFixed(1)} s)`, ...linesOf(row, width)].join("\n"))
    .join("\n\n");
}

function linesOf(row: Finished, width: number): string[] {
  if ("skipped" in row) return [`    skipped: ${row.skipped}`];
  if ("failed" in row) return [`    FAILED: ${row.failed}`];
  const lines = row.figures.map(({ name, value, unit, isRatio }) =>
    `  ${isRatio ? "▸" : " "} ${name.padEnd(width)}  ${shown(value).padStart(9)} ${unit}`.trimEnd()
  );
  return [...lines, ...(row.notes ?? []).map((note) => `    ! ${note}`)];
}
