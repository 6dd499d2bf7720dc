/** Reads the text format of Prometheus, version 0.0.4, and checks what `promtool check metrics` checks of it. */

/** A series of a scrape. */
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** A metric of a scrape. */
export interface ScrapedFamily {
  type: string;
  help: string;
  samples: Sample[];
}

const LINE = /^([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_][a-z0-9_]*)="((?:[^"\\]|\\.)*)",?/y;

/** Returns the metrics of a scrape by name. @throws {Error} with the first line that breaks a rule */
export function parseExposition(text: string): Map<string, ScrapedFamily> {
  const families = new Map<string, ScrapedFamily>();
  let current = "";
  const seen = new Set<string>();
  if (!text.endsWith("\n")) throw new Error("the text does not end with a line end");
  for (const line of text.slice(0, -1).split("\n")) {
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") {
      if (families.has(name)) throw new Error(`${name} comes twice`);
      families.set(current = name, { type: "", help: rest, samples: [] });
      continue;
    }
    const family = families.get(current);
    if (!family) throw new Error(`no metric before: ${line}`);
    if (kind === "TYPE") {
      if (name !== current || !["counter", "gauge", "histogram"].includes(rest)) throw new Error(line);
      if ((rest === "counter") !== name.endsWith("_total")) throw new Error(`the name of a ${rest}: ${name}`);
      family.type = rest;
      continue;
    }
    const sample = sampleOf(line);
    const allowed = family.type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => current + end) : [current];
    if (!allowed.includes(sample.name)) throw new Error(`outside of its metric: ${line}`);
    const series = line.slice(0, line.lastIndexOf(" "));
    if (seen.has(series)) throw new Error(`comes twice: ${series}`);
    seen.add(series);
    family.samples.push(sample);
  }
  return families;
}

function sampleOf(line: string): Sample {
  const [, name = "", inner = "", number = ""] = LINE.exec(line) ?? [];
  const value = number === "+Inf" ? Infinity : Number(number);
  if (name === "" || number === "" || Number.isNaN(value)) throw new Error(`not a sample: ${line}`);
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  for (let at = 0; at < inner.length; at = LABEL.lastIndex) {
    const [, label = "", text = ""] = LABEL.exec(inner) ?? [];
    if (label === "" || label in labels) throw new Error(`not labels: ${line}`);
    labels[label] = text;
  }
  return { name, labels, value };
}

/** Sum of the samples of a metric; of a histogram the number of its values. */
export function totalOf(families: Map<string, ScrapedFamily>, name: string): number {
  const family = families.get(name);
  const wanted = family?.type === "histogram" ? `${name}_count` : name;
  return (family?.samples ?? []).filter((one) => one.name === wanted).reduce((sum, { value }) => sum + value, 0);
}
