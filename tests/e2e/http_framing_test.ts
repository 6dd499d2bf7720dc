/**
 * Broken and ambiguous framing: after any first request, the bytes behind it are never executed as a second request. A
 * smuggled request would make an API key; the test counts the keys at the end.
 */
import { assert, assertEquals } from "@std/assert";
import type { ApiKeyList } from "../../shared/protocol/api/accounts.ts";
import { Service } from "../support/process.ts";
import { RawConnection, rawRequest, usualLines } from "../support/raw_http.ts";
import { steps } from "../support/steps.ts";

let service: Service;
Deno.test.beforeAll(async () => {
  service = await Service.open();
});
Deno.test.afterAll(() => service?.[Symbol.asyncDispose]());

/** A complete request that leaves a trace: an API key of this name. */
function smuggled(name: string): string {
  const body = JSON.stringify({ name });
  const lines = [...usualLines(service.url, body), ["Authorization", `Bearer ${service.apiKey}`] as const];
  return rawRequest("POST", "/v1/me/api-keys", lines, body);
}

async function keyNames(): Promise<string[]> {
  const headers = { Authorization: `Bearer ${service.apiKey}` };
  const response = await fetch(`${service.url}/v1/me/api-keys`, { headers });
  return (await response.json() as ApiKeyList).apiKeys.map(({ name }) => name);
}

/** A last request, after which the server closes the connection. */
const LAST = "GET /v1/metadata HTTP/1.1\r\nHost: svc\r\nConnection: close\r\n\r\n";

/** Sends bytes and a last request behind them; returns the statuses until the server closes. */
async function send(bytes: string): Promise<number[]> {
  await using connection = await RawConnection.open(service.url);
  await connection.send(bytes + LAST);
  return (await connection.answers()).map(({ status }) => status);
}

const POST = "POST /v1/invites/redeem HTTP/1.1\r\n";
const HOST = "Host: svc\r\n";

/** Heads that two parsers could read differently; a complete second request follows each. */
const AMBIGUOUS: [name: string, first: string][] = [
  [
    "Content-Length and Transfer-Encoding",
    `${POST}${HOST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    "Transfer-Encoding and Content-Length",
    `${POST}${HOST}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  ],
  ["Transfer-Encoding: chunked, identity", `${POST}${HOST}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
  ["Transfer-Encoding: xchunked", `${POST}${HOST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ["Transfer-Encoding under HTTP/1.0", `${POST.replace("1.1", "1.0")}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["two different Content-Length", `${POST}${HOST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
  ["Content-Length: 2, 2", `${POST}${HOST}Content-Length: 2, 2\r\n\r\n{}`],
  ["Content-Length: +2", `${POST}${HOST}Content-Length: +2\r\n\r\n{}`],
  ["Content-Length: 0x2", `${POST}${HOST}Content-Length: 0x2\r\n\r\n{}`],
  ["Content-Length: -1", `${POST}${HOST}Content-Length: -1\r\n\r\n`],
  ["a folded header", `${POST}${HOST}X-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\n{}`],
  ["a space before the colon", `${POST}${HOST}Content-Length : 2\r\n\r\n{}`],
  ["NUL in a header", `${POST}${HOST}X-Nul: a\0b\r\nContent-Length: 2\r\n\r\n{}`],
  ["two Hosts", `${POST}${HOST}Host: other\r\nContent-Length: 2\r\n\r\n{}`],
  ["130 headers", `${POST}${HOST}${"X-Many: a\r\n".repeat(130)}Content-Length: 2\r\n\r\n{}`],
  ["a head over 64 KiB", `${POST}${HOST}X-Long: ${"x".repeat(70_000)}\r\nContent-Length: 2\r\n\r\n{}`],
  ["a chunk size that is not a number", `${POST}${HOST}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n`],
  ["a chunk longer than its size", `${POST}${HOST}Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n`],
];

Deno.test("ambiguous framing is refused or closed, and no request behind it is executed", async (t) => {
  await steps(t, AMBIGUOUS, async ([name, first]) => {
    const statuses = await send(first + smuggled(name.slice(0, 60)));
    assert(statuses.length <= 1, `answers ${statuses}`);
    assert(statuses.every((status) => status === 400 || status === 431), `answers ${statuses}`);
    assert(!(await keyNames()).includes(name.slice(0, 60)));
  });
});

Deno.test("a request hidden in the body of a refused one is not executed", async (t) => {
  const inBody = (name: string, head: string, padding = 0) => {
    const body = smuggled(name) + " ".repeat(padding);
    return `${head}${HOST}Content-Length: ${body.length}\r\n\r\n${body}`;
  };
  const rows: [name: string, bytes: string, status: number][] = [
    ["unknown path", inBody("unknown path", "POST /nowhere HTTP/1.1\r\n"), 404],
    ["wrong method", inBody("wrong method", "PUT /v1/me HTTP/1.1\r\n"), 405],
    ["no credential", inBody("no credential", "POST /v1/me/api-keys HTTP/1.1\r\n"), 401],
    ["too large", inBody("too large", POST, 70_000), 413],
    ["no JSON", inBody("no JSON", POST), 400],
    ["GET with a body", inBody("GET with a body", "GET /v1/metadata HTTP/1.1\r\n"), 200],
    ["no upgrade", inBody("no upgrade", "GET /v1/relay/connect HTTP/1.1\r\n"), 401],
  ];
  await steps(t, rows, async ([name, bytes, status]) => {
    const [first, ...more] = await send(bytes);
    assertEquals(first, status);
    assertEquals(more, more.length === 0 ? [] : [200], "closed, or the last request alone");
    assert(!(await keyNames()).includes(name));
  });
});

Deno.test("two well-formed requests on one connection are both executed", async () => {
  const first = `${POST}${HOST}Content-Length: 2\r\n\r\n{}`;
  assertEquals(await send(first + smuggled("pipelined")), [400, 201, 200]);
  assert((await keyNames()).includes("pipelined"), "the trace that the other tests look for does appear");
});
