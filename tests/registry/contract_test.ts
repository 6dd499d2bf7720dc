/**
 * Shows that the registry has the required routes and that each row of the route table holds:
 * callers, codes for invalid input, limits. Each answer is compared with its row (support/registry_world.ts).
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { REGISTRY_ROUTES } from "../../registry/routes.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { type ErrorCode, ERRORS } from "../../shared/protocol/errors.ts";
import { AUTHENTICATORS } from "../../registry/auth.ts";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import { codesOf, moveTo, openRegistry, outcome, refused, serviceHeaders, tally } from "../support/registry_world.ts";
import { BOOTSTRAP_SECRET, type Person, REGISTRY_URL, type TestAgent, type World } from "../support/world.ts";

/** Who may call. */
type Who = "public" | "bootstrap" | "key" | "admin" | "service" | "service or public" | "agent";

interface Promises {
  /** Code for a user's key on an admin's route. */
  role?: ErrorCode;
  /** Code for a malformed ID in the path. */
  badId?: ErrorCode;
  /** Code for an invalid query. */
  badQuery?: ErrorCode;
  /** Code for an invalid body, and bodies of the wrong types. */
  badBody?: ErrorCode;
  wrong?: unknown[];
  /** An empty body stands for `{}`. */
  mayBeEmpty?: true;
  /** Requests a minute; `null` for none. */
  limit: number | null;
}

const NAMES = [null, "", "  ", 1, [], {}, "x".repeat(65), "a\u0000b", "a\u202eb", "\ud800"];
const ID = "01KHYQ5H00AAAAAAAAAAAAAAAA";
const HUMAN = `did:svc:registry.example.test:human:${ID}`;
const AGENT = `did:svc:registry.example.test:agent:${ID}`;
const REFRESH = "AGENT_AUTH_REFRESH_INVALID", VALIDATE = "AGENT_AUTH_VALIDATE_INVALID";
const AGENT_PATH = "AGENT_REVOKE_INVALID_PATH", SERVICE_ROLE = "INTERNAL_SERVICE_FORBIDDEN";
const NO_PERSON = "PERSON_NOT_FOUND";
const NO_SERVICE = "INTERNAL_SERVICE_NOT_FOUND";

/** What most routes for admins have. */
const ADMIN: Promises = { role: "ADMIN_REQUIRED", limit: 600 };

/** Suspension and restore of a person. */
const SUSPENSION: Promises = {
  ...ADMIN,
  badId: NO_PERSON,
  badBody: "ADMIN_INVALID_BODY",
  wrong: [null, "", "  ", 1, [], {}, "x".repeat(201), "a\u0000b", "a\u202eb", "\ud800"].map((reason) => ({ reason })),
  mayBeEmpty: true,
};

/** Every required route, with its conditions and those that decisions add. */
const SPEC_ROWS: [route: string, who: Who, promises: Promises][] = [
  ["GET /health", "public", { limit: null }],
  ["GET /.well-known/svc-keys.json", "public", { limit: null }],
  ["GET /v1/crl", "service or public", { limit: 30 }],
  ["GET /v1/resolve/:id", "public", { badId: "AGENT_RESOLVE_INVALID_PATH", limit: 10 }],
  ["GET /v1/metadata", "public", { limit: null }],
  ["POST /v1/invites/redeem", "public", {
    badBody: "INVITE_REDEEM_INVALID",
    wrong: [{}, { code: 1 }, { code: "" }, { code: null }, { code: ["x"] }, { code: "x".repeat(129) }, {
      code: "x",
      displayName: 1,
    }, { code: "x", apiKeyName: null }],
    limit: 60,
  }],
  ["POST /v1/agents/auth/refresh", "agent", {
    badBody: REFRESH,
    wrong: [{}, { refreshToken: 1 }, { refreshToken: "" }, { refreshToken: "x", recovery: "yes" }],
    limit: 20,
  }],
  ["POST /v1/agents/auth/visit", "agent", {
    badBody: VALIDATE,
    wrong: [{}, { audience: 1 }, { audience: "b.example" }, { audience: "https://b.example/" }],
    limit: 20,
  }],
  ["POST /v1/agents/auth/validate", "service or public", {
    badBody: VALIDATE,
    wrong: [{}, { agentDid: AGENT }, { aitJti: ID }, { agentDid: HUMAN, aitJti: ID }, { agentDid: AGENT, aitJti: 1 }],
    limit: 120,
  }],
  ["GET /v1/me", "key", { limit: 600 }],
  ["POST /v1/invites", "admin", {
    role: "INVITE_CREATE_FORBIDDEN",
    badBody: "INVITE_CREATE_INVALID",
    wrong: [1, "", "tomorrow", [], {}, "2020-01-01T00:00:00Z"].map((expiresAt) => ({ expiresAt })),
    mayBeEmpty: true,
    limit: 600,
  }],
  ["POST /v1/me/api-keys", "key", {
    badBody: "API_KEY_CREATE_INVALID",
    wrong: NAMES.map((name) => ({ name })),
    mayBeEmpty: true,
    limit: 600,
  }],
  ["GET /v1/me/api-keys", "key", { limit: 600 }],
  ["DELETE /v1/me/api-keys/:id", "key", { badId: "API_KEY_REVOKE_INVALID_PATH", limit: 600 }],
  ["GET /v1/agents", "key", { badQuery: "AGENT_LIST_INVALID_QUERY", limit: 600 }],
  ["POST /v1/agents/challenge", "key", {
    badBody: "AGENT_REGISTRATION_CHALLENGE_INVALID",
    wrong: [{}, { publicKey: 1 }, { publicKey: null }, { publicKey: ID }],
    limit: 600,
  }],
  ["POST /v1/agents", "key", {
    badBody: "AGENT_REGISTRATION_INVALID",
    wrong: [{}, { name: "alpha" }, { name: 1, publicKey: 2, challengeId: 3, challengeSignature: 4 }],
    limit: 600,
  }],
  ["POST /v1/agents/:id/reissue", "key", { badId: AGENT_PATH, limit: 600 }],
  ["DELETE /v1/agents/:id/auth/revoke", "key", { badId: AGENT_PATH, limit: 600 }],
  ["DELETE /v1/agents/:id", "key", { badId: AGENT_PATH, limit: 600 }],
  ["POST /v1/admin/bootstrap", "bootstrap", {
    badBody: "ADMIN_BOOTSTRAP_INVALID",
    wrong: NAMES.flatMap((name) => [{ displayName: name }, { apiKeyName: name }]),
    mayBeEmpty: true,
    limit: 10,
  }],
  ["POST /v1/admin/internal-services", "admin", {
    role: SERVICE_ROLE,
    badBody: "INTERNAL_SERVICE_INVALID",
    wrong: [{}, { name: "a-b" }, { scopes: ["crl.read"] }, { name: "a-b", scopes: "crl.read" }],
    limit: 600,
  }],
  ["POST /internal/v1/identity/agent-ownership", "service", {
    badBody: "AGENT_OWNERSHIP_INVALID",
    wrong: [{}, { ownerDid: HUMAN }, { agentDid: AGENT }, { ownerDid: AGENT, agentDid: HUMAN }, {
      ownerDid: 1,
      agentDid: AGENT,
    }],
    limit: null,
  }],
];

/** Routes that the project adds. */
const PROJECT_ROWS: [route: string, who: Who, promises: Promises][] = [
  ["GET /v1/invites", "admin", ADMIN],
  ["DELETE /v1/invites/:id", "admin", { ...ADMIN, badId: "INVITE_NOT_FOUND" }],
  ["GET /v1/agents/:id", "key", { badId: AGENT_PATH, limit: 600 }],
  ["GET /v1/admin/internal-services", "admin", { role: SERVICE_ROLE, limit: 600 }],
  ["POST /v1/admin/internal-services/:id/rotate", "admin", { role: SERVICE_ROLE, badId: NO_SERVICE, limit: 600 }],
  ["DELETE /v1/admin/internal-services/:id", "admin", { role: SERVICE_ROLE, badId: NO_SERVICE, limit: 600 }],
  ["GET /v1/admin/audit", "admin", { ...ADMIN, badQuery: "AUDIT_INVALID_QUERY" }],
  ["GET /v1/admin/people", "admin", { ...ADMIN, badQuery: "ADMIN_INVALID_QUERY" }],
  ["GET /v1/admin/people/:id", "admin", { ...ADMIN, badId: NO_PERSON }],
  ["POST /v1/admin/people/:id/suspend", "admin", SUSPENSION],
  ["POST /v1/admin/people/:id/restore", "admin", SUSPENSION],
  ["GET /v1/admin/agents", "admin", { ...ADMIN, badQuery: "ADMIN_INVALID_QUERY" }],
  ["GET /v1/admin/agents/:id", "admin", { ...ADMIN, badId: AGENT_PATH }],
  ["DELETE /v1/admin/agents/:id", "admin", { ...ADMIN, badId: AGENT_PATH }],
  ["DELETE /v1/admin/agents/:id/auth/revoke", "admin", { ...ADMIN, badId: AGENT_PATH }],
  ["POST /v1/admin/keys/rotate", "admin", ADMIN],
  ["GET /healthz", "public", { limit: null }],
  ["GET /readyz", "public", { limit: null }],
  ["GET /v1/admin/counts", "admin", ADMIN],
  ["POST /v1/admin/tokens", "admin", ADMIN],
  ["POST /v1/admin/console-codes", "admin", ADMIN],
  ["GET /openapi.json", "public", { limit: null }],
  ...["", "join", "page.css", "page.js", "icon.svg", "docs"].map((path): [string, Who, Promises] => [
    `GET /${path}`,
    "public",
    { limit: null },
  ]),
  ...[
    "messages",
    "pairing",
    "sessions",
    "agents",
    "accounts",
    "invites",
    "relay",
    "operation",
    "admins",
    "service",
    "errors",
  ]
    .map(
      (name): [string, Who, Promises] => [`GET /docs/${name}`, "public", { limit: null }],
    ),
];

const ROWS = [...SPEC_ROWS, ...PROJECT_ROWS].map(([route, who, promises]) => {
  const [method = "", path = ""] = route.split(" ");
  return { route, method, path, who, ...promises };
});

const JUNK = [
  "{",
  "null",
  "[]",
  "[{}]",
  '"text"',
  "1",
  "true",
  "\ufeff{}",
  "{'a':1}",
  "[".repeat(20_000) + "]".repeat(20_000),
  Uint8Array.of(0x7b, 0xff, 0x7d),
  Uint8Array.of(0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d),
];
const BAD_IDS = [
  "abc",
  ID.toLowerCase(),
  ID.slice(1),
  `${ID}A`,
  ...["I", "L", "O", "U"].map((letter) => ID.slice(1) + letter),
  ...["I", "L", "O", "U", "-", "."].map((letter) => ID.slice(0, -1) + letter),
  "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
  "%00",
  "..%2f",
  "%ff",
  "%zz",
  `%20${ID}`,
  `${ID}%0A`,
];

interface Cast {
  w: World;
  admin: Person;
  user: Person;
  agent: TestAgent;
  service: Record<string, string>;
}

/** Opens a world with an admin, a user, an agent and the credentials of a service with every scope. */
async function cast(): Promise<Cast> {
  const w = await openRegistry();
  const admin = await w.admin();
  const agent = await w.agent();
  const service = await serviceHeaders(w, "identity.read", "auth.validate", "crl.read");
  return { w, admin, user: agent.owner, agent, service };
}

/** The request with the credentials that it needs. */
async function permitted(
  c: Cast,
  row: (typeof ROWS)[number],
  target: string,
  body?: string | Uint8Array<ArrayBuffer>,
): Promise<Request> {
  const { w, agent, admin, user, service } = c;
  if (row.who === "agent") {
    return await w.signed(agent, { base: REGISTRY_URL, target, ...(body === undefined ? {} : { body }) });
  }
  const headers: Record<Exclude<Who, "agent">, Record<string, string>> = {
    "public": {},
    "bootstrap": { "x-bootstrap-secret": BOOTSTRAP_SECRET },
    "key": { Authorization: `Bearer ${user.apiKey}` },
    "admin": { Authorization: `Bearer ${admin.apiKey}` },
    "service": service,
    "service or public": service,
  };
  return new Request(REGISTRY_URL + target, { method: row.method, body: body ?? null, headers: headers[row.who] });
}

const target = (row: { path: string }, id = ID) => row.path.replace(":id", id);

Deno.test("the route table has every required route, and no other than those listed here", () => {
  assertEquals(REGISTRY_ROUTES.map((row) => `${row.method} ${row.path}`).sort(), ROWS.map((row) => row.route).sort());
});

Deno.test("every route has a known authenticator, a stated limit, known codes and a code for invalid input", () => {
  for (const row of REGISTRY_ROUTES) {
    const what = `${row.method} ${row.path}`;
    assert(Object.hasOwn(AUTHENTICATORS, row.auth), what);
    assertEquals(row.limit?.requests ?? null, ROWS.find(({ route }) => route === what)?.limit, what);
    assertEquals(row.limit?.windowMs ?? 60_000, 60_000, what);
    assertEquals(Boolean(row.params), Boolean(row.invalidPath), what);
    assertEquals(Boolean(row.body || row.query), Boolean(row.invalid), what);
    assertEquals(row.path.includes(":id"), Boolean(row.params), what);
    for (const code of codesOf(row)) assert(Object.hasOwn(ERRORS, code), `${what} ${code}`);
  }
});

Deno.test("each route answers its authentication code when the credential is missing", async (t) => {
  const c = await cast();
  await using w = c.w;
  const codes: Record<Who, ErrorCode | null> = {
    "public": null,
    "service or public": null,
    "bootstrap": "ADMIN_BOOTSTRAP_UNAUTHORIZED",
    "key": "API_KEY_MISSING",
    "admin": "API_KEY_MISSING",
    "service": "INTERNAL_SERVICE_UNAUTHORIZED",
    "agent": "AGENT_AUTH_REFRESH_UNAUTHORIZED",
  };
  for (const row of ROWS) {
    const code = codes[row.who];
    if (code === null) continue;
    await t.step(row.route, async () => {
      const body = row.who === "agent" ? { refreshToken: "svc_rft_x", audience: "https://b.example" } : undefined;
      const answer = await w.ask(row.method, target(row), { body });
      assertEquals(answer.headers.get("www-authenticate"), row.who === "agent" ? "Svc" : "Bearer");
      await refused(answer, code);
    });
  }
});

Deno.test("each route answers its authentication code when the credential is wrong", async (t) => {
  const c = await cast();
  await using w = c.w;
  const pat = `svc_pat_${toBase64Url(w.random.bytes(32))}`;
  const basic = { Authorization: `Basic ${btoa("user:password")}` };
  const service = { ...c.service, "X-Svc-Service-Secret": `svc_srv_${"A".repeat(43)}` };
  const wrong: [Who[], Record<string, string>, ErrorCode][] = [
    [["bootstrap"], { "x-bootstrap-secret": `${BOOTSTRAP_SECRET}.` }, "ADMIN_BOOTSTRAP_UNAUTHORIZED"],
    [["bootstrap"], { Authorization: `Bearer ${c.admin.apiKey}` }, "ADMIN_BOOTSTRAP_UNAUTHORIZED"],
    [["key", "admin"], { Authorization: `Bearer ${pat}` }, "API_KEY_INVALID"],
    [["key", "admin"], basic, "API_KEY_INVALID"],
    [["key", "admin"], { Authorization: `Svc ${c.agent.identity.ait}` }, "API_KEY_INVALID"],
    [["service", "service or public"], service, "INTERNAL_SERVICE_UNAUTHORIZED"],
    [["service"], { Authorization: `Bearer ${c.admin.apiKey}` }, "INTERNAL_SERVICE_UNAUTHORIZED"],
    [["agent"], { Authorization: `Bearer ${c.user.apiKey}` }, "AGENT_AUTH_REFRESH_UNAUTHORIZED"],
  ];
  for (const row of ROWS) {
    for (const [who, headers, code] of wrong) {
      if (!who.includes(row.who)) continue;
      await t.step(`${row.route} with ${Object.keys(headers).join(", ")}`, async () => {
        const body = row.who === "agent" ? { refreshToken: "svc_rft_x", audience: "https://b.example" } : undefined;
        const answer = await w.ask(row.method, target(row), { headers, body });
        assertEquals(answer.headers.get("www-authenticate"), row.who === "agent" ? "Svc" : "Bearer");
        await refused(answer, code);
      });
    }
  }
});

Deno.test("each admin route answers 403 to a user's key before it reads the input", async (t) => {
  const c = await cast();
  await using w = c.w;
  for (const row of ROWS.filter(({ who }) => who === "admin")) {
    await t.step(row.route, async () => {
      const body = row.badBody && "{";
      const answer = await w.ask(row.method, target(row, "abc"), { apiKey: c.user.apiKey, body });
      await refused(answer, row.role as ErrorCode);
    });
  }
});

Deno.test("each route with a body answers its own code when the body is invalid", async (t) => {
  const c = await cast();
  await using _ = c.w;
  for (const row of ROWS.filter(({ badBody }) => badBody !== undefined)) {
    await t.step(row.route, async () => {
      const texts = (row.wrong ?? []).map((value) => JSON.stringify(value));
      for (const [i, body] of [...JUNK, ...(row.mayBeEmpty ? [] : ["", " "]), ...texts].entries()) {
        moveTo(c.w, i);
        const answer = await c.w.fetch(await permitted(c, row, target(row), body));
        const text = await refused(answer, row.badBody as ErrorCode, 400);
        assert(JSON.parse(text).error.details, `${row.route} ${body}: details are shown in dev`);
      }
    });
  }
});

Deno.test("each route with an ID answers its own code when the ID is malformed or unknown", async (t) => {
  const c = await cast();
  await using w = c.w;
  const unknown: Record<string, ErrorCode> = {
    "/v1/resolve/:id": "AGENT_NOT_FOUND",
    "/v1/agents/:id": "AGENT_NOT_FOUND",
    "/v1/agents/:id/reissue": "AGENT_NOT_FOUND",
    "/v1/agents/:id/auth/revoke": "AGENT_NOT_FOUND",
    "/v1/me/api-keys/:id": "API_KEY_NOT_FOUND",
    "/v1/invites/:id": "INVITE_NOT_FOUND",
    "/v1/admin/people/:id": NO_PERSON,
    "/v1/admin/people/:id/suspend": NO_PERSON,
    "/v1/admin/people/:id/restore": NO_PERSON,
    "/v1/admin/agents/:id": "AGENT_NOT_FOUND",
    "/v1/admin/agents/:id/auth/revoke": "AGENT_NOT_FOUND",
    "/v1/admin/internal-services/:id": NO_SERVICE,
    "/v1/admin/internal-services/:id/rotate": NO_SERVICE,
  };
  for (const row of ROWS.filter(({ path }) => path.includes(":id"))) {
    await t.step(row.route, async () => {
      for (const [i, id] of BAD_IDS.entries()) {
        moveTo(w, i);
        const answer = await w.fetch(await permitted(c, row, target(row, id)));
        assertEquals(await outcome(answer), `${ERRORS[row.badId as ErrorCode].status} ${row.badId}`, id);
      }
      for (const id of [ID, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000"]) {
        await refused(await w.fetch(await permitted(c, row, target(row, id))), unknown[row.path] as ErrorCode);
      }
    });
  }
});

Deno.test("each limited route answers 429 with Retry-After when its limit is exceeded", async (t) => {
  const c = await cast();
  await using w = c.w;
  await w.clock.advance(60_000);
  for (const { id, apiKey } of [c.user, c.admin]) {
    await w.kv.set(KEYS.window("api-key", id), [[w.clock.now(), 599]]);
    assertEquals(await tally([w.ask("GET", "/v1/me", { apiKey })]), { 200: 1 });
  }
  for (const [i, row] of ROWS.entries()) {
    if (row.limit === null) continue;
    await t.step(`${row.route}: ${row.limit}`, async () => {
      moveTo(w, 1000 + i);
      // The windows of the keys are full. Requests without a credential use up those of an address.
      const spend = row.limit === 600 ? 0 : row.limit ?? 0;
      const body = row.path.endsWith("/redeem") ? { code: "svc_inv_unknown" } : row.badBody && {};
      const once = () => w.ask(row.method, target(row), { body });
      for (const answer of await Promise.all(Array.from({ length: spend }, once))) {
        assert(answer.status !== 429);
        assertMatch(answer.headers.get("ratelimit-policy") ?? "", new RegExp(`^"[a-z-]+";q=${row.limit};w=60$`));
        assertMatch(answer.headers.get("ratelimit") ?? "", /^"[a-z-]+";r=\d+;t=\d+$/);
        await answer.body?.cancel();
      }
      const over = row.limit === 600
        ? await w.fetch(await permitted(c, row, target(row, "abc"), body && "{"))
        : await once();
      const seconds = Number(over.headers.get("retry-after"));
      assert(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `Retry-After ${seconds}`);
      assertMatch(over.headers.get("ratelimit-policy") ?? "", new RegExp(`;q=${row.limit};w=60$`));
      assertMatch(over.headers.get("ratelimit") ?? "", /;r=0;t=\d+$/);
      await refused(over, "RATE_LIMIT_EXCEEDED");
    });
  }
});
