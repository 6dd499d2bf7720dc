/**
 * Charts as SVG: stacked bars for counts, lines for times and depths. All numbers are also in a table below, because
 * some people cannot see a shape. A step that was not measured is a grey field, because 0 would look like a measured
 * value.
 */
import { toIso } from "../protocol/time.ts";
import { type Html, markup } from "./html.ts";
import { number } from "./parts.ts";

export interface Plot {
  id: string;
  title: string;
  unit: string;
  kind: "bars" | "lines";
  /** The time that names each step, milliseconds since the Unix epoch, oldest first. */
  times: readonly number[];
  /**
   * At most four for bars or two for lines, because page.css has no styles for others. Each has one value per step,
   * `null` if it was not measured.
   */
  lines: readonly { name: string; values: readonly (number | null)[] }[];
  /** Values above `above` are drawn at the top, and the table shows `text` in place of their number. */
  over?: { above: number; text: string };
}

const LEFT = 34, RIGHT = 394, TOP = 8, BOTTOM = 126;
/** The distance between two lines of the grid is one of these numbers times a power of ten. */
const STEPS = [1, 2, 2.5, 5, 10];
/** Most lines of the grid above 0. With more, their numbers touch each other. */
const LINES_MAX = 4;
/** Narrowest grey field with the words "no data", which do not fit into a narrower one. */
const WORDS_WIDTH = 50;

export function chart(plot: Plot): Html {
  const { id, title, unit, kind, times, lines } = plot;
  const highest = Math.max(0, ...sums(plot));
  const step = axisStep(highest);
  const top = Math.max(2, Math.ceil(highest / step)) * step;
  const width = (RIGHT - LEFT) / Math.max(1, times.length);
  const x = (i: number) => round(LEFT + i * width);
  const y = (value: number) => round(BOTTOM - (BOTTOM - TOP) * Math.min(1, value / top));
  const grid = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step).map((value) =>
    markup`<path class="grid" d="${`M${LEFT} ${y(value)}H${RIGHT}`}"/><text x="28" y="${
      round(y(value) + 4)
    }" text-anchor="end">${number(value)}</text>`
  );
  const drawn = kind === "bars" ? bars(plot, { x, y, width }) : paths(plot, { x, y, width });
  const label = `${id}-t ${id}-d`;
  return markup`<figure class="chart" id="${id}"><figcaption class="row"><h2>${title}</h2><small class="soft">${unit}</small></figcaption>${
    key(plot)
  }<svg viewBox="0 0 400 150" role="img" aria-labelledby="${label}"><title id="${`${id}-t`}">${title}</title><desc id="${`${id}-d`}">${
    words(plot)
  }</desc>${grid}${timeAxis(times, x)}${gaps(plot, x)}${drawn}</svg>
<details id="${`${id}-n`}"><summary>Numbers</summary><div class="scroll" tabindex="0" role="region" aria-label="${`${title}, numbers`}"><table><thead><tr><th scope="col">UTC</th>${
    lines.map(({ name }) => markup`<th scope="col">${name}</th>`)
  }</tr></thead><tbody>${
    times.map((at, i) =>
      markup`<tr><td>${clock(at)}</td>${
        lines.map(({ values }) => markup`<td>${cell(plot, values[i] ?? null)}</td>`)
      }</tr>`
    ).reverse()
  }</tbody></table></div></details></figure>`;
}

/** Returns the height of each step: the sum of stacked bars, or the highest line. */
function sums({ kind, times, lines }: Plot): number[] {
  return times.map((_, i) => {
    const values = lines.map(({ values }) => values[i] ?? 0);
    return kind === "bars" ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
  });
}

/** Returns the smallest whole step, 1, 2, 2.5 or 5 times a power of ten, of which four reach the highest value. */
export function axisStep(highest: number): number {
  for (let power = 1;; power *= 10) {
    const step = STEPS.map((factor) => factor * power).find((step) =>
      Number.isInteger(step) && highest <= step * LINES_MAX
    );
    if (step !== undefined) return step;
  }
}

interface Scale {
  x(i: number): number;
  y(value: number): number;
  width: number;
}

function bars({ times, lines }: Plot, { x, y, width }: Scale): Html[] {
  const bottoms = times.map(() => 0);
  const wide = round(Math.max(1, width - 0.4));
  return lines.map(({ values }, line) => {
    let path = "";
    for (const [i, value] of values.entries()) {
      if (!value) continue;
      const from = bottoms[i] ?? 0;
      bottoms[i] = from + value;
      path += `M${round(x(i) + 0.2)} ${y(from + value)}h${wide}V${y(from)}h${-wide}z`;
    }
    return markup`<path class="${`f${line + 1}`}" d="${path}"/>`;
  });
}

function paths({ lines }: Plot, { x, y, width }: Scale): Html[] {
  return lines.map(({ values }, line) => {
    let path = "", area = "", start = 0;
    for (const [i, value] of values.entries()) {
      if (value === null) continue;
      const middle = round(x(i) + width / 2), height = y(value);
      const isFirst = (values[i - 1] ?? null) === null, isLast = (values[i + 1] ?? null) === null;
      if (isFirst) start = middle;
      // A point between two gaps is drawn as a short line, because a path of one point is invisible.
      path += isFirst && isLast ? `M${round(middle - 2)} ${height}h4` : `${isFirst ? "M" : "L"}${middle} ${height}`;
      area += `${isFirst ? `M${middle} ${BOTTOM}` : ""}L${middle} ${height}${isLast ? `V${BOTTOM}H${start}z` : ""}`;
    }
    // Only a single line gets an area, because the areas below several lines would cover each other.
    return markup`${lines.length === 1 && markup`<path class="f1 a1" d="${area}"/>`}<path class="${`l${
      line + 1
    }`}" d="${path}"/>`;
  });
}

/** Returns a grey field for each run of steps in which no line has a value. */
function gaps({ times, lines }: Plot, x: (i: number) => number): Html[] {
  const found: Html[] = [];
  for (let from = 0; from < times.length; from++) {
    let to = from;
    while (to < times.length && lines.every(({ values }) => (values[to] ?? null) === null)) to++;
    if (to === from) continue;
    const left = x(from), width = round(x(to) - left);
    found.push(
      markup`<rect class="gap" x="${left}" y="${TOP}" width="${width}" height="${BOTTOM - TOP}"/>${
        width >= WORDS_WIDTH && markup`<text x="${round(left + width / 2)}" y="67" text-anchor="middle">no data</text>`
      }`,
    );
    from = to;
  }
  return found;
}

function timeAxis(times: readonly number[], x: (i: number) => number): Html[] {
  const last = times.length - 1;
  return [0, 1, 2, 3, 4].map((quarter) => {
    const i = Math.round(last * quarter / 4);
    const anchor = quarter === 0 ? "start" : quarter === 4 ? "end" : "middle";
    const place = quarter === 4 ? RIGHT : x(i);
    return markup`<text x="${place}" y="144" text-anchor="${anchor}">${clock(times[i] ?? 0)}</text>`;
  });
}

function key({ kind, lines }: Plot): Html {
  return markup`<span class="key" aria-hidden="true">${
    lines.map(({ name }, i) => {
      const sign = kind === "bars"
        ? markup`<rect class="${`f${i + 1}`}" width="10" height="10" rx="2" x="2"/>`
        : markup`<path class="${`l${i + 1}`}" d="M0 5h14"/>`;
      return markup`<span><svg viewBox="0 0 14 10">${sign}</svg>${name}</span>`;
    })
  }</span>`;
}

/** Returns the chart in words, for a person who cannot see it. */
function words(plot: Plot): string {
  const { kind, times, lines } = plot;
  const what = kind === "bars" ? "Stacked bars" : lines.length === 1 ? "One line" : `${lines.length} lines`;
  const ranges = lines.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${name}: no data`;
    const [low, high] = [Math.min(...known), Math.max(...known)].map((value) => cell(plot, value));
    return low === high ? `${name}: ${low}` : `${name}: ${low} to ${high}`;
  });
  return `${what}, ${clock(times[0] ?? 0)} to ${clock(times.at(-1) ?? 0)} UTC. ${ranges.join("; ")}.`;
}

function cell({ over }: Plot, value: number | null): string {
  if (value === null) return "no data";
  return over && value > over.above ? over.text : number(value);
}

function clock(ms: number): string {
  return toIso(ms).slice(11, 16);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
