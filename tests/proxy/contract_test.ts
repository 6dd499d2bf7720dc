/**
 * Shows that the proxy's routes are those of the specification and that each row of the table is right: authentication,
 * codes for bad input, body limit. Every answer is compared with its row (proxy_world.ts). Decisions: D-60.
 */
import { assert, assertEquals } from "@std/assert";
import { AUTHENTICATORS, PROXY_ROUTES } from "../../proxy/routes.ts";
import { type ErrorCode, ERRORS } from "../../shared/protocol/errors.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { parseTicket } from "../../shared/protocol/ticket.ts";
import { refused } from "../support/registry_world.ts";
import { PROXY_URL } from "../support/world.ts";
import { type CastTest, inWorld, openCast } from "./cast.ts";
import { aitWith, codesOf, endsAfter, get, openProxy, post, PROFILE, withAit } from "./proxy_world.ts";

interface Row {
  route: string;
  /** Needs AIT and proof. */
  signed: boolean;
  /** Needs an admin token; tests/proxy/admin/ has its tests. */
  admin?: true;
  /** Code for a body or query that does not fit; `null` when the route has neither. */
  invalid: ErrorCode | null;
  /** Maximum bytes of the body. */
  maxBytes?: number;
}

const KIB = 1024;
const ROWS: readonly Row[] = [
  { route: "GET /health", signed: false, invalid: null },
  { route: "POST /hooks/agent", signed: true, invalid: "PROXY_HOOK_INVALID_JSON", maxBytes: 256 * KIB },
  { route: "GET /v1/relay/connect", signed: true, invalid: null },
  { route: "POST /pair/start", signed: true, invalid: "PROXY_PAIR_INVALID_BODY" },
  { route: "POST /pair/confirm", signed: true, invalid: "PROXY_PAIR_INVALID_BODY" },
  { route: "POST /pair/accept", signed: true, invalid: "PROXY_PAIR_INVALID_BODY" },
  { route: "POST /pair/status", signed: true, invalid: "PROXY_PAIR_INVALID_BODY" },
  { route: "POST /v1/relay/delivery-receipts", signed: true, invalid: "PROXY_RELAY_RECEIPT_INVALID" },
  { route: "GET /v1/relay/delivery-receipts", signed: true, invalid: "PROXY_RELAY_RECEIPT_INVALID_QUERY" },
  { route: "POST /v1/relay/deliveries", signed: true, invalid: "PROXY_RELAY_RECEIPT_INVALID" },
  { route: "GET /pair/peers", signed: true, invalid: null },
  { route: "POST /pair/remove", signed: true, invalid: "PROXY_PAIR_INVALID_BODY" },
  { route: "GET /", signed: false, invalid: null },
  { route: "GET /healthz", signed: false, invalid: null },
  { route: "GET /readyz", signed: false, invalid: null },
  ...["connections", "queues", "issuers", "deliveries", "refusals", "series"].map((name): Row => ({
    route: `GET /v1/admin/relay/${name}`,
    signed: false,
    admin: true,
    invalid: "PROXY_ADMIN_INVALID_QUERY",
  })),
  { route: "GET /v1/admin/relay/overview", signed: false, admin: true, invalid: null },
];

/** Rows about the service itself. */
const DOCUMENTS = ["GET /openapi.json", "GET /docs", "GET /page.", "GET /icon.svg"];

const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
const isDocument = (name: string) => DOCUMENTS.some((document) => name.startsWith(document));
const SIGNED = ROWS.filter((row) => row.signed).map((row) => {
  const [method = "", target = ""] = row.route.split(" ");
  return { ...row, method, target };
});

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

Deno.test("the table has every route that is listed here, and no other", () => {
  const rows = PROXY_ROUTES.map(nameOf).filter((name) => !isDocument(name));
  assertEquals(rows.toSorted(), ROWS.map((row) => row.route).toSorted());
});

Deno.test("every row is complete: known authenticator, a code for bad input, codes of the error table", () => {
  for (const row of PROXY_ROUTES) {
    const what = nameOf(row);
    assert(Object.hasOwn(AUTHENTICATORS, row.auth), what);
    const wanted = ROWS.find(({ route }) => route === what);
    assertEquals(row.auth !== "none", wanted?.signed || wanted?.admin || false, what);
    assertEquals(Boolean(row.body || row.query), Boolean(row.invalid), what);
    assertEquals(row.limit?.per, wanted?.admin ? "admin" : undefined, `${what}: other limits are per agent (check 9)`);
    for (const code of codesOf(row)) assert(Object.hasOwn(ERRORS, code), `${what} ${code}`);
  }
});

Deno.test("each row lists the codes of the checks that it needs, and not those of the others", () => {
  const asks: [route: string, trust: boolean, access: boolean][] = [
    ["POST /hooks/agent", true, true],
    ["GET /v1/relay/connect", false, true],
    ["POST /v1/relay/delivery-receipts", false, true],
    ["GET /v1/relay/delivery-receipts", false, true],
    ["POST /v1/relay/deliveries", false, true],
    ["POST /pair/start", false, false],
    // A visit token for agents of other registries.
    ["POST /pair/confirm", false, true],
    ["POST /pair/accept", false, false],
    ["POST /pair/status", false, false],
    ["GET /pair/peers", false, false],
    ["POST /pair/remove", false, true],
  ];
  assertEquals(asks.map(([route]) => route).toSorted(), SIGNED.map(({ route }) => route).toSorted());
  for (const [route, trust, access] of asks) {
    const row = PROXY_ROUTES.find((candidate) => nameOf(candidate) === route);
    assert(row);
    const codes = new Set(codesOf(row));
    assertEquals(codes.has("PROXY_AUTH_FORBIDDEN"), trust, route);
    assertEquals(codes.has("PROXY_AGENT_ACCESS_REQUIRED"), access, route);
    assertEquals(codes.has("PROXY_AGENT_ACCESS_INVALID"), access, route);
    for (const code of ["PROXY_AUTH_MISSING_TOKEN", "PROXY_AUTH_REPLAY", "PROXY_AUTH_REVOKED"] as const) {
      assert(codes.has(code), `${route} ${code}`);
    }
    assert(codes.has("PROXY_RATE_LIMIT_EXCEEDED"), route);
  }
});

const JUNK: (string | Uint8Array<ArrayBuffer>)[] = [
  "",
  " ",
  "{",
  "{'a':1}",
  "\ufeff{}",
  "[1,]",
  "undefined",
  Uint8Array.of(0x7b, 0xff, 0x7d),
  // Overlong, and half of a surrogate pair.
  Uint8Array.of(0x22, 0xc0, 0xaf, 0x22),
  Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22),
  "[".repeat(20_000),
];
const WRONG = ["null", "[]", '"text"', "{}", '{"__proto__":{}}', "[".repeat(9000) + "]".repeat(9000)];

Deno.test("each route with a body answers its own code when the body is not JSON or does not fit", async (t) => {
  const { w, a, b } = await openCast();
  await using _ = w;
  for (const { route, method, target, invalid } of SIGNED) {
    if (method !== "POST" || !invalid) continue;
    await t.step(route, async () => {
      const bodies = target === "/hooks/agent" ? JUNK : ["", "{", ...WRONG];
      for (const body of bodies) {
        await refused(await w.fetch(await w.signed(a, { target, body, recipient: b.agent.did })), invalid, 400);
      }
    });
  }
});

test("the receipt query is refused unless it names one request and one agent", async ({ w, a, b }) => {
  const path = "/v1/relay/delivery-receipts";
  const did = b.agent.did;
  for (
    const query of [
      "",
      "?requestId=abcdefgh",
      `?recipientAgentDid=${did}`,
      `?requestId=abcdefgh&requestId=abcdefgi&recipientAgentDid=${did}`,
      `?requestId=abcdefgh&recipientAgentDid=${a.owner.did}`,
    ]
  ) {
    await refused(await get(w, a, path + query), "PROXY_RELAY_RECEIPT_INVALID_QUERY");
  }
  assertEquals((await get(w, a, `${path}?requestId=abcdefgh&recipientAgentDid=${did}`)).status, 200);
});

Deno.test("an unknown path is 404 and a wrong method 405, with the envelope and a request ID", async (t) => {
  await using w = await openProxy();
  for (
    const path of ["/x", "/hooks", "/hooks/agent/", "/pair", "/v1/relay", "/v1/agents", "/HOOKS/AGENT", "/pair/start/x"]
  ) {
    await t.step(path, async () => void await refused(await w.fetch(PROXY_URL + path), "NOT_FOUND"));
  }
  for (const { route, method, target } of SIGNED) {
    await t.step(`not ${route}`, async () => {
      const other = ROWS.some((row) => row.route === `${method === "GET" ? "POST" : "GET"} ${target}`);
      for (
        const wrong of ["PUT", "OPTIONS", "PATCH", "DELETE", ...(other ? [] : [method === "GET" ? "POST" : "GET"])]
      ) {
        await refused(await w.fetch(PROXY_URL + target, { method: wrong }), "METHOD_NOT_ALLOWED");
      }
    });
  }
});

test("a body is at most 256 KiB for a message and 64 KiB elsewhere, by header and by bytes", async ({ w, a, b }, t) => {
  for (const { route, method, target, maxBytes = 64 * KIB } of SIGNED) {
    if (method !== "POST") continue;
    await t.step(route, async () => {
      const padded = (bytes: number) => JSON.stringify({ message: "x".repeat(bytes - 14) });
      const send = async (body: string, headers: Record<string, string> = {}) =>
        await w.fetch(await w.signed(a, { target, body, recipient: b.agent.did, headers }));
      assertEquals(padded(maxBytes).length, maxBytes);
      await refused(await send(padded(maxBytes + 1)), "PAYLOAD_TOO_LARGE");
      await refused(await send("{}", { "content-length": String(maxBytes + 1) }), "PAYLOAD_TOO_LARGE");
      await refused(await send(padded(maxBytes + 1), { Authorization: "Svc junk" }), "PAYLOAD_TOO_LARGE");
      const fits = await send(padded(maxBytes));
      assert(fits.status === 202 || fits.status === 400, `${fits.status}`);
    });
  }
});

Deno.test("a body that does not arrive in 10 s is 408, before any other check", async () => {
  await using w = await openProxy();
  const body = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(8)) });
  const asking = w.fetch(`${PROXY_URL}/hooks/agent`, { method: "POST", body });
  await flushTasks();
  await refused(await endsAfter(w, 10_000, asking), "REQUEST_TIMEOUT");
});

test("the Host header of a request appears in no answer and in no ticket", async ({ w, a }) => {
  const signed = await w.signed(a, { target: "/pair/start", body: JSON.stringify({ initiatorProfile: PROFILE }) });
  const foreign = new Request("https://evil.example/pair/start", signed);
  const answer = await w.proxy.fetch(foreign, w.peer);
  const { ticket } = await answer.clone().json();
  assertEquals([answer.status, parseTicket(ticket)?.origin], [200, PROXY_URL]);
  assert(!JSON.stringify([await answer.text(), ...answer.headers]).includes("evil.example"));
});

Deno.test("error details are shown in development and not in production", async () => {
  for (const environment of ["dev", "production"] as const) {
    await using w = await openProxy({ proxy: { environment } });
    const a = await w.agent();
    const text = await refused(
      await post(w, a, "/pair/start", { initiatorProfile: { agentName: 7 } }),
      "PROXY_PAIR_INVALID_BODY",
    );
    assertEquals(JSON.parse(text).error.details !== undefined, environment === "dev");
    // A refused token is never repeated in an answer.
    const marked = withAit(a, await aitWith(w, a, { name: "marked-by-the-test" }) + "x");
    assert(!(await (await w.message(marked, a)).text()).includes("marked"));
  }
});
