/** Issuing admin tokens (D-172): who gets one, what it says, and its audit event. */
import { assertEquals, assertRejects } from "@std/assert";
import { Looks } from "../../../registry/admin_tokens/handlers.ts";
import { ADM, parseShortToken, verifyShortToken } from "../../../shared/protocol/signed/short_token.ts";
import type { AdminTokenAnswer } from "../../../shared/protocol/api/relay_admin.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { answered, auditEvents, openRegistry, publishedKeys, tally } from "../../support/registry_world.ts";
import { PROXY_URL, REGISTRY_URL } from "../../support/world.ts";

const PATH = "/v1/admin/tokens";

Deno.test("an admin gets a token for the proxy that the published keys verify, with any body", async () => {
  await using w = await openRegistry();
  const { apiKey, did } = await w.admin();
  const now = unixSeconds(w.clock.now());
  const authority = { issuer: REGISTRY_URL, audience: PROXY_URL, keys: await publishedKeys(w) };
  const ids = new Set<string>();
  for (const body of [undefined, "", {}, { scope: ["relay.write"], aud: "https://other.example" }, "not JSON"]) {
    const { token, expiresAt } = await answered<AdminTokenAnswer>(await w.ask("POST", PATH, { apiKey, body }), 201);
    assertEquals(expiresAt, new Date((now + 300) * 1000).toISOString());
    const { jti, ...claims } = await verifyShortToken(ADM, parseShortToken(ADM, token), authority, now);
    ids.add(jti);
    assertEquals<unknown>(claims, {
      iss: REGISTRY_URL,
      sub: did,
      aud: PROXY_URL,
      scope: ["relay.read"],
      iat: now,
      exp: now + 300,
    });
  }
  assertEquals(ids.size, 5);
});

Deno.test("no token is issued beside one whose audit entry cannot be written", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  const { apiKey } = await w.admin();
  await answered(await w.ask("GET", "/v1/me", { apiKey }));
  faulty.faults.fails = ({ method, keys }) => method === "commit" && keys.some((key) => key[1] === "audit");
  const answers = Array.from({ length: 5 }, () => w.ask("POST", PATH, { apiKey }));
  assertEquals(await tally(answers), { "503 SERVICE_UNAVAILABLE": 5 });
});

Deno.test("tokens of one API key are in the audit log once an hour, and again when the write failed", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const issue = async () => await answered<unknown>(await w.ask("POST", PATH, { apiKey }), 201);
  const events = async () => (await auditEvents(w, "event=admin.token_issued")).length;
  await Promise.all(Array.from({ length: 10 }, issue));
  assertEquals(await events(), 1);
  w.clock.step(3_599_000);
  await issue();
  assertEquals(await events(), 1);
  w.clock.step(1_000);
  await issue();
  assertEquals(await events(), 2);
  // Another key of the same admin may be in other hands.
  const { apiKey: { token } } = await w.client.createApiKey(apiKey);
  await answered<unknown>(await w.ask("POST", PATH, { apiKey: token }), 201);
  assertEquals(await events(), 3);
  const looks = new Looks(w.clock);
  await assertRejects(() => looks.record("key", () => Promise.reject(new Error("no store"))));
  let written = 0;
  for (let i = 0; i < 2; i++) await looks.record("key", () => Promise.resolve(void written++));
  assertEquals(written, 1);
});

Deno.test("after the clock was set back by an hour the next token of an API key is recorded", async () => {
  await using w = await openRegistry();
  const looks = new Looks(w.clock);
  let written = 0;
  const record = () => looks.record("key", () => Promise.resolve(void written++));
  w.clock.step(7_200_000);
  await record();
  w.clock.step(-3_599_999);
  await record();
  assertEquals(written, 1);
  w.clock.step(-1);
  await record();
  assertEquals(written, 2);
});
