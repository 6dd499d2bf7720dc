/**
 * Bounds of a payload in addition to its size. Readers in other languages fail beyond them: a recursive JSON reader
 * overflows its stack, and Python converts no number of more than 4,300 digits. Without these bounds, any peer could
 * stop an agent with one message.
 */
import { stringEnd } from "./json_text.ts";
import { LIMITS } from "./limits.ts";

const QUOTE = 0x22, OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d, OPEN_BRACKET = 0x5b, CLOSE_BRACKET = 0x5d;

/**
 * Returns why a payload is refused, as a sentence without a full stop, or `null` for one within the bounds. It takes
 * time in proportion to the text and accepts any text, so it can run before a parser.
 *
 * @param json the payload as JSON text
 */
export function payloadProblem(json: string): string | null {
  let depth = 0, digits = 0;
  for (let i = 0; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    digits = isOfNumber(unit) ? digits + 1 : 0;
    if (digits > LIMITS.payloadNumberCharacters) {
      return `A number of the payload has more than ${LIMITS.payloadNumberCharacters} characters`;
    }
    if (unit === QUOTE) i = stringEnd(json, i) - 1;
    else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth--;
    else if ((unit === OPEN_BRACE || unit === OPEN_BRACKET) && ++depth > LIMITS.payloadDepth) {
      return `The payload nests more than ${LIMITS.payloadDepth} levels`;
    }
  }
  return null;
}

/** Tells whether a number may contain the character: a digit, a sign, a point or an exponent. */
function isOfNumber(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39 || unit === 0x2d || unit === 0x2e || unit === 0x2b || (unit | 0x20) === 0x65;
}
