/** `svc admin audit`: filters, export and following. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { audited } from "../../../registry/audit/record.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { AuditRecord } from "../../../registry/schema/records.ts";
import type { Clock } from "../../../shared/clock.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { withTime } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

const linesOf = (text: string): AuditRecord[] => text.trimEnd().split("\n").map((line) => JSON.parse(line));

async function stored(w: World): Promise<string[]> {
  return await Array.fromAsync(w.kv.list({ prefix: KEYS.auditLog() }), ({ key }) => String(key.at(-1)));
}

/** An instance of the registry that writes entries: they are committed some time after their IDs were made. */
function writer(w: World, seed: number): (delayMs: number, count?: number) => Promise<void> {
  const newId = ulidSource(() => w.clock.now(), seededRandom(seed).bytes);
  return async (delayMs, count = 1) => {
    const deps = { clock: w.clock, newId };
    const entry = { event: "service.created", actor: `did:${seed}`, subject: "x", requestId: "request" } as const;
    const operation = w.kv.atomic();
    for (let i = 0; i < count; i++) audited(operation, deps, entry);
    await new Promise<void>((resolve) => w.clock.after(delayMs, resolve));
    await operation.commit();
  };
}

Deno.test("an export holds every entry once, oldest first, and ends with their number", async () => {
  await using admin = await Machine.ofAdmin();
  const operation = admin.world.kv.atomic();
  for (let i = 0; i < 130; i++) {
    const entry = { event: "service.created", actor: "did:1", subject: "x", requestId: "request" } as const;
    audited(operation, admin.world, entry);
    admin.world.clock.step(10);
  }
  await operation.commit();
  const ids = await stored(admin.world);
  const { code, stdout } = await admin.svc("admin", "audit", "--export");
  const lines = linesOf(stdout);
  assertEquals([code, lines.length, lines.at(-1)], [0, ids.length + 1, { count: ids.length } as never]);
  assertEquals(lines.slice(0, -1).map(({ id }) => id), ids);
  const since = lines[100]?.at ?? "";
  const some = linesOf((await admin.svc("admin", "audit", "--export", "--event", "service.", "--since", since)).stdout);
  assertEquals(some.slice(0, -1).map(({ id }) => id), ids.slice(100));
  // The reader ends in the middle: the last line is not the count.
  admin.readsCharacters = 1_000;
  assert(!(await admin.svc("admin", "audit", "--export")).stdout.includes('{"count"'));
});

Deno.test("an export is JSON lines, also with invisible characters in a reason and on a narrow terminal", async () => {
  await using admin = await Machine.ofAdmin();
  const { did } = await admin.world.person(), detail = `zero\u200bwidth ${"far ".repeat(20)}\u2060end`;
  await admin.json("admin", "people", "suspend", did, "--yes", "--reason", detail);
  admin.isTerminal = true;
  admin.columns = 40;
  const lines = linesOf((await admin.svc("admin", "audit", "--export", "--event", "person.")).stdout);
  assertEquals(lines.map(({ event, detail }) => [event, detail]), [["person.suspended", detail], [
    undefined,
    undefined,
  ]]);
});

/** The registry refuses one in three requests for pages, because there are too many. */
function refuseOften(admin: Machine): void {
  let refused = 0;
  admin.answer(/audit/, () => {
    if (admin.requests.length % 3 !== 0 || refused++ > 5) return null;
    const body = { error: { code: "RATE_LIMIT_EXCEEDED", message: "Too many" } };
    return Promise.resolve(Response.json(body, { status: 429, headers: { "Retry-After": "7" } }));
  });
}

Deno.test("an export that asks more often than the registry answers in a minute waits and is complete", async () => {
  await using admin = await Machine.ofAdmin();
  const { world } = admin;
  refuseOften(admin);
  const operation = world.kv.atomic();
  for (let i = 0; i < 900; i++) {
    audited(operation, world, { event: "service.created", actor: "did:1", subject: "x", requestId: "request" });
  }
  await operation.commit();
  const ids = await stored(world);
  const { code, stdout } = await withTime(world, admin.svc("admin", "audit", "--export"), 500);
  const lines = linesOf(stdout);
  assertEquals([code, lines.length, lines.at(-1)], [0, ids.length + 1, { count: ids.length } as never]);
  assertEquals(lines.slice(0, -1).map(({ id }) => id), ids);
});

Deno.test("a change is found behind 700 looks of an admin, also when these are too many requests at once", async () => {
  await using admin = await Machine.ofAdmin();
  refuseOften(admin);
  const { world } = admin, operation = world.kv.atomic();
  const { invite } = await world.client.createInvite((await world.admin()).apiKey);
  for (let i = 0; i < 700; i++) {
    audited(operation, world, { event: "admin.token_issued", actor: "did:1", subject: "x", requestId: "request" });
  }
  await operation.commit();
  const { events } = await withTime(world, admin.json("admin", "audit", "--limit", "1"), 500);
  assertEquals(events.map(({ subject }: AuditRecord) => subject), [invite.id]);
});

Deno.test("on a terminal a followed event is one line of 80 columns, and the host is named whole", async () => {
  await using admin = await Machine.ofAdmin(undefined, { isTerminal: true });
  const { world } = admin, operation = world.kv.atomic();
  const subject = `did:svc:registry.example.test:human:${world.newId()}`;
  audited(operation, world, { event: "admin.recovered", actor: "store recover", subject, requestId: world.newId() });
  await operation.commit();
  admin.readsCharacters = Infinity;
  const following = admin.svc("admin", "audit", "--follow", "--limit", "1");
  await until(() => world.clock.waiting > 0 && admin.requests.length >= 4);
  admin.readsCharacters = 0;
  const [{ stdout }] = await withTime(world, Promise.all([following, writer(world, 101)(0)]), 500);
  const [line = ""] = stdout.split("\n");
  assertEquals(line.split("  ").slice(1), ["admin.recovered", "store recover", `…${subject.slice(-6)}`]);
  assert(line.length <= 80, line);
});

Deno.test("a follower prints each of a thousand entries of two instances once", async () => {
  await using admin = await Machine.ofAdmin();
  const before = await stored(admin.world);
  // Other seeds than that of the world, which would make the same IDs.
  const writers = [writer(admin.world, 101), writer(admin.world, 102)];
  let printed = "";
  admin.readsCharacters = Infinity;
  const following = admin.svc("--json", "admin", "audit", "--follow", "--limit", "5").then(({ stdout }) =>
    printed = stdout
  );
  // What it finds at its start is not new.
  await until(() => admin.world.clock.waiting > 0 && admin.requests.length >= 4);
  const random = seededRandom(7);
  const commits: Promise<void>[] = [];
  for (let i = 0; i < 100; i++) {
    const [delay = 0, step = 0] = random.bytes(2);
    commits.push((writers[i % 2] as typeof writers[number])(delay * 40, 10));
    if (i % 3 === 0) await admin.world.clock.advance(step * 5);
  }
  await withTime(admin.world, Promise.all(commits), 500);
  await admin.world.clock.advance(10_000);
  admin.readsCharacters = 0;
  const last = writers[0]?.(0);
  await withTime(admin.world, Promise.all([last, following]), 500);
  const ids = linesOf(printed).map(({ id }) => id);
  const all = (await stored(admin.world)).filter((id) => !before.includes(id));
  assertEquals(new Set(ids).size, ids.length);
  // The last entry only ends the follower.
  const missing = all.filter((id) => !ids.includes(id));
  assertEquals([missing.length, ids.filter((id) => !before.includes(id)).length], [1, 1_000]);
});

Deno.test("a follower prints each new entry once, also when the clock was an hour ahead and when it is set back", async () => {
  await using admin = await Machine.ofAdmin();
  const { world } = admin, create = writer(world, 101);
  world.clock.step(3_600_000);
  await withTime(world, create(0), 1);
  world.clock.step(-3_600_000);
  const before = await stored(world);
  admin.readsCharacters = Infinity;
  const following = admin.svc("--json", "admin", "audit", "--follow", "--limit", "1");
  await until(() => world.clock.waiting > 0 && admin.requests.length >= 4);
  for (const step of [0, 0, -3_600_000, 0, 3_600_000, 0]) {
    world.clock.step(step);
    await withTime(world, create(0), 1);
    await world.clock.advance(40_000);
  }
  admin.readsCharacters = 0;
  const last = create(0);
  const [{ stdout }] = await withTime(world, Promise.all([following, last]), 500);
  const printed = linesOf(stdout).map(({ id }) => id).filter((id) => !before.includes(id));
  const all = (await stored(world)).filter((id) => !before.includes(id));
  // The last entry only ends the follower.
  assertEquals([...printed].sort(), all.slice(0, -1));
});

Deno.test("a follower on a machine that is an hour behind does not read all events of that hour at each look", async () => {
  await using admin = await Machine.ofAdmin();
  const { world } = admin, { clock } = world, create = writer(world, 101), asked: string[] = [];
  admin.fetch = async (input, init) => {
    asked.push(String(input));
    const answer = await world.fetch(input, init);
    answer.headers.set("Date", new Date(clock.now()).toUTCString());
    return answer;
  };
  await withTime(world, create(0), 1);
  clock.step(1_800_000);
  const behind: Clock = {
    now: () => clock.now() - 3_600_000,
    uptime: () => clock.uptime(),
    after: (ms, fn) => clock.after(ms, fn),
  };
  Object.assign(world, { clock: behind });
  const following = admin.svc("admin", "audit", "--follow");
  Object.assign(world, { clock });
  await until(() => clock.waiting > 0 && asked.length >= 4);
  await clock.advance(4_000);
  admin.readsCharacters = 0;
  await withTime(world, Promise.all([following, create(0)]), 500);
  const since = asked.flatMap((url) => new URL(url).searchParams.get("since") ?? []).map((time) => Date.parse(time));
  assertEquals(since.filter((time) => time < clock.now() - 1_900_000), []);
});

Deno.test("a follower with a filter prints new matching events, and waits while the registry does not answer", async () => {
  await using admin = await Machine.ofAdmin();
  const person = await admin.world.person();
  let fails = 0;
  // A wait that no one would see the end of is not kept.
  const busy = () => new Response(null, { status: 503, headers: { "Retry-After": "999999999" } });
  admin.answer(/^/, () => {
    if (fails-- <= 0) return null;
    return fails > 0 ? Promise.reject(new TypeError("refused")) : Promise.resolve(busy());
  });
  const following = admin.svc("admin", "audit", "--follow", "--event", "api_key.");
  await until(() => admin.world.clock.waiting > 0 && admin.requests.length >= 4);
  fails = 2;
  await admin.world.clock.advance(66_000);
  await admin.world.client.createApiKey(person.apiKey, "one");
  await admin.world.client.createInvite((await admin.world.admin()).apiKey);
  await admin.world.clock.advance(4_000);
  admin.readsCharacters = 0;
  await admin.world.client.createApiKey(person.apiKey, "two");
  const { stdout, stderr } = await withTime(admin.world, following, 500);
  const lines = stdout.trimEnd().split("\n");
  assertEquals(lines.map((line) => line.split("  ")[1]), ["api_key.created"]);
  assertStringIncludes(stderr, "asking again");
});

Deno.test("a follower to whom no event was shown says that it waits, and not that it still calls the registry", async () => {
  await using admin = await Machine.ofAdmin();
  const { clock } = admin.world, create = writer(admin.world, 101);
  admin.isTerminal = true;
  const following = admin.svc("admin", "audit", "--follow", "--event", "service.created");
  await until(() => clock.waiting > 0 && admin.requests.length >= 4);
  await clock.advance(6_000);
  admin.readsCharacters = 0;
  const [{ stderr }] = await withTime(admin.world, Promise.all([following, create(0)]), 500);
  assert(!/Calling .* \d+ s/.test(stderr), stderr);
  assertStringIncludes(stderr, "Waiting for events … 5 s");
});

Deno.test("admin audit refuses an unknown event, a bad time and options that exclude each other", async () => {
  await using world = await World.open();
  await using admin = await Machine.ofAdmin(world);
  const sent = admin.requests.length;
  const wrong = [
    ["--event", "agent"],
    ["--event", "agent.delete"],
    ["--since", "yesterday"],
    ["--follow", "--export"],
    ["--export", "--limit", "5"],
  ];
  for (const options of wrong) assertEquals((await admin.failure("admin", "audit", ...options)).exit, 2);
  assertEquals(admin.requests.length, sent);
  await world.client.createInvite((await world.admin()).apiKey);
  const of = async (actor: string) =>
    (await admin.json("admin", "audit", "--event", "invite.", "--actor", actor)).events
      .map(({ event }: AuditRecord) => event);
  const { did } = await world.admin(), name = (await admin.json("whoami")).human.displayName;
  assertEquals([await of(did), await of(name)], [["invite.created"], ["invite.created"]]);
  await world.agent(await world.person("eve@example.com"), "crawler");
  assertEquals([await of("eve@example.com"), await of("crawler@eve@example.com")], [["invite.redeemed"], []]);
  assertEquals(
    (await admin.failure("admin", "audit", "--actor", "Bob")).exit,
    4,
    "a name that no person has is no filter",
  );
});
