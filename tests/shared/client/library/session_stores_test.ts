/** Where an `Agent` has its session, against the registry's rules (D-42 to D-44, D-125): lost answers, and two programs. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentDirectory } from "../../../../shared/client/library/directory_store.ts";
import { directorySession, keptSession } from "../../../../shared/client/library/session_stores.ts";
import { SvcError } from "../../../../shared/client/library/svc_error.ts";
import { REGISTRY_URL, World } from "../../../support/world.ts";
import { Machine } from "../../../cli/cli_world.ts";
import { until } from "../../../support/until.ts";
import { passing, systemOf } from "./library_bench.ts";

/** An agent's folder that `svc` has made, and a `fetch` that can lose answers. */
async function bench() {
  const world = await World.open();
  const machine = await Machine.ofPerson(world);
  await machine.json("agent", "create", "alpha");
  const state = { lost: 0 };
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const response = await world.fetch(input, init);
    if (state.lost-- > 0) throw new TypeError("the connection was lost");
    return response;
  };
  const deps = { fetch: fetch as typeof globalThis.fetch, clock: world.clock, random: world.random };
  const directory = await AgentDirectory.open(systemOf(), `${machine.dir}/agents/alpha`);
  const end = async () => {
    await machine[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  };
  return { world, machine, deps, directory, state, [Symbol.asyncDispose]: end };
}

const saved = (machine: Machine) => JSON.parse(machine.read("agents/alpha/registry-auth.json")).refreshToken as string;

Deno.test("a refresh saves the new tokens in the folder, and svc continues with them", async () => {
  await using b = await bench();
  const store = directorySession(b.deps, b.directory, REGISTRY_URL);
  const before = (await store.read()).auth;
  const auth = await store.refresh();
  assert(auth.refreshToken !== before.refreshToken);
  assertEquals(saved(b.machine), auth.refreshToken);
  await b.machine.json("agent", "auth", "refresh", "alpha");
  assert(saved(b.machine) !== auth.refreshToken);
});

Deno.test("a refresh whose answer was lost is recovered by the next one", async () => {
  await using b = await bench();
  const store = directorySession(b.deps, b.directory, REGISTRY_URL);
  await store.read();
  b.state.lost = 1;
  await assertRejects(() => store.refresh());
  await b.world.clock.advance(2_000);
  const auth = await store.refresh();
  assertEquals(saved(b.machine), auth.refreshToken);
});

Deno.test("tokens that another program has saved are used instead of a refresh", async () => {
  await using b = await bench();
  const store = directorySession(b.deps, b.directory, REGISTRY_URL);
  await store.read();
  await b.machine.json("agent", "auth", "refresh", "alpha");
  const refreshed = saved(b.machine);
  assertEquals((await store.refresh()).refreshToken, refreshed);
});

Deno.test("a refresh that another program won costs one refusal and another read", async () => {
  await using b = await bench();
  const store = directorySession(b.deps, b.directory, REGISTRY_URL);
  await store.read();
  const old = b.machine.read("agents/alpha/registry-auth.json");
  await b.machine.json("agent", "auth", "refresh", "alpha");
  const newer = b.machine.read("agents/alpha/registry-auth.json");
  // The other program has sent its request, and saves the answer two seconds later.
  b.machine.write("agents/alpha/registry-auth.json", old);
  let isDone = false;
  const refreshing = store.refresh().finally(() => isDone = true);
  await until(() => b.world.clock.waiting > 0);
  await b.world.clock.advance(1_000);
  b.machine.write("agents/alpha/registry-auth.json", newer);
  await passing(b.world.clock, 10, () => isDone);
  assertEquals((await refreshing).refreshToken, saved(b.machine));
});

Deno.test("tokens of a program that recovered the session meanwhile are not overwritten by older ones", async () => {
  await using b = await bench();
  const first = directorySession(b.deps, b.directory, REGISTRY_URL);
  await first.read();
  const second = directorySession({ ...b.deps, fetch: b.world.fetch }, b.directory, REGISTRY_URL);
  await second.read();
  let recovered: string | null = null;
  const slow: typeof fetch = async (input, init) => {
    const response = await b.world.fetch(input, init);
    // Before this answer arrives, the second program finds the marker and recovers the session.
    await b.world.clock.advance(2_000);
    recovered ??= (await second.refresh()).refreshToken;
    return response;
  };
  const late = directorySession({ ...b.deps, fetch: slow }, b.directory, REGISTRY_URL);
  await late.read();
  assertEquals((await late.refresh()).refreshToken, recovered);
  assertEquals(saved(b.machine), recovered);
  const works = directorySession(b.deps, b.directory, REGISTRY_URL);
  await works.read();
  await works.refresh();
});

/** The credentials of alpha, as a program would keep them. */
function credentialsOf(machine: Machine) {
  return {
    did: JSON.parse(machine.read("agents/alpha/identity.json")).did as string,
    ait: machine.read("agents/alpha/ait.jwt").trim(),
    secretKey: machine.read("agents/alpha/secret.key").trim(),
    agentAuth: JSON.parse(machine.read("agents/alpha/registry-auth.json")),
  };
}

Deno.test("a program that keeps its session saves each new one, and recovers after a crash before it saved", async () => {
  await using b = await bench();
  const credentials = credentialsOf(b.machine);
  const kept: string[] = [];
  const save = (auth: { refreshToken: string }) => Promise.resolve(void kept.push(auth.refreshToken));
  const store = await keptSession(b.deps, credentials, REGISTRY_URL, save);
  const { identity, aitExpiresAt } = await store.read();
  assertEquals([identity.did, aitExpiresAt > b.world.clock.now()], [credentials.did, true]);
  await store.refresh();
  await store.refresh();
  assertEquals(kept.length, 2);
  // The program ends before it saves, and starts with what it had.
  const agentAuth = { ...credentials.agentAuth, refreshToken: kept[1] };
  const crashed = await keptSession(b.deps, { ...credentials, agentAuth }, REGISTRY_URL, () => new Promise(() => {}));
  void crashed.refresh();
  await until(async () => (await crashed.read()).auth.refreshToken !== kept[1]);
  await b.world.clock.advance(2_000);
  const again = await keptSession(b.deps, { ...credentials, agentAuth }, REGISTRY_URL, save);
  await again.refresh();
  assertEquals(kept.length, 3);
});

Deno.test("a save that fails is repeated with the next refresh, and the new tokens are used meanwhile", async () => {
  await using b = await bench();
  let failures = 1;
  const kept: string[] = [];
  const store = await keptSession(b.deps, credentialsOf(b.machine), REGISTRY_URL, ({ refreshToken }) => {
    if (failures-- > 0) return Promise.reject(new Error("disk full"));
    return Promise.resolve(void kept.push(refreshToken));
  });
  await assertRejects(() => store.refresh(), Error, "disk full");
  await b.world.clock.advance(2_000);
  const { refreshToken } = await store.refresh();
  assertEquals(kept, [refreshToken]);
});

Deno.test("a damaged key or identity token is refused before a request", async () => {
  await using b = await bench();
  const credentials = credentialsOf(b.machine);
  for (const damaged of [{ secretKey: "AAAA" }, { secretKey: "?" }, { ait: "x" }, { ait: "e30.e30.e30" }]) {
    const open = () => keptSession(b.deps, { ...credentials, ...damaged }, REGISTRY_URL, () => Promise.resolve());
    assertEquals((await assertRejects(open, SvcError)).code, "CLI_USAGE");
  }
});
