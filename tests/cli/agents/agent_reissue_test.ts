/** agent auth revoke and agent reissue: the end of a session, and the start of a new one. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { withAlpha, works } from "../alpha.ts";
import { Machine } from "../cli_world.ts";

Deno.test("agent auth revoke succeeds when it runs twice", async () => {
  await using machine = await withAlpha();
  assert(await works(machine));
  const before = machine.tree();
  for (let i = 0; i < 2; i++) {
    assertEquals((await machine.json("agent", "auth", "revoke", "alpha")).session, "revoked");
    assertEquals([await works(machine), machine.tree()], [false, before]);
  }
});

Deno.test("agent auth revoke ends a session by ID or DID from another machine", async () => {
  await using machine = await withAlpha();
  const { did } = JSON.parse(machine.read("agents/alpha/identity.json")) as { did: string };
  await using other = await Machine.open(machine.world, { env: { SVC_API_KEY: machine.env.SVC_API_KEY! } });
  await other.json("agent", "auth", "revoke", did);
  assert(!await works(machine));
  const id = did.split(":").at(-1) ?? "";
  assertEquals((await other.json("agent", "auth", "revoke", id)).localName, null);
  assertEquals((await machine.json("agent", "auth", "revoke", id)).localName, "alpha");
});

Deno.test("agent reissue makes a new AIT, and a new session when there was none", async () => {
  await using machine = await withAlpha();
  const before = machine.read("agents/alpha/ait.jwt");
  assertEquals((await machine.json("agent", "reissue", "alpha")).newSession, false);
  assert(machine.read("agents/alpha/ait.jwt") !== before && await works(machine));
  await machine.json("agent", "auth", "revoke", "alpha");
  const { stdout, stderr } = await machine.svc("agent", "reissue", "alpha");
  assertStringIncludes(stdout, "a new session; the previous");
  // The end of the session has ended its connector.
  assertStringIncludes(stderr, "svc connector start alpha");
  assert(await works(machine));
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
});

Deno.test("the advice for an expired refresh token also works when its last refresh lost its answer, so the session lives", async () => {
  await using machine = await withAlpha();
  const { clock } = machine.world, { refreshExpiresAt } = JSON.parse(machine.read("agents/alpha/registry-auth.json"));
  clock.step(20 * 86_400_000);
  const { fetch } = machine;
  machine.fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (!String(input).endsWith("/refresh")) return answer;
    await answer.body?.cancel();
    throw new TypeError("the answer was lost");
  };
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 5, "CLI_UNREACHABLE");
  machine.fetch = fetch;
  // The identity token would otherwise end at the same time as the refresh token.
  await machine.json("agent", "reissue", "alpha");
  clock.step(Date.parse(refreshExpiresAt) - clock.now() + 1_000);
  const advice = "Run svc agent auth revoke alpha, then svc agent reissue alpha";
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 3, "AGENT_AUTH_REFRESH_EXPIRED", advice);
  assertEquals((await machine.json("agent", "reissue", "alpha")).newSession, false);
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 3, "AGENT_AUTH_REFRESH_EXPIRED");
  await machine.json("agent", "auth", "revoke", "alpha");
  assertEquals((await machine.json("agent", "reissue", "alpha")).newSession, true);
  assert(await works(machine));
});

Deno.test("agent reissue of an agent that was deleted elsewhere names the commands that make a new one", async () => {
  await using machine = await withAlpha();
  const { agents: [{ id }] } = await machine.json("agent", "list");
  await machine.world.client.deleteAgent(machine.env.SVC_API_KEY ?? "", id);
  const fix = "svc agent delete alpha, then svc agent create alpha";
  await machine.refuses(["agent", "reissue", "alpha"], 1, "AGENT_REISSUE_INVALID_STATE", fix);
});

Deno.test("the next reissue repairs a reissue whose answer was lost, also when it made a session", async (t) => {
  for (const hadSession of [true, false]) {
    await t.step(hadSession ? "with a session" : "without", async () => {
      await using machine = await withAlpha();
      if (!hadSession) await machine.json("agent", "auth", "revoke", "alpha");
      machine.loseAnswers(/\/reissue$/);
      assertEquals((await machine.failure("agent", "reissue", "alpha")).exit, 5);
      machine.fetch = machine.world.fetch;
      await machine.json("agent", "reissue", "alpha");
      assert(await works(machine));
      assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
      assertEquals((await machine.json("agent", "inspect", "alpha")).verified, true);
    });
  }
});

Deno.test("a refused reissue leaves the files unchanged", async () => {
  await using machine = await withAlpha();
  const before = machine.tree();
  await using stranger = await Machine.ofPerson(machine.world);
  await machine.refuses(["agent", "reissue", "alpha", "--api-key", stranger.env.SVC_API_KEY!], 4, "AGENT_NOT_FOUND");
  assertEquals(machine.tree(), before);
});
