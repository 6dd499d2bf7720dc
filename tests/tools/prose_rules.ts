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

export const PROSE_RULES: readonly ProseRule[] = [
  {
    name: "whoever",
    pattern: /\bwho(?:so)?ever\b|\bwhatever\b|\bhowever \w/i,
    instead: 'the subject; "any", "regardless of"',
  },
  {
    name: "nobody",
    pattern: /\b(?:no|some|every|any)body\b/i,
    instead: '"no caller", "every client", "another process"',
  },
  {
    name: "who-subject",
    pattern: /(?:^|[.;:] )Who (?:is|has|finds|asks|does|wants|loses|proves|owns|did)\b(?![^.]*\?)/,
    instead: '"A client that …"',
  },
  {
    name: "no-more",
    pattern: /\b(?:works?|serves?|knows?|does|is|are|exists?|one) no more\b|\b(?:no|any) ?more[.;,]|\bany more\b/i,
    instead: '"no longer"',
  },
  {
    name: "anew",
    pattern: /\banew\b/i,
    instead: '"again"',
  },
  {
    name: "besides",
    pattern: /\bbesides\b/i,
    instead: '"also", "in addition"',
  },
  {
    name: "what-became",
    pattern: /\bwhat (?:came|comes|became|becomes) of\b/i,
    instead: '"the result of"',
  },
  {
    name: "all-the-same",
    pattern: /\ball the same\b/i,
    instead: '"anyway", or nothing',
  },
  {
    name: "to-the-end",
    pattern: /\bmade to the end\b|\bto its end\b/i,
    instead: '"completely"',
  },
  {
    name: "so-many",
    pattern: /\bso (?:many|much) (?:at most|of)\b/i,
    instead: '"at most n"',
  },
  {
    name: "unless-given",
    pattern: /\bunless given\b|\bwhen not said\b|\bunless said\b/i,
    instead: '"(default n)"',
  },
  {
    name: "for-good",
    pattern: /\bfor good\b|\bfor ever\b/i,
    instead: '"permanently"',
  },
  {
    name: "bell",
    pattern: /\b(?:bells?|rung|doorbell|knock(?:s|ed|ing)?|kick(?:s|ed|ing)?)\b/i,
    instead: '"announce", "wake", "start"',
  },
  {
    name: "metaphor",
    pattern:
      /\b(?:breathe[sd]?|bury|buried|hurry|hurried|fates?|seams?|keeps? house|dribbles?|aloud|dearer|upkeep|the living|the grain)\b/i,
    instead: "the glossary term",
  },
  {
    name: "how-it-is",
    pattern:
      /\bhow (?:it|an? \w+|the \w+) (?:stands|is doing)\b|\bas (?:it|they) (?:came|comes|was|were)\b|\bis as it should\b/i,
    instead: '"status of", "unchanged"',
  },
  {
    name: "archaic",
    pattern: /\b(?:lest|hence|thereof|therein|whence|thence|hitherto|nought|albeit|ere|upon|amongst|besought)\b/i,
    instead: "the modern word",
  },
  {
    name: "sees-to",
    pattern: /\b(?:sees?|seen) to (?:it|that)\b|\bdoes not mind\b|\bputs? (?:on|right)\b/i,
    instead: '"ensures", "ignores", "adds"',
  },
  {
    name: "comes-about",
    pattern: /\bc(?:ome|ame|omes) (?:about|by)\b|\b(?:is|are) to be \w+ed\b/i,
    instead: "a plain verb",
  },
  {
    name: "inversion",
    pattern: /(?:^|[.;:] |, )(?:[Ww]ere|[Hh]ad|[Ss]hould) (?:this|it|there|the|that|an?) /,
    instead: '"if"',
  },
  {
    name: "cure",
    pattern: /\b(?:cure[sd]?|what helps|wrong use|mends?|mended)\b/i,
    instead: '"fix", "repair", "usage error"',
  },
  {
    name: "shout",
    pattern: /\bTHE (?!END\b)[a-z]/,
    instead: '"The"',
  },
  {
    name: "further",
    pattern:
      /\bfurther (?:API key|people|one)\b|\bno whole\b|\bquarter of an hour\b|\btelephone\b|\bonce in a while\b/i,
    instead: '"another"; "not an integer"',
  },
  {
    name: "is-well",
    pattern: /\b(?:all is|is|not) well\b/i,
    instead: '"healthy", "passed"',
  },
];

export interface ProseHit {
  rule: ProseRule;
  /** Position of the words in the text. */
  index: number;
  words: string;
}

/** The first hit of each rule in one comment, string or line of Markdown. */
export function hitsIn(text: string): ProseHit[] {
  return PROSE_RULES.flatMap((rule) => {
    const match = rule.pattern.exec(text);
    return match ? [{ rule, index: match.index, words: match[0] }] : [];
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
