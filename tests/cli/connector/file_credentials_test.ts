/**
 * Credentials of a connector: refreshed ahead of time, read again when another process changed them, and final when the
 * session is revoked.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CliError } from "../../../cli/errors.ts";
import { openFileCredentials } from "../../../cli/connector/file_credentials.ts";
import type { Machine } from "../cli_world.ts";
import { contextOf } from "./context.ts";
import { machineWithAlpha } from "./local_machine.ts";
import { until, untilLater } from "../../support/until.ts";
import { parseDid } from "../../../shared/protocol/did.ts";
import { held } from "./two_connectors.ts";

async function opened(machine: Machine) {
  const ctx = contextOf(machine.world, machine);
  const events: string[] = [];
  const { session } = await openFileCredentials(ctx, "alpha", (event) => void events.push(event));
  const ends: unknown[] = [];
  session.onEnd = (error) => void ends.push(error);
  const endOf = () => ends.map((error) => (error as { code?: string }).code);
  return { session, events, endOf };
}

const token = (machine: Machine) => JSON.parse(machine.read("agents/alpha/registry-auth.json")).accessToken;

Deno.test("the access token is refreshed at least 60 s before it expires, each time", async () => {
  await using machine = await machineWithAlpha();
  const { session, events } = await opened(machine);
  session.watch();
  for (let n = 1; n <= 3; n++) {
    const [before, end] = [token(machine), session.accessExpiresAt];
    await machine.world.clock.advance(end - machine.world.clock.now() - 61_000);
    await until(() => events.length === n);
    assert(token(machine) !== before);
    assertEquals((await session.current()).accessToken, token(machine));
  }
  session.stop();
});

Deno.test("tokens that another process refreshed are used and not refreshed again", async () => {
  await using machine = await machineWithAlpha();
  const { session, events } = await opened(machine);
  const old = await session.current();
  await machine.json("agent", "auth", "refresh", "alpha");
  assertEquals((await session.current()).accessToken, old.accessToken);
  assertEquals(await session.renew("access", old), true);
  assertEquals([(await session.current()).accessToken, events], [token(machine), ["reloaded"]]);
});

Deno.test("a refused token is refreshed when its files are unchanged; a refused AIT is not", async () => {
  await using machine = await machineWithAlpha();
  const { session, events } = await opened(machine);
  const old = await session.current();
  const renewed = [await session.renew("identity", old), await session.renew("access", old)];
  assertEquals([renewed, events], [[false, true], ["refreshed"]]);
  await machine.json("agent", "reissue", "alpha");
  assertEquals(await session.renew("identity", await session.current()), true);
  session.stop();
});

Deno.test("what another call has renewed since is not renewed again, because a link with the old identity would end permanently", async () => {
  await using machine = await machineWithAlpha();
  const { session, events } = await opened(machine);
  const first = await session.current();
  assertEquals([await session.renew("access", first), await session.renew("access", first)], [true, true]);
  const second = await session.current();
  await machine.json("agent", "reissue", "alpha");
  assertEquals([await session.renew("identity", second), await session.renew("identity", second)], [true, true]);
  assertEquals(events, ["refreshed", "reloaded"]);
  session.stop();
});

Deno.test("an identity that is refused during its reissue is replaced by the new one", async () => {
  await using machine = await machineWithAlpha();
  const { world } = machine, { clock } = world;
  const { session } = await opened(machine);
  const old = await session.current();
  const reissue = held(world, `/v1/agents/${parseDid(old.did)?.id}/reissue`);
  machine.fetch = reissue.fetch;
  const reissuing = machine.json("agent", "reissue", "alpha");
  await reissue.asked;
  const before = clock.pending();
  let renewed: boolean | null = null;
  void session.renew("identity", old).then((isNew) => renewed = isNew);
  await until(() => renewed !== null || clock.pending() !== before);
  reissue.release();
  await reissuing;
  await untilLater(clock, () => renewed !== null, 100);
  assertEquals([renewed, (await session.current()).ait === old.ait], [true, false]);
});

Deno.test("an unreachable registry is asked again; a revoked session is final", async () => {
  await using machine = await machineWithAlpha();
  const { world } = machine;
  const { session, events, endOf } = await opened(machine);
  session.watch();
  machine.fetch = () => Promise.reject(new TypeError("no listener"));
  await world.clock.advance(session.accessExpiresAt - world.clock.now() - 71_000);
  await untilLater(world.clock, () => events.includes("refresh_failed"));
  assertEquals(endOf(), []);
  assertStringIncludes(session.problem ?? "", "cannot be reached");
  machine.fetch = world.fetch;
  await untilLater(world.clock, () => session.problem === null);
  await machine.json("agent", "auth", "revoke", "alpha");
  await untilLater(world.clock, () => endOf().length > 0);
  assertEquals(endOf(), ["AGENT_AUTH_REFRESH_REVOKED"]);
});

Deno.test("a refresh that fails before a request is a problem of the session until one succeeds", async () => {
  await using machine = await machineWithAlpha();
  const { world } = machine, { session } = await opened(machine);
  machine.fetch = () => Promise.reject(new TypeError("no listener"));
  await world.clock.advance(session.accessExpiresAt - world.clock.now());
  await session.current();
  assertStringIncludes(session.problem ?? "", "cannot be reached");
  machine.fetch = world.fetch;
  await session.current();
  assertEquals(session.problem, null);
});

Deno.test("the files of an agent that was deleted, or made again under its name, end the session", async () => {
  await using machine = await machineWithAlpha();
  for (const again of [true, false]) {
    const { session, endOf } = await opened(machine);
    const old = await session.current();
    await machine.json("agent", "delete", "alpha", "--yes");
    if (again) await machine.json("agent", "create", "alpha");
    await assertRejects(() => session.renew("access", old), CliError, again ? "made again" : "alpha was deleted");
    assertEquals(endOf(), ["CLI_AGENT_UNKNOWN"]);
    assertEquals((await session.current()).did, old.did, "it never signs as the other agent");
    session.stop();
  }
});
