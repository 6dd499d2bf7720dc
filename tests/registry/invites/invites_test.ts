/**
 * Shows invites: who creates them, which expiries are accepted, that a code works exactly once, and what a redemption
 * creates.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { QuotaRecord } from "../../../registry/schema/records.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { CreateInviteAnswer, Invite, RedeemInviteAnswer } from "../../../shared/protocol/api/invites.ts";
import {
  answered,
  countOf,
  moveTo,
  openRegistry,
  outcome,
  refused,
  tally,
  withTime,
} from "../../support/registry_world.ts";
import { trials } from "../../support/trials.ts";
import type { World } from "../../support/world.ts";

const REDEEM = "/v1/invites/redeem";

async function create(w: World, body?: unknown): Promise<CreateInviteAnswer["invite"]> {
  const { apiKey } = await w.admin();
  return (await answered<CreateInviteAnswer>(await w.ask("POST", "/v1/invites", { apiKey, body }), 201)).invite;
}

const redeem = (w: World, body: unknown) => w.ask("POST", REDEEM, { body });
const inMs = (w: World, ms: number) => new Date(w.clock.now() + ms).toISOString();

Deno.test("only an admin creates invites, without an end or with one in the future", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const user = await w.person();
  await refused(await w.ask("POST", "/v1/invites", { apiKey: user.apiKey, body: {} }), "INVITE_CREATE_FORBIDDEN");
  const rows: [what: string, body: unknown, wanted: string | null | 400][] = [
    ["no body", undefined, null],
    ["empty object", {}, null],
    ["null", { expiresAt: null }, null],
    ["in a second", { expiresAt: inMs(w, 1000) }, inMs(w, 1000)],
    ["in a millisecond", { expiresAt: inMs(w, 1) }, inMs(w, 1)],
    ["now", { expiresAt: inMs(w, 0) }, 400],
    ["a second ago", { expiresAt: inMs(w, -1000) }, 400],
    ["tomorrow", { expiresAt: "tomorrow" }, 400],
    ["a number", { expiresAt: w.clock.now() + 60_000 }, 400],
  ];
  for (const [what, body, wanted] of rows) {
    await t.step(what, async () => {
      const answer = await w.ask("POST", "/v1/invites", { apiKey, body });
      if (wanted === 400) return void await refused(answer, "INVITE_CREATE_INVALID");
      const { invite } = await answered<CreateInviteAnswer>(answer, 201);
      assertEquals(Object.keys(invite).sort(), ["code", "createdAt", "expiresAt", "id"]);
      assertEquals([invite.expiresAt, invite.createdAt], [wanted, inMs(w, 0)]);
      assertMatch(invite.code, /^svc_inv_[A-Za-z0-9_-]{32}$/);
    });
  }
});

Deno.test("a refused expiry in the past is named, also in production, where details are not sent", async () => {
  await using w = await openRegistry({ registry: { environment: "production" } });
  const { apiKey } = await w.admin();
  const answer = await w.ask("POST", "/v1/invites", { apiKey, body: { expiresAt: inMs(w, -1000) } });
  const message = "The body of the invite is invalid: expiresAt must be in the future";
  assertEquals(await answer.json(), { error: { code: "INVITE_CREATE_INVALID", message } });
});

Deno.test("an expiry is accepted only as RFC 3339 of an existing day, and is returned in UTC", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const good: [text: string, utc: string][] = [
    ["2030-01-02T03:04:05Z", "2030-01-02T03:04:05.000Z"],
    ["2030-01-02T03:04:05.123456789Z", "2030-01-02T03:04:05.123Z"],
    ["2030-01-02T03:04:05-23:59", "2030-01-03T03:03:05.000Z"],
  ];
  const bad = ["2030-02-31T00:00:00Z", "2030-01-01T00:00:00", "9999-12-31T23:59:59-01:00", "tomorrow 5", ""];
  for (const [expiresAt, utc] of good) {
    await t.step(`taken: ${expiresAt}`, async () => assertEquals((await create(w, { expiresAt })).expiresAt, utc));
  }
  for (const expiresAt of bad) {
    await t.step(`refused: ${JSON.stringify(expiresAt)}`, async () => {
      await refused(await w.ask("POST", "/v1/invites", { apiKey, body: { expiresAt } }), "INVITE_CREATE_INVALID");
    });
  }
});

Deno.test("an unknown, expired, used or malformed invite code has its own error code", async (t) => {
  await using w = await openRegistry();
  const expired = await create(w, { expiresAt: inMs(w, 1000) });
  const used = await create(w);
  const both = await create(w, { expiresAt: inMs(w, 1000) });
  for (const { code } of [used, both]) await answered(await redeem(w, { code }), 201);
  await w.clock.advance(1000);
  const good = await create(w);
  const rows: [what: string, body: unknown, wanted: string][] = [
    ["unknown", { code: "svc_inv_unknown" }, "400 INVITE_REDEEM_CODE_INVALID"],
    ["unknown, 128 characters", { code: "x".repeat(128) }, "400 INVITE_REDEEM_CODE_INVALID"],
    ["one character short", { code: good.code.slice(0, -1) }, "400 INVITE_REDEEM_CODE_INVALID"],
    ["with a blank", { code: `${good.code} ` }, "400 INVITE_REDEEM_CODE_INVALID"],
    ["other case", { code: good.code.toUpperCase() }, "400 INVITE_REDEEM_CODE_INVALID"],
    ["the invite's id", { code: good.id }, "400 INVITE_REDEEM_CODE_INVALID"],
    ["expired", { code: expired.code }, "400 INVITE_REDEEM_EXPIRED"],
    ["used", { code: used.code }, "409 INVITE_REDEEM_ALREADY_USED"],
    ["used and expired", { code: both.code }, "409 INVITE_REDEEM_ALREADY_USED"],
    ["129 characters", { code: "x".repeat(129) }, "400 INVITE_REDEEM_INVALID"],
    ["missing", {}, "400 INVITE_REDEEM_INVALID"],
    ["a number", { code: 1 }, "400 INVITE_REDEEM_INVALID"],
    ["empty", { code: "" }, "400 INVITE_REDEEM_INVALID"],
    ["good", { code: good.code }, "201"],
  ];
  for (const [what, body, wanted] of rows) {
    await t.step(what, async () => assertEquals(await outcome(await redeem(w, body)), wanted));
  }
});

Deno.test("a redemption is repeated with its secret alone, and only until its key is used", async () => {
  await using w = await openRegistry();
  const { code } = await create(w, { expiresAt: inMs(w, 1000) });
  const retrySecret = "r".repeat(43), other = "o".repeat(43), used = "INVITE_REDEEM_ALREADY_USED";
  const first = await answered<RedeemInviteAnswer>(await redeem(w, { code, displayName: "Ada", retrySecret }), 201);
  await w.clock.advance(1000);
  const body = { code, displayName: "Bob", retrySecret };
  assertEquals(await answered<RedeemInviteAnswer>(await redeem(w, body), 201), first);
  for (const no of [{}, { retrySecret: other }]) await refused(await redeem(w, { code, ...no }), used);
  // Another code with the same secret makes another account.
  const second = await redeem(w, { code: (await create(w)).code, retrySecret });
  const { human, apiKey } = await answered<RedeemInviteAnswer>(second, 201);
  assert(human.id !== first.human.id && apiKey.token !== first.apiKey.token);
  await answered(await w.ask("GET", "/v1/me", { apiKey: first.apiKey.token }));
  await refused(await redeem(w, body), used);
});

Deno.test("of many redemptions at once with several secrets, those of one secret get the only account", async () => {
  await using w = await openRegistry();
  const { code } = await create(w);
  const secrets = Array.from({ length: 60 }, (_, i) => String(i % 3).repeat(43));
  const answers = await Promise.all(secrets.map(async (retrySecret) => {
    const answer = await redeem(w, { code, retrySecret });
    return { status: answer.status, retrySecret, body: (await answer.json()) as RedeemInviteAnswer };
  }));
  const made = answers.filter(({ status }) => status === 201);
  const distinct = (of: (answer: typeof made[number]) => string) => new Set(made.map(of)).size;
  const all = [distinct(({ body }) => body.human.id), distinct(({ body }) => body.apiKey.token)];
  assertEquals([...all, distinct(({ retrySecret }) => retrySecret)], [1, 1, 1]);
  assert(answers.every(({ status }) => status === 201 || status === 409));
  const [winner] = made;
  const again = await redeem(w, { code, retrySecret: winner?.retrySecret });
  assertEquals(await answered<RedeemInviteAnswer>(again, 201), winner?.body);
});

Deno.test("an invite is valid until the millisecond of its expiry", async () => {
  await using w = await openRegistry();
  const [a, b] = [await create(w, { expiresAt: inMs(w, 60_000) }), await create(w, { expiresAt: inMs(w, 60_000) })];
  await w.clock.advance(59_999);
  await answered(await redeem(w, { code: a.code }), 201);
  await w.clock.advance(1);
  await refused(await redeem(w, { code: b.code }), "INVITE_REDEEM_EXPIRED");
});

Deno.test("names of a redemption have 1 to 64 code points of text after trimming", async (t) => {
  await using w = await openRegistry();
  const good = ["👋".repeat(64), "  Ada  "], bad = ["👋".repeat(65), "   ", "a\u202eb", "\ud800", null, ["a"]];
  for (const field of ["displayName", "apiKeyName"] as const) {
    for (const name of good) {
      await t.step(`${field} ${name.slice(0, 10)}, ${name.length} units`, async () => {
        const { code } = await create(w);
        const { human, apiKey } = await answered<RedeemInviteAnswer>(await redeem(w, { code, [field]: name }), 201);
        assertEquals(field === "displayName" ? human.displayName : apiKey.name, name.trim());
      });
    }
    for (const name of bad) {
      await t.step(`${field} ${JSON.stringify(name).slice(0, 20)} is refused`, async () => {
        const { code } = await create(w);
        await refused(await redeem(w, { code, [field]: name }), "INVITE_REDEEM_INVALID");
        await answered(await redeem(w, { code }), 201);
      });
    }
  }
});

Deno.test("a redemption creates a user account with a working key, and ignores a role in the body", async () => {
  await using w = await openRegistry();
  const { code } = await create(w);
  const body = JSON.stringify({ code, role: "admin", status: "x", id: "x" }).replace(
    "{",
    '{"__proto__":{"role":"admin"},',
  );
  const { human, apiKey, proxyUrl } = await answered<RedeemInviteAnswer>(await redeem(w, body), 201);
  const did = `did:svc:registry.example.test:human:${human.id}`;
  assertEquals(human, { id: human.id, did, displayName: "User", role: "user", status: "active" });
  assertEquals([apiKey.name, proxyUrl], ["invite", "https://proxy.example.test"]);
  await answered(await w.ask("GET", "/v1/me", { apiKey: apiKey.token }));
  await refused(await w.ask("GET", "/v1/invites", { apiKey: apiKey.token }), "ADMIN_REQUIRED");
});

Deno.test("the invite list shows the status and user of each invite, newest first, without its code", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const expires = inMs(w, 1000);
  const [one, two, three] = [
    await create(w),
    await create(w, { expiresAt: expires }),
    await create(w, { expiresAt: expires }),
  ];
  const users: string[] = [];
  for (const { code } of [one, three]) {
    users.push((await answered<RedeemInviteAnswer>(await redeem(w, { code }), 201)).human.did);
  }
  const redeemedAt = inMs(w, 0);
  await w.clock.advance(1000);
  const four = await create(w);
  const text = await (await w.ask("GET", "/v1/invites", { apiKey })).text();
  const { invites } = JSON.parse(text) as { invites: Invite[] };
  assertEquals(invites.map(({ id, status, redeemedAt, redeemedBy }) => [id, status, redeemedAt, redeemedBy]), [
    [four.id, "unused", null, null],
    [three.id, "redeemed", redeemedAt, users[1]],
    [two.id, "expired", null, null],
    [one.id, "redeemed", redeemedAt, users[0]],
  ]);
  for (const { code } of [one, two, three, four]) assert(!text.includes(code.slice(8)), text);
});

Deno.test("a deleted invite's code and ID are unknown", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const { id, code } = await create(w);
  await refused(await w.ask("DELETE", `/v1/invites/${id}`, { apiKey: (await w.person()).apiKey }), "ADMIN_REQUIRED");
  await answered(await w.ask("DELETE", `/v1/invites/${id}`, { apiKey }), 204);
  await refused(await redeem(w, { code }), "INVITE_REDEEM_CODE_INVALID");
  await refused(await w.ask("DELETE", `/v1/invites/${id}`, { apiKey }), "INVITE_NOT_FOUND");
  const { invites } = await answered<{ invites: Invite[] }>(await w.ask("GET", "/v1/invites", { apiKey }));
  assert(!invites.some((invite) => invite.id === id));
});

Deno.test("a redeemed invite is not deleted, and stays in the list with its time", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const { id, code } = await create(w);
  await answered(await redeem(w, { code }), 201);
  await refused(await w.ask("DELETE", `/v1/invites/${id}`, { apiKey }), "INVITE_REDEEM_ALREADY_USED");
  const { invites } = await answered<{ invites: Invite[] }>(await w.ask("GET", "/v1/invites", { apiKey }));
  assertEquals(invites.find((invite) => invite.id === id)?.status, "redeemed");
});

Deno.test("an admin has 1,000 open invites, and only the end of an open one makes room", async () => {
  await using w = await openRegistry();
  const { id, apiKey } = await w.admin();
  const another = async () => await outcome(await w.ask("POST", "/v1/invites", { apiKey, body: {} }));
  const remove = async (invite: { id: string }) =>
    await answered(await w.ask("DELETE", `/v1/invites/${invite.id}`, { apiKey }), 204);
  const brief = await create(w, { expiresAt: inMs(w, 1000) });
  const [deleted, redeemed] = [await create(w), await create(w)];
  const quota = await w.kv.get<QuotaRecord>(KEYS.quota(id));
  assert(quota.value);
  const [ofBrief, [never, open]] = quota.value.invites as [[number, number], [number, number]];
  assertEquals([ofBrief[1], open], [1, 2]);
  const invites: QuotaRecord["invites"] = [ofBrief, [never, LIMITS.openInvites - 1]];
  await w.kv.set(quota.key, { ...quota.value, invites });
  const full = "409 QUOTA_EXCEEDED";
  assertEquals(await another(), full);
  // It counts until the end of its hour, and its deletion is not that of an open one.
  await w.clock.advance(1000);
  await remove(brief);
  assertEquals(await another(), full);
  await w.clock.advance(3_600_000);
  assertEquals([await another(), await another()], ["201", full]);
  await remove(deleted);
  await answered(await redeem(w, { code: redeemed.code }), 201);
  assertEquals([await another(), await another(), await another()], ["201", "201", full]);
});

Deno.test("one of 100 concurrent redemptions succeeds and stores one human and one key", async () => {
  await using w = await openRegistry();
  const { code } = await create(w);
  const before = [await countOf(w, KEYS.human("x")), await countOf(w, KEYS.apiKey("x"))];
  const work = tally(Array.from({ length: 100 }, (_, i) => {
    moveTo(w, i % 7);
    return redeem(w, { code });
  }));
  assertEquals(await withTime(w, work), { "201": 1, "409 INVITE_REDEEM_ALREADY_USED": 99 });
  assertEquals([await countOf(w, KEYS.human("x")), await countOf(w, KEYS.apiKey("x"))], before.map((n) => n + 1));
});

Deno.test("of a redemption and a deletion of one invite at the same time, one succeeds", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  for (let round = 0; round < trials(8); round++) {
    const { id, code } = await create(w);
    const work = [redeem(w, { code }), w.ask("DELETE", `/v1/invites/${id}`, { apiKey })];
    if (round % 2) work.reverse();
    const outcomes = await withTime(w, Promise.all(work.map(async (answer) => outcome(await answer))));
    const isDeleted = outcomes.includes("204");
    const refusal = isDeleted ? "INVITE_REDEEM_CODE_INVALID" : "INVITE_REDEEM_ALREADY_USED";
    assertEquals(
      outcomes.toSorted(),
      isDeleted ? ["204", `400 ${refusal}`] : ["201", `409 ${refusal}`],
    );
    await refused(await redeem(w, { code }), refusal);
    if (round % 20 === 19) await w.clock.advance(60_000);
  }
});

Deno.test("a deleted invite leaves nothing in the store, also one without an end", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const { id, code } = await create(w);
  assertEquals([await countOf(w, KEYS.invite("x")), await countOf(w, KEYS.inviteCode("x"))], [1, 1]);
  await answered(await w.ask("DELETE", `/v1/invites/${id}`, { apiKey }), 204);
  assertEquals([await countOf(w, KEYS.invite("x")), await countOf(w, KEYS.inviteCode("x"))], [0, 0]);
  await refused(await redeem(w, { code }), "INVITE_REDEEM_CODE_INVALID");
});
