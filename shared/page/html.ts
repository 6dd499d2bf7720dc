/**
 * Markup as a value. Only `markup` and `typed` make it from text, and both escape the text, so that no mistake in a
 * page can let a text act as markup. A value stands in text or in a quoted attribute; lint refuses other places,
 * because escaping does not help there.
 */
import { codePointText, withoutHidden } from "../hidden_text.ts";

/** Markup. Its constructor is called only in this file, because it does not escape its text. */
export class Html {
  constructor(readonly text: string) {}
}

/** What a template accepts. `null`, `undefined` and `false` print nothing. */
export type Value = Html | string | number | null | undefined | false | readonly Value[];

/** What a value may not show as it is, beside what is hidden: characters that could become markup, and control characters. */
const UNSAFE = /[&<>"']|(?![\t\n])[\p{Cc}\u2028\u2029]/gu;

export function markup(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  let text = parts[0] ?? "";
  for (const [i, value] of values.entries()) text += textOf(value) + (parts[i + 1] ?? "");
  return new Html(text);
}

/** Text for a form field. Invisible characters stay, because an escape like `\u{200B}` would be sent back as text. */
export function typed(text: string): Html {
  return new Html(text.replace(/[&<>"']/g, entity));
}

function textOf(value: Value): string {
  if (value instanceof Html) return value.text;
  if (value === null || value === undefined || value === false) return "";
  if (typeof value === "object") return value.map(textOf).join("");
  return withoutHidden(String(value))
    .replace(UNSAFE, (char) => "&<>\"'".includes(char) ? entity(char) : codePointText(char));
}

function entity(char: string): string {
  return `&#${char.charCodeAt(0)};`;
}
