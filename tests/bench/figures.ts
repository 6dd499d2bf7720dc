/**
 * What a row gives, and how all rows are shown: one table for people, one object for programs. A ratio is a result and
 * is marked as one; a time is only what this machine did just now. A goal that is missed is said, and fails nothing.
 */

/** One measured number; `null` where the machine cannot tell. */
export interface Figure {
  name: string;
  value: number | null;
  unit: string;
  /** True for a result: both sides were measured in this run. */
  isRatio: boolean;
  /** What it ought to be. */
  goal?: Goal;
}

/** What a ratio ought to be. */
export type Goal = { atLeast: number } | { atMost: number };

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
export function ratio(name: string, above: number | null, below: number | null, goal?: Goal): Figure {
  const value = above === null || below === null || below === 0 ? null : above / below;
  return { name, value, unit: "×", isRatio: true, ...(goal ? { goal } : {}) };
}

/** How a figure stands to its goal; nothing where it has none. */
export function standing({ value, goal }: Pick<Figure, "value" | "goal">): string {
  if (!goal) return "";
  const [isMet, text] = "atLeast" in goal
    ? [value !== null && value >= goal.atLeast, `at least ${goal.atLeast}`]
    : [value !== null && value <= goal.atMost, `at most ${goal.atMost}`];
  return value === null ? `goal ${text}: not measured` : `goal ${text}: ${isMet ? "met" : "NOT met"}`;
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
  const lines = row.figures.map((one) => {
    const { name, value, unit, isRatio } = one;
    const number = `${shown(value).padStart(9)} ${unit}`;
    return `  ${isRatio ? "▸" : " "} ${name.padEnd(width)}  ${number}   ${standing(one)}`.trimEnd();
  });
  return [...lines, ...(row.notes ?? []).map((note) => `    ! ${note}`)];
}
