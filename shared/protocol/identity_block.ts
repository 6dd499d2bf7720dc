/**
 * The identity block (D-71), which the proxy inserts in front of a message: five lines that the sender cannot forge. No
 * byte outside the JSON string `message` changes.
 */
import { utf8Bytes } from "./base64url.ts";
import type { FrameIdentity } from "./frames.ts";
import { isRecord, topLevelMembers } from "./json_text.ts";
import { LIMITS } from "./limits.ts";

export const IDENTITY_MARKER = "[Svc Identity]";

/** The sender of a message, from the verified AIT. */
export type SenderIdentity = Omit<FrameIdentity, "name">;

/** The lines of the block in order, with the maximum length of their values in code points. */
const FIELDS = [
  ["agentDid", LIMITS.identityAgentDid],
  ["ownerDid", LIMITS.identityOwnerDid],
  ["issuer", LIMITS.identityIssuer],
  ["aitJti", LIMITS.identityAitJti],
] as const;

// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u001f\u007f]/g;
const INVISIBLE = /[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu;
// deno-lint-ignore no-control-regex
const LINE_ENDS = /(\r\n|[\n\r\u000b\u000c\u0085\u2028\u2029])/;
const PRINTABLE = /^[\n\r\x20-\x7e]*$/, MARKER_IN_ANY_CASE = /\[svc identity\]/i;
const MARKER_FOLDED = foldLine(IDENTITY_MARKER);
/**
 * Longest line, in UTF-16 units, that is compared with the marker. Normalisation cannot turn a longer one into the 14
 * ASCII characters of the marker, because it removes no character, and merges none into an ASCII one.
 */
const MAX_MARKER_UNITS = 128;

/** Returns the value of a field for the block: a single line, bounded, and never empty. */
export function sanitizeField(value: string, maxCodePoints: number): string {
  const line = value.replace(CONTROL, "").replace(/[\s\u0085]+/g, " ").trim();
  // A text never has more code points than UTF-16 units, so a short one needs no count.
  const cut = line.length <= maxCodePoints ? line : [...line].slice(0, maxCodePoints).join("").trim();
  return cut || "unknown";
}

/**
 * Returns the block, an empty line and the text. Lines of the text that look like the first line of a block are quoted,
 * because they could pass for one.
 */
export function withIdentityBlock(message: string, identity: SenderIdentity): string {
  return blockOf(identity).text + quoteMarkers(message);
}

/**
 * Returns a text without its identity block. It removes a block at the start only if it is the one of this sender,
 * because a similar text that the sender wrote would otherwise be lost.
 */
export function withoutIdentityBlock(message: string, identity: SenderIdentity): string {
  const { text } = blockOf(identity);
  return message.startsWith(text) ? message.slice(text.length) : message;
}

/** A block as plain text, and as part of a JSON string with the number of its bytes. */
interface Block {
  text: string;
  json: string;
  jsonBytes: number;
}

/** Blocks by the object of their identity, which all messages of a sender share, so each block is made only once. */
const BLOCKS = new WeakMap<SenderIdentity, Block>();

function blockOf(identity: SenderIdentity): Block {
  const known = BLOCKS.get(identity);
  if (known !== undefined) return known;
  const lines = FIELDS.map(([name, max]) => `${name}: ${sanitizeField(identity[name], max)}`);
  const text = `${[IDENTITY_MARKER, ...lines].join("\n")}\n\n`, json = JSON.stringify(text).slice(1, -1);
  const block = { text, json, jsonBytes: utf8Bytes(json).length };
  BLOCKS.set(identity, block);
  return block;
}

/** The way from a payload back to the signed body: replace `length` bytes of UTF-8 at `offset` by `text`. */
export type BodyEdit = readonly [offset: number, length: number, text: string];

/** Result of an insertion: the new payload and the way back, or a refusal because `message` occurs twice. */
export type Injected = { payload: string; edit?: BodyEdit } | { refused: "duplicate_message" };

/**
 * Inserts the block into the string `message` of a JSON object. Any other payload is returned unchanged. Unless one of
 * its lines must be quoted, the string is not encoded again, so that `edit` is short and every other byte stays as sent.
 *
 * @param json the sender's JSON text
 * @param value the parsed JSON text
 */
export function injectIdentity(json: string, value: unknown, identity: SenderIdentity): Injected {
  if (!isRecord(value) || !Object.hasOwn(value, "message")) return { payload: json };
  const [span, ...more] = topLevelMembers(json).filter(({ key }) => key === "message");
  if (more.length > 0) return { refused: "duplicate_message" };
  const { message } = value;
  if (!span || typeof message !== "string") return { payload: json };
  const block = blockOf(identity), quoted = quoteMarkers(message);
  if (quoted === message) {
    const before = json.slice(0, span.start + 1);
    const edit = [utf8Bytes(before).length, block.jsonBytes, ""] as const;
    return { payload: before + block.json + json.slice(span.start + 1), edit };
  }
  const before = json.slice(0, span.start), text = JSON.stringify(block.text + quoted);
  const edit = [utf8Bytes(before).length, utf8Bytes(text).length, json.slice(span.start, span.end)] as const;
  return { payload: before + text + json.slice(span.end), edit };
}

function quoteMarkers(text: string): string {
  // Normalisation does not change printable ASCII, so most messages need not be split into lines.
  if (PRINTABLE.test(text) && !MARKER_IN_ANY_CASE.test(text)) return text;
  // The separator is captured, because every line end must stay unchanged.
  return text.split(LINE_ENDS).map((part, i) => i % 2 === 0 && isMarker(part) ? `> ${part}` : part).join("");
}

/** Normalises only short lines, because the time of NFKC grows with the square of the length. */
function isMarker(line: string): boolean {
  const visible = line.replace(INVISIBLE, "").trim();
  return visible !== "" && visible.length <= MAX_MARKER_UNITS && foldLine(visible) === MARKER_FOLDED;
}

function foldLine(line: string): string {
  return line.normalize("NFKC").replace(INVISIBLE, "").trim().toLowerCase();
}
