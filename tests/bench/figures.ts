/**
 * The figures of a row, and the table of all rows. A ratio is a result and is marked as one; a time holds only for this
 * machine and this run. A missed goal is shown and does not fail the bench.
 */

/** One measured number; `null` where this machine cannot measure it. */
export interface Figure {
  name: string;
  value: number | null;
  unit: string;
  /** True for a result: both sides were measured in this run. */
  isRatio: boolean;
  /** The goal of the ratio. */
  goal?: Goal;
}

/** The goal of a ratio. */
export type Goal = { atLeast: number } | { atMost: number };

/** One measurement of a server under messages. Times are milliseconds. */
export interface Trial {
  perSecond: number;
  /** Microseconds of server CPU for each message. */
  cpuUs: number | null;
  p50: number;
  p99: number;
  /** Share of a core that the load process used. */
  loadShare: number;
}

/** A trial of a comparison, in the order of the run. */
export interface Round extends Trial {
  target: string;
  /** Messages in progress at once. */
  atOnce: number;
  /** 1 for the first round of these messages at once. */
  round: number;
  /** Of the first seconds after the start of the server. */
  isCold?: true;
}

/** The result of a row. */
export type Outcome =
  | { figures: Figure[]; notes?: string[]; rounds?: Round[] }
  | { skipped: string }
  | { failed: string };

/** A row with its result. */
export type Finished = { name: string; seconds: number } & Outcome;

/** Result of a run of the bench, as `--json` prints it. */
export interface Report {
  /** Versions, load and time, in the order in which they are printed. */
  machine: Record<string, string | number>;
  rows: Finished[];
}

/** Returns a number with its unit. */
export function figure(name: string, value: number | null, unit: string): Figure {
  return { name, value, unit, isRatio: false };
}

/** Returns the ratio of two numbers of the same run. */
export function ratio(name: string, above: number | null, below: number | null, goal?: Goal): Figure {
  const value = above === null || below === null || below === 0 ? null : above / below;
  return { name, value, unit: "×", isRatio: true, ...(goal ? { goal } : {}) };
}

/** Returns whether a figure meets its goal, as a text; empty without a goal. */
export function standing({ value, goal }: Pick<Figure, "value" | "goal">): string {
  if (!goal) return "";
  const [isMet, text] = "atLeast" in goal
    ? [value !== null && value >= goal.atLeast, `at least ${goal.atLeast}`]
    : [value !== null && value <= goal.atMost, `at most ${goal.atMost}`];
  return value === null ? `goal ${text}: not measured` : `goal ${text}: ${isMet ? "met" : "NOT met"}`;
}

/** Returns the percentile of sorted values by nearest rank; `share` is 0 to 1. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return NaN;
  return sorted[Math.min(sorted.length, Math.max(1, Math.ceil(sorted.length * share))) - 1] ?? NaN;
}

/** Returns the median of the values that were measured, or `null`. */
export function median(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const sorted = known.sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return null;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}

/** Returns a number with three significant digits, or all digits of its integer part. */
export function shown(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "n/a";
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, digits === 0 ? " " : "");
}

/** Returns the table: a line for each figure, ratios marked with `▸`. */
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
