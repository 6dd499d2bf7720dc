/** A pairing ticket as a QR code with what to do beside it. */
import { wordWrap } from "../../terminal/text_width.ts";

/** Columns beside the code, and rows below it: the ticket, the live line, and a blank one at each. */
const BESIDE = 30;
const BELOW = 4;
const TEXT = [
  "Give this ticket to the other person.",
  "It is a secret.",
  "They paste it into the terminal of their connector.",
];

/** The lines of the picture, or a sentence when the window is too small; `rows` and `columns` of the terminal. */
export async function ticketPicture(ticket: string, columns: number, rows: number): Promise<string[]> {
  const { renderUnicodeCompact } = await import("uqr");
  const code = String(renderUnicodeCompact(ticket, { border: 2, ecc: "L" })).split("\n");
  const width = code[0]?.length ?? 0;
  if (columns < width + BESIDE || rows < code.length + BELOW) {
    return [`The window is too small for the QR code: ${width + BESIDE} × ${code.length + BELOW} are needed.`];
  }
  const text = TEXT.flatMap((sentence) => [...wordWrap(sentence, columns - width - 3), ""]);
  return [...code.map((row, i) => `${row}  ${text[i] ?? ""}`.trimEnd()), ticket];
}
