/**
 * Shows that no secret is logged or in the audit log (D-08) after a call of every route that returns one. The files of a store
 * and the log of a process are searched in tests/e2e/secrets_test.ts and logs_test.ts.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import type { ReissueAnswer } from "../../shared/protocol/api/agents.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import type { ErrorCode } from "../../shared/protocol/errors.ts";
import { jsonLog, type Level } from "../../shared/server/log.ts";
import {
  answered,
  moveTo,
  openRegistry,
  refresh,
  refreshed,
  refused,
  restart,
  validate,
} from "../support/registry_world.ts";
import { BOOTSTRAP_SECRET, type TestAgent, type World } from "../support/world.ts";

/** Calls every route that returns a secret. Returns every secret that was returned or sent. */
async function playSecrets(
  w: World,
): Promise<{ secrets: Map<string, string>; agent: TestAgent; service: Record<string, string> }> {
  const secrets = new Map<string, string>([["bootstrap secret", BOOTSTRAP_SECRET]]);
  const keep = (name: string, secret: string | undefined) => {
    assert(secret, name);
    secrets.set(name, secret);
    return secret;
  };
  const post = async <T>(path: string, apiKey?: string, body?: unknown, status = 201): Promise<T> =>
    await answered<T>(await w.ask("POST", path, { apiKey, body }), status);
  const boot = await w.ask("POST", "/v1/admin/bootstrap", { headers: { "x-bootstrap-secret": BOOTSTRAP_SECRET } });
  const first = await answered<
    { human: { did: string }; apiKey: { token: string }; internalService: { secret: string } }
  >(boot, 201);
  const admin = keep("bootstrap key", first.apiKey.token);
  keep("bootstrap service secret", first.internalService.secret);
  w.admin = () => Promise.resolve({ id: "", did: first.human.did, apiKey: admin });

  const open = await post<{ invite: { code: string } }>("/v1/invites", admin);
  keep("open invite", open.invite.code);
  const { invite } = await post<{ invite: { code: string } }>("/v1/invites", admin);
  keep("redeemed invite", invite.code);
  const { human, apiKey } = await post<{ human: { did: string }; apiKey: { token: string } }>(
    "/v1/invites/redeem",
    undefined,
    { code: invite.code },
  );
  keep("redeemer's key", apiKey.token);
  const further = await post<{ apiKey: { id: string; token: string } }>("/v1/me/api-keys", apiKey.token);
  keep("further key", further.apiKey.token);
  await answered(await w.ask("DELETE", `/v1/me/api-keys/${further.apiKey.id}`, { apiKey: apiKey.token }), 204);

  const agent = await w.agent(
    { id: "", did: human.did, apiKey: apiKey.token },
    "alpha",
    await keyPairFromSeed(w.random.bytes(32)),
  );
  keep("agent's seed", agent.keys.seed);
  keep("AIT", agent.identity.ait);
  let token = agent.agentAuth.refreshToken;
  keep("access 0", agent.agentAuth.accessToken);
  keep("refresh 0", token);
  for (const [i, recovery] of [[1, false], [2, true], [3, false]] as const) {
    await w.clock.advance(1000);
    const sent: string = i === 2 ? agent.agentAuth.refreshToken : token;
    const next = await refreshed(w, agent, sent, { recovery });
    keep(`access ${i}`, next.accessToken);
    token = keep(`refresh ${i}`, next.refreshToken);
  }
  await answered(await w.ask("DELETE", `/v1/agents/${agent.agent.id}/auth/revoke`, { apiKey: apiKey.token }), 204);
  const revived = await post<ReissueAnswer>(`/v1/agents/${agent.agent.id}/reissue`, apiKey.token, undefined, 200);
  keep("second AIT", revived.ait);
  keep("revived access", revived.agentAuth?.accessToken);
  keep("revived refresh", revived.agentAuth?.refreshToken);

  const services = "/v1/admin/internal-services";
  const made = await post<{ internalService: { id: string; secret: string } }>(services, admin, {
    name: "relay",
    scopes: ["crl.read"],
  });
  keep("service secret", made.internalService.secret);
  const { id } = made.internalService;
  const turned = await post<{ internalService: { secret: string } }>(`${services}/${id}/rotate`, admin, undefined, 200);
  const secret = keep("rotated service secret", turned.internalService.secret);
  await post("/v1/admin/keys/rotate", admin, undefined, 200);
  return {
    secrets,
    agent: { ...agent, identity: { ...agent.identity, ait: revived.ait } },
    service: { "X-Svc-Service-Id": id, "X-Svc-Service-Secret": secret },
  };
}

/** All keys and values of the store as text, without the record of signing keys. */
async function storedText(w: World): Promise<{ all: string; signingKeys: string }> {
  const entries = await Array.fromAsync(w.kv.list({ prefix: [] }));
  const own = JSON.stringify(KEYS.signingKeys());
  const texts = entries.map(({ key, value }) => [JSON.stringify(key), JSON.stringify(value)] as const);
  assert(texts.every(([, value]) => typeof value === "string"));
  return {
    all: texts.filter(([key]) => key !== own).flat().join("\n"),
    signingKeys: texts.filter(([key]) => key === own).flat().join("\n"),
  };
}

Deno.test("the store holds the seed of the active signing key only, in its own record", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const seeds = async () => {
    const { value } = await w.kv.get<{ keys: { seed: string | null; status: string }[] }>(KEYS.signingKeys());
    return (value?.keys ?? []).map(({ seed, status }) => [status, seed] as const);
  };
  const [[, first] = []] = await seeds();
  await playSecrets(w);
  await restart(w);
  const after = await seeds();
  assertEquals(after.map(([status, seed]) => [status, typeof seed]), [["active", "string"], ["retired", "object"]]);
  const { all } = await storedText(w);
  for (const seed of [first, after[0]?.[1]]) assert(typeof seed === "string" && !all.includes(seed));
  for (const path of ["/health", "/v1/metadata", "/.well-known/svc-keys.json", "/openapi.json", "/docs"]) {
    const text = await (await w.ask("GET", path)).text();
    for (const seed of [first, after[0]?.[1]]) assert(!text.includes(seed ?? "-"), `${path} shows the signing seed`);
  }
});

Deno.test("the audit log holds no secret and no digest of a secret", async () => {
  await using w = await openRegistry();
  await playSecrets(w);
  const { apiKey } = await w.admin();
  const text = await (await w.ask("GET", "/v1/admin/audit?limit=100", { apiKey })).text();
  const digests = new Set<string>();
  for await (const { value } of w.kv.list<Record<string, unknown>>({ prefix: ["registry"] })) {
    for (const [name, digest] of Object.entries(value ?? {})) {
      if (/digest/i.test(name) && typeof digest === "string") digests.add(digest);
    }
  }
  assert(digests.size >= 8);
  for (const digest of digests) assert(!text.includes(digest));
  assert(!/svc_(pat|agt|rft|srv|inv)_/.test(text));
});

/** The lines that the world's log writes. */
function linesOf(w: World): string[] {
  const lines: string[] = [];
  const log = jsonLog(w.clock, "svc", (line) => lines.push(line));
  for (const { level, event, fields } of w.log) log(level as Level, event, fields);
  return lines;
}

Deno.test("a refused credential is logged with code, request ID, address and proven agent, without a secret", async (t) => {
  await using w = await openRegistry();
  const { secrets, agent, service } = await playSecrets(w);
  w.log.length = 0;
  const secret = (name: string) => secrets.get(name) ?? "";
  const pat = secret("further key");
  const [token, path] = [secret("refresh 0"), "/internal/v1/identity/agent-ownership"];
  const badSecret = { ...service, "X-Svc-Service-Secret": secret("service secret").slice(1) };
  const redeemed = { code: secret("redeemed invite") };
  const badAit = { Authorization: `Svc ${agent.identity.ait}x` };
  type Row = [
    what: string,
    code: ErrorCode,
    call: (headers: Record<string, string>) => Promise<Response>,
    isProven?: true,
  ];
  const refreshCode = "AGENT_AUTH_REFRESH_UNAUTHORIZED";
  const rows: Row[] = [
    [
      "bootstrap secret",
      "ADMIN_BOOTSTRAP_UNAUTHORIZED",
      (id) => w.ask("POST", "/v1/admin/bootstrap", { headers: { ...id, "x-bootstrap-secret": pat } }),
    ],
    ["missing key", "API_KEY_MISSING", (headers) => w.ask("GET", "/v1/me", { headers })],
    ["unknown key", "API_KEY_INVALID", (headers) => w.ask("GET", "/v1/me", { apiKey: secret("access 0"), headers })],
    ["revoked key", "API_KEY_REVOKED", (headers) => w.ask("GET", "/v1/me", { apiKey: pat, headers })],
    [
      "service secret",
      "INTERNAL_SERVICE_UNAUTHORIZED",
      (id) => w.ask("GET", "/v1/crl", { headers: { ...badSecret, ...id } }),
    ],
    [
      "service scope",
      "INTERNAL_SERVICE_FORBIDDEN",
      (id) => w.ask("POST", path, { headers: { ...service, ...id } }),
    ],
    ["access token", "AGENT_AUTH_VALIDATE_UNAUTHORIZED", (id) => validate(w, agent, secret("access 0"), id)],
    [
      "invite code",
      "INVITE_REDEEM_ALREADY_USED",
      (headers) => w.ask("POST", "/v1/invites/redeem", { body: redeemed, headers }),
    ],
    ["AIT", refreshCode, (id) => refresh(w, agent, token, { headers: { ...id, ...badAit } })],
    ["timestamp", refreshCode, (headers) => refresh(w, agent, token, { timestamp: "1", headers }), true],
    ["proof", refreshCode, (headers) => refresh(w, agent, token, { signed: { method: "GET" }, headers }), true],
  ];
  for (const [i, [what, code, call, isProven]] of rows.entries()) {
    await t.step(what, async () => {
      moveTo(w, i);
      await refused(await call({ "x-request-id": `request-${i}` }), code);
      const line = JSON.parse(linesOf(w).at(-1) ?? "{}");
      const agentDid = isProven && agent.agent.did;
      assertEquals([line.code, line.requestId, line.agentDid], [code, `request-${i}`, agentDid]);
      assertEquals(line.ip, `198.51.0.${i}`);
      assert(line.ts && line.level && line.service && line.event);
    });
  }
  await t.step("no line holds a secret", () => {
    const text = linesOf(w).join("\n");
    for (const [name, value] of secrets) assert(!text.includes(value), `${name} is logged`);
    assert(!text.includes(service["X-Svc-Service-Secret"] ?? "-"));
  });
});

Deno.test("a successful request writes no log line", async () => {
  await using w = await openRegistry();
  await playSecrets(w);
  assertEquals(w.log, []);
});
