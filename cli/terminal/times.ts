/** Times as a person reads them: the largest unit only, because an overview is compared at a glance. Pure. */

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]] as const;

/** Returns how long something lasts, for example `12 d`, `3 h` or `20 s`. */
export function durationText(ms: number): string {
  for (const [unit, unitMs] of UNITS) if (ms >= unitMs) return `${Math.floor(ms / unitMs)} ${unit}`;
  return "0 s";
}

/** Returns when something was, for example `now`, `2 min ago` or `3 h ago`; less than a minute ago is `now`. */
export function agoText(ms: number): string {
  return ms < 60_000 ? "now" : `${durationText(ms)} ago`;
}
