/**
 * Draws a report of the bench as SVG text: latency of a message by messages at once, and every ratio with its goal. The
 * same report always gives the same text. Colours follow the reader's light or dark scheme, on a background of their own.
 */
import { type Figure, median, percentile, type Report, type Round, shown, standing } from "./figures.ts";

const WIDTH = 860, MARGIN = 24;
/** Left end of the lines of the latency panels, and of the bars. */
const PLOT_LEFT = 190;
const PLOT_RIGHT = WIDTH - 170;
/** The target that is only a measure for others. */
const FLOOR = "floor";
const LINE = 24, HEADING = 34, RATIO_LINE = 42;
const DOT = 5, BAR = 8;
/** Attainment at the right end of a bar; 1 is the goal. */
const MOST = 2;
/** Classes of the targets of a panel, in their order in the report, and that of the floor. */
const KINDS = ["a", "b"], FLOOR_KIND = "c";

const STYLE = `
  svg { font: 13px system-ui, sans-serif; color-scheme: light dark; }
  .ground { fill: #ffffff; } text { fill: #1f2328; } .dim { fill: #59636e; } .head { font-weight: 600; }
  .grid { stroke: #d1d9e0; } .goal { stroke: #1f2328; }
  .a { fill: #0969da; stroke: #0969da; } .b { fill: #bc4c00; stroke: #bc4c00; } .c { fill: #6e7781; stroke: #6e7781; }
  .met { fill: #1a7f37; } .missed { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } text { fill: #f0f6fc; } .dim { fill: #9198a1; }
    .grid { stroke: #3d444d; } .goal { stroke: #f0f6fc; }
    .a { fill: #4493f8; stroke: #4493f8; } .b { fill: #f0883e; stroke: #f0883e; } .c { fill: #9198a1; stroke: #9198a1; }
    .met { fill: #3fb950; } .missed { fill: #f85149; }
  }
`;

/** Marks of a part of the plot, its height, and its text for readers who do not see it. */
interface Part {
  marks: string[];
  height: number;
  words: string[];
}

/** The latency of one target at one number of messages at once, milliseconds. */
interface Latency {
  target: string;
  atOnce: number;
  p50: number;
  p99: number;
}

/**
 * Returns the report of a text that `--json` printed.
 *
 * @throws {TypeError} when the text is not a report
 */
export function readReport(text: string): Report {
  const value: unknown = JSON.parse(text);
  const isReport = typeof value === "object" && value !== null && "machine" in value && "rows" in value &&
    typeof value.machine === "object" && value.machine !== null && Array.isArray(value.rows);
  if (!isReport) throw new TypeError("This is not a report of the bench; deno task bench --json prints one");
  return value as unknown as Report;
}

/**
 * Returns the SVG text of one report, or of several of the same machine.
 *
 * @throws {TypeError} when there is nothing to draw
 */
export function plot(reports: readonly Report[]): string {
  const rows = reports.flatMap(({ rows }) => rows);
  const panels = rows.flatMap((row) => {
    const latencies = "figures" in row ? latenciesOf(row.rounds ?? []) : [];
    return isPlotted(latencies) ? [{ name: row.name, latencies }] : [];
  });
  const ratios = rows.flatMap((row) => "figures" in row ? row.figures : []).filter(({ goal, value }) => goal && value);
  if (panels.length === 0 && ratios.length === 0) {
    throw new TypeError("There is nothing to draw: no latency of two targets, no goal");
  }
  const parts: ((top: number) => Part)[] = [
    (top) => captionPart(reports, top),
    ...panels.map(({ name, latencies }) => (top: number) => latencyPart(name, latencies, top)),
    ...(ratios.length > 0 ? [(top: number) => ratioPart(ratios, top)] : []),
  ];
  const marks: string[] = [], words: string[] = [];
  let top = MARGIN;
  for (const draw of parts) {
    const part = draw(top);
    marks.push(...part.marks);
    words.push(...part.words);
    top += part.height;
  }
  const height = top + MARGIN;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title words">`,
    `<title id="title">Latency and ratios of svc, measured by its bench</title>`,
    `<desc id="words">${escaped(words.join(" "))}</desc>`,
    `<style>${STYLE}</style>`,
    `<rect class="ground" width="${WIDTH}" height="${height}"/>`,
    ...marks,
    "</svg>",
    "",
  ].join("\n");
}

/** A panel compares at least two targets. */
function isPlotted(latencies: readonly Latency[]): boolean {
  return new Set(latencies.map(({ target }) => target)).size > 1;
}

/** Returns the medians of the rounds, by messages at once and then in the order of the targets. */
function latenciesOf(rounds: readonly Round[]): Latency[] {
  const groups = Map.groupBy(
    rounds.filter(({ isCold }) => !isCold),
    ({ target, atOnce }) => JSON.stringify([atOnce, target]),
  );
  const latencies = [...groups.values()].flatMap((own): Latency[] => {
    const [first] = own;
    const [p50, p99] = [median(own.map((one) => one.p50)), median(own.map((one) => one.p99))];
    return first && p50 && p99 ? [{ target: first.target, atOnce: first.atOnce, p50, p99 }] : [];
  });
  return latencies.sort((one, other) => one.atOnce - other.atOnce);
}

function captionPart(reports: readonly Report[], top: number): Part {
  const lines = [...new Set(reports.map(({ machine }) => captionOf(machine)))];
  const marks = [text(MARGIN, top + 12, "svc bench: latency of a message, and ratios with their goals", "head")];
  lines.forEach((line, i) => marks.push(text(MARGIN, top + 32 + i * 18, line, "dim")));
  return { marks, height: 34 + lines.length * 18, words: lines.map((line) => `${line}.`) };
}

function captionOf(machine: Report["machine"]): string {
  return Object.entries(machine).map(([name, value]) => `${name} ${typeof value === "number" ? rounded(value) : value}`)
    .join(" · ");
}

/** A line from p50 to p99 for each target, on a logarithmic scale. */
function latencyPart(name: string, latencies: readonly Latency[], top: number): Part {
  const sorted = Float64Array.from(latencies.flatMap(({ p50, p99 }) => [p50, p99])).sort();
  const low = Math.floor(Math.log10(percentile(sorted, 0)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(percentile(sorted, 1))));
  const at = (ms: number) => PLOT_LEFT + (Math.log10(ms) - low) / (high - low) * (PLOT_RIGHT - PLOT_LEFT);
  const targets = [...new Set(latencies.map(({ target }) => target))].filter((target) => target !== FLOOR);
  const bottom = top + HEADING + latencies.length * LINE;
  const marks = [text(MARGIN, top + 20, `${name}: p50 (dot) to p99, milliseconds`, "head")];
  for (let power = low; power <= high; power++) {
    const x = rounded(at(10 ** power));
    marks.push(`<line class="grid" x1="${x}" x2="${x}" y1="${top + HEADING}" y2="${bottom}"/>`);
    marks.push(text(x, bottom + 16, String(Number((10 ** power).toPrecision(1))), "dim", "middle"));
  }
  const words = [`${name}:`];
  latencies.forEach(({ target, atOnce, p50, p99 }, i) => {
    const y = top + HEADING + i * LINE + LINE / 2;
    const [from, to] = [rounded(at(p50)), rounded(at(p99))];
    const kind = target === FLOOR ? FLOOR_KIND : KINDS[targets.indexOf(target) % KINDS.length];
    marks.push(text(MARGIN, y + 4, `${atOnce} at once, ${target}`));
    marks.push(`<line class="${kind}" x1="${from}" x2="${to}" y1="${y}" y2="${y}" stroke-width="3"/>`);
    marks.push(`<circle class="${kind}" cx="${from}" cy="${y}" r="${DOT}"/>`);
    marks.push(text(WIDTH - MARGIN, y + 4, `p50 ${shown(p50)} · p99 ${shown(p99)}`, "dim", "end"));
    words.push(`${atOnce} at once, ${target}: p50 ${shown(p50)} ms, p99 ${shown(p99)} ms.`);
  });
  return { marks, height: bottom - top + 32, words };
}

/** A bar for each ratio: how much of its goal is attained. */
function ratioPart(ratios: readonly Figure[], top: number): Part {
  const marks = [text(MARGIN, top + 20, "Ratios: a bar that reaches the mark meets its goal", "head")];
  const [left, right] = [MARGIN, WIDTH - MARGIN];
  const goalX = rounded(left + (right - left) / MOST);
  const words = ["Ratios:"];
  ratios.forEach((one, i) => {
    const y = top + HEADING + i * RATIO_LINE;
    const share = attainment(one);
    const width = rounded(Math.min(share, MOST) / MOST * (right - left));
    const result = `${shown(one.value)} · ${standing(one)}`;
    marks.push(text(left, y + 12, one.name), text(right, y + 12, result, "dim", "end"));
    marks.push(
      `<rect class="${share >= 1 ? "met" : "missed"}" x="${left}" y="${y + 20}" width="${width}" height="${BAR}"/>`,
    );
    marks.push(`<line class="goal" x1="${goalX}" x2="${goalX}" y1="${y + 16}" y2="${y + 24 + BAR}" stroke-width="2"/>`);
    words.push(`${one.name}: ${result}.`);
  });
  return { marks, height: HEADING + ratios.length * RATIO_LINE, words };
}

/** Returns 1 for a ratio at its goal, and more for a better one. */
export function attainment({ value, goal }: Pick<Figure, "value" | "goal">): number {
  if (!goal || !value) return 0;
  return "atLeast" in goal ? value / goal.atLeast : goal.atMost / value;
}

function text(x: number, y: number, content: string, kind = "", anchor = "start"): string {
  const attributes = `${kind === "" ? "" : ` class="${kind}"`}${anchor === "start" ? "" : ` text-anchor="${anchor}"`}`;
  return `<text x="${x}" y="${y}"${attributes}>${escaped(content)}</text>`;
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
