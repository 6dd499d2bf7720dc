/** Makes visible what a reader of another's text could not see, because it could hide one text in another. */

/**
 * Code points that may be shown as nothing: all that Unicode calls default-ignorable, among them those that change the
 * direction of text, and the marks of annotations. An emoji is matched first and stays, because many consist of a sign
 * and an invisible one that changes its look.
 */
const HIDDEN = /(\p{RGI_Emoji})|[\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gv;

/** Returns a text with each hidden code point as `\u{200b}`. */
export function withoutHidden(text: string): string {
  return text.replace(HIDDEN, (found, emoji?: string) => emoji ?? codePointText(found));
}

/** Returns a code point as `\u{200b}`. */
export function codePointText(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}
