/**
 * A request as it was saved to a file: the text of the HTTP message, or JSON. Takes it apart; judges nothing.
 */
import { utf8Bytes } from "../../shared/protocol/base64url.ts";

/** A request to be judged. */
export interface RequestFile {
  method: string;
  /** Path and query as in the request line. */
  target: string;
  /** Where the file says that it went, if it does. */
  origin: string | null;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}

/** How such a file looks, for whoever gave something else. */
export const REQUEST_FILE_FORM =
  'the HTTP message (request line, headers, empty line, body), or JSON {"method","url","headers":{…},"body":"text"}';

/** Takes the file apart, or gives `null` when it is neither of the two forms. */
export function parseRequestFile(bytes: Uint8Array<ArrayBuffer>): RequestFile | null {
  try {
    return bytes.at(0) === 0x7b ? fromJson(bytes) : fromMessage(bytes);
  } catch {
    // Header names and addresses are read by the platform, which throws at bad ones.
    return null;
  }
}

function fromJson(bytes: Uint8Array<ArrayBuffer>): RequestFile | null {
  const { method, url, headers, body = "" } = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
  if (typeof method !== "string" || typeof url !== "string" || typeof body !== "string") return null;
  if (/\s/.test(method + url)) return null;
  if (typeof headers !== "object" || headers === null) return null;
  const given = Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]);
  return { method, ...placeOf(url), headers: new Headers(given), body: utf8Bytes(body) };
}

function fromMessage(bytes: Uint8Array<ArrayBuffer>): RequestFile | null {
  const bodyStart = endOfHead(bytes);
  const [requestLine = "", ...lines] = new TextDecoder().decode(bytes.subarray(0, bodyStart)).trimEnd().split(/\r?\n/);
  const [, method, url] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(requestLine) ?? [];
  if (method === undefined || url === undefined) return null;
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) return null;
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return { method, ...placeOf(url), headers, body: bytes.slice(bodyStart) };
}

/** Path and query as written, and the origin in front of them, if there is one. */
function placeOf(url: string): Pick<RequestFile, "target" | "origin"> {
  const [, origin, target] = /^(https?:\/\/[^/?#]+)(.*)$/i.exec(url) ?? [undefined, undefined, url];
  return { origin: origin === undefined ? null : new URL(origin).origin, target: target || "/" };
}

/** Where the body begins: after the first empty line. */
function endOfHead(bytes: Uint8Array): number {
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] !== 0x0a) continue;
    if (bytes[i + 1] === 0x0a) return i + 2;
    if (bytes[i + 1] === 0x0d && bytes[i + 2] === 0x0a) return i + 3;
  }
  return bytes.length;
}
