/**
 * Every regular expression of the product that reads outside input is linear on its worst text. A quadratic one takes
 * half a second on 32 KiB, a linear one well under a millisecond. The bound of 20 times the floor is far from both. It counts
 * this thread's CPU time, because the time of day also passes while a busy machine runs something else.
 */
import { assert, assertEquals } from "@std/assert";
import { threadMs } from "../support/thread_time.ts";
import { REGEXES, type RegexRow, type WorstText } from "./regex_table.ts";

const ROOT = new URL("../../", import.meta.url);
const LENGTH = 32_768;
const MAX_RATIO = 20;
/** Milliseconds. A shorter time counts as this. */
const FLOOR_MS = 2;
const RUNS = 5;

/** Texts that each expression is run on, in addition to its own worst text. */
const HOSTILE: readonly WorstText[] = [
  ...[..." \t\n`\"'\\%=-./:,;_0aA[(\u0301\u200b"].map((unit): WorstText => ["", unit, "\u0000"]),
  ...[...' \t`"-./=%'].map((unit): WorstText => ["x", unit, "x"]),
  ["", 'x="', ""],
  ["", '\\"', ""],
];

async function* sources(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder, ROOT))) {
    if (isDirectory) yield* sources(`${folder}${name}/`);
    else if (name.endsWith(".ts") && !name.endsWith(".d.ts")) yield folder + name;
  }
}

/**
 * What every file with a regular expression has: a slash where a value can begin, or the constructor. A file without is not
 * parsed, because nine in ten have none and a parse takes longer than everything else here.
 */
const MAY_HAVE_ONE = /RegExp|(?:^|[(,=:;[!&|?{}<>]|\b(?:return|typeof|case|await|yield|else|of|in))\s*\/(?![/*])/m;

/** The texts of all regular expressions of a file: literals and constructor arguments. */
function expressionsOf(path: string, source: string): string[] {
  if (!MAY_HAVE_ONE.test(source)) return [];
  const found: string[] = [];
  const isConstructor = (callee: Deno.lint.Node) => callee.type === "Identifier" && callee.name === "RegExp";
  const plugin: Deno.lint.Plugin = {
    name: "regex",
    rules: {
      collect: {
        create: () => ({
          Literal(node) {
            if ("regex" in node && node.regex) found.push(source.slice(...node.range));
          },
          NewExpression(node) {
            if (isConstructor(node.callee)) found.push(source.slice(...node.range));
          },
          CallExpression(node) {
            if (isConstructor(node.callee)) found.push(source.slice(...node.range));
          },
        }),
      },
    },
  };
  Deno.lint.runPlugin(plugin, path, source);
  return [...new Set(found)].sort();
}

function compiled({ literal, source }: RegexRow): RegExp {
  if (source !== undefined) return new RegExp(source);
  const end = literal.lastIndexOf("/");
  return new RegExp(literal.slice(1, end), literal.slice(end + 1));
}

function textOf([head, unit, tail]: WorstText): string {
  const count = Math.max(1, Math.floor((LENGTH - head.length - tail.length) / unit.length));
  // Joined, so that the first search does not include the cost of flattening the text.
  return [head, ...Array<string>(count).fill(unit), tail].join("");
}

/** Shortest CPU time in milliseconds of a search and a replacement. Ends early when one run is fast enough. */
function timeOf(regex: RegExp, text: string, runs = RUNS): number {
  let best = Infinity;
  for (let run = 0; run < runs && best > FLOOR_MS; run++) {
    const start = threadMs();
    regex.lastIndex = 0;
    regex.exec(text);
    text.replace(regex, "");
    best = Math.min(best, threadMs() - start);
  }
  return best;
}

Deno.test("the scanner finds literals and constructed expressions, not divisions, strings or comments", () => {
  const source = 'const a = 1 / 2 / 3; // /x/\nconst b = "/y/"; const c = /z/g; new RegExp(a); RegExp("q"); `${/t/}`;';
  assertEquals(expressionsOf("x.ts", source), ["/t/", "/z/g", 'RegExp("q")', "new RegExp(a)"]);
});

Deno.test("the table lists every regular expression of the product and no other", async () => {
  const paths = ["deploy.ts", "deploy_store.ts", "svc.ts"];
  for (const folder of ["shared/", "registry/", "proxy/", "cli/"]) {
    for await (const path of sources(folder)) paths.push(path);
  }
  const found = new Set<string>();
  for (const path of paths) {
    const text = await Deno.readTextFile(new URL(path, ROOT));
    for (const expression of expressionsOf(path, text)) found.add(expression);
  }
  assertEquals(REGEXES.map(({ literal }) => literal).sort(), [...found].sort());
});

Deno.test("each regular expression takes at most 20 times as long on its worst text as on a harmless one", async (t) => {
  const harmless = textOf(["", "a", ""]);
  const hostile = HOSTILE.map((worst) => [worst, textOf(worst)] as const);
  for (const row of REGEXES.filter(({ never }) => never === undefined)) {
    await t.step(row.literal, () => {
      const regex = compiled(row);
      const usual = Math.max(FLOOR_MS, timeOf(regex, harmless));
      for (const [worst, text] of [...row.worst ? [[row.worst, textOf(row.worst)] as const] : [], ...hostile]) {
        const time = timeOf(regex, text);
        assert(time <= MAX_RATIO * usual, `${time.toFixed(1)} ms on ${JSON.stringify(worst)}, usual ${usual} ms`);
      }
    });
  }
});

Deno.test("the measurement refuses the expression that read the Prefer header before", () => {
  const regex = /"(?:[^"\\]|\\.)*"/g;
  const text = textOf(["", '\\"', ""]);
  assert(timeOf(regex, text, 1) > MAX_RATIO * FLOOR_MS);
});
