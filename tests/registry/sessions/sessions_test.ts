/**
 * Shows an agent's session (D-42 to D-44): the validation of an access token, the rotation by a refresh, older tokens
 * (D-43), the recovery of a lost answer (D-44), and the new session after a reissue.
 */
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { ReissueAnswer } from "../../../shared/protocol/api/agents.ts";
import type { AgentAuth } from "../../../shared/protocol/api/sessions.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { stampsOf } from "../../support/each_fault.ts";
import {
  answered,
  inside,
  moveTo,
  openRegistry,
  refresh,
  refreshed,
  refused,
  validate,
} from "../../support/registry_world.ts";
import { AMPLE_QUOTAS, REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";
import { owned } from "../steps.ts";

const INVALID = "AGENT_AUTH_REFRESH_INVALID", REVOKED = "AGENT_AUTH_REFRESH_REVOKED";
const UNAUTHORIZED = "AGENT_AUTH_VALIDATE_UNAUTHORIZED";
const DAY_MS = 86_400_000;

/** An agent whose AIT expires after every session here. */
const agentFor90Days = (w: World) => w.agent(undefined, "alpha", undefined, { ttlDays: 90 });

/** Asserts that these are the session's tokens by using both. Returns the next ones. */
async function isLive(w: World, a: TestAgent, auth: AgentAuth): Promise<AgentAuth> {
  await answered(await validate(w, a, auth.accessToken), 204);
  await w.clock.advance(1000);
  return await refreshed(w, a, auth.refreshToken);
}

Deno.test("validation is 204 for the agent's valid token and has a code for every other one", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const b = await w.agent();
  const token = a.agentAuth.accessToken;
  const about = { agentDid: a.agent.did, aitJti: a.agent.currentJti };
  const ask = (body: unknown, access: string | undefined = token) =>
    w.ask("POST", "/v1/agents/auth/validate", {
      body,
      headers: access === undefined ? {} : { "X-Svc-Agent-Access": access },
    });
  await t.step("good: 204 without a body", async () => assertEquals(await (await ask(about)).text(), ""));
  await t.step("malformed: 400", async () => {
    for (const headers of [{}, { "X-Svc-Agent-Access": "" }]) {
      const answer = await w.ask("POST", "/v1/agents/auth/validate", { body: about, headers });
      await refused(answer, "AGENT_AUTH_VALIDATE_INVALID");
    }
  });
  await t.step("wrong: 401", async () => {
    const foreign = `did:svc:elsewhere.example:agent:${a.agent.id}`;
    const rows: [body: Record<string, string>, access: string][] = [
      [about, "garbage"],
      [about, `svc_agt_${"A".repeat(43)}`],
      [about, `${token}A`],
      [about, `${token}, ${token}`],
      [about, a.agentAuth.refreshToken],
      [about, a.owner.apiKey],
      [about, b.agentAuth.accessToken],
      [{ ...about, agentDid: b.agent.did }, token],
      [{ ...about, agentDid: foreign }, token],
      [{ ...about, agentDid: `did:svc:registry.example.test:agent:${w.newId()}` }, token],
      [{ ...about, aitJti: b.agent.currentJti }, token],
      [{ ...about, aitJti: w.newId() }, token],
    ];
    for (const [body, access] of rows) await refused(await ask(body, access), UNAUTHORIZED);
  });
  await t.step("expired: a code of its own, for the right token only", async () => {
    await w.clock.advance(900_000 - 1);
    await answered(await ask(about), 204);
    await w.clock.advance(1);
    await refused(await ask(about), "AGENT_AUTH_VALIDATE_EXPIRED");
    await refused(await ask({ ...about, aitJti: w.newId() }), UNAUTHORIZED);
    await refused(await ask(about, b.agentAuth.accessToken), UNAUTHORIZED);
  });
});

Deno.test("validation writes nothing", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const before = await stampsOf(w);
  for (const access of [a.agentAuth.accessToken, `svc_agt_${"A".repeat(43)}`]) {
    const body = JSON.stringify({ agentDid: a.agent.did, aitJti: a.agent.currentJti });
    const headers = { "X-Svc-Agent-Access": access };
    const request = new Request(`${REGISTRY_URL}/v1/agents/auth/validate`, { method: "POST", headers, body });
    await (await w.registry.fetch(request, { from: "process" })).body?.cancel();
  }
  assertEquals(await stampsOf(w), before);
});

Deno.test("a refresh returns a new pair for 15 minutes and 30 days, and ends the old access token", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  await w.clock.advance(60_000);
  const next = await refreshed(w, a, a.agentAuth.refreshToken);
  assertEquals(Object.keys(next).sort(), [
    "accessExpiresAt",
    "accessToken",
    "refreshExpiresAt",
    "refreshToken",
    "tokenType",
  ]);
  assertEquals(next.tokenType, "Bearer");
  assertMatch(next.accessToken, /^svc_agt_[A-Za-z0-9_-]{43}$/);
  assertMatch(next.refreshToken, /^svc_rft_[A-Za-z0-9_-]{43}$/);
  assertEquals(Date.parse(next.accessExpiresAt), w.clock.now() + 900_000);
  assertEquals(Date.parse(next.refreshExpiresAt), w.clock.now() + 30 * DAY_MS);
  assertNotEquals([next.accessToken, next.refreshToken], [a.agentAuth.accessToken, a.agentAuth.refreshToken]);
  await refused(await validate(w, a, a.agentAuth.accessToken), UNAUTHORIZED);
  await isLive(w, a, next);
});

Deno.test("configured lifetimes are kept", async () => {
  await using w = await openRegistry({ registry: { accessTokenTtlSeconds: 7, refreshTokenTtlSeconds: 11 } });
  const a = await w.agent();
  assertEquals(Date.parse(a.agentAuth.accessExpiresAt), w.clock.now() + 7000);
  await w.clock.advance(10_999);
  await refused(await validate(w, a, a.agentAuth.accessToken), "AGENT_AUTH_VALIDATE_EXPIRED");
  const next = await refreshed(w, a, a.agentAuth.refreshToken);
  await w.clock.advance(11_000);
  await refused(await refresh(w, a, next.refreshToken), "AGENT_AUTH_REFRESH_EXPIRED");
});

Deno.test("the direct predecessor of the current token is 401 each time and the session stays valid", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const next = await refreshed(w, a, a.agentAuth.refreshToken);
  for (let i = 0; i < 3; i++) await refused(await refresh(w, a, a.agentAuth.refreshToken), INVALID, 401);
  await isLive(w, a, next);
});

Deno.test("a refresh is 400 before authentication when its body has no usable token", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const bodies = [{}, "{", "", { refreshToken: `svc_rft_${"A".repeat(10 * 1024)}` }, {
    refreshToken: "x",
    recovery: 1,
  }];
  for (const [i, body] of bodies.entries()) {
    moveTo(w, i);
    const text = typeof body === "string" ? body : JSON.stringify(body);
    await refused(await refresh(w, a, "", { body: text }), INVALID, 400);
    await refused(await w.ask("POST", "/v1/agents/auth/refresh", { body: text }), INVALID, 400);
  }
  await isLive(w, a, a.agentAuth);
});

Deno.test("a token older than the predecessor is 401 and revokes the session", async (t) => {
  for (const shown of [0, 1]) {
    await t.step(`after three refreshes, token ${shown}`, async () => {
      await using w = await openRegistry();
      const a = await w.agent();
      const chain = [a.agentAuth];
      for (let i = 0; i < 3; i++) chain.push(await refreshed(w, a, chain[i]?.refreshToken));
      const current = chain[3] as AgentAuth;
      await refused(await refresh(w, a, chain[shown]?.refreshToken), INVALID, 401);
      await refused(await refresh(w, a, current.refreshToken), REVOKED);
      await refused(await validate(w, a, current.accessToken), UNAUTHORIZED);
      await refused(await refresh(w, a, chain[shown]?.refreshToken), REVOKED);
    });
  }
});

Deno.test("an old token revokes the session until the token's own expiry only", async () => {
  await using w = await openRegistry({ registry: { refreshTokenTtlSeconds: 100 } });
  const a = await w.agent();
  await w.clock.advance(10_000);
  const one = await refreshed(w, a, a.agentAuth.refreshToken);
  await w.clock.advance(10_000);
  const two = await refreshed(w, a, one.refreshToken);
  await w.clock.advance(80_000);
  await refused(await refresh(w, a, a.agentAuth.refreshToken), INVALID, 401);
  await isLive(w, a, two);
});

Deno.test("an unknown token and a token of another agent are 401 and end no session", async () => {
  await using w = await openRegistry();
  const [a, b] = [await w.agent(), await w.agent()];
  const spent = b.agentAuth.refreshToken;
  const one = await refreshed(w, b, spent);
  const two = await refreshed(w, b, one.refreshToken);
  const garbage = [
    "x",
    `svc_rft_${"A".repeat(43)}`,
    a.agentAuth.accessToken,
    a.owner.apiKey,
    ` ${a.agentAuth.refreshToken}`,
  ];
  for (const token of [...garbage, spent, one.refreshToken, two.refreshToken]) {
    for (const recovery of [false, true]) {
      moveTo(w, garbage.indexOf(token));
      await refused(await refresh(w, a, token, { recovery }), INVALID, 401);
    }
  }
  await isLive(w, a, a.agentAuth);
  await isLive(w, b, two);
});

Deno.test("recovery with the sent token replaces the pair of a lost answer", async (t) => {
  for (const losses of [1, 3]) {
    await t.step(`${losses} lost in a row`, async () => {
      await using w = await openRegistry();
      const a = await w.agent();
      const sent = a.agentAuth.refreshToken;
      const lost = [await refreshed(w, a, sent)];
      for (let i = 1; i < losses; i++) {
        await w.clock.advance(1000);
        lost.push(await refreshed(w, a, sent, { recovery: true }));
      }
      await w.clock.advance(1000);
      const found = await refreshed(w, a, sent, { recovery: true });
      for (const { accessToken, refreshToken } of lost) {
        await refused(await validate(w, a, accessToken), UNAUTHORIZED);
        await refused(await refresh(w, a, refreshToken), INVALID, 401);
        await refused(await refresh(w, a, refreshToken, { recovery: true }), INVALID, 401);
      }
      const next = await isLive(w, a, found);
      // The found pair has been used: the sent token is two generations old, so its reuse means a copy.
      await w.clock.advance(1000);
      await refused(await refresh(w, a, sent, { recovery: true }), INVALID, 401);
      await refused(await refresh(w, a, next.refreshToken), REVOKED);
    });
  }
});

Deno.test("a token that was used up in an ended session does not end the next one of its agent", async () => {
  await using w = await openRegistry();
  const a = await w.agent(), sent = a.agentAuth.refreshToken;
  const one = await refreshed(w, a, sent);
  await w.clock.advance(1000);
  await refreshed(w, a, one.refreshToken);
  await answered(await owned(w, "DELETE", a, "/auth/revoke"), 204);
  await w.clock.advance(1000);
  const { agent, ait, agentAuth } = await answered<ReissueAnswer>(await owned(w, "POST", a, "/reissue"));
  assert(agentAuth);
  const revived = { ...a, agent, identity: { ...a.identity, ait } };
  await refused(await refresh(w, revived, sent), INVALID, 401);
  await isLive(w, revived, agentAuth);
});

Deno.test("a recovery is 409 when it is not later than the last refresh, and succeeds a second later", async (t) => {
  await t.step("in the same second", async () => {
    await using w = await openRegistry();
    const a = await w.agent();
    const lost = await refreshed(w, a, a.agentAuth.refreshToken);
    for (let i = 0; i < 2; i++) {
      await refused(await refresh(w, a, a.agentAuth.refreshToken, { recovery: true }), "AGENT_AUTH_REFRESH_CONFLICT");
    }
    await answered(await validate(w, a, lost.accessToken), 204);
    await w.clock.advance(1000);
    const found = await refreshed(w, a, a.agentAuth.refreshToken, { recovery: true });
    await refused(await refresh(w, a, a.agentAuth.refreshToken, { recovery: true }), "AGENT_AUTH_REFRESH_CONFLICT");
    await isLive(w, a, found);
  });
  await t.step("signed earlier and delivered late", async () => {
    await using w = await openRegistry();
    const a = await w.agent();
    const early = String(unixSeconds(w.clock.now()));
    await w.clock.advance(5000);
    const current = await refreshed(w, a, a.agentAuth.refreshToken);
    await w.clock.advance(5000);
    const late = await refresh(w, a, a.agentAuth.refreshToken, { recovery: true, timestamp: early });
    await refused(late, "AGENT_AUTH_REFRESH_CONFLICT");
    await isLive(w, a, current);
  });
  await t.step("by the client's clock, not the server's", async () => {
    await using w = await openRegistry();
    const a = await w.agent();
    const ahead = (seconds: number) => String(unixSeconds(w.clock.now()) + seconds);
    await refreshed(w, a, a.agentAuth.refreshToken, { timestamp: ahead(250) });
    await w.clock.advance(10_000);
    const token = a.agentAuth.refreshToken;
    await refused(await refresh(w, a, token, { recovery: true }), "AGENT_AUTH_REFRESH_CONFLICT");
    await isLive(w, { ...a }, await refreshed(w, a, token, { recovery: true, timestamp: ahead(250) }));
  });
});

Deno.test("a recovery after a step back of the clock does not wait for as long as the step", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  // Older than the step, because its identity token would otherwise not be valid yet.
  await w.clock.advance(2 * 3_600_000);
  await refreshed(w, a, a.agentAuth.refreshToken);
  w.clock.step(-3_600_000);
  await w.clock.advance(60_000);
  await isLive(w, a, await refreshed(w, a, a.agentAuth.refreshToken, { recovery: true }));
});

Deno.test("an agent refreshes at most 35 times an hour from all addresses, because each leaves records for weeks", async () => {
  await using w = await openRegistry();
  const owner = await w.person(), a = await w.agent(owner), b = await w.agent(owner);
  let token = a.agentAuth.refreshToken;
  for (let i = 0; i < 35; i++) {
    moveTo(w, i);
    token = (await refreshed(w, a, token)).refreshToken;
  }
  moveTo(w, 40);
  await refused(await refresh(w, a, token), "RATE_LIMIT_EXCEEDED");
  // Another agent of the same person goes on.
  await refreshed(w, b, b.agentAuth.refreshToken);
  await w.clock.advance(3_600_000);
  await refreshed(w, a, token);
});

Deno.test("all agents of a person may refresh on one day, also when their tokens live for a week", async () => {
  const registry = { quotas: { ...AMPLE_QUOTAS, agents: 5 }, accessTokenTtlSeconds: 7 * 86_400 };
  await using w = await openRegistry({ registry });
  const owner = await w.person();
  for (let i = 0; i < 5; i++) {
    const a = await w.agent(owner);
    await refreshed(w, a, a.agentAuth.refreshToken);
  }
});

Deno.test("recovery with the current token is an ordinary refresh", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  await isLive(w, a, await refreshed(w, a, a.agentAuth.refreshToken, { recovery: true }));
});

Deno.test("a refresh token is refused as expired after exactly 30 days, also for recovery", async () => {
  await using w = await openRegistry();
  const [a, b, c] = [await agentFor90Days(w), await agentFor90Days(w), await agentFor90Days(w)];
  await refreshed(w, c, c.agentAuth.refreshToken);
  await w.clock.advance(30 * DAY_MS - 1);
  await answered(await refresh(w, a, a.agentAuth.refreshToken));
  await w.clock.advance(1);
  await refused(await refresh(w, b, b.agentAuth.refreshToken), "AGENT_AUTH_REFRESH_EXPIRED");
  await refused(await refresh(w, c, c.agentAuth.refreshToken, { recovery: true }), "AGENT_AUTH_REFRESH_EXPIRED");
});

Deno.test("a revoked session is refused, its AIT stays valid, and revoking it again is 204", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  for (let i = 0; i < 2; i++) await answered(await owned(w, "DELETE", a, "/auth/revoke"), 204);
  await refused(await refresh(w, a, a.agentAuth.refreshToken), REVOKED);
  await refused(await refresh(w, a, "unknown"), REVOKED);
  await refused(await validate(w, a, a.agentAuth.accessToken), UNAUTHORIZED);
  await refused(await inside(w, "/v1/crl"), "CRL_NOT_FOUND");
  const answer = await w.fetch(await w.signed(a, { target: "/pair/start", body: '{"initiatorProfile":{}}' }));
  await refused(answer, "PROXY_PAIR_INVALID_BODY");
});

Deno.test("a reissue gives an agent whose session has ended a new session under the same DID", async (t) => {
  const deaths: [what: string, die: (w: World, a: TestAgent) => Promise<unknown>][] = [
    ["revoked", (w, a) => owned(w, "DELETE", a, "/auth/revoke")],
    ["expired", (w) => w.clock.advance(30 * DAY_MS)],
    ["revoked for reuse", async (w, a) => {
      const one = await refreshed(w, a, a.agentAuth.refreshToken);
      await refreshed(w, a, one.refreshToken);
      await refresh(w, a, a.agentAuth.refreshToken);
    }],
  ];
  for (const [what, die] of deaths) {
    await t.step(what, async () => {
      await using w = await openRegistry();
      const a = await agentFor90Days(w);
      await die(w, a);
      const { agent, ait, agentAuth } = await answered<ReissueAnswer>(await owned(w, "POST", a, "/reissue"));
      assert(agentAuth, "an ended session is replaced");
      assertEquals(agent.did, a.agent.did);
      const revived = { ...a, agent, identity: { ...a.identity, ait } };
      await isLive(w, revived, agentAuth);
      await refused(await refresh(w, revived, a.agentAuth.refreshToken), INVALID, 401);
    });
  }
});
