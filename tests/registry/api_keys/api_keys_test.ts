/**
 * Shows API keys: which credentials are refused, that a token is shown once, that a revocation takes effect at once and
 * permanently, and how the last use is recorded.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { ApiKey } from "../../../shared/protocol/api/accounts.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import {
  answered,
  auditEvents,
  openRegistry,
  outcome,
  refused,
  tally,
  withTime,
} from "../../support/registry_world.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { trials } from "../../support/trials.ts";
import type { World } from "../../support/world.ts";

const PATH = "/v1/me/api-keys";
const UNKNOWN = "01KHYQ5H00AAAAAAAAAAAAAAAA";

type Issued = ApiKey & { token: string };

async function create(w: World, apiKey: string, body?: unknown): Promise<Issued> {
  return (await answered<{ apiKey: Issued }>(await w.ask("POST", PATH, { apiKey, body }), 201)).apiKey;
}

async function list(w: World, apiKey: string): Promise<ApiKey[]> {
  return (await answered<{ apiKeys: ApiKey[] }>(await w.ask("GET", PATH, { apiKey }))).apiKeys;
}

const me = (w: World, apiKey: string) => w.ask("GET", "/v1/me", { apiKey });

Deno.test("a credential that is not one known API key is 401 with its code", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const revoked = await create(w, apiKey);
  await answered(await w.ask("DELETE", `${PATH}/${revoked.id}`, { apiKey }), 204);
  const rows: [what: string, authorization: string | undefined, code: ErrorCode][] = [
    ["no header", undefined, "API_KEY_MISSING"],
    ["scheme alone", "Bearer", "API_KEY_INVALID"],
    ["Basic", `Basic ${btoa(`user:${apiKey}`)}`, "API_KEY_INVALID"],
    ["Svc", `Svc ${apiKey}`, "API_KEY_INVALID"],
    ["no scheme", apiKey, "API_KEY_INVALID"],
    ["unknown", `Bearer svc_pat_${"A".repeat(43)}`, "API_KEY_INVALID"],
    ["one character short", `Bearer ${apiKey.slice(0, -1)}`, "API_KEY_INVALID"],
    ["one character more", `Bearer ${apiKey}A`, "API_KEY_INVALID"],
    ["other case", `Bearer ${apiKey.toUpperCase()}`, "API_KEY_INVALID"],
    ["two, joined by a comma", `Bearer ${apiKey}, Bearer ${apiKey}`, "API_KEY_INVALID"],
    ["comma at the end", `Bearer ${apiKey},`, "API_KEY_INVALID"],
    ["two tokens", `Bearer ${apiKey} ${apiKey}`, "API_KEY_INVALID"],
    ["quoted", `Bearer "${apiKey}"`, "API_KEY_INVALID"],
    ["revoked", `Bearer ${revoked.token}`, "API_KEY_REVOKED"],
  ];
  for (const [what, authorization, code] of rows) {
    await t.step(what, async () => {
      const headers: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
      const answer = await w.ask("GET", "/v1/me", { headers });
      assertEquals(answer.headers.get("www-authenticate"), "Bearer");
      await refused(answer, code, 401);
    });
  }
  await t.step("the scheme is accepted in upper and lower case", async () => {
    for (const scheme of ["bearer", "BEARER", "bEaReR"]) {
      await answered(await w.ask("GET", "/v1/me", { headers: { Authorization: `${scheme} ${apiKey}` } }));
    }
  });
  await t.step("a key in another header or in the query is ignored", async () => {
    await refused(
      await w.ask("GET", `/v1/me?access_token=${apiKey}`, { headers: { "X-Api-Key": apiKey } }),
      "API_KEY_MISSING",
    );
  });
});

Deno.test("a new API key is returned once with its token, works at once and has a default name", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const createdAt = new Date(w.clock.now()).toISOString();
  for (const [body, name] of [[undefined, "api-key"], [{}, "api-key"], [{ name: "  ci  " }, "ci"]] as const) {
    const { id, token, ...rest } = await create(w, apiKey, body);
    assertEquals(rest, { name, status: "active", createdAt, lastUsedAt: null });
    assertMatch(token, /^svc_pat_[A-Za-z0-9_-]{43}$/);
    assertEquals((await answered<{ apiKey: unknown }>(await me(w, token))).apiKey, { id, name });
  }
});

Deno.test("the API key list has every key of the caller, newest first, without any part of a token", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  await w.person();
  const made = [await create(w, apiKey, { name: "one" }), await create(w, apiKey, { name: "two" })];
  await answered(await w.ask("DELETE", `${PATH}/${made[0]?.id}`, { apiKey }), 204);
  const keys = await list(w, apiKey);
  assertEquals(keys.map(({ name, status }) => [name, status]), [["two", "active"], ["one", "revoked"], [
    "invite",
    "active",
  ]]);
  for (const key of keys) {
    assertEquals(Object.keys(key).sort(), ["createdAt", "id", "lastUsedAt", "name", "status"]);
  }
  const text = JSON.stringify(keys);
  for (const token of [apiKey, ...made.map((key) => key.token)]) assert(!text.includes(token.slice(8, 14)), text);
});

Deno.test("the last use of an API key is recorded within a minute, and written at most once a minute", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const { id, token } = await create(w, apiKey);
  const read = async () => (await list(w, apiKey)).find((key) => key.id === id)?.lastUsedAt ?? null;
  const iso = () => new Date(w.clock.now()).toISOString();
  assertEquals(await read(), null);
  await w.clock.advance(5000);
  const first = iso();
  await answered(await me(w, token));
  assertEquals(await read(), first);
  for (let i = 0; i < 5; i++) {
    await w.clock.advance(11_000);
    await answered(await me(w, token));
    assertEquals(await read(), first, `${(i + 1) * 11} s later`);
  }
  await w.clock.advance(5000);
  const second = iso();
  await answered(await me(w, token));
  assertEquals(await read(), second);
});

Deno.test("the last use of an API key is recorded again after the clock was set back", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const { id, token } = await create(w, apiKey);
  await answered(await me(w, token));
  w.clock.step(-3_600_000);
  await answered(await me(w, token));
  const [used] = (await list(w, apiKey)).filter((key) => key.id === id);
  assertEquals(used?.lastUsedAt, new Date(w.clock.now()).toISOString());
});

Deno.test("an API key that another instance revokes just before its last use is written stays revoked", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  await using other = await openRegistry({ kv: faulty.kv, clock: w.clock, seed: 2 });
  const { apiKey } = await w.person();
  const { id, token } = await create(w, apiKey);
  // The owner's own key has just been used, so the next write of a last use is that of the new key.
  faulty.faults.before = async ({ method, keys }) => {
    if (method !== "commit" || !keys.some((key) => key[1] === "api_key")) return;
    faulty.faults = {};
    await answered(await other.ask("DELETE", `${PATH}/${id}`, { apiKey }), 204);
  };
  await (await me(w, token)).body?.cancel();
  assertEquals(faulty.faults, {});
  await refused(await me(w, token), "API_KEY_REVOKED");
});

Deno.test("an API key is revoked by its owner only, and its existence is hidden from other callers", async (t) => {
  await using w = await openRegistry();
  const owner = await w.person();
  const other = await w.person();
  const { id, token } = await create(w, owner.apiKey);
  const rows: [what: string, id: string, code: ErrorCode][] = [
    ["foreign", id, "API_KEY_NOT_FOUND"],
    ["unknown", UNKNOWN, "API_KEY_NOT_FOUND"],
    ["no ULID", "abc", "API_KEY_REVOKE_INVALID_PATH"],
    ["lower case", id.toLowerCase(), "API_KEY_REVOKE_INVALID_PATH"],
    ["the token", token, "API_KEY_REVOKE_INVALID_PATH"],
  ];
  const bodies = new Map<string, string>();
  for (const [what, target, code] of rows) {
    await t.step(what, async () => {
      bodies.set(what, await refused(await w.ask("DELETE", `${PATH}/${target}`, { apiKey: other.apiKey }), code));
    });
  }
  assertEquals(bodies.get("foreign"), bodies.get("unknown"));
  await answered(await me(w, token));
  await t.step("own: 204, again 204, and no other key changes", async () => {
    const { token: third } = await create(w, owner.apiKey);
    for (let i = 0; i < 2; i++) await answered(await w.ask("DELETE", `${PATH}/${id}`, { apiKey: owner.apiKey }), 204);
    await refused(await me(w, token), "API_KEY_REVOKED");
    for (const apiKey of [owner.apiKey, third, other.apiKey]) await answered(await me(w, apiKey));
  });
  await t.step("an admin cannot revoke keys of other owners", async () => {
    const { apiKey } = await w.admin();
    const [key] = await list(w, other.apiKey);
    await refused(await w.ask("DELETE", `${PATH}/${key?.id}`, { apiKey }), "API_KEY_NOT_FOUND");
  });
});

Deno.test("a revoked API key is never accepted again when it is revoked while in use", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  for (let round = 0; round < trials(8); round++) {
    const { id, token } = await create(w, apiKey);
    // Each use writes the time unless a use within the minute has written it: here each use has to write.
    w.clock.step(61_000);
    const work = [me(w, token), me(w, token), w.ask("DELETE", `${PATH}/${id}`, { apiKey }), me(w, token)];
    const outcomes = await withTime(w, Promise.all(work.map(async (answer) => outcome(await answer))));
    assertEquals(outcomes[2], "204");
    for (const i of [0, 1, 3]) assertMatch(outcomes[i] ?? "", /^(200|401 API_KEY_REVOKED)$/);
    await refused(await me(w, token), "API_KEY_REVOKED");
    assertEquals((await list(w, apiKey)).find((key) => key.id === id)?.status, "revoked");
  }
});

Deno.test("20 concurrent revocations of one API key are all 204 and write one audit event", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const { id } = await create(w, apiKey);
  const work = Array.from({ length: 20 }, () => w.ask("DELETE", `${PATH}/${id}`, { apiKey }));
  assertEquals(await withTime(w, tally(work)), { "204": 20 });
  assertEquals((await auditEvents(w, "event=api_key.revoked")).length, 1);
});
