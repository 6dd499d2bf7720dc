/** Compares every answer of a service with the row of its route table. */
import { assert, assertEquals } from "@std/assert";
import { type ErrorCode, ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import type { App } from "../../shared/server/http/app.ts";
import type { Route } from "../../shared/server/http/route.ts";

/** A route table as the tests read it. */
export interface Table<Deps> {
  /** The row that a request is for. */
  rowOf(method: string, path: string): Route<Deps> | undefined;
  /** Every code that a row can answer. */
  codesOf(row: Route<Deps>): ErrorCode[];
  /** The scheme that the refusal of a credential names. */
  schemeOf(row: Route<Deps> | undefined): "Svc" | "Bearer";
}

/** Returns the service with a `fetch` whose answers are compared with the table; a difference fails the test. */
export function withCheckedAnswers<Deps, Service extends Pick<App, "fetch"> & { deps: { showDetails: boolean } }>(
  service: Service,
  table: Table<Deps>,
): Service {
  return {
    ...service,
    async fetch(request, peer) {
      const answer = await service.fetch(request, peer);
      await check(table, request, answer.clone(), service.deps.showDetails);
      return answer;
    },
  };
}

async function check<Deps>(
  table: Table<Deps>,
  request: Request,
  answer: Response,
  showDetails: boolean,
): Promise<void> {
  const { method } = request, { status, headers } = answer, path = new URL(request.url).pathname;
  const row = table.rowOf(method, path);
  const text = await answer.text();
  const what = `${method} ${path.slice(0, 100)} answered ${status} ${text.slice(0, 300)}`;
  const has = (...names: string[]) => names.forEach((name) => assert(headers.get(name), `${what} without ${name}`));
  has("x-request-id");
  if (row?.limit?.per === "person" && status < 400) has("ratelimit", "ratelimit-policy");
  if (status === 204) assertEquals(row?.response.status, 204, what);
  if (status === 304) assert(request.headers.has("if-none-match"), what);
  if (method === "HEAD" || status === 204 || status === 304) return assertEquals(text, "", what);
  const isUnready = row?.response.mayBeUnready === true && status === 503;
  const type = status < 400 ? row?.response.contentType ?? "application/json" : "application/json";
  assertEquals(headers.get("content-type"), `${type}; charset=utf-8`, what);
  if (status < 400 || isUnready) {
    if (!isUnready) assertEquals(status, row?.response.status, what);
    const body = row?.response.body && JSON.parse(text);
    return assertEquals(row?.response.body?.parse(body), body, `${what}: not the shape of its row`);
  }
  const { code } = judgeEnvelope(JSON.parse(text), showDetails, what);
  assert([ERRORS[code].status].flat().includes(status), `${what}: not the status of ${code}`);
  if (status === 401) assertEquals(headers.get("www-authenticate"), table.schemeOf(row), what);
  if (status === 426) assertEquals(headers.get("upgrade"), "websocket", what);
  if (status === 429 || code === "SERVICE_UNAVAILABLE") has("retry-after");
  if (status === 405) has("allow");
  const allowed: ErrorCode[] = row ? table.codesOf(row) : ["NOT_FOUND", "METHOD_NOT_ALLOWED"];
  assert(allowed.includes(code), `${what}: its row allows ${allowed.join(", ")}`);
}

/** Asserts the form of an error body: exactly these members, `details` only where they may be shown. */
export function judgeEnvelope(body: unknown, showDetails: boolean, what: string): { code: ErrorCode; message: string } {
  const { error, ...rest } = body as { error: Record<string, unknown> };
  assertEquals(rest, {}, what);
  const { code, message, details, ...more } = error;
  assertEquals(more, {}, what);
  assert(typeof code === "string" && isErrorCode(code), `${what}: ${code} is not a code of the table`);
  assert(typeof message === "string" && message !== "", what);
  if (details !== undefined) {
    assert(showDetails, `${what}: details must not be shown`);
    assertEquals(Object.keys(details as object).sort(), ["fieldErrors", "formErrors"], what);
  }
  return { code, message };
}
