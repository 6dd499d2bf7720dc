/**
 * Shows the bootstrap: who can create the first admin, that exactly one is created, and what the answer holds; the
 * caller's own account; and the recovery of the first admin.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { recoverAdmin } from "../../../registry/accounts/store.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { HumanRecord } from "../../../registry/schema/records.ts";
import type { BootstrapAnswer } from "../../../shared/protocol/api/accounts.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import {
  answered,
  auditEvents,
  countOf,
  moveTo,
  openRegistry,
  outcome,
  refused,
  restart,
  tally,
} from "../../support/registry_world.ts";
import { MAX_CHECKS } from "../../support/test_store.ts";
import { AMPLE_QUOTAS, BOOTSTRAP_SECRET, type World } from "../../support/world.ts";

const PATH = "/v1/admin/bootstrap";
const SECRET = { "x-bootstrap-secret": BOOTSTRAP_SECRET };
const bootstrap = (w: World, body?: unknown, secret: string | null = BOOTSTRAP_SECRET) =>
  w.ask("POST", PATH, { body, headers: secret === null ? {} : { "x-bootstrap-secret": secret } });

Deno.test("bootstrap is refused when no secret is configured or the secret is another one", async (t) => {
  await t.step("not configured: 503", async () => {
    await using w = await openRegistry({ registry: { bootstrapSecret: null } });
    for (const secret of [null, "", BOOTSTRAP_SECRET]) {
      await refused(await bootstrap(w, undefined, secret), "ADMIN_BOOTSTRAP_DISABLED");
    }
  });
  await t.step("configured: 401 until the right secret is sent", async () => {
    await using w = await openRegistry();
    const wrong = [null, "", "x", BOOTSTRAP_SECRET.toUpperCase(), BOOTSTRAP_SECRET.slice(1), `${BOOTSTRAP_SECRET}, x`];
    for (const secret of wrong) await refused(await bootstrap(w, undefined, secret), "ADMIN_BOOTSTRAP_UNAUTHORIZED");
    await answered(await bootstrap(w), 201);
  });
});

Deno.test("bootstrap stays closed when only the account that it created is left", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const services = await w.ask("GET", "/v1/admin/internal-services", { apiKey });
  const keys = await w.ask("GET", "/v1/me/api-keys", { apiKey });
  const [service] = (await answered<{ internalServices: { id: string }[] }>(services)).internalServices;
  const [key] = (await answered<{ apiKeys: { id: string }[] }>(keys)).apiKeys;
  for (const path of [`/v1/admin/internal-services/${service?.id}`, `/v1/me/api-keys/${key?.id}`]) {
    await answered(await w.ask("DELETE", path, { apiKey }), 204);
  }
  await restart(w);
  await refused(await bootstrap(w), "ADMIN_BOOTSTRAP_ALREADY_COMPLETED");
});

Deno.test("one bootstrap of 20 concurrent ones succeeds and stores one admin, one key and one service", async () => {
  await using w = await openRegistry();
  const counts = await tally(Array.from({ length: 20 }, () => bootstrap(w)));
  assertEquals(counts, { "201": 1, "409 ADMIN_BOOTSTRAP_ALREADY_COMPLETED": 19 });
  for (const key of [KEYS.human("x"), KEYS.apiKey("x"), KEYS.apiKeyOf("x", "y"), KEYS.service("x"), KEYS.audit("x")]) {
    assertEquals(await countOf(w, key), 1, String(key));
  }
});

Deno.test("bootstrap answers admin, key and the proxy's credential, with default names", async (t) => {
  const rows: [body: unknown, displayName: string, keyName: string][] = [
    [undefined, "Admin", "bootstrap-admin"],
    [{}, "Admin", "bootstrap-admin"],
    [{ displayName: "  Ada  ", apiKeyName: "laptop", role: "user", status: "revoked" }, "Ada", "laptop"],
    [{ displayName: "👋".repeat(64) }, "👋".repeat(64), "bootstrap-admin"],
  ];
  for (const [body, displayName, keyName] of rows) {
    await t.step(JSON.stringify(body) ?? "no body", async () => {
      await using w = await openRegistry();
      const { human, apiKey, internalService } = await answered<BootstrapAnswer>(await bootstrap(w, body), 201);
      assertEquals(human, {
        id: human.id,
        did: `did:svc:registry.example.test:human:${human.id}`,
        displayName,
        role: "admin",
        status: "active",
      });
      assertEquals([apiKey.name, internalService.name], [keyName, "proxy"]);
      assertMatch(apiKey.token, /^svc_pat_[A-Za-z0-9_-]{43}$/);
      assertMatch(internalService.secret, /^svc_srv_[A-Za-z0-9_-]{43}$/);
      const list = await w.ask("GET", "/v1/admin/internal-services", { apiKey: apiKey.token });
      const { internalServices: [service] } = await answered<{ internalServices: { scopes: string[] }[] }>(list);
      assertEquals(service?.scopes, ["identity.read", "auth.validate", "crl.read"]);
    });
  }
});

Deno.test("bootstrap checks in the order 503, 429, 401, 400, 409", async () => {
  await using off = await openRegistry({ registry: { bootstrapSecret: null } });
  await refused(await bootstrap(off, "{", "wrong"), "ADMIN_BOOTSTRAP_DISABLED");
  await using w = await openRegistry();
  await w.admin();
  await refused(await bootstrap(w, "{", "wrong"), "ADMIN_BOOTSTRAP_UNAUTHORIZED");
  await refused(await bootstrap(w, "{"), "ADMIN_BOOTSTRAP_INVALID");
  await refused(await bootstrap(w, "{}"), "ADMIN_BOOTSTRAP_ALREADY_COMPLETED");
  for (let i = 0; i < 9; i++) await refused(await bootstrap(w, "{", "wrong"), "ADMIN_BOOTSTRAP_UNAUTHORIZED");
  await refused(await bootstrap(w, "{", "wrong"), "RATE_LIMIT_EXCEEDED");
  await refused(await bootstrap(w), "RATE_LIMIT_EXCEEDED");
});

Deno.test("bootstrap is 429 from the 11th wrong secret in a minute, and works after the minute", async (t) => {
  await t.step("one after another", async () => {
    await using w = await openRegistry();
    const outcomes: string[] = [];
    for (let i = 0; i < 20; i++) {
      outcomes.push(await outcome(await bootstrap(w, undefined, `guess ${i}`)));
      await w.clock.advance(1000);
    }
    assertEquals(
      outcomes,
      outcomes.map((_, i) => i < 10 ? "401 ADMIN_BOOTSTRAP_UNAUTHORIZED" : "429 RATE_LIMIT_EXCEEDED"),
    );
    const blocked = await w.ask("POST", PATH, { headers: SECRET });
    const seconds = Number(blocked.headers.get("retry-after"));
    await refused(blocked, "RATE_LIMIT_EXCEEDED");
    assertEquals(seconds, 40);
    moveTo(w, 7);
    await refused(await bootstrap(w, undefined, "guess"), "ADMIN_BOOTSTRAP_UNAUTHORIZED");
    w.peer = { from: "socket", address: "192.0.2.1" };
    await w.clock.advance(seconds * 1000);
    await answered(await bootstrap(w), 201);
  });
  await t.step("all at once", async () => {
    await using w = await openRegistry();
    const counts = await tally(Array.from({ length: 20 }, (_, i) => bootstrap(w, undefined, `guess ${i}`)));
    assertEquals(counts, { "401 ADMIN_BOOTSTRAP_UNAUTHORIZED": 10, "429 RATE_LIMIT_EXCEEDED": 10 });
  });
  await t.step("requests with the right secret and invalid bodies are not counted", async () => {
    await using w = await openRegistry();
    for (let i = 0; i < 11; i++) await refused(await bootstrap(w, "{"), "ADMIN_BOOTSTRAP_INVALID");
    await answered(await bootstrap(w), 201);
    for (let i = 0; i < 11; i++) await refused(await bootstrap(w), "ADMIN_BOOTSTRAP_ALREADY_COMPLETED");
  });
});

Deno.test("bootstrap stores nothing and can be called again when its commit fails", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  faulty.faults = { fails: ({ method, keys }) => method === "commit" && keys.some((key) => key[1] === "bootstrap") };
  await refused(await bootstrap(w), "SERVICE_UNAVAILABLE");
  for (const key of [KEYS.human("x"), KEYS.apiKey("x"), KEYS.service("x"), KEYS.serviceName("x"), KEYS.audit("x")]) {
    assertEquals(await countOf(w, key), 0, String(key));
  }
  faulty.faults = {};
  await answered(await bootstrap(w), 201);
});

Deno.test("the account route answers the caller and the key in use", async () => {
  await using w = await openRegistry();
  const { apiKey, did } = await w.person("Ada");
  const made = await w.ask("POST", "/v1/me/api-keys", { apiKey, body: { name: "laptop" } });
  const { apiKey: second } = await answered<{ apiKey: { id: string; token: string } }>(made, 201);
  const me = await answered<{ human: Record<string, string>; apiKey: unknown }>(
    await w.ask("GET", "/v1/me", { apiKey: second.token }),
  );
  assertEquals(me, {
    human: {
      id: did.split(":").at(-1) ?? "",
      did,
      displayName: "Ada",
      role: "user",
      status: "active",
      createdAt: new Date(w.clock.now()).toISOString(),
    },
    apiKey: { id: second.id, name: "laptop" },
  });
  assert(!JSON.stringify(me).includes("svc_pat_"));
});

Deno.test("recovery on the store restores the first admin's role, creates a key and is audited", async () => {
  await using w = await openRegistry();
  const { kv, clock, random, newId } = w;
  assertEquals(await recoverAdmin({ kv, clock, random, newId, maxChecks: MAX_CHECKS }), null);
  const admin = await w.admin();
  const { value: human } = await kv.get<HumanRecord>(KEYS.human(admin.id));
  await kv.set(KEYS.human(admin.id), { ...human, role: "user" });
  await refused(await w.ask("GET", "/v1/invites", { apiKey: admin.apiKey }), "ADMIN_REQUIRED");
  const recovered = await recoverAdmin({ kv, clock, random, newId, maxChecks: MAX_CHECKS });
  assertEquals(recovered?.human.did, admin.did);
  for (const apiKey of [recovered?.key.token, admin.apiKey]) {
    await answered(await w.ask("GET", "/v1/invites", { apiKey }));
  }
  const [event] = await auditEvents(w, "limit=1");
  assertEquals([event?.event, event?.actor, event?.subject], ["admin.recovered", "store recover", admin.did]);
});

Deno.test("the key of a recovery counts as one of the admin's, and no quota refuses it", async () => {
  await using w = await openRegistry({ registry: { quotas: { ...AMPLE_QUOTAS, apiKeys: 2 } } });
  const { apiKey } = await w.admin();
  for (let i = 0; i < 2; i++) assert(await recoverAdmin({ ...w, maxChecks: MAX_CHECKS }));
  const keys = await w.client.apiKeys(apiKey);
  for (const { id } of keys.slice(0, 1)) await w.client.revokeApiKey(apiKey, id);
  await refused(await w.ask("POST", "/v1/me/api-keys", { apiKey }), "QUOTA_EXCEEDED");
  for (const { id } of keys.slice(1, 2)) await w.client.revokeApiKey(apiKey, id);
  await answered(await w.ask("POST", "/v1/me/api-keys", { apiKey }), 201);
});
