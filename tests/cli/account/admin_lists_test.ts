/** The lists of an admin: invites and audit events. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Machine } from "../cli_world.ts";

/** Creates invites, and returns their IDs. */
async function createInvites({ world }: Machine, count: number): Promise<string[]> {
  const { apiKey } = await world.admin();
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    // The limit of requests counts in windows of a minute.
    if (i % 80 === 79) world.clock.step(61_000);
    ids.push((await world.client.createInvite(apiKey)).invite.id);
  }
  world.clock.step(61_000);
  return ids;
}

Deno.test("invite list shows every invite with its status, and no code", async () => {
  await using admin = await Machine.ofAdmin();
  assertStringIncludes((await admin.svc("invite", "list")).stdout, "No invites.");
  const soon = new Date(admin.world.clock.now() + 1_000).toISOString();
  const used = (await admin.json("invite", "create")).invite;
  await using bob = await Machine.open(admin.world);
  await bob.json("invite", "redeem", used.code);
  admin.world.clock.step(1);
  const expired = (await admin.json("invite", "create", "--expires-at", soon)).invite;
  admin.world.clock.step(1);
  const unused = (await admin.json("invite", "create")).invite;
  admin.world.clock.step(2_000);

  const { invites } = await admin.json("invite", "list");
  const states = invites.map(({ id, status }: { id: string; status: string }) => [id, status]);
  assertEquals(states, [[unused.id, "unused"], [expired.id, "expired"], [used.id, "redeemed"]]);
  const { people } = await admin.json("admin", "people", "list");
  assertEquals(invites[2].redeemedBy, people[0].did);
  const { stdout } = await admin.svc("invite", "list");
  assertStringIncludes(stdout, people[0].id.slice(-6));
  assertEquals(stdout.split("\n")[0]?.split(/ {2,}/), ["ID", "STATUS", "CREATED", "EXPIRES", "REDEEMED", "BY"]);
  for (const { code } of [used, expired, unused]) assert(!stdout.includes(code));
  await bob.refuses(["invite", "list"], 3, "ADMIN_REQUIRED");
});

Deno.test("invite list returns each invite once when there is more than one page", async () => {
  await using admin = await Machine.ofAdmin();
  const ids = await createInvites(admin, 105);
  const { invites } = await admin.json("invite", "list");
  assertEquals(invites.map(({ id }: { id: string }) => id), ids.reverse());
});

Deno.test("a revoked invite cannot be redeemed, and a revoked ID is not found again", async () => {
  await using admin = await Machine.ofAdmin();
  await using bob = await Machine.open(admin.world);
  const { invite: { id, code } } = await admin.json("invite", "create");
  assertEquals(await admin.json("invite", "revoke", id), { id, status: "revoked" });
  assertEquals((await bob.failure("invite", "redeem", code)).code, "INVITE_REDEEM_CODE_INVALID");
  await admin.refuses(["invite", "revoke", id], 4, "INVITE_NOT_FOUND", "svc invite list");
  const { invite: used } = await admin.json("invite", "create");
  await bob.json("invite", "redeem", used.code);
  await admin.refuses(["invite", "revoke", used.id], 1, "INVITE_REDEEM_ALREADY_USED", "suspend the person");
  const sent = admin.requests.length;
  for (const wrong of ["x", "../metadata", code]) {
    assertEquals((await admin.failure("invite", "revoke", wrong)).exit, 2);
  }
  assertEquals(admin.requests.length, sent);
});

Deno.test("admin audit lists the newest events over pages up to its limit", async () => {
  await using admin = await Machine.ofAdmin();
  await createInvites(admin, 120);
  const idsOf = async (...options: string[]) =>
    (await admin.json("admin", "audit", ...options)).events.map(({ id }: { id: string }) => id);
  const all = await idsOf("--limit", "1000");
  assert(all.length > 120 && new Set(all).size === all.length);
  assertEquals(all, [...all].sort().reverse());
  assertEquals(await idsOf("--limit", "101"), all.slice(0, 101));
  assertEquals(await idsOf("--limit", "1"), all.slice(0, 1));
  assertEquals((await idsOf()).length, 50);
  for (const wrong of ["0", "1001", "-1", "1e2", "x"]) {
    assertEquals((await admin.failure("admin", "audit", `--limit=${wrong}`)).exit, 2);
  }
  const { stdout } = await admin.svc("admin", "audit", "--limit", "2");
  assertEquals(stdout.trimEnd().split("\n").length, 3);
  assertStringIncludes(stdout, "invite");
  await using bob = await Machine.ofPerson(admin.world);
  assertEquals((await bob.failure("admin", "audit")).exit, 3);
});

Deno.test("admin audit names agents and people on a terminal, and gives their DIDs to a program", async () => {
  await using admin = await Machine.ofAdmin();
  await admin.json("agent", "create", "alpha");
  const { human } = await admin.json("whoami");
  const lastRow = async () => {
    const { stdout } = await admin.svc("admin", "audit", "--event", "agent.registered");
    return stdout.trimEnd().split("\n").at(-1)?.split(/ {2,}/).slice(1, 4);
  };
  const [, actor, subject] = await lastRow() ?? [];
  assertEquals([actor, subject?.startsWith("did:svc:")], [human.did, true]);
  [admin.isTerminal, admin.columns] = [true, 100];
  const { displayName } = human;
  assertEquals(await lastRow(), ["agent.registered", displayName, `alpha of ${displayName}`]);
});
