/** What tests of the identity marker share: the product's result for a line, and a slow reference. */
import { assertEquals } from "@std/assert";
import { withIdentityBlock } from "../../shared/protocol/identity_block.ts";

const IDENTITY = { agentDid: "a", ownerDid: "b", issuer: "c", aitJti: "d" };
const EMPTY_BLOCK = withIdentityBlock("", IDENTITY);

export const LINE_END = /[\n\r\v\f\u0085\u2028\u2029]/;

/** The product's result for one line. */
export function isQuoted(line: string): boolean {
  return withIdentityBlock(line, IDENTITY).slice(EMPTY_BLOCK.length) !== line;
}

/** Reference: folds the complete line, in time that grows with the square of its length. */
export function passesForMarker(line: string): boolean {
  const folded = line.normalize("NFKC").replace(/[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, "").trim();
  return folded.toLowerCase() === "[svc identity]";
}

/** Compares both for lines with each `step`-th code point in or before the marker. */
export function compareNextTo(step: number): void {
  for (let code = 0; code <= 0x10ffff; code += step) {
    const char = String.fromCodePoint(code);
    if (LINE_END.test(char)) continue;
    for (const line of [`[Svc${char} Identity]`, `${char}[Svc Identity]`]) {
      if (isQuoted(line) !== passesForMarker(line)) assertEquals(isQuoted(line), passesForMarker(line), `U+${code}`);
    }
  }
}
