/**
 * A small table of routes, one of each kind, composed as a service's table is, for the tests of the request pipeline.
 */
import { assertEquals } from "@std/assert";
import * as z from "zod";
import { ServiceError } from "../../../../shared/protocol/errors.ts";
import { ulidSource } from "../../../../shared/protocol/ids.ts";
import { type App, type AppDeps, createApp } from "../../../../shared/server/http/app.ts";
import { type Peer, TrustedProxies } from "../../../../shared/server/http/client_ip.ts";
import { GroupCommit } from "../../../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../../../shared/server/store/store_errors.ts";
import { RateLimiter } from "../../../../shared/server/rate_limit.ts";
import { Metrics } from "../../../../shared/server/metrics/metrics.ts";
import {
  type Authenticators,
  json,
  type Route,
  routeFor,
  type RouteLimit,
} from "../../../../shared/server/http/route.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { seededRandom } from "../../../support/seeded_random.ts";
import { MAX_CHECKS, openTestKv } from "../../../support/test_store.ts";

export interface Callers {
  none: null;
  key: string;
  service: string | null;
  glancing: string;
}

export const AUTHENTICATORS: Authenticators<AppDeps, Callers> = {
  none: { stage: "before_body", credential: "none", errors: [], run: () => Promise.resolve(null) },
  key: {
    stage: "before_body",
    credential: "api_key",
    errors: ["API_KEY_INVALID", "ADMIN_REQUIRED"],
    run(_deps, { request }) {
      const key = request.headers.get("x-key");
      return key ? Promise.resolve(key) : Promise.reject(new ServiceError("API_KEY_INVALID"));
    },
    bucket: (key) => key,
    authorise(key) {
      if (key === "user") throw new ServiceError("ADMIN_REQUIRED");
    },
  },
  service: {
    stage: "before_limit",
    credential: "optional_service",
    errors: ["INTERNAL_SERVICE_UNAUTHORIZED"],
    run: (_deps, { request }) => Promise.resolve(request.headers.get("x-key")),
    exempt: (caller) => caller !== null,
  },
  glancing: {
    stage: "after_body",
    credential: "agent_proof",
    errors: ["PROXY_AUTH_MISSING_TOKEN", "PROXY_AUTH_INVALID_AIT"],
    precheck(_deps, { request }) {
      if (!request.headers.has("x-key")) throw new ServiceError("PROXY_AUTH_MISSING_TOKEN");
    },
    run: () => Promise.reject(new ServiceError("PROXY_AUTH_INVALID_AIT")),
  },
};

const route = routeFor<AppDeps, Callers>();
const row = { response: { status: 200 }, errors: [] } as const;
const perIp: RouteLimit = { name: "ip", requests: 2, windowMs: 60_000, per: "ip" };

export const ROUTES: readonly Route<AppDeps>[] = [
  route("GET", "/open", "", { ...row, auth: "none", limit: null, handler: () => json({ ok: true }) }),
  route("GET", "/limited", "", { ...row, auth: "service", limit: perIp, handler: () => json({}) }),
  route("POST", "/failures", "", {
    ...row,
    auth: "none",
    limit: { ...perIp, name: "failures", counts: ["INVITE_REDEEM_CODE_INVALID"] },
    handler(_deps, { exchange }) {
      if (exchange.body.length > 0) throw new ServiceError("INVITE_REDEEM_CODE_INVALID");
      return json({});
    },
  }),
  route("POST", "/things/:id", "", {
    ...row,
    auth: "key",
    limit: { name: "key", requests: 3, windowMs: 60_000, per: "person" },
    params: z.object({ id: z.string().regex(/^\d+$/) }),
    body: z.object({ name: z.string() }),
    emptyBody: true,
    maxBodyBytes: 64,
    invalid: "ADMIN_BOOTSTRAP_INVALID",
    invalidPath: "AGENT_REVOKE_INVALID_PATH",
    handler(_deps, { params, body, caller }) {
      if (params.id === "404") throw new ServiceError("AGENT_NOT_FOUND");
      return json({ id: params.id, name: body.name, caller }, 201);
    },
  }),
  route("GET", "/query", "", {
    ...row,
    auth: "none",
    limit: null,
    query: z.object({ a: z.string(), b: z.array(z.string()).optional() }),
    invalid: "AGENT_LIST_INVALID_QUERY",
    handler: (_deps, { query, exchange }) => json({ query, target: exchange.target }),
  }),
  route("DELETE", "/off", "", {
    ...row,
    auth: "key",
    limit: null,
    precondition: {
      check() {
        throw new ServiceError("ADMIN_BOOTSTRAP_DISABLED");
      },
      errors: ["ADMIN_BOOTSTRAP_DISABLED"],
    },
    handler: () => json({}),
  }),
  route("POST", "/glanced", "", { ...row, auth: "glancing", limit: null, handler: () => json({}) }),
  route("GET", "/fails/:how", "", {
    ...row,
    auth: "none",
    limit: null,
    params: z.object({ how: z.string() }),
    handler(_deps, { params }) {
      if (params.how === "store") throw new StoreUnavailable(new Error("/var/lib/svc.kv"));
      if (params.how === "unauthorised") throw new ServiceError("API_KEY_MISSING");
      if (params.how === "text") throw "the secret";
      throw new Error("the secret");
    },
  }),
];

interface LogEntry {
  level: string;
  event: string;
  fields: Record<string, unknown>;
}

export class TestApp implements Disposable {
  readonly clock = new ManualClock();
  readonly log: LogEntry[] = [];
  readonly metrics = new Metrics();
  readonly deps: AppDeps;
  readonly app: App;

  private constructor(
    readonly kv: Deno.Kv,
    showDetails: boolean,
    accessLog: boolean,
    routes: readonly Route<AppDeps>[],
  ) {
    const limiter = new RateLimiter(kv, new GroupCommit(kv, MAX_CHECKS), this.clock, (rule, who) => ["w", rule, who]);
    this.deps = {
      clock: this.clock,
      newId: ulidSource(() => this.clock.now(), seededRandom().bytes),
      log: (level, event, fields = {}) => void this.log.push({ level, event, fields }),
      limiter,
      metrics: this.metrics,
      accessLog,
      trustedProxies: new TrustedProxies(["10.0.0.1"]),
      showDetails,
    };
    this.app = createApp(routes, AUTHENTICATORS, this.deps);
  }

  static async open(showDetails = false, accessLog = false, routes = ROUTES): Promise<TestApp> {
    return new TestApp(await openTestKv(), showDetails, accessLog, routes);
  }

  [Symbol.dispose](): void {
    this.kv.close();
  }

  ask(path: string, init: RequestInit = {}, peer: Peer = { from: "socket", address: "192.0.2.1" }): Promise<Response> {
    return this.app.fetch(new Request(`http://evil.example${path}`, init), peer);
  }
}

/** Status and code of an error answer. Asserts that its envelope is the one of every error. */
export async function errorOf(answer: Response): Promise<[number, string]> {
  assertEquals(answer.headers.get("content-type"), "application/json; charset=utf-8");
  const body = await answer.json();
  assertEquals(Object.keys(body), ["error"]);
  assertEquals(Object.keys(body.error), ["code", "message"]);
  return [answer.status, body.error.code];
}

export const post = (body?: BodyInit, headers: Record<string, string> = { "x-key": "admin" }): RequestInit => ({
  method: "POST",
  headers,
  body: body ?? null,
});
