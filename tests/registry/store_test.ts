/**
 * Shows the registry on a failing store: it answers 503 and changes nothing when the store fails, works with ten
 * checks in a commit as KV Connect requires, and retries conflicting commits.
 */
import { assert, assertEquals } from "@std/assert";
import { REGISTRY_ROUTES } from "../../registry/routes.ts";
import type { ReissueAnswer } from "../../shared/protocol/api/agents.ts";
import { wrapStoreErrors } from "../../shared/server/store/store_errors.ts";
import { stampsOf } from "../support/each_fault.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import {
  answered,
  moveTo,
  openRegistry,
  outcome,
  readCrl,
  refresh,
  refused,
  tally,
  withTime,
} from "../support/registry_world.ts";
import { BOOTSTRAP_SECRET, type Person, REGISTRY_URL, type TestAgent, type World } from "../support/world.ts";
import { IS_LONG } from "../support/trials.ts";
import { STEPS, touches } from "./steps.ts";
import { openTestKv } from "../support/test_store.ts";

/** Routes that answer from memory and configuration. */
const NEEDS_NO_STORE = [
  "/healthz",
  "/v1/metadata",
  "/openapi.json",
  ...REGISTRY_ROUTES.filter(({ isPage }) => isPage).map(({ path }) => path),
];

/** Steps that the gate tries against lasting conflicts: the others wait in the same queues. */
const CONTENDED = ["invite", "registration", "deletion of an agent", "count of a limit"];

/** A request on each route, with the credentials that it needs. */
async function everyRoute(w: World, admin: Person, agent: TestAgent): Promise<[string, Response][]> {
  const answers: [string, Response][] = [];
  for (const [i, { method, path }] of REGISTRY_ROUTES.entries()) {
    moveTo(w, i + w.log.length);
    const target = path.replace(":id", agent.agent.id);
    const body = method === "POST"
      ? JSON.stringify({
        refreshToken: "x",
        code: "x",
        name: "relay",
        agentDid: agent.agent.did,
        aitJti: agent.agent.currentJti,
        ownerDid: agent.owner.did,
        publicKey: agent.keys.publicKey,
      })
      : "";
    const request = path.endsWith("/refresh")
      ? await w.signed(agent, { base: REGISTRY_URL, target, body })
      : new Request(REGISTRY_URL + target, {
        method,
        headers: {
          Authorization: `Bearer ${admin.apiKey}`,
          "x-bootstrap-secret": BOOTSTRAP_SECRET,
          "X-Svc-Agent-Access": agent.agentAuth.accessToken,
          ...(path.startsWith("/internal") ? { "X-Svc-Service-Id": admin.id, "X-Svc-Service-Secret": "x" } : {}),
        },
        body: body || null,
      });
    answers.push([`${method} ${path}`, await w.fetch(request)]);
  }
  return answers;
}

Deno.test("every route that needs the store is 503 with Retry-After while the store fails", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  const admin = await w.admin();
  const agent = await w.agent();
  faulty.faults = { fails: () => true };
  for (const [route, answer] of await everyRoute(w, admin, agent)) {
    const path = route.split(" ")[1] ?? "";
    if (NEEDS_NO_STORE.includes(path)) assertEquals(answer.status, 200, route);
    else if (path === "/health" || path === "/readyz") assertEquals(answer.status, 503, route);
    else {
      const seconds = Number(answer.headers.get("retry-after"));
      assert(seconds >= 1, route);
      await refused(answer, "SERVICE_UNAVAILABLE");
      continue;
    }
    await answer.body?.cancel();
  }
  faulty.faults = {};
  await answered(await w.ask("GET", "/v1/me", { apiKey: admin.apiKey }));
  await answered(await refresh(w, agent, agent.agentAuth.refreshToken));
});

Deno.test("no route is 500 and nothing changes when the store only reads", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  const admin = await w.admin();
  const agent = await w.agent();
  await w.clock.advance(60_000);
  const before = await stampsOf(w);
  faulty.faults = { fails: ({ method }) => ["commit", "set", "delete"].includes(method) };
  for (const [route, answer] of await everyRoute(w, admin, agent)) {
    assert(answer.status === 503 || answer.status < 500, `${route} ${answer.status}`);
    await answer.body?.cancel();
  }
  assertEquals(await stampsOf(w), before);
});

Deno.test("every route and health are 503 when the store is closed", async () => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  await using w = await openRegistry({ kv });
  kv.close();
  await refused(await w.ask("GET", "/v1/me", { apiKey: "svc_pat_x" }), "SERVICE_UNAVAILABLE");
  assertEquals((await w.ask("GET", "/health")).status, 503);
});

Deno.test("a commit of at most ten checks that conflicts is retried; the client gets success, 503 or a refresh conflict", async (t) => {
  for (const [name, record, wanted, prepare] of STEPS) {
    await t.step(name, async () => {
      using faulty = await FaultyKv.open({ maxChecks: 10 });
      await using w = await openRegistry({ kv: faulty.kv, maxChecks: 10 });
      const call = await prepare(w);
      let met = false;
      faulty.faults = { maxChecks: 10, conflicts: (commit) => !met && (met = touches(record)(commit)) };
      const result = await withTime(w, call().then(outcome));
      assert(met, "no such commit was made");
      assert(faulty.mostChecks <= 10, `${faulty.mostChecks} checks`);
      const allowed = [
        wanted,
        "503 SERVICE_UNAVAILABLE",
        ...(name === "refresh" ? ["409 AGENT_AUTH_REFRESH_CONFLICT"] : []),
      ];
      assert(allowed.includes(result), result);
      if (result === wanted) return;
      const again = await withTime(w, call().then(outcome));
      assert([wanted, "401 AGENT_AUTH_REFRESH_UNAUTHORIZED"].includes(again), `then ${again}`);
    });
  }
});

Deno.test("records that stay contended are 503 after ten attempts or 5 s", async (t) => {
  for (const [name, record, wanted, prepare] of STEPS) {
    if (["use of a key", "refresh"].includes(name) || !IS_LONG && !CONTENDED.includes(name)) continue;
    await t.step(name, async () => {
      using faulty = await FaultyKv.open();
      await using w = await openRegistry({ kv: faulty.kv });
      const call = await prepare(w);
      let tries = 0;
      // One change waits until the end; more than ten attempts show the queue of each other one (D-221).
      const most = ["invite", "count of a limit"].includes(name) ? Infinity : 11;
      faulty.faults = { conflicts: (commit) => touches(record)(commit) && ++tries <= most };
      const began = w.clock.now();
      const result = await withTime(w, call().then(outcome), 100);
      if (most === 11) return assertEquals(result, wanted);
      assertEquals(result, "503 SERVICE_UNAVAILABLE");
      if (name === "invite") return assert(w.clock.now() - began <= 5_300 && tries > 20, `${tries} tries`);
      // A count is first tried in one commit with other waiting claims, then alone.
      assert(tries >= 1 && tries <= 11, `${tries} tries`);
    });
  }
});

Deno.test("many claims that wait share commits of ten checks", async () => {
  using faulty = await FaultyKv.open({ maxChecks: 10 });
  await using w = await openRegistry({ kv: faulty.kv, maxChecks: 10 });
  const answers = Array.from({ length: 100 }, (_, i) => {
    moveTo(w, i);
    return w.ask("GET", `/v1/resolve/${w.newId()}`);
  });
  assertEquals(await tally(answers), { "404 AGENT_NOT_FOUND": 100 });
  assertEquals(faulty.mostChecks, 10);
});

Deno.test("eight agents end with correct records when three of ten commits conflict", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  const owner = await w.person();
  const agents = await w.agents(8, owner);
  faulty.faults = { conflictRate: 0.3 };
  const ends = await withTime(
    w,
    Promise.all(agents.map(async (a, i) => {
      moveTo(w, i);
      const rotated = await outcome(await refresh(w, a, a.agentAuth.refreshToken));
      assert(["200", "409 AGENT_AUTH_REFRESH_CONFLICT"].includes(rotated), rotated);
      const reissued = await w.ask("POST", `/v1/agents/${a.agent.id}/reissue`, { apiKey: owner.apiKey });
      const { agent } = await answered<ReissueAnswer>(reissued);
      await answered(await w.ask("DELETE", `/v1/agents/${a.agent.id}`, { apiKey: owner.apiKey }), 204);
      return [a.agent.currentJti, agent.currentJti];
    })),
    20,
  );
  faulty.faults = {};
  const { seq, revocations } = await readCrl(w);
  assertEquals(seq, 16);
  assertEquals(revocations.map(({ jti }) => jti).sort(), ends.flat().sort());
  const [a] = agents as [TestAgent];
  moveTo(w, 1000);
  await refused(await refresh(w, a, a.agentAuth.refreshToken), "AGENT_AUTH_REFRESH_REVOKED");
});
