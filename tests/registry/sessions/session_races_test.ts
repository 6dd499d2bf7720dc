/**
 * Shows that a session has one state after concurrent requests: one refresh succeeds, and no revoked token works again
 * (D-42 to D-44). Runs on the real store. Each round uses the tokens that it leaves.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { ReissueAnswer } from "../../../shared/protocol/api/agents.ts";
import type { AgentAuth } from "../../../shared/protocol/api/sessions.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import {
  answered,
  auditEvents,
  moveTo,
  openRegistry,
  outcome,
  readCrl,
  refresh,
  refreshed,
  refused,
  tally,
  validate,
  withTime,
} from "../../support/registry_world.ts";
import { expositionOf } from "../../../shared/server/metrics/metrics.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { trials } from "../../support/trials.ts";
import { AMPLE_QUOTAS, type TestAgent, type World } from "../../support/world.ts";
import { owned } from "../steps.ts";

const ROUNDS = trials(8);
const REVOKED = "AGENT_AUTH_REFRESH_REVOKED";
const CONFLICT = "409 AGENT_AUTH_REFRESH_CONFLICT", INVALID = "401 AGENT_AUTH_REFRESH_INVALID";

/** Runs both concurrently, in either order of starting. Returns the answers in the order of the arguments. */
async function race(
  w: World,
  round: number,
  one: () => Promise<Response>,
  two: () => Promise<Response>,
): Promise<[Response, Response]> {
  moveTo(w, round);
  const work = round % 2 ? [two(), one()].reverse() : [one(), two()];
  return await withTime(w, Promise.all(work), 50) as [Response, Response];
}

/** One owner and one key pair for all rounds, because the test does not concern their creation. */
async function eachRound(
  w: World,
  run: (round: number, a: TestAgent) => Promise<string>,
): Promise<Record<string, number>> {
  const owner = await w.person();
  const keys = await keyPairFromSeed(w.random.bytes(32));
  const ends: Record<string, number> = {};
  for (let round = 0; round < ROUNDS; round++) {
    const a = await w.agent(owner, undefined, keys);
    const end = await run(round, a);
    ends[end] = (ends[end] ?? 0) + 1;
    w.clock.step(1000);
  }
  return ends;
}

Deno.test("one of 20 concurrent refreshes with one token succeeds, and its pair is the valid one", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const a = await w.agent();
  const requests = Array.from({ length: 20 }, () => refresh(w, a, a.agentAuth.refreshToken));
  const answers = await withTime(w, Promise.all(requests));
  const good = answers.filter((answer) => answer.status === 200);
  assertEquals(good.length, 1);
  const { agentAuth } = await answered<{ agentAuth: AgentAuth }>(good[0] as Response);
  for (const answer of answers) {
    if (answer !== good[0]) assert([CONFLICT, INVALID].includes(await outcome(answer)), String(answer.status));
  }
  moveTo(w, 1);
  await answered(await validate(w, a, agentAuth.accessToken), 204);
  await refreshed(w, a, agentAuth.refreshToken);
});

Deno.test("one refresh succeeds when two instances get the same token", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  await using other = await openRegistry({ kv: w.kv, seed: 2 });
  await eachRound(w, async (round, a) => {
    other.clock.step(w.clock.now() - other.clock.now());
    moveTo(other, round + 10_000);
    const [here, there] = await race(
      w,
      round,
      () => refresh(w, a, a.agentAuth.refreshToken),
      () => refresh(other, a, a.agentAuth.refreshToken),
    );
    const good = [here, there].filter((answer) => answer.status === 200);
    assertEquals(good.length, 1);
    const { agentAuth } = await answered<{ agentAuth: AgentAuth }>(good[0] as Response);
    await answered(await validate(w, a, agentAuth.accessToken), 204);
    return "one";
  });
});

Deno.test("no token is valid after the end of a session that is concurrent with a refresh", async (t) => {
  const rows: [what: string, path: string, revocations: number][] = [
    ["its revocation", "/auth/revoke", 0],
    ["the deletion of its agent", "", ROUNDS],
  ];
  for (const [what, path, revocations] of rows) {
    await t.step(what, async () => {
      await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
      const ends = await eachRound(w, async (round, a) => {
        const [rotated, ended] = await race(
          w,
          round,
          () => refresh(w, a, a.agentAuth.refreshToken),
          () => owned(w, "DELETE", a, path),
        );
        assertEquals(ended.status, 204);
        const tokens = [a.agentAuth];
        if (rotated.status === 200) tokens.push((await answered<{ agentAuth: AgentAuth }>(rotated.clone())).agentAuth);
        for (const { accessToken, refreshToken } of tokens) {
          await refused(await validate(w, a, accessToken), "AGENT_AUTH_VALIDATE_UNAUTHORIZED");
          await refused(await refresh(w, a, refreshToken), REVOKED);
          await refused(await refresh(w, a, refreshToken, { recovery: true }), REVOKED);
        }
        return await outcome(rotated);
      });
      const known = ["200", CONFLICT, `401 ${REVOKED}`];
      assert(Object.keys(ends).every((end) => known.includes(end)), JSON.stringify(ends));
      if (revocations === 0) await refused(await w.ask("GET", "/v1/crl"), "CRL_NOT_FOUND");
      else assertEquals((await readCrl(w)).revocations.length, revocations);
    });
  }
});

Deno.test("one token pair is left, valid with the new AIT only, when refresh and reissue are concurrent", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const ends = await eachRound(w, async (round, a) => {
    const [rotated, reissued] = await race(
      w,
      round,
      () => refresh(w, a, a.agentAuth.refreshToken),
      () => owned(w, "POST", a, "/reissue"),
    );
    const { agent, ait, agentAuth } = await answered<ReissueAnswer>(reissued);
    assertEquals(agentAuth, undefined, "the session stays valid");
    const live = rotated.status === 200
      ? (await answered<{ agentAuth: AgentAuth }>(rotated.clone())).agentAuth
      : a.agentAuth;
    const current = { ...a, agent, identity: { ...a.identity, ait } };
    await answered(await validate(w, current, live.accessToken), 204);
    await refused(await refresh(w, a, live.refreshToken), "AGENT_AUTH_REFRESH_UNAUTHORIZED");
    await answered(await refresh(w, current, live.refreshToken));
    return await outcome(rotated);
  });
  const known = ["200", CONFLICT, "401 AGENT_AUTH_REFRESH_UNAUTHORIZED"];
  assert(Object.keys(ends).every((end) => known.includes(end)), JSON.stringify(ends));
});

Deno.test("at most one pair is valid when recovery and use of the lost pair are concurrent", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  await eachRound(w, async (round, a) => {
    moveTo(w, round + 20_000);
    const lost = await refreshed(w, a, a.agentAuth.refreshToken);
    await w.clock.advance(1000);
    const answers = await race(
      w,
      round,
      () => refresh(w, a, a.agentAuth.refreshToken, { recovery: true }),
      () => refresh(w, a, lost.refreshToken),
    );
    const pairs = [];
    for (const answer of answers) {
      if (answer.status === 200) pairs.push((await answered<{ agentAuth: AgentAuth }>(answer.clone())).agentAuth);
    }
    assert(pairs.length <= 1, "two pairs were returned");
    const ends = [];
    for (const { accessToken } of [a.agentAuth, lost, ...pairs]) ends.push((await validate(w, a, accessToken)).status);
    assert(ends.filter((status) => status === 204).length <= 1, String(ends));
    return (await Promise.all(answers.map(outcome))).join(" and ");
  });
});

Deno.test("one of 20 concurrent recoveries succeeds, and the others are 409", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const a = await w.agent();
  await refreshed(w, a, a.agentAuth.refreshToken);
  await w.clock.advance(1000);
  moveTo(w, 1);
  const requests = Array.from({ length: 20 }, () => refresh(w, a, a.agentAuth.refreshToken, { recovery: true }));
  assertEquals(await withTime(w, tally(requests)), { "200": 1, [CONFLICT]: 19 });
});

Deno.test("a change between the checks of a refresh and its commit makes it 409 and stays in effect", async (t) => {
  const rows: [what: string, meanwhile: (w: World, a: TestAgent) => Promise<Response>, then: string][] = [
    ["revocation of the session", (w, a) => owned(w, "DELETE", a, "/auth/revoke"), `401 ${REVOKED}`],
    ["deletion of the agent", (w, a) => owned(w, "DELETE", a, ""), `401 ${REVOKED}`],
    ["another refresh", (w, a) => refresh(w, a, a.agentAuth.refreshToken), INVALID],
  ];
  for (const [what, meanwhile, then] of rows) {
    await t.step(what, async () => {
      using faulty = await FaultyKv.open();
      await using w = await openRegistry({ kv: faulty.kv });
      const a = await w.agent();
      faulty.faults = {
        async before({ method, keys }) {
          if (method !== "commit" || !keys.some((key) => key[1] === "session")) return;
          faulty.faults = {};
          assert((await meanwhile(w, a)).status < 300);
        },
      };
      assertEquals(await outcome(await refresh(w, a, a.agentAuth.refreshToken)), CONFLICT);
      assertEquals(await outcome(await refresh(w, a, a.agentAuth.refreshToken)), then);
    });
  }
});

Deno.test("concurrent revocations of one session are all 204 and write one audit event", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const a = await w.agent();
  const work = Array.from({ length: 20 }, () => owned(w, "DELETE", a, "/auth/revoke"));
  assertEquals(await withTime(w, tally(work)), { "204": 20 });
  assertEquals((await auditEvents(w, "event=session.revoked")).length, 1);
});

Deno.test("a refresh with an identity that is replaced just before its commit gives no tokens", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  await using other = await openRegistry({ kv: faulty.kv, clock: w.clock, seed: 2 });
  const a = await w.agent();
  faulty.faults.before = async ({ method, keys }) => {
    if (method !== "commit" || !keys.some((key) => key[1] === "session")) return;
    faulty.faults = {};
    await answered(await owned(other, "POST", a, "/reissue"));
  };
  assertEquals(await outcome(await refresh(w, a, a.agentAuth.refreshToken)), CONFLICT);
  assertMatch(expositionOf(w.metrics), /^svc_sessions_refreshed_total\{result="refused"\} 1$/m);
  assertEquals((await auditEvents(w, "event=session.")).length, 0);
});
