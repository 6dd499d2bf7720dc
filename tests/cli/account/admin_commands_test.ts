/** The commands of an admin for people and agents, and `whoami`. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { AgentRecord, HumanRecord } from "../../../registry/schema/records.ts";
import { printable } from "../../../cli/terminal/escapes.ts";
import { REGISTRY_URL, World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

const idsOf = (list: { id: string }[]) => list.map(({ id }) => id);

/** Writes copies of a person to the store. Returns their IDs, newest first. */
async function morePeople(w: World, count: number, displayName = "Copy"): Promise<string[]> {
  const { id } = await w.person();
  const { value } = await w.kv.get<HumanRecord>(KEYS.human(id));
  const ids = Array.from({ length: count }, () => w.newId());
  for (const id of ids) await w.kv.set(KEYS.human(id), { ...value, id, displayName });
  return ids.reverse();
}

Deno.test("whoami shows the person, the role and the registry, and never the key", async () => {
  await using bob = await Machine.ofPerson();
  const { human, apiKey, registryUrl } = await bob.json("whoami");
  assertEquals([human.role, human.displayName, apiKey.name], ["user", "Someone", "invite"]);
  const { stdout } = await bob.svc("whoami");
  for (const part of [human.did, "user", apiKey.id, registryUrl]) assertStringIncludes(stdout, part);
  assert(!stdout.includes("svc_pat_"));
  delete bob.env.SVC_API_KEY;
  assertEquals((await bob.failure("whoami")).code, "API_KEY_MISSING");
});

Deno.test("admin people list shows a page, and with all over three pages what the store holds", async () => {
  await using world = await World.open();
  await using admin = await Machine.ofAdmin(world);
  const ids = await morePeople(world, 250);
  const everybody = await Array.fromAsync(world.kv.list({ prefix: KEYS.humans() }), ({ key }) => String(key.at(-1)));
  const page = await admin.json("admin", "people", "list");
  assertEquals(idsOf(page.people), ids.slice(0, 20));
  const next = await admin.json("admin", "people", "list", "--limit", "3", "--cursor", page.pagination.nextCursor);
  assertEquals(idsOf(next.people), ids.slice(20, 23));
  const sent = admin.requests.length;
  const all = await admin.json("admin", "people", "list", "--all");
  assertEquals([idsOf(all.people), all.pagination.nextCursor], [everybody.toReversed(), null]);
  assertEquals(admin.requests.length - sent, 3);
  const { stdout, stderr } = await admin.svc("admin", "people", "list", "--role", "user");
  assertEquals(stdout.split("\n")[0]?.split(/ {2,}/), ["ID", "NAME", "ROLE", "STATUS", "CREATED"]);
  assertStringIncludes(stderr, "svc admin people list --role=user --cursor ");
  const admins = await admin.json("admin", "people", "list", "--role", "admin");
  assertEquals(idsOf(admins.people), [(await world.admin()).id]);
  for (const wrong of [["--limit=0"], ["--limit=101"], ["--limit=x", "--all"]]) {
    assertEquals((await admin.failure("admin", "people", "list", ...wrong)).exit, 2);
  }
  assertEquals((await admin.failure("admin", "people", "list", "--status=x")).code, "ADMIN_INVALID_QUERY");
  await using bob = await Machine.ofPerson(world);
  await bob.refuses(["admin", "people", "list"], 3, "ADMIN_REQUIRED");
});

Deno.test("the next command names the same registry, and a filter that begins with a hyphen, and works", async () => {
  await using world = await World.open();
  await using admin = await Machine.ofAdmin(world);
  const ids = await morePeople(world, 25, "-x");
  // The saved registry is another one.
  admin.env.SVC_REGISTRY_URL = "https://other.example.test";
  const { stderr } = await admin.svc("admin", "people", "list", "--name=-x", "--registry-url", REGISTRY_URL);
  const [, next = ""] = /for the next page: svc (.+)/.exec(stderr) ?? [];
  assertEquals(idsOf((await admin.json(...next.split(" "))).people), ids.slice(20));
  const suspend = ["admin", "people", "suspend", ids[0] ?? "", "--yes", "--registry-url", REGISTRY_URL];
  const [, restore = ""] = /to end the suspension: svc (.+)/.exec((await admin.svc(...suspend)).stderr) ?? [];
  assertEquals((await admin.json(...restore.split(" "))).person.status, "active");
});

Deno.test("admin people suspend asks or needs yes, stops the person, and restore ends that", async () => {
  await using admin = await Machine.ofAdmin();
  await using bob = await Machine.ofPerson(admin.world);
  const { human } = await bob.json("whoami");
  const suspend = ["admin", "people", "suspend", human.did, "--reason", "a test"];
  await admin.refuses(suspend, 2, "CLI_USAGE", "--yes");
  admin.answers = false;
  assertEquals((await admin.svc(...suspend)).code, 1);
  assertEquals((await bob.json("whoami")).human.status, "active");
  admin.answers = true;
  const { code, stdout } = await admin.svc(...suspend);
  assertEquals([code, stdout], [0, `Someone (${human.id}) is suspended.\n`]);
  await bob.refuses(["agent", "list"], 3, "ACCOUNT_SUSPENDED");
  const shown = await admin.json("admin", "people", "show", human.id);
  assertEquals([shown.person.status, shown.agents], ["suspended", { active: 0, revoked: 0 }]);
  assertStringIncludes((await admin.svc("admin", "people", "show", human.id)).stdout, "suspended");
  assertStringIncludes((await admin.svc("admin", "people", "restore", human.id)).stdout, "come back within 2 min");
  const restored = await admin.json("admin", "people", "restore", human.id);
  assertEquals([restored.person.status, restored.complete], ["active", true]);
  assertEquals((await bob.json("whoami")).human.status, "active");
  const again = await admin.json("--json", "admin", "people", "suspend", human.id, "--yes");
  assertEquals(again.person.status, "suspended");
  const sent = admin.requests.length;
  for (const wrong of ["", "a\u0007", human.did.replace("human", "agent"), "0".repeat(10_000)]) {
    for (const what of ["show", "suspend", "restore"]) {
      assertEquals((await admin.failure("admin", "people", what, wrong)).exit, 2);
    }
  }
  assertEquals((await admin.failure("admin", "people", "restore", human.id, "--reason", "x".repeat(201))).exit, 2);
  assertEquals(admin.requests.length, sent);
  await admin.refuses(["admin", "people", "show", admin.world.newId()], 4, "PERSON_NOT_FOUND");
  // Refused before the question, which this machine cannot ask.
  admin.answers = null;
  const own = ["admin", "people", "suspend", (await admin.world.admin()).id];
  await admin.refuses(own, 1, "ADMIN_SUSPEND_FORBIDDEN");
});

Deno.test("admin agents lists, shows, revokes and ends the session of any agent", async () => {
  await using admin = await Machine.ofAdmin();
  const [a, b] = [await admin.world.agent(), await admin.world.agent()];
  const list = async (...options: string[]) => idsOf((await admin.json("admin", "agents", "list", ...options)).agents);
  assertEquals(await list("--all", "--limit", "1"), [b.agent.id, a.agent.id]);
  assertEquals(await list("--owner", a.owner.did), [a.agent.id]);
  assertEquals(await list("--framework", "generic", "--limit", "1"), [b.agent.id]);
  const { agent, session } = await admin.json("admin", "agents", "show", a.agent.did);
  assertEquals([agent.id, session.status], [a.agent.id, "active"]);
  assertEquals((await admin.json("admin", "agents", "list")).agents[1].expiresAt, agent.expiresAt);
  assertStringIncludes((await admin.svc("admin", "agents", "show", a.agent.id)).stdout, a.agent.name);
  const ended = await admin.json("admin", "agents", "end-session", a.agent.id);
  assertEquals(ended, { agents: [{ id: a.agent.id, session: "revoked" }] });
  assertEquals((await admin.json("admin", "agents", "show", a.agent.id)).session.status, "revoked");
  assertEquals(await list("--name", a.agent.name.toUpperCase()), [a.agent.id]);
  assertEquals((await admin.failure("admin", "agents", "list", "--owner", "someone")).code, "CLI_AMBIGUOUS");
  assertEquals((await admin.failure("admin", "agents", "list", "--expiring", "12h")).exit, 2);
  assertEquals(await list("--expiring", "7d"), []);
  assertEquals((await admin.failure("admin", "agents", "revoke", b.agent.id)).exit, 2);
  admin.answers = false;
  assertEquals((await admin.svc("admin", "agents", "revoke", b.agent.id)).code, 1);
  const revoked = await admin.json("admin", "agents", "revoke", b.agent.id, "--yes");
  assertEquals(revoked, { agents: [{ id: b.agent.id, status: "revoked" }] });
  assertEquals(await list("--status", "revoked"), [b.agent.id]);
  const { stdout } = await admin.svc("admin", "agents", "list");
  assertEquals(stdout.trimEnd().split("\n").length, 3);
  await admin.refuses(["admin", "agents", "revoke", b.agent.id, "--yes"], 1, "AGENT_REVOKE_INVALID_STATE");
});

Deno.test("a person and an agent are named by name, and one who is not the only one is not guessed", async () => {
  await using admin = await Machine.ofAdmin();
  const [eve, carol] = [await admin.world.person("Eve"), await admin.world.person("Carol")];
  const [a, b] = [await admin.world.agent(eve, "crawler"), await admin.world.agent(carol, "crawler")];
  const only = await admin.world.agent(eve, "builder");
  assertEquals((await admin.json("admin", "people", "show", "EVE")).person.id, eve.id);
  assertEquals((await admin.json("admin", "agents", "show", "builder")).agent.id, only.agent.id);
  assertEquals((await admin.json("admin", "agents", "show", "crawler@carol")).agent.id, b.agent.id);
  await admin.refuses(["admin", "agents", "revoke", "crawler", "--yes"], 2, "CLI_AMBIGUOUS", a.agent.id, b.agent.id);
  for (const [kind, typed, meant] of [["people", "Crol", "Carol"], ["agents", "bilder", "builder"]] as const) {
    assertStringIncludes((await admin.failure("admin", kind, "show", typed)).message, `Did you mean ${meant}?`);
  }
  await admin.refuses(["admin", "people", "suspend", "Ev", "--yes"], 4, "CLI_NAME_UNKNOWN", "Did you mean Eve?");
  const both = ["crawler@Eve", a.agent.id, "builder"];
  const { agents } = await admin.json("admin", "agents", "revoke", ...both, "--yes");
  assertEquals(agents, [a, only].map(({ agent }) => ({ id: agent.id, status: "revoked" })));
  assertEquals((await admin.json("admin", "agents", "show", "crawler")).agent.id, b.agent.id, "only one is active");
  const half = await admin.svc("admin", "agents", "revoke", b.agent.id, a.agent.id, "--yes");
  assertEquals(half.code, 1);
  assertStringIncludes(half.stderr, `Done before the failure: ${b.agent.id}`);
  const line = (await admin.svc("admin", "agents", "list")).stdout.split("\n");
  assertEquals(line[0]?.split(/ {2,}/), ["NAME", "OWNER", "STATE", "TOKEN ENDS", "ID"]);
});

Deno.test("a person whose name is the end of another's ID is not taken for the other", async () => {
  await using admin = await Machine.ofAdmin();
  const bob = await admin.world.person("Bob"), end = bob.id.slice(-6);
  assertEquals((await admin.json("admin", "people", "show", end)).person.id, bob.id);
  const eve = await admin.world.person(end);
  await admin.refuses(["admin", "people", "suspend", end, "--yes"], 2, "CLI_AMBIGUOUS", bob.id, eve.id);
  assertEquals((await admin.json("admin", "people", "show", eve.id)).person.status, "active");
});

Deno.test("names with control characters cannot steer the terminal of an admin", async () => {
  await using admin = await Machine.ofAdmin();
  const [id = ""] = await morePeople(admin.world, 1, "Eve\u001b[2J\u0007\u202eadmin\nroot");
  admin.answers = false;
  assertEquals((await admin.svc("admin", "people", "suspend", id)).code, 1);
  assertEquals(admin.asked.map(printable), admin.asked);
  const a = await admin.world.agent();
  const { value: agent } = await admin.world.kv.get<AgentRecord>(KEYS.agent(a.agent.id));
  await admin.world.kv.set(KEYS.agent(a.agent.id), { ...agent, framework: "x\u009b31m\r\u2028" });
  const lines = [
    ["admin", "people", "list"],
    ["admin", "people", "show", id],
    ["admin", "people", "suspend", id, "--yes"],
    ["admin", "people", "restore", id],
    ["admin", "agents", "list"],
    ["admin", "agents", "show", a.agent.id],
    ["admin", "audit"],
  ];
  for (const line of lines) {
    for (const argv of [line, ["--json", ...line]]) {
      const { code, stdout, stderr } = await admin.svc(...argv);
      const steers = [...stdout + stderr].filter((char) => char !== "\n" && printable(char) !== char);
      assertEquals([code, steers], [0, []], argv.join(" "));
    }
  }
});
