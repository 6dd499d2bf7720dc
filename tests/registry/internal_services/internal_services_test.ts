/**
 * Shows internal services: who manages them, which credentials the registry accepts, which scopes they need, and the
 * answer about an agent's owner.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { InternalService, Ownership } from "../../../shared/protocol/api/services.ts";
import { answered, moveTo, openRegistry, outcome, refused, tally, withTime } from "../../support/registry_world.ts";
import { trials } from "../../support/trials.ts";
import { REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";

const PATH = "/v1/admin/internal-services";
const OWNERSHIP = "/internal/v1/identity/agent-ownership";
const UNKNOWN = "01KHYQ5H00AAAAAAAAAAAAAAAA";

type Issued = InternalService & { secret: string };

async function create(w: World, name: string, scopes: string[] = ["identity.read"]): Promise<Issued> {
  const { apiKey } = await w.admin();
  const answer = await w.ask("POST", PATH, { apiKey, body: { name, scopes } });
  return (await answered<{ internalService: Issued }>(answer, 201)).internalService;
}

async function rotate(w: World, id: string): Promise<Issued> {
  const answer = await w.ask("POST", `${PATH}/${id}/rotate`, { apiKey: (await w.admin()).apiKey });
  return (await answered<{ internalService: Issued }>(answer)).internalService;
}

async function list(w: World): Promise<InternalService[]> {
  const answer = await w.ask("GET", PATH, { apiKey: (await w.admin()).apiKey });
  return (await answered<{ internalServices: InternalService[] }>(answer)).internalServices;
}

const credential = ({ id, secret }: Pick<Issued, "id" | "secret">): Record<string, string> => ({
  "X-Svc-Service-Id": id,
  "X-Svc-Service-Secret": secret,
});

function ownership(w: World, headers: Record<string, string>, body: unknown): Promise<Response> {
  return w.ask("POST", OWNERSHIP, { headers, body });
}

const of = ({ owner, agent }: TestAgent) => ({ ownerDid: owner.did, agentDid: agent.did });

Deno.test("an internal service is returned once with its secret, and listed without it, newest first", async () => {
  await using w = await openRegistry();
  const createdAt = new Date(w.clock.now()).toISOString();
  const { id, secret, ...rest } = await create(w, "relay-2_x", ["crl.read", "auth.validate"]);
  assertMatch(secret, /^svc_srv_[A-Za-z0-9_-]{43}$/);
  const wanted = { name: "relay-2_x", scopes: ["crl.read", "auth.validate"], status: "active", createdAt };
  assertEquals(rest, { ...wanted, rotatedAt: null, lastUsedAt: null } as typeof rest);
  const [first, ...others] = await list(w);
  assertEquals(first, { id, ...rest });
  assertEquals(others.map(({ name }) => name), ["proxy"]);
  assert(!JSON.stringify(await list(w)).includes("svc_srv_"));
});

Deno.test("an internal service needs a unique valid name and known scopes without repetition", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const post = (body: unknown) => w.ask("POST", PATH, { apiKey, body });
  for (const name of ["ab", "0a", "a".repeat(64), "a_", "a-"]) await create(w, name);
  const scopes = ["crl.read"];
  const bad: [what: string, body: unknown][] = [
    ...["", "a", "A1", "-a", "_a", "a b", "a.b", "ä1", "a".repeat(65), "ab\n", null, 1].map((
      name,
    ): [string, unknown] => [
      `name ${JSON.stringify(name)}`,
      { name, scopes },
    ]),
    ...[[], ["all"], ["crl.read", "crl.read"], "crl.read", null, [1], ["crl.read", "*"]].map((
      all,
    ): [string, unknown] => [
      `scopes ${JSON.stringify(all)}`,
      { name: "relay", scopes: all },
    ]),
  ];
  for (const [what, body] of bad) {
    await t.step(what, async () => void await refused(await post(body), "INTERNAL_SERVICE_INVALID"));
  }
  await t.step("taken", async () => {
    for (const name of ["ab", "proxy"]) await refused(await post({ name, scopes }), "INTERNAL_SERVICE_ALREADY_EXISTS");
  });
  await t.step("of 20 at once one gets the name", async () => {
    const counts = await withTime(w, tally(Array.from({ length: 20 }, () => post({ name: "race", scopes }))));
    assertEquals(counts, { "201": 1, "409 INTERNAL_SERVICE_ALREADY_EXISTS": 19 });
    assertEquals((await list(w)).filter(({ name }) => name === "race").length, 1);
  });
});

Deno.test("a rotated secret works for exactly one more hour, and the new one at once", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const one = await create(w, "relay");
  await w.clock.advance(5000);
  const two = await rotate(w, one.id);
  assertEquals([two.id, two.name, two.rotatedAt], [one.id, "relay", new Date(w.clock.now()).toISOString()]);
  for (const service of [one, two]) await answered(await ownership(w, credential(service), of(a)));
  await w.clock.advance(3_599_999);
  await answered(await ownership(w, credential(one), of(a)));
  await w.clock.advance(1);
  await refused(await ownership(w, credential(one), of(a)), "INTERNAL_SERVICE_UNAUTHORIZED");
  const three = await rotate(w, one.id);
  const four = await rotate(w, one.id);
  await refused(await ownership(w, credential(two), of(a)), "INTERNAL_SERVICE_UNAUTHORIZED");
  for (const service of [three, four]) await answered(await ownership(w, credential(service), of(a)));
});

Deno.test("a deleted service is refused at once with both secrets, and its name can be used again", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const { apiKey } = await w.admin();
  const one = await create(w, "relay");
  const two = await rotate(w, one.id);
  await answered(await w.ask("DELETE", `${PATH}/${one.id}`, { apiKey }), 204);
  for (const service of [one, two]) {
    await refused(await ownership(w, credential(service), of(a)), "INTERNAL_SERVICE_UNAUTHORIZED");
  }
  for (const [method, what] of [["DELETE", ""], ["POST", "/rotate"]] as const) {
    for (const id of [one.id, UNKNOWN, "abc"]) {
      await refused(await w.ask(method, `${PATH}/${id}${what}`, { apiKey }), "INTERNAL_SERVICE_NOT_FOUND");
    }
  }
  const again = await create(w, "relay");
  await answered(await ownership(w, credential(again), of(a)));
  assertEquals((await list(w)).map(({ name, status }) => `${name} ${status}`), [
    "relay active",
    "relay revoked",
    "proxy active",
  ]);
});

Deno.test("of twenty rotations at once each gives a secret, and exactly the last two of them work", async () => {
  await using w = await openRegistry();
  const a = await w.agent(), { apiKey } = await w.admin(), first = await create(w, "relay");
  const calls = Array.from({ length: 20 }, () => w.ask("POST", `${PATH}/${first.id}/rotate`, { apiKey }));
  const secrets = new Set([first.secret]);
  for (const answer of await withTime(w, Promise.all(calls), 50)) {
    secrets.add((await answered<{ internalService: Issued }>(answer)).internalService.secret);
  }
  assertEquals(secrets.size, 21);
  const good: string[] = [];
  for (const secret of secrets) {
    if ((await ownership(w, credential({ id: first.id, secret }), of(a))).status === 200) good.push(secret);
  }
  assertEquals([good.length, good.includes(first.secret)], [2, false]);
  const last = await rotate(w, first.id);
  await answered(await ownership(w, credential(last), of(a)));
});

Deno.test("a service ends revoked with no working secret when rotation and deletion are concurrent", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const { apiKey } = await w.admin();
  for (let round = 0; round < trials(8); round++) {
    const service = await create(w, `relay-${round}`);
    const calls = [
      () => w.ask("POST", `${PATH}/${service.id}/rotate`, { apiKey }),
      () => w.ask("DELETE", `${PATH}/${service.id}`, { apiKey }),
    ];
    if (round % 2) calls.reverse();
    const answers = await withTime(w, Promise.all(calls.map((call) => call())), 50);
    assert(answers.some((answer) => answer.status === 204), "the deletion took effect");
    const secrets = [service.secret];
    for (const answer of answers) {
      if (answer.status === 200) {
        secrets.push((await answered<{ internalService: Issued }>(answer)).internalService.secret);
      } else if (answer.status !== 204) await refused(answer, "INTERNAL_SERVICE_NOT_FOUND");
    }
    for (const secret of secrets) {
      await refused(await ownership(w, credential({ id: service.id, secret }), of(a)), "INTERNAL_SERVICE_UNAUTHORIZED");
    }
  }
});

Deno.test("the ownership route is 401 without exactly one valid service credential", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const admin = await w.admin();
  const [one, two] = [await create(w, "one"), await create(w, "two")];
  const { id, secret } = one;
  const rows: [what: string, headers: Record<string, string>][] = [
    ["nothing", {}],
    ["a user's key", { Authorization: `Bearer ${a.owner.apiKey}` }],
    ["an admin's key", { Authorization: `Bearer ${admin.apiKey}` }],
    ["an AIT", { Authorization: `Svc ${a.identity.ait}`, "X-Svc-Agent-Access": a.agentAuth.accessToken }],
    ["the id alone", { "X-Svc-Service-Id": id }],
    ["the secret alone", { "X-Svc-Service-Secret": secret }],
    ["the secret as API key", { "X-Svc-Service-Id": id, Authorization: `Bearer ${secret}` }],
    ["another's secret", credential({ id, secret: two.secret })],
    ["the name for the id", credential({ id: "one", secret })],
    ["an unknown id", credential({ id: UNKNOWN, secret })],
    ["an empty id", credential({ id: "", secret })],
    ["an empty secret", credential({ id, secret: "" })],
    ["one character short", credential({ id, secret: secret.slice(0, -1) })],
    ["an API key as secret", credential({ id, secret: admin.apiKey })],
    ["the secret twice", credential({ id, secret: `${secret}, ${secret}` })],
    ["the id twice", credential({ id: `${id}, ${id}`, secret })],
    ["an id of 3 KiB", credential({ id: "A".repeat(3 * 1024), secret })],
  ];
  for (const [what, headers] of rows) {
    await t.step(
      what,
      async () => void await refused(await ownership(w, headers, of(a)), "INTERNAL_SERVICE_UNAUTHORIZED"),
    );
  }
});

Deno.test("a service is 403 on routes outside its scopes", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const about = { agentDid: a.agent.did, aitJti: a.agent.currentJti };
  const access = { "X-Svc-Agent-Access": a.agentAuth.accessToken };
  const calls: Record<string, [wanted: string, call: (headers: Record<string, string>) => Promise<Response>]> = {
    "identity.read": ["200", (headers) => ownership(w, headers, of(a))],
    "auth.validate": [
      "204",
      (headers) => w.ask("POST", "/v1/agents/auth/validate", { headers: { ...access, ...headers }, body: about }),
    ],
    "crl.read": ["404 CRL_NOT_FOUND", (headers) => w.ask("GET", "/v1/crl", { headers })],
  };
  for (const scope of Object.keys(calls)) {
    const service = await create(w, scope.replace(".", "-"), [scope]);
    for (const [other, [wanted, call]] of Object.entries(calls)) {
      await t.step(`${scope} at ${other}`, async () => {
        const result = await outcome(await call(credential(service)));
        assertEquals(result, scope === other ? wanted : "403 INTERNAL_SERVICE_FORBIDDEN");
      });
    }
  }
});

Deno.test("the ownership route answers ownership, agent status and session status", async (t) => {
  await using w = await openRegistry({ registry: { refreshTokenTtlSeconds: 60 } });
  const service = credential(await create(w, "relay"));
  const agents = { live: await w.agent(), revoked: await w.agent(), deleted: await w.agent() };
  const { live, revoked, deleted } = agents;
  for (const [a, what] of [[revoked, "/auth/revoke"], [deleted, ""]] as const) {
    await answered(await w.ask("DELETE", `/v1/agents/${a.agent.id}${what}`, { apiKey: a.owner.apiKey }), 204);
  }
  const nobody = { ownsAgent: false, agentStatus: null, session: null };
  const rows: [what: string, body: unknown, wanted: Ownership][] = [
    ["its owner", of(live), { ownsAgent: true, agentStatus: "active", session: "active" }],
    ["another caller", { ...of(live), ownerDid: revoked.owner.did }, {
      ownsAgent: false,
      agentStatus: "active",
      session: "active",
    }],
    ["session revoked", of(revoked), { ownsAgent: true, agentStatus: "active", session: "revoked" }],
    ["agent deleted", of(deleted), { ownsAgent: true, agentStatus: "revoked", session: "revoked" }],
    ["unknown agent", { ...of(live), agentDid: live.agent.did.slice(0, -26) + UNKNOWN }, nobody],
    ["the same id elsewhere", {
      ...of(live),
      agentDid: live.agent.did.replace("registry.example.test", "elsewhere.example"),
    }, nobody],
    ["the same owner's id elsewhere", { ...of(live), ownerDid: live.owner.did.replace("registry.", "other.") }, {
      ownsAgent: false,
      agentStatus: "active",
      session: "active",
    }],
  ];
  for (const [what, body, wanted] of rows) {
    await t.step(what, async () => assertEquals(await answered<Ownership>(await ownership(w, service, body)), wanted));
  }
  await t.step("session expired", async () => {
    await w.clock.advance(60_000);
    const answer = await answered<Ownership>(await ownership(w, service, of(live)));
    assertEquals(answer, { ownsAgent: true, agentStatus: "active", session: "expired" });
  });
});

Deno.test("the last use of a service is written at most once a minute", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const service = await create(w, "relay");
  const read = async () => (await list(w)).find(({ id }) => id === service.id)?.lastUsedAt;
  const use = async () => {
    await answered(await ownership(w, credential(service), of(a)));
    return new Date(w.clock.now()).toISOString();
  };
  await w.clock.advance(1000);
  const first = await use();
  assertEquals(await read(), first);
  await w.clock.advance(59_000);
  await use();
  assertEquals(await read(), first);
  await w.clock.advance(1000);
  assertEquals(await use(), await read());
});

Deno.test("calls within the process need no credential", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  moveTo(w, 1);
  const request = new Request(REGISTRY_URL + OWNERSHIP, { method: "POST", body: JSON.stringify(of(a)) });
  const answer = await answered<Ownership>(await w.registry.fetch(request, { from: "process" }));
  assertEquals(answer, { ownsAgent: true, agentStatus: "active", session: "active" });
});

Deno.test("half a credential is refused where a service is optional, because its proxy would be under the limit unnoticed", async () => {
  await using w = await openRegistry();
  const { id, secret } = await create(w, "relay", ["crl.read"]);
  for (const header of Object.entries(credential({ id, secret }))) {
    const answer = await w.ask("GET", "/v1/crl", { headers: Object.fromEntries([header]) });
    await refused(answer, "INTERNAL_SERVICE_UNAUTHORIZED");
  }
});
