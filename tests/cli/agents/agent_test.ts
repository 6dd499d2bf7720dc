/** Agents as a whole: list, inspect, delete, and which agent a name, an ID or a DID selects. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { DoctorCheck } from "../../../cli/commands/provider/checks.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { REGISTRY_URL, World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

const idOf = (machine: Machine, name: string): string =>
  JSON.parse(machine.read(`agents/${name}/identity.json`)).did.split(":").at(-1);

Deno.test("agent list shows the person's agents, where they are, and incomplete ones", async () => {
  await using machine = await Machine.ofPerson();
  assertStringIncludes((await machine.svc("agent", "list")).stdout, "No agents.");
  for (const name of ["alpha", "beta", "gamma"]) await machine.json("agent", "create", name);
  await machine.json("agent", "delete", "gamma", "--yes");
  await Deno.remove(machine.path("agents/beta"), { recursive: true });
  await Deno.mkdir(machine.path("agents/.delta.pending"));
  const { agents, pagination } = await machine.json("agent", "list");
  assertEquals(
    agents.map((agent: Record<string, unknown>) => [agent.name, agent.status, agent.localName]),
    [["gamma", "revoked", null], ["beta", "active", null], ["alpha", "active", "alpha"]],
  );
  assertEquals(pagination, { limit: 100, nextCursor: null });
  assertEquals(agents[2].expiresAt, (await machine.json("agent", "inspect", "alpha")).expiresAt);
  const expiring = (await machine.svc("agent", "list")).stdout.split("\n").filter((line) => /T\d\d:/.test(line));
  assertEquals(expiring.map((line) => line.split(" ")[0]), ["beta", "alpha"]);
  const text = await machine.svc("agent", "list", "--status", "active", "--limit", "1");
  assert(!text.stdout.includes("gamma"));
  assertStringIncludes(text.stderr, "--cursor");
  assertStringIncludes(text.stderr, "svc agent create delta");
  for (const option of ["--status=dead", "--limit=0", "--limit=101", "--limit=x"]) {
    await machine.refuses(["agent", "list", option], 2, "CLI_USAGE");
  }
  await machine.refuses(["agent", "list", "--cursor", "x"], 1, "AGENT_LIST_INVALID_QUERY");
});

Deno.test("agent list reads every page and stops at a registry whose pages never end", async () => {
  await using world = await World.open();
  const owner = await world.person();
  await using machine = await Machine.open(world, { env: { SVC_API_KEY: owner.apiKey } });
  const { agent: { did, id } } = await world.agent(owner, "alpha");
  const { agents: [one] } = await (await world.ask("GET", "/v1/agents", { apiKey: owner.apiKey })).json();
  assertEquals([one.id, one.did], [id, did]);
  let last = 3, asked = 0;
  machine.fetch = (input) => {
    const page = Number(new URL(String(input)).searchParams.get("cursor")?.slice(-4) ?? 0);
    const nextCursor = page === last ? null : `01KHYQ5H00AAAAAAAAAAAA${String(page + 1).padStart(4, "0")}`;
    asked++;
    return Promise.resolve(Response.json({ agents: [one], pagination: { limit: 100, nextCursor } }));
  };
  const all = await machine.json("agent", "list", "--status", "active");
  assertEquals([all.agents.length, all.pagination.nextCursor, asked], [4, null, 4]);
  assertEquals(machine.requests.at(-1), "GET /v1/agents?status=active&limit=100&cursor=01KHYQ5H00AAAAAAAAAAAA0003");
  last = 10_000;
  asked = 0;
  const { stderr } = await machine.svc("agent", "list", "--registry-url", "https://other.example");
  assertEquals(asked, 100);
  const more = "svc agent list --cursor=01KHYQ5H00AAAAAAAAAAAA0100 --registry-url=https://other.example";
  assertStringIncludes(stderr, `Next, for more: ${more}`);
  // Without the last word, a saved address with plain http would be refused.
  machine.env.SVC_REGISTRY_URL = "http://other.example";
  const { stderr: plain } = await machine.svc("agent", "list", "--allow-insecure");
  assertStringIncludes(plain, "Next, for more: svc agent list --cursor=01KHYQ5H00AAAAAAAAAAAA0100 --allow-insecure");
});

Deno.test("agent list shows the other agents when one is damaged", async () => {
  await using machine = await Machine.ofPerson();
  for (const name of ["alpha", "beta"]) await machine.json("agent", "create", name);
  machine.write("agents/alpha/identity.json", "rubbish");
  const { agents } = await machine.json("agent", "list");
  assertEquals(agents.map((agent: { localName: string | null }) => agent.localName), ["beta", null]);
});

Deno.test("the advice about a damaged identity.json leads to a new agent with the same name", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  machine.write("agents/alpha/identity.json", "rubbish");
  for (const command of ["delete", "reissue"]) {
    const advice = "svc agent list to see the agent's ID, then svc agent delete <id>, and remove its folder";
    await machine.refuses(
      ["agent", command, "alpha", ...command === "delete" ? ["--yes"] : []],
      1,
      "CLI_FILE_INVALID",
      advice,
    );
  }
  const { agents: [{ id }] } = await machine.json("agent", "list");
  await machine.json("agent", "delete", id, "--yes");
  await Deno.remove(machine.path("agents/alpha"), { recursive: true });
  assertEquals((await machine.json("agent", "create", "alpha")).name, "alpha");
});

Deno.test("agent inspect shows all verified facts and changes nothing but the copy of the keys", async () => {
  await using machine = await Machine.ofPerson();
  const made = await machine.json("agent", "create", "alpha", "--framework", "hermes");
  const before = machine.tree();
  const facts = await machine.json("agent", "inspect", "alpha");
  const auth = JSON.parse(machine.read("agents/alpha/registry-auth.json"));
  assertEquals(facts, {
    did: made.did,
    name: "alpha",
    framework: "hermes",
    ownerDid: made.ownerDid,
    status: "active",
    session: "active",
    aitJti: facts.aitJti,
    issuedAt: "2026-02-21T00:01:00.000Z",
    expiresAt: made.expiresAt,
    kid: facts.kid,
    accessExpiresAt: auth.accessExpiresAt,
    refreshExpiresAt: auth.refreshExpiresAt,
    registryUrl: REGISTRY_URL,
    verified: true,
    problem: null,
  });
  const copy = `keys/${encodeURIComponent(REGISTRY_URL)}.json`;
  const withoutKeys = ({ [copy]: _, ...rest }: Record<string, string>) => rest;
  const { [copy]: keys } = machine.tree();
  assertEquals(withoutKeys(machine.tree()), withoutKeys(before));
  assertStringIncludes(keys ?? "", facts.kid);
  const { stdout } = await machine.svc("agent", "inspect", "alpha");
  for (const value of Object.values(facts)) if (typeof value === "string") assertStringIncludes(stdout, value);
});

Deno.test("agent inspect needs no API key, and no registry when the keys are saved", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  delete machine.env.SVC_API_KEY;
  await Deno.remove(machine.path("keys"), { recursive: true });
  machine.fetch = () => Promise.reject(new TypeError("no network"));
  const first = await machine.failure("agent", "inspect", "alpha");
  assertEquals([first.exit, first.code, JSON.parse(first.stdout).verified], [5, "CLI_UNREACHABLE", false]);
  machine.fetch = machine.world.fetch;
  await machine.json("agent", "inspect", "alpha");
  machine.fetch = () => Promise.reject(new TypeError("no network"));
  machine.world.clock.step(3_600_000);
  const { verified, status } = await machine.json("agent", "inspect", "alpha");
  assertEquals([verified, status], [true, "unknown"]);
});

Deno.test("agent inspect shows a revoked agent as revoked and refuses an AIT that does not verify", async (t) => {
  await using machine = await Machine.ofPerson();
  const { did } = await machine.json("agent", "create", "alpha");
  await machine.json("agent", "create", "beta");
  await using elsewhere = await Machine.open(machine.world, { env: { SVC_API_KEY: machine.env.SVC_API_KEY! } });
  await elsewhere.json("agent", "delete", did, "--yes");
  assertEquals((await machine.json("agent", "inspect", "alpha")).status, "revoked");
  const other = machine.read("agents/beta/ait.jwt");
  const own = machine.read("agents/alpha/ait.jwt").trim();
  const tokens = { "another agent's": other, tampered: own.slice(0, -4) + "AAAA", rubbish: "x" };
  for (const [what, token] of Object.entries(tokens)) {
    await t.step(what, async () => {
      machine.write("agents/alpha/ait.jwt", token);
      const { exit, code, stdout } = await machine.failure("agent", "inspect", "alpha");
      assertEquals([exit, code, JSON.parse(stdout).verified], [1, "CLI_TOKEN_REFUSED", false]);
    });
  }
  await t.step("expired", async () => {
    machine.write("agents/alpha/ait.jwt", own);
    machine.world.clock.step(31 * 86_400_000);
    assertStringIncludes((await machine.failure("agent", "inspect", "alpha")).message, "checked at");
  });
});

/** The checks of doctor, as `<agent> <name>`. */
async function doctor(machine: Machine): Promise<Record<string, DoctorCheck>> {
  const { stdout } = await machine.svc("--json", "provider", "doctor");
  const { checks } = JSON.parse(stdout) as { checks: (DoctorCheck & { agent: string })[] };
  return Object.fromEntries(checks.map((check) => [`${check.agent} ${check.name}`, check]));
}

Deno.test("doctor reports an agent with a damaged file, blames no server for it, and still checks the others", async () => {
  await using machine = await Machine.ofPerson();
  for (const name of ["alpha", "beta"]) await machine.json("agent", "create", name);
  const check = async (seen: RegExp) => {
    const found = await doctor(machine), damaged = found["alpha agent"];
    assertEquals([damaged?.ok, found["beta agent"]?.ok, found["alpha registry"]], [false, true, undefined]);
    assertMatch(damaged?.seen ?? "", seen);
    assertMatch(damaged?.fix ?? "", /^Restore it from a backup; if only tokens are lost, run svc agent reissue alpha$/);
  };
  for (const text of ["a.b", "a.b.c"]) {
    machine.write("agents/alpha/ait.jwt", text);
    await check(/^ait\.jwt: The /);
  }
  await Deno.remove(machine.path("agents/alpha/ait.jwt"));
  await check(/ait\.jwt is missing$/);
  machine.write("agents/alpha/identity.json", "{");
  await check(/identity\.json is damaged$/);
});

Deno.test("agent inspect shows a revoked session without its end time, and so does doctor, also after a refused refresh", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  const session = async () => (await machine.json("agent", "inspect", "alpha")).session;
  assertEquals(await session(), "active");
  assertStringIncludes((await machine.svc("agent", "inspect", "alpha")).stdout, "refresh until");
  await machine.json("agent", "auth", "revoke", "alpha");
  assertEquals(await session(), "revoked");
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 3, "AGENT_AUTH_REFRESH_REVOKED", "svc agent reissue");
  assertEquals(await session(), "revoked");
  const doctor = await machine.svc("provider", "doctor", "--skip-connector-runtime");
  assertMatch(
    doctor.stdout,
    /FAIL +registry +it refuses the saved tokens: .*\n +For a new session: svc agent reissue alpha\n/,
  );
  // A connector would not start, so status names the reissue in its place.
  const status = (await machine.svc("status")).stderr;
  assertMatch(
    status,
    /^warning: alpha: registry: it refuses the saved tokens: .*\. For a new session: svc agent reissue alpha\n$/,
  );
  const { code, stdout } = await machine.svc("agent", "inspect", "alpha");
  assertEquals([code, stdout.includes("until")], [0, false]);
  assertStringIncludes(stdout, "REVOKED: run svc agent reissue alpha to start a new one");
  machine.world.clock.step(2_000);
  await machine.json("agent", "reissue", "alpha");
  assertEquals(await session(), "active");
  // An access token that has only expired does not end the session.
  machine.world.clock.step(16 * 60_000);
  assertEquals(await session(), "active");
  // The saved tokens still work after a refresh that did not reach the registry.
  machine.write("agents/alpha/refresh.pending", "x");
  assertEquals(await session(), "active");
  await machine.json("agent", "auth", "revoke", "alpha");
  assertEquals(await session(), "interrupted");
});

Deno.test("inspect, refresh and revoke name the way to another agent when this one was deleted, and not a reissue", async () => {
  await using machine = await Machine.ofAdmin();
  await machine.json("agent", "create", "alpha");
  await machine.json("admin", "agents", "revoke", "alpha", "--yes");
  const { stdout } = await machine.svc("agent", "inspect", "alpha");
  assertMatch(stdout, /session +ENDED with the agent: run svc agent delete alpha, then svc agent create alpha\n/);
  const fix = "svc agent delete alpha, then svc agent create alpha";
  const refused = await machine.refuses(["agent", "auth", "refresh", "alpha"], 3, "AGENT_AUTH_REFRESH_REVOKED", fix);
  const ended = (await machine.svc("agent", "auth", "revoke", "alpha")).stderr;
  assertStringIncludes(ended, "Next, because the agent was deleted: svc agent delete alpha\n");
  const status = (await machine.svc("status")).stderr;
  assertStringIncludes(status, `warning: alpha: registry: the agent was deleted. Make it again: ${fix}`);
  assertEquals([stdout, refused, ended, status].filter((text) => text.includes("svc agent reissue")), []);
});

Deno.test("a key that the registry now uses is fetched although the saved keys are fresh", async () => {
  await using machine = await Machine.ofAdmin();
  await machine.json("agent", "create", "alpha");
  await machine.json("agent", "inspect", "alpha");
  await machine.json("admin", "keys", "rotate");
  await machine.json("agent", "reissue", "alpha");
  assertEquals((await machine.json("agent", "inspect", "alpha")).verified, true);
});

Deno.test("an unknown agent is reported with the nearest known name, exit code 4", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  for (const argv of [["inspect"], ["auth", "refresh"], ["reissue"], ["delete"], ["auth", "revoke"]]) {
    await machine.refuses(["agent", ...argv, "alhpa"], 4, "CLI_AGENT_UNKNOWN", "Did you mean alpha?");
  }
  for (const name of ["../alpha", "..", "a/b", ""]) {
    assertEquals((await machine.failure("agent", "inspect", "--", name)).exit, 2);
  }
});

Deno.test("agent delete revokes, removes the files and frees the name", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  assertEquals((await machine.json("agent", "delete", "alpha", "--yes")).status, "revoked");
  assertEquals(Object.keys(machine.tree()).filter((path) => !path.startsWith("keys/")), ["agents/"]);
  await machine.json("agent", "create", "alpha");
  const { agents } = await machine.json("agent", "list");
  assertEquals(agents.map((agent: { status: string }) => agent.status), ["active", "revoked"]);
});

Deno.test("agent delete and auth revoke take the end of an ID, as agent list shows it on a terminal, and name the agent", async () => {
  await using world = await World.open();
  const owner = await world.person();
  await using machine = await Machine.open(world, { env: { SVC_API_KEY: owner.apiKey } });
  const ids = await Promise.all(["lost", "kept"].map(async (name) => (await world.agent(owner, name)).agent.id));
  const [lost, kept] = ids as [string, string];
  const shown = `…${lost.slice(-6)}`;
  const { stdout } = await machine.svc("agent", "auth", "revoke", shown);
  assertStringIncludes(stdout, `The session of lost (${lost}) has ended.`);
  const deleted = await machine.svc("agent", "delete", shown, "--yes");
  assertStringIncludes(deleted.stdout, `The agent lost (${lost}) is revoked permanently.`);
  assertEquals((await machine.json("agent", "delete", kept.slice(-6), "--yes")).id, kept);
  // Neither an end that no agent has, nor a mistyped name of six characters, is guessed.
  await machine.refuses(["agent", "delete", "…ZZZZZZ", "--yes"], 2, "CLI_USAGE");
  await machine.refuses(["agent", "delete", "alphaa", "--yes"], 4, "CLI_AGENT_UNKNOWN");
});

Deno.test("agent delete finishes at the next run when its answer was lost", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  const restore = machine.loseAnswers();
  assertEquals((await machine.failure("agent", "delete", "alpha", "--yes")).exit, 5);
  assert("agents/alpha/" in machine.tree(), "no file is removed before the registry has answered");
  restore();
  await machine.json("agent", "delete", "alpha", "--yes");
  assert(!("agents/alpha/" in machine.tree()));
});

Deno.test("the deletion that a kill has cut short is finished by the next command about agents", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  for (const command of [["list"], ["auth", "refresh", "alpha"], ["create", "beta"]]) {
    await Deno.mkdir(machine.path("agents/.gamma.deleted"));
    machine.write("agents/.gamma.deleted/secret.key", "a key");
    await machine.json("agent", ...command);
    assert(!("agents/.gamma.deleted/" in machine.tree()), command.join(" "));
  }
  await using other = await Machine.ofPerson(machine.world);
  await Deno.mkdir(other.path("elsewhere/.gamma.deleted"), { recursive: true });
  await Deno.symlink(other.path("elsewhere"), other.path("agents"));
  await other.json("agent", "list");
  assert("elsewhere/.gamma.deleted/" in other.tree(), "nothing is removed behind a link");
});

Deno.test("agent delete by ID ends an agent of another machine, or a local one with its files", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  await machine.json("agent", "create", "beta");
  await using other = await Machine.open(machine.world, { env: { SVC_API_KEY: machine.env.SVC_API_KEY! } });
  assertEquals((await other.json("agent", "delete", idOf(machine, "alpha"), "--yes")).localName, null);
  assert("agents/alpha/" in machine.tree());
  assertEquals((await machine.json("agent", "delete", idOf(machine, "beta"), "--yes")).localName, "beta");
  assert(!("agents/beta/" in machine.tree()));
  await using stranger = await Machine.ofPerson(machine.world);
  await stranger.refuses(["agent", "delete", idOf(machine, "alpha"), "--yes"], 4, "AGENT_NOT_FOUND");
});

Deno.test("agent delete asks on a terminal, and needs --yes elsewhere", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  await machine.refuses(["agent", "delete", "alpha"], 2, "CLI_USAGE", "add --yes");
  machine.answers = false;
  const { code, stderr } = await machine.svc("agent", "delete", "alpha");
  assertEquals(code, 1);
  assertStringIncludes(stderr, "Nothing was changed");
  assert("agents/alpha/" in machine.tree());
  assertEquals((await machine.svc("agent", "delete", "alpha", "--yes")).code, 0);
  await machine.json("agent", "create", "alpha");
  machine.answers = true;
  assertEquals((await machine.svc("agent", "delete", "alpha")).code, 0);
});

Deno.test("agent delete also removes the files of an agent that the registry lost, and no key that may be in use", async () => {
  await using machine = await Machine.ofPerson();
  for (const name of ["alpha", "beta"]) await machine.json("agent", "create", name);
  const alpha = idOf(machine, "alpha"), beta = idOf(machine, "beta");
  for (const id of [alpha, beta]) await machine.world.kv.delete(KEYS.agent(id));
  const identity = JSON.parse(machine.read("agents/beta/identity.json"));
  machine.write("agents/beta/identity.json", JSON.stringify({ ...identity, registryUrl: "https://other.example" }));
  const parts = ["restored from an older backup", "svc agent delete alpha, then svc agent create alpha"];
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 4, "AGENT_NOT_FOUND", ...parts);
  assertEquals(await machine.json("agent", "delete", "alpha", "--yes"), {
    id: alpha,
    localName: "alpha",
    status: "unknown",
  });
  assert(!("agents/alpha/" in machine.tree()));
  await machine.json("agent", "create", "alpha");
  assertEquals((await machine.failure("agent", "delete", "beta", "--yes")).code, "AGENT_NOT_FOUND");
  assert("agents/beta/secret.key" in machine.tree(), "its own registry may have it");
});
