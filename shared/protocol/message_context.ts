/**
 * The signed context of a message (D-140): a hash of the message's headers, which is part of the signed request target
 * as `?ctx=`. Without it, a party between sender and proxy could change, remove or add one of these headers unnoticed.
 */
import { sha256 } from "./base64url.ts";
import { isRequestId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { HEADERS } from "./proof.ts";

/** Headers of a message: `Headers`, pairs of name and value, or an object. The case of a name does not matter. */
export type MessageHeaders = Iterable<readonly [name: string, value: string]> | Readonly<Record<string, string>>;

/** The headers or the target of a message have no valid context. */
export class ContextError extends Error {
  override name = "ContextError";
}

const FIRST_LINE = "SVC-CONTEXT-V1";
const CONTENT_TYPE = "content-type";
const REQUEST_ID = HEADERS.requestId;

/** Headers that the signed text of the proof covers already, or that are not part of the message. */
const UNBOUND: ReadonlySet<string> = new Set(
  [
    HEADERS.timestamp,
    HEADERS.nonce,
    HEADERS.bodySha256,
    HEADERS.proof,
    HEADERS.access,
    HEADERS.recipient,
  ].map((name) => name.toLowerCase()),
);

const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
const ASCII = /^[\t\x20-\x7e]*$/;
const VALUE = /^[\x20-\x7e]+$/;

/** Tells whether the context covers a header; `name` is in lower case. */
function isBound(name: string): boolean {
  return name === CONTENT_TYPE || name === REQUEST_ID || name.startsWith("x-svc-") && !UNBOUND.has(name);
}

/**
 * Returns the lines that the context hash covers: `SVC-CONTEXT-V1`, then `<name>:<value>` for each covered header,
 * sorted by name. Other headers are ignored. Values of a repeated name are joined by a comma and a space, as HTTP does.
 *
 * @throws {ContextError} when `content-type` or a valid `x-request-id` is missing, when a value is empty, too long or
 * not visible ASCII, or when there are too many lines or bytes
 */
export function contextText(headers: MessageHeaders): string {
  return textOfBound(boundHeaders(headers));
}

/** As `contextText`, for headers that `boundHeaders` has already selected. @throws {ContextError} as `contextText` */
export function textOfBound(bound: ReadonlyMap<string, string>): string {
  if (!bound.has(CONTENT_TYPE)) throw new ContextError(`The header ${CONTENT_TYPE} is missing`);
  if (!isRequestId(bound.get(REQUEST_ID))) throw new ContextError(`The header ${REQUEST_ID} is missing or malformed`);
  // The names are sorted, not the lines, because sorted lines would put `x-svc-a-b` before `x-svc-a`.
  let text = FIRST_LINE;
  for (const name of [...bound.keys()].sort()) text += `\n${name}:${bound.get(name)}`;
  if (text.length > LIMITS.contextBytes) throw new ContextError(`The context is over ${LIMITS.contextBytes} bytes`);
  return text;
}

/**
 * Returns the headers that the context covers, by lower-case name. It stops at the first one over the limit.
 *
 * @throws {ContextError} for a value or a number of headers over the limits
 */
export function boundHeaders(headers: MessageHeaders): Map<string, string> {
  const bound = new Map<string, string>();
  const take = (sentName: string, sentValue: string) => {
    const name = sentName.toLowerCase();
    if (!isBound(name)) return;
    if (!TOKEN.test(name)) throw new ContextError("The name of a header is malformed");
    const known = bound.get(name);
    const value = known === undefined ? valueOf(name, sentValue) : `${known}, ${valueOf(name, sentValue)}`;
    if (value.length > LIMITS.contextValueLength) {
      throw new ContextError(`The header ${name} is over ${LIMITS.contextValueLength} characters`);
    }
    bound.set(name, value);
    if (bound.size > LIMITS.contextLines) {
      throw new ContextError(`The message has more than ${LIMITS.contextLines} bound headers`);
    }
  };
  // `forEach` is used because the iterator of `Headers` takes 1.5 times as long.
  if (headers instanceof Headers) headers.forEach((value, name) => take(name, value));
  else for (const [name, value] of Symbol.iterator in headers ? headers : Object.entries(headers)) take(name, value);
  return bound;
}

/** Returns a value without the white space at its ends, which HTTP does not transport. */
function valueOf(name: string, sent: string): string {
  // Nearly every value passes the first of these patterns, and then needs no other one.
  const value = VALUE.test(sent) || ASCII.test(sent) ? sent.trim() : "";
  if (value === "" || value.includes("\t")) throw new ContextError(`The header ${name} is empty or not visible ASCII`);
  return value;
}

/**
 * Returns the request target to sign and to send for a message with these headers: `/hooks/agent?ctx=<hash>`. They must
 * be the headers that are sent, including `content-type` and `x-request-id`, because the proxy otherwise refuses the
 * message.
 *
 * @throws {ContextError} when the headers have no context
 */
export async function messageTarget(headers: MessageHeaders): Promise<string> {
  return `/hooks/agent?ctx=${await sha256(contextText(headers))}`;
}

/**
 * Returns the context hash in a request target, without verifying it, or `null` when the target has none.
 *
 * @param target path and query, as in the request line
 * @throws {ContextError} when the target has more than one, or its query is too long
 */
export function contextOf(target: string): string | null {
  const at = target.indexOf("?");
  if (at === -1) return null;
  const query = target.slice(at + 1);
  if (query.length > LIMITS.queryLength) {
    throw new ContextError(`The query is over ${LIMITS.queryLength} characters`);
  }
  // The usual form is cut out of the text, because parsing costs more than the rest of this function.
  if (query.startsWith("ctx=") && !/[&+%]/.test(query)) return query.slice("ctx=".length);
  const [hash = null, ...more] = new URLSearchParams(query).getAll("ctx");
  if (more.length > 0) throw new ContextError("The query names ctx more than once");
  return hash;
}
