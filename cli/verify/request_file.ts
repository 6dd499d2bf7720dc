/** Parses a saved request: the text of an HTTP message, or JSON. evaluate.ts checks it. */
import { utf8Bytes } from "../../shared/protocol/base64url.ts";

export interface RequestFile {
  method: string;
  target: string;
  origin: string | null;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}

/** With 200,000 names, which fit into a file, `Headers` would take six minutes. */
const HEADERS_MAX = 1_000;

export const REQUEST_FILE_FORM =
  'the HTTP message (request line, headers, empty line, body), or JSON {"method","url","headers":{…},"body":"text"}';

/** Returns the parsed file, or `null` when it has neither of the two forms. */
export function parseRequestFile(bytes: Uint8Array<ArrayBuffer>): RequestFile | null {
  try {
    return bytes.at(0) === 0x7b ? fromJson(bytes) : fromMessage(bytes);
  } catch {
    // `Headers` and `URL` throw for text that is not valid, so the file has neither form.
    return null;
  }
}

function fromJson(bytes: Uint8Array<ArrayBuffer>): RequestFile | null {
  const { method, url, headers, body = "" } = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
  if (typeof method !== "string" || typeof url !== "string" || typeof body !== "string") return null;
  if (/\s/.test(method + url)) return null;
  if (typeof headers !== "object" || headers === null || Object.keys(headers).length > HEADERS_MAX) return null;
  const given = Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]);
  return { method, ...placeOf(url), headers: new Headers(given), body: utf8Bytes(body) };
}

function fromMessage(bytes: Uint8Array<ArrayBuffer>): RequestFile | null {
  // One character for each byte, so that the place of the empty line is that of its bytes.
  const empty = /\n\r?\n/.exec(new TextDecoder("latin1").decode(bytes));
  const bodyStart = empty === null ? bytes.length : empty.index + empty[0].length;
  const [requestLine = "", ...lines] = new TextDecoder().decode(bytes.subarray(0, bodyStart)).trimEnd().split(/\r?\n/);
  const [, method, url] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(requestLine) ?? [];
  if (method === undefined || url === undefined || lines.length > HEADERS_MAX) return null;
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) return null;
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return { method, ...placeOf(url), headers, body: bytes.slice(bodyStart) };
}

/** Returns path and query unchanged, and the origin before them, if there is one. */
function placeOf(url: string): Pick<RequestFile, "target" | "origin"> {
  const [, origin, target] = /^(https?:\/\/[^/?#]+)(.*)$/i.exec(url) ?? [undefined, undefined, url];
  return { origin: origin === undefined ? null : new URL(origin).origin, target: target || "/" };
}
