/**
 * Shows that no secret is stored or logged (D-08): after a call of every route that returns one, neither store nor log
 * holds it, and every log line is one JSON object.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import type { ReissueAnswer } from "../../shared/protocol/api/agents.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import type { ErrorCode } from "../../shared/protocol/errors.ts";
import { SECRET_KINDS } from "../../shared/protocol/secrets.ts";
import { jsonLog, type Level } from "../../shared/server/log.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
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

Deno.test("the store holds no secret after every route that returns one was called", async () => {
  await using w = await openRegistry();
  const { secrets } = await playSecrets(w);
  assert(secrets.size >= 20);
  const { all, signingKeys } = await storedText(w);
  for (const [name, secret] of secrets) {
    assert(!all.includes(secret), `${name} is stored`);
    assert(!signingKeys.includes(secret), `${name} is stored`);
    const kind = Object.values(SECRET_KINDS).find(({ prefix }) => secret.startsWith(prefix));
    if (kind) {
      assert(!all.includes(secret.slice(kind.prefix.length, kind.prefix.length + 16)), `part of ${name} is stored`);
    }
  }
  for (const { prefix } of Object.values(SECRET_KINDS)) {
    assert(!all.includes(prefix), `something with ${prefix} is stored`);
  }
});

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
  const rows: [what: string, code: ErrorCode, agentDid: string | undefined, call: (id: string) => Promise<Response>][] =
    [
      [
        "bootstrap secret",
        "ADMIN_BOOTSTRAP_UNAUTHORIZED",
        undefined,
        (id) => w.ask("POST", "/v1/admin/bootstrap", { headers: { "x-request-id": id, "x-bootstrap-secret": pat } }),
      ],
      [
        "missing key",
        "API_KEY_MISSING",
        undefined,
        (id) => w.ask("GET", "/v1/me", { headers: { "x-request-id": id } }),
      ],
      [
        "unknown key",
        "API_KEY_INVALID",
        undefined,
        (id) => w.ask("GET", "/v1/me", { apiKey: secret("access 0"), headers: { "x-request-id": id } }),
      ],
      [
        "revoked key",
        "API_KEY_REVOKED",
        undefined,
        (id) => w.ask("GET", "/v1/me", { apiKey: pat, headers: { "x-request-id": id } }),
      ],
      [
        "service secret",
        "INTERNAL_SERVICE_UNAUTHORIZED",
        undefined,
        (id) =>
          w.ask("GET", "/v1/crl", {
            headers: { ...service, "X-Svc-Service-Secret": secret("service secret").slice(1), "x-request-id": id },
          }),
      ],
      [
        "service scope",
        "INTERNAL_SERVICE_FORBIDDEN",
        undefined,
        (id) => w.ask("POST", "/internal/v1/identity/agent-ownership", { headers: { ...service, "x-request-id": id } }),
      ],
      [
        "access token",
        "AGENT_AUTH_VALIDATE_UNAUTHORIZED",
        undefined,
        (id) => validate(w, agent, secret("access 0"), { "x-request-id": id }),
      ],
      [
        "invite code",
        "INVITE_REDEEM_ALREADY_USED",
        undefined,
        (id) =>
          w.ask("POST", "/v1/invites/redeem", {
            body: { code: secret("redeemed invite") },
            headers: { "x-request-id": id },
          }),
      ],
      [
        "AIT",
        "AGENT_AUTH_REFRESH_UNAUTHORIZED",
        undefined,
        (id) =>
          refresh(w, agent, secret("refresh 0"), {
            headers: { "x-request-id": id, Authorization: `Svc ${agent.identity.ait}x` },
          }),
      ],
      [
        "timestamp",
        "AGENT_AUTH_REFRESH_UNAUTHORIZED",
        agent.agent.did,
        (id) => refresh(w, agent, secret("refresh 0"), { timestamp: "1", headers: { "x-request-id": id } }),
      ],
      [
        "proof",
        "AGENT_AUTH_REFRESH_UNAUTHORIZED",
        agent.agent.did,
        (id) => refresh(w, agent, secret("refresh 0"), { signed: { method: "GET" }, headers: { "x-request-id": id } }),
      ],
    ];
  for (const [i, [what, code, agentDid, call]] of rows.entries()) {
    await t.step(what, async () => {
      moveTo(w, i);
      await refused(await call(`request-${i}`), code);
      const line = JSON.parse(linesOf(w).at(-1) ?? "{}");
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

Deno.test("a secret in a path or a query is not logged", async () => {
  await using w = await openRegistry();
  const prefixes = Object.values(SECRET_KINDS).map(({ prefix }) => prefix);
  const played = await playSecrets(w);
  const secrets = [...played.secrets].filter(([, secret]) => prefixes.some((prefix) => secret.startsWith(prefix)));
  const { apiKey } = await w.admin();
  w.log.length = 0;
  for (const [i, [, secret]] of secrets.entries()) {
    moveTo(w, i);
    for (
      const path of [`/v1/me/api-keys/${secret}`, `/v1/invites/${secret}`, `/${secret}`, `/v1/agents?cursor=${secret}`]
    ) {
      await (await w.ask("DELETE", path, { apiKey })).body?.cancel();
    }
    await (await w.ask("GET", `/v1/agents?cursor=${secret}`, { apiKey })).body?.cancel();
  }
  const text = linesOf(w).join("\n");
  for (const [name, secret] of secrets) assert(!text.includes(secret), `${name} is logged`);
});

Deno.test("a log line is one JSON object for any request", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv, trustedProxies: ["192.0.2.1"] });
  const { apiKey } = await w.admin();
  const nasty = ['"},{"level":"error"', "\\", "%0d%0a{}", "%1b[31m", "\u2028", "</script>", "%00", "{", "💥"];
  for (const text of nasty) {
    const ascii = encodeURI(text);
    await (await w.ask("GET", `/${ascii}?${ascii}`)).body?.cancel();
    await (await w.ask("DELETE", `/v1/agents/${ascii}`, { apiKey })).body?.cancel();
    const headers = { "User-Agent": ascii, "x-request-id": ascii, "X-Forwarded-For": ascii, "X-Svc-Service-Id": ascii };
    await (await w.ask("GET", "/v1/me", { headers })).body?.cancel();
    await (await w.ask("GET", "/v1/crl", { headers })).body?.cancel();
    await (await w.ask("POST", "/v1/agents", { apiKey, body: { name: `a\r\n${text}` } })).body?.cancel();
  }
  faulty.faults = { fails: () => new TypeError(`broken\r\n\u001b[31m"},{"x":1}\u2028`) };
  await (await w.ask("GET", "/v1/me", { apiKey })).body?.cancel();
  const lines = linesOf(w);
  assert(lines.length >= nasty.length * 3);
  for (const line of lines) {
    // deno-lint-ignore no-control-regex
    assert(!/[\u0000-\u001f]/.test(line), line);
    const value = JSON.parse(line);
    assert(typeof value === "object" && !Array.isArray(value) && typeof value.event === "string", line);
  }
  assertStringIncludes(lines.at(-1) ?? "", "broken");
});

Deno.test("a successful request writes no log line", async () => {
  await using w = await openRegistry();
  await playSecrets(w);
  assertEquals(w.log, []);
});
