/**
 * Checks the prose of Markdown files, or of one commit message, against prose_rules.ts. Fenced blocks and inline code
 * are not prose. Prints `path:line rule: use …` for each hit and exits with 1 on any. Comments and strings in code are
 * the work of the lint rule `svc/prose`.
 *
 *   deno run --allow-read tests/tools/check_prose.ts [--message <file>]
 */
import { markdownFiles, readText } from "./markdown.ts";
import { hitsIn, isChecked } from "./prose_rules.ts";

/** An exception, on the line before the one that needs it. */
const EXCEPTION = /^\s*<!-- prose-ok:\s*(.*?)\s*-->\s*$/;

export interface ProseFault {
  line: number;
  text: string;
}

/** Faults of a Markdown text, by line. An exception without a reason is a fault. */
export function checkMarkdown(text: string): ProseFault[] {
  const faults: ProseFault[] = [];
  let isFenced = false;
  let isExcepted = false;
  text.split("\n").forEach((line, i) => {
    const exception = EXCEPTION.exec(line);
    if (exception && !exception[1]) faults.push({ line: i + 1, text: "prose-ok: give a reason" });
    if (/^\s*(?:```|~~~)/.test(line)) isFenced = !isFenced;
    else if (!isFenced && !isExcepted && !exception) {
      const prose = line.replace(/`[^`]*`/g, "``").replace(/\]\([^)]*\)/g, "]");
      for (const { rule, words } of hitsIn(prose)) {
        faults.push({ line: i + 1, text: `${rule.name} ("${words.trim()}"): use ${rule.instead}` });
      }
    }
    isExcepted = exception !== null;
  });
  return faults;
}

/** Faults of a commit message: its subject's form and length, and its prose without the comment lines of git. */
export function checkMessage(text: string): ProseFault[] {
  const plain = text.split("\n").map((line) => line.startsWith("#") ? "" : line).join("\n");
  const [subject = ""] = plain.split("\n");
  const faults = checkMarkdown(plain);
  if (subject.length > 100) faults.unshift({ line: 1, text: `subject: ${subject.length} characters, at most 100` });
  if (!/^[\w./, -]+: \S/.test(subject)) faults.unshift({ line: 1, text: "subject: use `area: what changes`" });
  return faults;
}

if (import.meta.main) {
  const [option, file] = Deno.args;
  const results: { path: string; faults: ProseFault[] }[] = [];
  if (option === "--message" && file !== undefined) {
    results.push({ path: file, faults: checkMessage(await Deno.readTextFile(file)) });
  } else if (option !== undefined) {
    console.error("Usage: check_prose.ts [--message <file>]");
    Deno.exit(2);
  } else {
    for (const path of (await markdownFiles()).filter(isChecked)) {
      results.push({ path, faults: checkMarkdown(await readText(path)) });
    }
    console.log(`${results.length} Markdown files checked`);
  }
  for (const { path, faults } of results) for (const { line, text } of faults) console.error(`${path}:${line} ${text}`);
  Deno.exit(results.some(({ faults }) => faults.length > 0) ? 1 : 0);
}
