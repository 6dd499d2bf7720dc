/** A row of the table of local routes, and what the handlers of the rows share. */
import * as z from "zod";
import { type Clock, settledWithin } from "../../../shared/clock.ts";
import { inPieces, PIECE_BYTES } from "../../../shared/pieces.ts";
import type { RouteAnswer } from "../../../shared/openapi.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { type Bytes, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import type { HttpResponse } from "../../../shared/client/http.ts";
import type { Connector } from "../connector.ts";
import type { A2aPeer } from "./a2a_peers.ts";
import { LOCAL_ERRORS, type LocalCode, LocalError } from "../../local_errors.ts";

export interface LocalApiOptions {
  connector: Connector;
  token: string;
  port: number;
  a2aPeers(): readonly A2aPeer[];
  onTicket?: ((ticket: string, expiresAt: string) => void) | undefined;
  /** Makes an address that opens the web page once; `null` where there is no page. */
  page: OpenPage | null;
}

export interface LocalInput<P = undefined, Q = undefined, B = undefined> extends LocalApiOptions {
  params: P;
  query: Q;
  body: B;
  /** The body as JSON text; `{}` when there is none. With `textBody`: any text, empty when it is not UTF-8. */
  text: string;
  headers: Headers;
  /** The peer whose token the caller has; `null` for another caller. */
  peer: A2aPeer | null;
}

/** The input of a handler whose row has only a schema for the query, or only one for the body. */
export type QueryInput<S extends Schema> = LocalInput<undefined, z.output<S>>;
export type BodyInput<S extends Schema> = LocalInput<undefined, undefined, z.output<S>>;

/** Returns an address for a browser, and when it ends (ISO 8601); `null` when too many are open. */
export type OpenPage = () => Promise<{ url: string; expiresAt: string } | null>;

type Schema = z.ZodType;

export const Members = z.record(z.string(), z.unknown());
type Output<S> = S extends Schema ? z.output<S> : undefined;

/** A program with the token of this start (`token`), one with that of the peer in the path (`peer`), or any program. */
export type LocalCaller = "token" | "peer" | "anyone";

interface LocalRouteSpec<P, Q, B> {
  /** Who may call it; without it, a program with the token of this start. */
  caller?: LocalCaller;
  params?: P;
  /** Strings of the query. Without a schema the query must be empty. */
  query?: Q;
  body?: B;
  /** For a body that the proxy checks: its schema, for the API documents. Here only other members are refused. */
  shownBody?: z.ZodObject;
  textBody?: Schema;
  bounds?: readonly string[];
  invalidPath?: LocalCode;
  response: RouteAnswer;
  otherResponses?: readonly RouteAnswer[];
  /** Codes of the handler. The others are derived from the row. */
  errors?: readonly LocalCode[];
  /** True when an error of the proxy is passed on unchanged. */
  passesOnErrors?: true;
  handler(input: LocalInput<Output<P>, Output<Q>, Output<B>>): Response | Promise<Response>;
}

export interface LocalRoute extends LocalRouteSpec<Schema | undefined, Schema | undefined, Schema | undefined> {
  method: "GET" | "POST";
  /** Parameters are written as `:name`. */
  path: string;
  summary: string;
  caller: LocalCaller;
}

/** Returns a row; infers the handler's input from its schemas. */
export function localRoute<
  P extends Schema | undefined = undefined,
  Q extends Schema | undefined = undefined,
  B extends Schema | undefined = undefined,
>(route: `${LocalRoute["method"]} ${string}`, summary: string, row: LocalRouteSpec<P, Q, B>): LocalRoute {
  const [method, path] = route.split(" ");
  return { method, path, summary, caller: "token", ...row } as unknown as LocalRoute;
}

const ALWAYS: readonly LocalCode[] = [
  "CONNECTOR_HOST_FORBIDDEN",
  "CONNECTOR_ORIGIN_FORBIDDEN",
  "CONNECTOR_UNAUTHORIZED",
  "CONNECTOR_INVALID_BODY",
  "PAYLOAD_TOO_LARGE",
  "INTERNAL_ERROR",
];

/** Returns every code of this connector that a route can send. A POST stores something, so the disk can be full. */
export function localErrorsOf({ method, caller, errors = [], invalidPath, passesOnErrors }: LocalRoute): LocalCode[] {
  const codes = new Set<LocalCode>([...ALWAYS, ...errors, ...invalidPath === undefined ? [] : [invalidPath]]);
  if (passesOnErrors) codes.add("CONNECTOR_PROXY_UNREACHABLE");
  if (method === "POST") codes.add("CONNECTOR_DISK_FULL");
  if (caller === "anyone") codes.delete("CONNECTOR_UNAUTHORIZED");
  if (caller !== "token") codes.add("CONNECTOR_OFF_PORT");
  return (Object.keys(LOCAL_ERRORS) as LocalCode[]).filter((code) => codes.has(code));
}

/** Schema of a number in a query: decimal digits only. */
export function digits<S extends z.ZodType>(number: S) {
  return z.preprocess((text) => typeof text === "string" && /^\d{1,15}$/.test(text) ? Number(text) : text, number);
}

/**
 * Pause between the answer to a late body and the end of its connection. With none, the platform goes on reading the
 * body instead.
 */
const LATE_BODY_MS = 2_000;

/**
 * The body as text; `null` when it has more than `maxBytes`.
 *
 * @throws {TypeError} when it is not UTF-8
 * @throws {LocalError} `CONNECTOR_INVALID_BODY` when it is late, because callers whose bodies never end would fill the
 * memory
 */
export async function boundedText(
  { body }: Pick<Request, "body">,
  maxBytes: number,
  clock: Pick<Clock, "after">,
): Promise<string | null> {
  const reader = body?.getReader(), reading = textIn(reader, maxBytes), ms = LIMITS.bodyTimeoutMs;
  if (await settledWithin(clock, reading, ms)) return await reading;
  clock.after(LATE_BODY_MS, () => void reader?.cancel().catch(() => {}));
  throw new LocalError("CONNECTOR_INVALID_BODY", `The body did not arrive within ${ms / 1000} s`);
}

async function textIn(
  reader: ReadableStreamDefaultReader<Bytes> | undefined,
  maxBytes: number,
): Promise<string | null> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "", length = 0;
  try {
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
      length += part.value.length;
      if (length > maxBytes) return null;
      text += decoder.decode(part.value, { stream: true });
    }
    return text + decoder.decode();
  } finally {
    reader?.cancel().catch(() => {});
  }
}

export function json(value: unknown, status = 200): Response {
  return Response.json(value, { status, headers: { "Cache-Control": "no-store" } });
}

const JSON_HEADERS = { "Content-Type": "application/json", "Cache-Control": "no-store" };

export function jsonText(text: string): Response {
  return new Response(text.length > PIECE_BYTES ? inPieces(utf8Bytes(text)) : text, { headers: JSON_HEADERS });
}

/**
 * Returns a response whose JSON text comes later. `signal` is aborted when the caller goes before that, which cancels
 * the body. `request.signal` is not used, because Deno also aborts it after each success, with a warning on the
 * terminal. A failure is reported and leaves the body empty, because the status has been sent by then.
 *
 * @param owned disposed when the work has ended
 */
export function laterJsonText(
  { deps: { emit } }: Connector,
  owned: Disposable,
  work: (signal: AbortSignal) => Promise<string>,
): Response {
  const gone = new AbortController();
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      using _owned = owned;
      const text = await work(gone.signal).catch((error) => {
        emit("store_failed", { why: describeError(error) });
        return "";
      });
      if (gone.signal.aborted) return;
      if (text !== "") controller.enqueue(utf8Bytes(text));
      controller.close();
    },
    cancel: () => gone.abort(),
  });
  return new Response(body, { headers: JSON_HEADERS });
}

/** Returns the proxy's status and body unchanged, with only the headers that a caller needs. */
export function passed({ status, text, headers: given }: HttpResponse): Response {
  const headers = new Headers({ "Cache-Control": "no-store" });
  if (text !== "") headers.set("Content-Type", "application/json; charset=utf-8");
  for (const name of [HEADERS.requestId, "Retry-After"]) {
    const value = given.get(name);
    if (value !== null) headers.set(name, value);
  }
  return new Response(status === 204 ? null : text, { status, headers });
}
