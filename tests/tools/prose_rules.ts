/**
 * The words that the project does not use in prose. Two programs use the table: the
 * lint rule `svc/prose` for comments and strings, and check_prose.ts for Markdown and commit messages.
 */

export interface ProseRule {
  name: string;
  pattern: RegExp;
  /** What to write in its place. */
  instead: string;
}

/** Paths that no rule reads: data, copies of other projects, and the examples of these rules. */
const NOT_CHECKED = ["tests/vectors/", "shared/jsr/", "tests/tools/prose_rules.ts", "tests/tools/prose_rules_test.ts"];

/** Markdown that `deno task gen` writes; its sources are checked. */
const GENERATED = ["docs/cli.md", "docs/errors.md", "docs/limits.md", "docs/routes.md"];

/** At most this many exceptions in the whole project. */
export const MAX_IGNORES = 20;

const ROWS: readonly [name: string, pattern: RegExp, instead: string][] = [
  ["whoever", /\bwho(?:so)?ever\b|\bwhatever\b|\bhowever \w/i, 'the subject; "any", "regardless of"'],
  ["nobody", /\b(?:no|some|every|any)body\b/i, '"no caller", "every client", "another process"'],
  [
    "who-subject",
    /(?:^|[.;:] )Who (?:is|has|finds|asks|does|wants|loses|proves|owns|did)\b(?![^.]*\?)/,
    '"A client that …"',
  ],
  [
    "no-more",
    /\b(?:works?|serves?|knows?|does|is|are|exists?|one) no more\b|\b(?:no|any) ?more[.;,]|\bany more\b/i,
    '"no longer"',
  ],
  ["anew", /\banew\b/i, '"again"'],
  ["besides", /\bbesides\b/i, '"also", "in addition"'],
  ["what-became", /\bwhat (?:came|comes|became|becomes) of\b/i, '"the result of"'],
  ["all-the-same", /\ball the same\b/i, '"anyway", or nothing'],
  ["to-the-end", /\bmade to the end\b|\bto its end\b/i, '"completely"'],
  ["so-many", /\bso (?:many|much) (?:at most|of)\b/i, '"at most n"'],
  ["unless-given", /\bunless given\b|\bwhen not said\b|\bunless said\b/i, '"(default n)"'],
  ["for-good", /\bfor good\b|\bfor ever\b/i, '"permanently"'],
  ["bell", /\b(?:bells?|rung|doorbell|knock(?:s|ed|ing)?|kick(?:s|ed|ing)?)\b/i, '"announce", "wake", "start"'],
  [
    "metaphor",
    /\b(?:breathe[sd]?|bury|buried|hurry|hurried|fates?|seams?|keeps? house|dribbles?|aloud|dearer|upkeep|the living|the grain)\b/i,
    "the glossary term",
  ],
  [
    "how-it-is",
    /\bhow (?:it|an? \w+|the \w+) (?:stands|is doing)\b|\bas (?:it|they) (?:came|comes|was|were)\b|\bis as it should\b/i,
    '"status of", "unchanged"',
  ],
  [
    "archaic",
    /\b(?:lest|hence|thereof|therein|whence|thence|hitherto|nought|albeit|ere|upon|amongst|besought)\b/i,
    "the modern word",
  ],
  [
    "sees-to",
    /\b(?:sees?|seen) to (?:it|that)\b|\bdoes not mind\b|\bputs? (?:on|right)\b/i,
    '"ensures", "ignores", "adds"',
  ],
  ["comes-about", /\bc(?:ome|ame|omes) (?:about|by)\b|\b(?:is|are) to be \w+ed\b/i, "a plain verb"],
  ["inversion", /(?:^|[.;:] |, )(?:[Ww]ere|[Hh]ad|[Ss]hould) (?:this|it|there|the|that|an?) /, '"if"'],
  ["cure", /\b(?:cure[sd]?|what helps|wrong use|mends?|mended)\b/i, '"fix", "repair", "usage error"'],
  ["shout", /\bTHE (?!END\b)[a-z]/, '"The"'],
  [
    "further",
    /\bfurther (?:API key|people|one)\b|\bno whole\b|\bquarter of an hour\b|\btelephone\b|\bonce in a while\b/i,
    '"another"; "not an integer"',
  ],
  ["is-well", /\b(?:all is|is|not) well\b/i, '"healthy", "passed"'],
];
export const PROSE_RULES: readonly ProseRule[] = ROWS.map(([name, pattern, instead]) => ({ name, pattern, instead }));

export interface ProseHit {
  rule: ProseRule;
  words: string;
}

/** The first hit of each rule in one comment, string or line of Markdown. */
export function hitsIn(text: string): ProseHit[] {
  return PROSE_RULES.flatMap((rule) => {
    const match = rule.pattern.exec(text);
    return match ? [{ rule, words: match[0] }] : [];
  });
}

/** True when the file's prose must be clean. */
export function isChecked(path: string): boolean {
  return ![...NOT_CHECKED, ...GENERATED].some((one) => one.endsWith("/") ? path.startsWith(one) : path === one);
}

/** A comment without its marks and line breaks, so that a rule finds words that stand on two lines. */
export function plainComment(value: string): string {
  return value.replace(/\s*\n\s*(?:\*(?!\/) ?)?/g, " ").replace(/^\*\s*/, "").trim();
}
