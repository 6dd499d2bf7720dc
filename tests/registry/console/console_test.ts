/** The console's session: who gets in, how often, for how long, and what ends it. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { HumanRecord } from "../../../registry/schema/records.ts";
import { FaultyKv, overlaid } from "../../support/faulty_kv.ts";
import { answered, auditEvents, refused, writeRecords } from "../../support/registry_world.ts";
import { openTestKv } from "../../support/test_store.ts";
import { AMPLE_QUOTAS, PROXY_URL, REGISTRY_URL, World } from "../../support/world.ts";
import { codeOf, look, open, request, send, take, type Visit, visit } from "./visits.ts";

const MINUTE_MS = 60_000;
const FULL = new TypeError("database or disk is full");

/** A test with the session of an admin. */
const test = (name: string, run: (w: World, own: Visit) => Promise<void>) =>
  Deno.test(name, async () => {
    await using w = await open();
    await run(w, await visit(w));
  });

Deno.test("without CONSOLE=on there is no console, and the command says how to get one", async () => {
  await using w = await World.open();
  const { apiKey } = await w.admin();
  assertEquals((await request(w, "/console")).status, 404);
  const answer = await w.ask("POST", "/v1/admin/console-codes", { apiKey });
  await refused(answer, "CONSOLE_OFF");
});

test("the limits are those of registry and proxy, each with its variable", async (w, own) => {
  const { text } = await look(w, own, "limits"), { agentRequests, pairQuota } = w.proxy.deps.config;
  const rows = [...text.matchAll(/<tr><td>.*?<\/tr>/gs)].map(([row]) => row.replaceAll(/<[^>]*>/g, " ").trim());
  const limitOf = (variable: string) => rows.find((row) => row.endsWith(variable))?.replace(variable, "").trim() ?? "";
  assertStringIncludes(limitOf("AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE"), `${agentRequests} a minute`);
  assertStringIncludes(limitOf("QUOTA_PAIRS").replace(",", ""), String(pairQuota));
  for (const name of ["OWNER_RATE_LIMIT_REQUESTS_PER_MINUTE", "QUOTA_MAILBOX_BYTES", "QUOTA_AGENTS"]) {
    assert(limitOf(name) !== "", name);
  }
});

Deno.test("only an admin gets a code, 10 at a time, and each ends after a minute", async () => {
  await using w = await open();
  const user = await w.person();
  const asUser = await w.ask("POST", "/v1/admin/console-codes", { apiKey: user.apiKey });
  await refused(asUser, "ADMIN_REQUIRED");
  const urls: string[] = [];
  for (let i = 0; i < 10; i++) urls.push(await codeOf(w));
  const more = await w.ask("POST", "/v1/admin/console-codes", { apiKey: (await w.admin()).apiKey });
  await refused(more, "RATE_LIMIT_EXCEEDED");
  w.clock.step(MINUTE_MS - 1);
  assert(await take(w, urls[0] ?? ""));
  w.clock.step(1);
  assertEquals(await take(w, urls[1] ?? ""), null);
  // The nine that are over count no longer.
  for (let i = 0; i < 10; i++) await codeOf(w);
});

Deno.test("of two who have one code one gets in, and a look uses nothing up", async () => {
  await using w = await open();
  for (let round = 0; round < 5; round++) {
    const url = await codeOf(w);
    assertEquals((await request(w, url)).status, 200);
    const taken = await Promise.all([take(w, url), take(w, url), take(w, url)]);
    assertEquals(taken.filter((one) => one !== null).length, 1);
  }
});

Deno.test("at most 10 addresses of a person are open, also when 30 are asked for at once", async () => {
  await using w = await open();
  const { apiKey } = await w.admin();
  const ask = () => w.ask("POST", "/v1/admin/console-codes", { apiKey });
  let made = 0;
  while (made < 10) {
    const answers = await Promise.all(Array.from({ length: 30 }, ask));
    made += answers.filter(({ status }) => status === 201).length;
  }
  assertEquals([made, (await Array.fromAsync(w.kv.list({ prefix: KEYS.consoles() }))).length], [10, 10]);
  const over = await ask();
  await refused(over, "RATE_LIMIT_EXCEEDED");
  assertEquals(over.headers.get("Retry-After"), "60");
});

Deno.test("a session lasts 8 h, 30 min without a click, and a look of the script is no click", async () => {
  await using w = await open();
  const idle = await visit(w), used = await visit(w);
  for (let minutes = 0; minutes < 20; minutes += 10) {
    w.clock.step(10 * MINUTE_MS);
    assertEquals((await look(w, idle, "limits", { "If-None-Match": '"x"' })).status, 200);
    assertEquals((await look(w, used, "limits")).status, 200);
  }
  w.clock.step(10 * MINUTE_MS);
  assertEquals((await look(w, idle, "limits")).status, 403);
  assertEquals((await look(w, used, "limits")).status, 200);
  for (let minutes = 30; minutes < 8 * 60 - 10; minutes += 10) {
    w.clock.step(10 * MINUTE_MS);
    assertEquals((await look(w, used, "limits")).status, 200, `after ${minutes} min`);
  }
  w.clock.step(10 * MINUTE_MS);
  assertStringIncludes((await look(w, used, "limits")).text, "This session is over");
});

Deno.test("a clock that is set back makes neither a session nor a code longer", async () => {
  await using w = await open();
  const left = await visit(w), url = await codeOf(w);
  w.clock.step(-24 * 60 * MINUTE_MS);
  assertEquals((await look(w, left, "limits")).status, 403);
  assertEquals(await take(w, url), null);
});

Deno.test("a revoked key, a suspended person, a lost role and logging out end a session at once", async () => {
  await using w = await open();
  const { id } = await w.admin();
  const own = await visit(w);
  const { status, text } = await send(w, own, "close");
  assertEquals(status, 200);
  assertStringIncludes(text, "This session is closed");
  assertEquals((await look(w, own, "limits")).status, 403);
  for (const change of [{ role: "user" }, { status: "suspended" }] as const) {
    const session = await visit(w);
    const entry = await w.kv.get<object>(KEYS.human(id));
    await w.kv.set(KEYS.human(id), { ...entry.value, ...change });
    assertEquals((await look(w, session, "limits")).status, 403);
    await w.kv.set(KEYS.human(id), entry.value);
    assertEquals((await look(w, session, "limits")).status, 200);
  }
  const { apiKey: other } = await w.client.createApiKey((await w.admin()).apiKey, "second");
  const session = await take(w, await codeOf(w, other.token));
  assert(session);
  await w.client.revokeApiKey((await w.admin()).apiKey, other.id);
  assertEquals((await look(w, session, "limits")).status, 403);
});

Deno.test("the oldest of eleven sessions ends; neither store nor log holds a code, a cookie or a key", async () => {
  await using w = await open();
  const url = await codeOf(w);
  const first = await take(w, url);
  assert(first);
  const last: Visit[] = [];
  for (let i = 0; i < 10; i++) {
    w.clock.step(1);
    last.push(await visit(w));
  }
  assertEquals((await look(w, first, "limits")).status, 403);
  for (const session of last) assertEquals((await look(w, session, "limits")).status, 200);
  const { apiKey } = await w.admin();
  const secrets = [
    url.split("/").at(-1) ?? "",
    apiKey,
    ...last.flatMap(({ base, cookie }) => [cookie.split("=")[1] ?? "", base.split("/").at(-1) ?? ""]),
  ];
  const stored = await Array.fromAsync(w.kv.list({ prefix: [] }));
  const all = JSON.stringify([stored, w.log], (_, value) => typeof value === "bigint" ? String(value) : value);
  for (const secret of secrets) assert(secret.length > 20 && !all.includes(secret));
  assertEquals((await auditEvents(w, "event=console.opened")).length, 11);
});

test("another name, another site and a foreign form are refused, and nothing is done", async (w, own) => {
  const agent = await w.agent();
  const path = `${own.base}/agents/${agent.agent.id}/revoke`;
  const form = { "Content-Type": "application/x-www-form-urlencoded" };
  const page = await look(w, own, "overview");
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? "";
  const attempts: [what: string, headers: Record<string, string>, body: string][] = [
    ["Host", { Origin: REGISTRY_URL, Host: "evil.test" }, `csrf=${csrf}`],
    ["no Origin", {}, `csrf=${csrf}`],
    ["Origin", { Origin: "https://evil.test" }, `csrf=${csrf}`],
    ["null", { Origin: "null" }, `csrf=${csrf}`],
    ["site", { Origin: REGISTRY_URL, "Sec-Fetch-Site": "same-site" }, `csrf=${csrf}`],
    ["no csrf", { Origin: REGISTRY_URL }, ""],
    ["wrong csrf", { Origin: REGISTRY_URL }, `csrf=${csrf}x`],
    ["JSON", { Origin: REGISTRY_URL, "Content-Type": "application/json" }, `{"csrf":"${csrf}"}`],
    ["long", { Origin: REGISTRY_URL }, `csrf=${csrf}&x=${"x".repeat(65_536)}`],
  ];
  for (const [what, headers, body] of attempts) {
    const answer = await request(w, path, {
      method: "POST",
      headers: { ...form, Cookie: own.cookie, ...headers },
      body,
    });
    assertEquals(answer.status, 403, what);
  }
  assertEquals((await w.client.agent(agent.owner.apiKey, agent.agent.id)).status, "active");
  assertEquals((await send(w, own, `agents/${agent.agent.id}/revoke`)).status, 303);
  assertEquals((await w.client.agent(agent.owner.apiKey, agent.agent.id)).status, "revoked");
});

test("each action is that of the API, with the person as actor and the reason in the audit log", async (w, own) => {
  const admin = await w.admin(), person = await w.person("Dimitri"), agent = await w.agent(person);
  assertEquals((await send(w, own, `people/${person.id}/suspend`, { reason: "key in public" })).status, 303);
  assertMatch((await look(w, own, `people/${person.id}`)).text, /suspended<\/span> <time/);
  assertStringIncludes((await look(w, own, `agents/${agent.agent.id}`)).text, "suspended with its owner");
  assertEquals((await w.ask("GET", "/v1/me", { apiKey: person.apiKey })).status, 403);
  await send(w, own, `people/${person.id}/restore`);
  assertEquals((await w.ask("GET", "/v1/me", { apiKey: person.apiKey })).status, 200);
  const shownUntil = async () => {
    const { text } = await look(w, own, `agents/${agent.agent.id}`);
    return /Valid until<\/dt><dd><time datetime="([^"]+)"/.exec(text)?.[1];
  };
  const sessionEnd = await shownUntil(), endedAt = new Date(w.clock.now()).toISOString();
  assertEquals((await send(w, own, `agents/${agent.agent.id}/end`)).status, 303);
  assertEquals([sessionEnd !== endedAt, await shownUntil()], [true, endedAt]);
  const himself = await send(w, own, `people/${admin.id}/suspend`);
  assertEquals(himself.status, 200);
  assertStringIncludes(himself.text, "ADMIN_SUSPEND_FORBIDDEN");
  const long = await send(w, own, `people/${person.id}/suspend`, { reason: "x".repeat(201) });
  assertStringIncludes(long.text, `value="${"x".repeat(201)}"`);
  const id = /name="id" value="([^"]+)"/.exec((await look(w, own, "invites")).text)?.[1] ?? "";
  // A click, a second one before the answer, and a reload of the answer.
  const sent = await Promise.all([1, 2].map(() => send(w, own, "invites", { days: "1", id })));
  const again = [...sent, await send(w, own, "invites", { days: "1", id })];
  const made = again.filter(({ text }) => text.includes("svc_inv_"));
  const [created = { text: "" }] = made;
  assertEquals([made.length, again.filter(({ text }) => text.includes("No second invite.")).length], [1, 2]);
  const code = /svc_inv_[A-Za-z0-9_-]+/.exec(created.text)?.[0] ?? "";
  await w.client.redeemInvite(code, "New");
  const used = await send(w, own, `invites/${id}/delete`);
  assertStringIncludes(used.text, "Not taken back.");
  assertStringIncludes(used.text, "INVITE_REDEEM_ALREADY_USED");
  const { invite } = await w.client.createInvite(admin.apiKey);
  assertEquals((await send(w, own, `invites/${invite.id}/delete`)).status, 303);
  const events = (await look(w, own, "audit.jsonl")).text.trim().split("\n").map((line) => JSON.parse(line));
  assertEquals(events.slice(0, 6).map(({ event, actor, detail }) => [event, actor === admin.did, detail]), [
    ["invite.deleted", true, undefined],
    ["invite.created", true, undefined],
    ["invite.redeemed", false, undefined],
    ["invite.created", true, undefined],
    ["session.revoked", true, undefined],
    ["person.restored", true, undefined],
  ]);
  assertEquals(events[6].detail, "key in public");
  assertStringIncludes((await look(w, own, "audit?about=Dimitri")).text, "“key in public”");
  assertStringIncludes((await look(w, own, "audit?by=no-such")).text, "No person and no agent is called no-such.");
});

test("an agent that recovers its session all the time does not push the changes off the audit page", async (w, own) => {
  const person = await w.person("Ann");
  await writeRecords(w, 60, (operation) => {
    const id = w.newId();
    const entry = {
      id,
      at: new Date(w.clock.now()).toISOString(),
      event: "session.recovered",
      actor: "a",
      subject: "a",
    };
    operation.set(KEYS.audit(id), { ...entry, requestId: "r" });
  });
  assertStringIncludes((await look(w, own, "audit")).text, `people/${person.id}"`);
});

test("the audit log finds a person whose name is the beginning of a hundred newer ones", async (w, own) => {
  const ann = await w.person("Ann");
  const human = (await w.kv.get<HumanRecord>(KEYS.human(ann.id))).value as HumanRecord;
  await writeRecords(w, 101, (operation) => {
    const id = w.newId();
    operation.set(KEYS.human(id), { ...human, id, did: human.did.replace(ann.id, id), displayName: `Anna ${id}` });
  });
  const { text } = await look(w, own, "audit?by=ann");
  assert(!text.includes("No person") && text.includes(`>Invite used<`) && text.includes(`people/${ann.id}"`));
});

Deno.test("the codes and sessions of other admins are not counted", async () => {
  await using w = await open();
  const { id } = await w.admin();
  const others = {
    kind: "code",
    humanId: "other",
    keyId: "k",
    createdAt: w.clock.now(),
    seenAt: w.clock.now(),
  } as const;
  await writeRecords(w, 1_000, (operation, i) => operation.set(KEYS.console(`A${i}`), others));
  await writeRecords(w, 10, (operation, i) => operation.set(KEYS.console(`B${i}`), { ...others, humanId: id }));
  const more = await w.ask("POST", "/v1/admin/console-codes", { apiKey: (await w.admin()).apiKey });
  await refused(more, "RATE_LIMIT_EXCEEDED");
});

Deno.test("a download whose filter fits nothing reads at most 100,000 entries, and says where it ended", async () => {
  using real = await openTestKv();
  const id = "01KHZZZZZZZZZZZZZZZZZZZZZZ", entry = { id, event: "admin.token_issued", at: "2026-02-21T00:00:00.000Z" };
  let read = 0;
  const kv = overlaid(real, {
    // A log without an end, up to the number at which the test gives up.
    list: <T>(selector: Deno.KvListSelector, options?: Deno.KvListOptions) => {
      const entries = real.list<T>(selector, options);
      let left = options?.limit ?? 0;
      const value = { key: KEYS.audit(id), value: entry as T, versionstamp: "" };
      const next = () => left-- > 0 && read++ < 200_000 ? { done: false, value } as const : { done: true } as never;
      if (JSON.stringify(selector).includes('"audit"')) entries.next = () => Promise.resolve(next());
      return entries;
    },
  });
  await using w = await open({ kv });
  const { text } = await look(w, await visit(w), "audit.jsonl");
  assertEquals(read, 100_000);
  assertEquals(JSON.parse(text), { cut: true, message: `older entries follow ${id}` });
});

Deno.test("a name, an ID, a DID and a typing mistake find an agent; filters and pages show each once", async () => {
  await using w = await open({ registry: { quotas: AMPLE_QUOTAS } });
  const ada = await w.person("Ada");
  const scout = await w.agent(ada, "scout-7");
  for (let i = 0; i < 60; i++) await w.agent(ada, `worker-${i}`);
  w.connect(scout);
  await w.connected();
  const own = await visit(w);
  const names = (text: string) => [...text.matchAll(/<a class="name"[^>]*><bdi>([^<]*)/g)].map(([, name]) => name);
  const first = await look(w, own, "agents"),
    older = /href="(\?[^"]*)">Older/.exec(first.text)?.[1]?.replaceAll("&#38;", "&");
  const second = await look(w, own, `agents${older}`);
  const all = [...names(first.text), ...names(second.text)];
  assertEquals([all.length, new Set(all).size], [61, 61]);
  assertEquals(names((await look(w, own, "agents?q=SCOUT")).text), ["scout-7"]);
  assertEquals(names((await look(w, own, "agents?online=true&status=active")).text), ["scout-7"]);
  assertEquals(names((await look(w, own, "agents?online=true&q=worker")).text), []);
  for (const q of [scout.agent.id, scout.agent.did]) {
    const answer = await request(w, `${own.base}/agents?q=${q}`, { headers: { Cookie: own.cookie } });
    assertEquals([answer.status, answer.headers.get("location")], [303, `${own.base}/agents/${scout.agent.id}`]);
  }
  assertMatch((await look(w, own, "agents?q=scuot-7")).text, /Did you mean <a[^>]*><bdi>scout-7/);
});

test("each page and each action of a record that is not there says so, and leads to those that are", async (w, own) => {
  const id = w.newId();
  const texts = { agents: "No such agent", people: "No such person" };
  for (const path of ["agents/:id", "agents/:id/revoke", "agents/:id/end", "people/:id", "people/:id/suspend"]) {
    for (const missing of [id, "nonsense", "constructor", "A".repeat(3_000)]) {
      const asked = path.replace(":id", missing), list = path.startsWith("agents") ? "agents" : "people";
      const answers = [await look(w, own, asked), ...path.split("/").length > 2 ? [await send(w, own, asked)] : []];
      for (const { status, text } of answers) {
        assertEquals(status, 404, asked);
        assertStringIncludes(text, texts[list]);
        assertStringIncludes(text, `href="${own.base}/${list}"`);
      }
    }
  }
  assertEquals((await send(w, own, `people/${id}/restore`)).status, 404);
});

test("a typing mistake in the name of a person names the nearest one", async (w, own) => {
  await w.person("Barbara");
  assertMatch((await look(w, own, "people?q=Barabra")).text, /Did you mean <a[^>]*><bdi>Barbara/);
  assert(!(await look(w, own, "people?q=nobody-like-that")).text.includes("Did you mean"));
  assertStringIncludes((await look(w, own, "people?status=suspended")).text, "No person fits the filter.");
});

test("DIDs of a registry with a long name are found, and turn pages", async (w, own) => {
  const long = "registry.of-a-rather-large-organisation.example.test", id = w.newId();
  for (const [page, kind] of [["agents", "agent"], ["people", "human"]] as const) {
    const path = `${own.base}/${page}?q=did:svc:${long}:${kind}:${id}`;
    const answer = await request(w, path, { headers: { Cookie: own.cookie } });
    assertEquals([answer.status, answer.headers.get("location")], [303, `${own.base}/${page}/${id}`]);
  }
  const cursor = `did:svc:${long}:agent:${id}`, asked: (string | null)[] = [], { callProxy } = w;
  w.callProxy = (call) => {
    asked.push(new URL(call.url).searchParams.get("cursor"));
    return callProxy(call);
  };
  await look(w, own, `agents?online=true&cursor=${cursor}`);
  assertEquals(asked, [cursor]);
});

test("a proxy that is away, slow or strange leaves every page, which says so", async (w, own) => {
  const { a } = await w.story();
  const paths = [
    "overview",
    "agents",
    "agents?online=true",
    `agents/${a.agent.id}`,
    `people/${a.owner.id}`,
    "queues",
    "deliveries?requestId=abcdefgh",
    "limits",
  ];
  const stranger: ((request: Request) => Promise<Response>)[] = [
    () => Promise.reject(new TypeError("connection refused")),
    () => Promise.resolve(new Response("no", { status: 502 })),
    () => Promise.resolve(Response.json({ agents: "many" })),
    () => Promise.resolve(new Response("x".repeat(2 ** 20 + 1))),
  ];
  for (const callProxy of stranger) {
    w.callProxy = callProxy;
    for (const path of paths) {
      const { status, text } = await look(w, own, path);
      assertEquals(status, 200, path);
      if (!path.startsWith("people")) assertStringIncludes(text, PROXY_URL, path);
    }
  }
  w.callProxy = () => new Promise(() => {});
  for (const path of paths) {
    let status = 0;
    void look(w, own, path).then((answer) => status = answer.status);
    for (let step = 0; status === 0 && step < 1_000; step++) await w.clock.advance(100);
    assertEquals(status, 200, path);
  }
});

test("a proxy that goes away while the overview is made leaves the page", async (w, own) => {
  const { agent } = await w.agent(), ask = w.callProxy;
  const oldestExpiresAt = new Date(w.clock.now() + MINUTE_MS).toISOString();
  const queues = [{ recipientAgentDid: agent.did, messages: 3, senders: 1, oldestExpiresAt }];
  w.callProxy = (request) => {
    const { pathname, searchParams } = new URL(request.url);
    if (searchParams.has("agents")) return Promise.reject(new TypeError("connection refused"));
    const isQueues = pathname.endsWith("/queues");
    return isQueues
      ? Promise.resolve(Response.json({ queues, pagination: { limit: 100, nextCursor: null } }))
      : ask(request);
  };
  const { status, text } = await look(w, own, "overview");
  assertEquals(status, 200);
  assertStringIncludes(text, agent.name);
});

test("the plots name a minute by its beginning, and count what waits at its end", async (w, own) => {
  const [a, b] = [await w.agent(), await w.agent()];
  w.clock.step(MINUTE_MS - w.clock.now() % MINUTE_MS);
  const [began, ended] = [0, MINUTE_MS].map((ms) => new Date(w.clock.now() + ms).toISOString().slice(11, 16));
  await (await w.message(a, b)).body?.cancel();
  w.clock.step(MINUTE_MS);
  await w.proxy.deps.series.take();
  const { text } = await look(w, own, "overview");
  const rows = [...text.matchAll(/<tbody><tr><td>(.*?)<\/tr>/g)].map(([, row]) => row?.replaceAll(/<\/?td>/g, " "));
  assertEquals(rows.slice(0, 4), [
    `${began}  0  0  0 `,
    `${began}  no data  no data `,
    `${ended}  0 `,
    `${began}  0  1  0  0 `,
  ]);
});

test("after a rotation of the signing key the console gets a new token for the proxy", async (w, own) => {
  assertStringIncludes((await look(w, own, "overview")).text, "Proxy ready");
  await answered(await w.ask("POST", "/v1/admin/keys/rotate", { apiKey: (await w.admin()).apiKey }));
  w.clock.step(MINUTE_MS);
  w.proxy.deps.keys.forget();
  await look(w, own, "overview");
  assertStringIncludes((await look(w, own, "overview")).text, "Proxy ready");
});

test("600 requests a minute of a person are answered", async (w, own) => {
  await w.kv.set(KEYS.window("console", (await w.admin()).id), [[w.clock.now(), 599]]);
  assertEquals((await look(w, own, "limits")).status, 200);
  assertEquals((await look(w, own, "limits")).status, 429);
  w.clock.step(2 * MINUTE_MS);
  assertEquals((await look(w, own, "limits")).status, 200);
});

Deno.test("a page that the store refuses says why, because its reader can free the disk", async () => {
  using store = await FaultyKv.open();
  await using w = await open({ kv: store.kv });
  const own = await visit(w);
  for (const [fault, why] of [[true, "The store does not answer"], [FULL, "The disk of the server is full"]] as const) {
    store.faults.fails = () => fault;
    const { status, text } = await look(w, own, "agents");
    assertEquals(status, 503);
    assertStringIncludes(text, why);
  }
  store.faults = {};
  assertEquals((await look(w, own, "agents")).status, 200);
});
