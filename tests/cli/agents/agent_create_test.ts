/** agent create: what it makes, what it refuses, and its state after an interruption at any point. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { DEFAULT_FRAMEWORK } from "../../../shared/protocol/names.ts";
import { AMPLE_QUOTAS, REGISTRY_URL, World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

const FILES = ["ait.jwt", "identity.json", "public.key", "registry-auth.json", "secret.key"];

/** Files of the agent; the folder holds no other file except the agent's lock. */
function agentFiles(machine: Machine, name: string): string[] {
  const tree = Object.keys(machine.tree()).filter((path) => !path.endsWith("/agent.lock") && !path.startsWith("keys/"));
  assertEquals(tree.filter((path) => !path.startsWith(`agents/${name}/`)), ["agents/"]);
  return tree.map((path) => path.slice(`agents/${name}/`.length)).filter((path) => path !== "" && path !== "agents/")
    .sort();
}

/** The person's agents at the registry. */
async function registered(machine: Machine): Promise<{ name: string; status: string; id: string }[]> {
  return (await machine.json("agent", "list")).agents;
}

const CHALLENGE = /^POST .*\/v1\/agents\/challenge$/;
const REGISTRATION = /^POST .*\/v1\/agents$/;
const KEYS = /svc-keys\.json$/;
/** How many requests to delete something were sent. */
const deletions = ({ requests }: Machine) => requests.filter((request) => request.startsWith("DELETE ")).length;
const reset = () => Promise.reject(new TypeError("connection reset"));

Deno.test("agent create writes exactly its private files and makes a working agent", async () => {
  await using machine = await Machine.ofPerson();
  const made = await machine.json("agent", "create", "alpha", "--framework", "openclaw", "--ttl-days", "7");
  assertEquals(agentFiles(machine, "alpha"), FILES);
  const identity = JSON.parse(machine.read("agents/alpha/identity.json"));
  assertEquals(Object.keys(identity), ["did", "name", "framework", "ownerDid", "expiresAt", "registryUrl"]);
  assertEquals([identity.name, identity.framework, identity.registryUrl], ["alpha", "openclaw", REGISTRY_URL]);
  assertEquals(Date.parse(identity.expiresAt) - machine.world.clock.now(), 7 * 86_400_000);
  assertEquals([made.did, made.resumed], [identity.did, false]);
  for (const path of ["agents", "agents/alpha", ...FILES.map((file) => `agents/alpha/${file}`)]) {
    const { mode, isFile } = await Deno.stat(machine.path(path));
    assertEquals(mode! & 0o777, isFile ? 0o600 : 0o700, path);
  }
  const auth = JSON.parse(machine.read("agents/alpha/registry-auth.json"));
  const members = ["accessExpiresAt", "accessToken", "refreshExpiresAt", "refreshToken", "tokenType"];
  assertEquals(Object.keys(auth).sort(), members);
  const inspected = await machine.json("agent", "inspect", "alpha");
  assertEquals([inspected.verified, inspected.status], [true, "active"]);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
});

Deno.test("on a second machine, which has only the API key, agent create saves the name that peers see", async () => {
  await using world = await World.open();
  const { apiKey } = await world.person("Ada");
  await using machine = await Machine.open(world);
  machine.stdin = apiKey;
  await machine.json("config", "set", "apiKey", "-");
  await machine.json("agent", "create", "alpha");
  assertEquals((await machine.json("config", "get", "humanName")).value, "Ada");
  await machine.json("config", "set", "humanName", "Ada L.");
  await machine.json("agent", "create", "beta");
  assertEquals((await machine.json("config", "get", "humanName")).value, "Ada L.");
});

Deno.test("agent create leaves framework and lifetime to the registry when they are not set", async () => {
  await using machine = await Machine.ofPerson();
  const { framework, expiresAt } = await machine.json("agent", "create", "alpha");
  assertEquals([framework, Date.parse(expiresAt) - machine.world.clock.now()], [DEFAULT_FRAMEWORK, 30 * 86_400_000]);
});

Deno.test("agent create refuses bad names, frameworks and lifetimes before it sends or writes", async (t) => {
  await using machine = await Machine.ofPerson();
  const sent = machine.requests.length;
  const bad = [
    ...["..", "a/b", "CON", "", "x".repeat(65)].map((name) => ["--", name]),
    ...["", "x".repeat(33), "a\u0007"].map((framework) => ["ok", `--framework=${framework}`]),
    ...["0", "91", "1.5", "０7", "thirty"].map((days) => ["ok", `--ttl-days=${days}`]),
  ];
  for (const argv of bad) {
    await t.step(argv.join(" "), async () => {
      await machine.refuses(["agent", "create", ...argv], 2, "CLI_USAGE");
    });
  }
  assertEquals([machine.requests.length, machine.tree()], [sent, {}]);
});

Deno.test("agent create fails before any request when an agent, a file or a folder has the name", async (t) => {
  const occupants: [string, (path: string, machine: Machine) => Promise<void>][] = [
    ["an agent", (_path, machine) => machine.json("agent", "create", "alpha")],
    ["an empty folder", (path) => Deno.mkdir(path)],
    ["a file", (path) => Deno.writeTextFile(path, "")],
    ["a link", (path) => Deno.symlink("/tmp", path)],
    ["a dangling link", (path) => Deno.symlink("/nowhere/at/all", path)],
  ];
  for (const [what, occupy] of occupants) {
    await t.step(what, async () => {
      await using machine = await Machine.ofPerson();
      await Deno.mkdir(machine.path("agents"), { mode: 0o700 });
      await occupy(machine.path("agents/alpha"), machine);
      const before = [machine.tree(), machine.requests.length];
      await machine.refuses(["agent", "create", "alpha"], 1, "CLI_AGENT_EXISTS");
      assertEquals([machine.tree(), machine.requests.length], before);
    });
  }
});

Deno.test("a name from the registry never chooses a path", async () => {
  await using machine = await Machine.ofPerson();
  machine.changeAnswers(REGISTRATION, (body) => ({ ...body, agent: { ...body.agent, name: "../../evil" } }));
  const made = await machine.json("agent", "create", "alpha");
  assertStringIncludes(made.warnings[0], "../../evil");
  assertEquals(agentFiles(machine, "alpha"), FILES);
  assertEquals(JSON.parse(machine.read("agents/alpha/identity.json")).name, "alpha");
});

function expired(ait: string): string {
  const [head, payload = "", signature] = ait.split(".");
  const claims = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/")));
  const changed = btoa(JSON.stringify({ ...claims, exp: claims.exp + 1 })).replaceAll("+", "-").replaceAll("/", "_");
  return [head, changed.replaceAll("=", ""), signature].join(".");
}

Deno.test("agent create keeps no file when the AIT does not verify", async (t) => {
  const swaps: [string, (ait: string, world: World) => string | Promise<string>, string][] = [
    ["another agent's token", async (_ait, world) => (await world.agent()).identity.ait, "another agent"],
    ["a changed claim", expired, "signature"],
    ["a cut signature", (ait) => ait.slice(0, -4), "form"],
    ["no token", () => "x", "form"],
    ["a clock that is a year ahead", (ait, world) => {
      world.clock.step(365 * 86_400_000);
      return ait;
    }, "lifetime"],
  ];
  for (const [what, swap, problem] of swaps) {
    await t.step(what, async () => {
      await using machine = await Machine.ofPerson();
      machine.changeAnswers(REGISTRATION, async (body) => ({ ...body, ait: await swap(body.ait, machine.world) }));
      await machine.refuses(["agent", "create", "alpha"], 1, "CLI_TOKEN_REFUSED", problem);
      const left = Object.keys(machine.tree()).filter((path) => !path.startsWith("keys/"));
      assertEquals([left, deletions(machine)], [["agents/"], 1]);
    });
  }
});

Deno.test("agent create continues when the registry's keys could not be fetched", async (t) => {
  const failures: [string, () => Response | Promise<Response>][] = [
    ["no answer", reset],
    ["404", () => Response.json({ error: { code: "NOT_FOUND", message: "no" } }, { status: 404 })],
    ["something else", () => new Response("hello")],
  ];
  for (const [what, answer] of failures) {
    await t.step(what, async () => {
      await using machine = await Machine.ofPerson();
      const restore = machine.answer(KEYS, answer);
      await machine.refuses(["agent", "create", "alpha"], 5, "CLI_UNREACHABLE");
      const seed = machine.read("agents/.alpha.pending/secret.key");
      assert(!("agents/.alpha.pending/ait.jwt" in machine.tree()), "no token is saved before it is verified");
      restore();
      assertEquals((await machine.json("agent", "create", "alpha")).resumed, true);
      assertEquals([machine.read("agents/alpha/secret.key"), (await registered(machine)).length], [seed, 1]);
    });
  }
});

Deno.test("agent create keeps an agent whose token the saved keys, older than the registry's, cannot verify", async () => {
  await using machine = await Machine.ofAdmin();
  await machine.json("agent", "create", "alpha");
  await machine.json("admin", "keys", "rotate");
  machine.world.clock.step(3_600_000);
  const restore = machine.answer(KEYS, reset);
  await machine.refuses(["agent", "create", "beta"], 5, "CLI_UNREACHABLE");
  assertEquals(deletions(machine), 0);
  const seed = machine.read("agents/.beta.pending/secret.key");
  restore();
  assertEquals((await machine.json("agent", "create", "beta")).resumed, true);
  assertEquals([machine.read("agents/beta/secret.key"), (await registered(machine)).length], [seed, 2]);
});

Deno.test("agent create leaves the name free when the registry refuses the registration", async () => {
  await using machine = await Machine.open(undefined, { env: { SVC_API_KEY: "svc_pat_wrong" } });
  assertEquals((await machine.failure("agent", "create", "alpha")).code, "API_KEY_INVALID");
  assertEquals(Object.keys(machine.tree()), ["agents/"]);
});

Deno.test("agent create resumes a registration without an answer: one agent, the same key", async (t) => {
  const losses: [string, RegExp, boolean][] = [
    ["the challenge's answer", CHALLENGE, false],
    ["the registration's answer", REGISTRATION, true],
  ];
  for (const [what, request, wasRegistered] of losses) {
    await t.step(what, async () => {
      await using machine = await Machine.ofPerson();
      machine.loseAnswers(request, 1);
      await machine.refuses(["agent", "create", "alpha"], 5, "CLI_UNREACHABLE");
      const seed = machine.read("agents/.alpha.pending/secret.key");
      assertEquals((await registered(machine)).length, wasRegistered ? 1 : 0);
      const next = "Resume with: svc agent create alpha";
      await machine.refuses(["agent", "inspect", "alpha"], 4, "CLI_AGENT_UNKNOWN", next);
      const made = await machine.json("agent", "create", "alpha");
      assertEquals(made.resumed, true);
      assertEquals(machine.read("agents/alpha/secret.key"), seed);
      assertEquals((await registered(machine)).map(({ name, status }) => [name, status]), [["alpha", "active"]]);
      assertEquals(agentFiles(machine, "alpha"), FILES);
      assertEquals((await machine.json("agent", "inspect", "alpha")).verified, true);
      assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
    });
  }
});

Deno.test("agent create resumes when the answers of the resumption are lost too", async () => {
  await using machine = await Machine.ofPerson();
  machine.loseAnswers(REGISTRATION, 1);
  assertEquals((await machine.failure("agent", "create", "alpha")).exit, 5);
  for (const request of [/^GET .*\/v1\/agents$/, /^GET .*\/v1\/agents\/\w+/, /\/auth\/revoke$/, /\/reissue$/]) {
    machine.loseAnswers(request, 1);
    assertEquals((await machine.failure("agent", "create", "alpha")).exit, 5, String(request));
  }
  assertEquals((await machine.json("agent", "create", "alpha")).resumed, true);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
  assertEquals((await registered(machine)).length, 1);
});

Deno.test("agent create finds its key among many agents, also of the same name", async () => {
  await using world = await World.open({ registry: { quotas: AMPLE_QUOTAS } });
  const owner = await world.person();
  await using machine = await Machine.open(world, { env: { SVC_API_KEY: owner.apiKey } });
  machine.loseAnswers(REGISTRATION, 1);
  await machine.failure("agent", "create", "alpha");
  for (let i = 0; i < 55; i++) await world.agent(owner, i % 50 === 0 ? "alpha" : `other-${i}`);
  const made = await machine.json("agent", "create", "alpha");
  assertEquals(made.resumed, true);
  assertEquals((await registered(machine)).length, 56);
  assertEquals((await machine.json("agent", "inspect", "alpha")).verified, true);
});

Deno.test("agent create resumes when the request was sent twice and the first answer was lost", async () => {
  await using machine = await Machine.ofPerson();
  machine.fetch = async (input, init) => {
    if (init?.method === "POST" && String(input).endsWith("/v1/agents")) {
      await (await machine.world.fetch(input, init)).body?.cancel();
    }
    return await machine.world.fetch(input, init);
  };
  await machine.refuses(["agent", "create", "alpha"], 1, "AGENT_REGISTRATION_CHALLENGE_REPLAYED");
  machine.fetch = machine.world.fetch;
  assertEquals((await machine.json("agent", "create", "alpha")).resumed, true);
  assertEquals((await registered(machine)).length, 1);
});

Deno.test("agent create requests few agents when it resumes, for any number of the name", async () => {
  await using world = await World.open();
  const owner = await world.person();
  for (let i = 0; i < 20; i++) await world.agent(owner, "alpha");
  world.clock.step(60_000);
  await using machine = await Machine.open(world, { env: { SVC_API_KEY: owner.apiKey } });
  for (const request of [CHALLENGE, REGISTRATION]) {
    machine.loseAnswers(request, 1);
    await machine.failure("agent", "create", "alpha");
  }
  const sent = machine.requests.length;
  await machine.json("agent", "create", "alpha");
  // Two of them fetch the registry's keys.
  assert(machine.requests.length - sent <= 8, machine.requests.slice(sent).join("\n"));
});

/** Stops at every point of the files' life: the state that a kill after each step of `agent create` leaves. */
Deno.test("agent create resumes from every state that a kill can leave", async (t) => {
  const reach = async (_world: World, machine: Machine) => {
    machine.loseAnswers(REGISTRATION, 1);
    await machine.failure("agent", "create", "alpha");
  };
  const complete = async (machine: Machine) => {
    await machine.json("agent", "create", "alpha");
    await Deno.rename(machine.path("agents/alpha"), machine.path("agents/.alpha.pending"));
  };
  const pending = "agents/.alpha.pending";
  const states: [string, (world: World, machine: Machine) => Promise<void>, number][] = [
    ["an empty pending folder", async (_, m) => await Deno.mkdir(m.path(pending), { recursive: true, mode: 0o700 }), 1],
    ["a key and no intent", async (w, m) => {
      await reach(w, m);
      await Deno.remove(m.path(`${pending}/registration.pending`));
    }, 2],
    ["key, intent, nothing sent", async (w, m) => {
      m.fetch = () => Promise.reject(new TypeError("no network"));
      await m.failure("agent", "create", "alpha");
      m.fetch = w.fetch;
    }, 1],
    ["registered, nothing saved", reach, 1],
    ["a temporary file left over", async (w, m) => {
      await reach(w, m);
      m.write(`${pending}/.svc-AAAAAAAAAAAAAAAA.tmp`, "half");
      await Deno.mkdir(m.path("keys"), { recursive: true, mode: 0o700 });
      m.write("keys/.svc-AAAAAAAAAAAAAAAA.tmp", "half");
      for (const folder of [pending, "keys"]) {
        await Deno.utime(m.path(`${folder}/.svc-AAAAAAAAAAAAAAAA.tmp`), 1_000, 1_000);
      }
    }, 1],
    ["the token saved, not the session", async (w, m) => {
      await reach(w, m);
      m.write(`${pending}/ait.jwt`, "x.y.z");
    }, 1],
    ["all but the identity", async (_, m) => {
      await complete(m);
      await Deno.remove(m.path(`${pending}/identity.json`));
      m.write(`${pending}/registration.pending`, REGISTRY_URL);
    }, 1],
    ["complete, the intent still there", async (_, m) => {
      await complete(m);
      m.write(`${pending}/registration.pending`, REGISTRY_URL);
    }, 1],
    ["complete, not yet renamed", (_, m) => complete(m), 1],
    ["rubbish in every file", async (_, m) => {
      await complete(m);
      for (const file of FILES) if (file !== "secret.key") m.write(`${pending}/${file}`, "\u0000rubbish");
      m.write(`${pending}/registration.pending`, REGISTRY_URL);
    }, 1],
    ["a damaged key", async (w, m) => {
      await reach(w, m);
      m.write(`${pending}/secret.key`, "rubbish");
    }, 2],
    ["begun at this registry by another address", async (w, m) => {
      await reach(w, m);
      const intent = JSON.parse(m.read(`${pending}/registration.pending`));
      m.write(`${pending}/registration.pending`, JSON.stringify({ ...intent, registryUrl: "https://other.example" }));
    }, 1],
    ["begun at another registry", async (w, m) => {
      await reach(w, m);
      await using other = await World.open({ seed: 7 });
      const { apiKey } = await other.person();
      const pair = await keyPairFromSeed(other.random.bytes(32));
      const challenge = await other.client.challenge(apiKey, pair.publicKey);
      m.write(`${pending}/registration.pending`, JSON.stringify({ registryUrl: "https://other.example", challenge }));
      m.write(`${pending}/secret.key`, pair.seed);
    }, 2],
    ["the challenge expired unanswered", async (w, m) => {
      m.answer(REGISTRATION, reset);
      await m.failure("agent", "create", "alpha");
      w.clock.step(301_000);
    }, 1],
    ["the challenge expired, registered anyway", async (w, m) => {
      await reach(w, m);
      w.clock.step(301_000);
    }, 1],
    ["the challenge forgotten, registered anyway", async (w, m) => {
      await reach(w, m);
      for await (const { key } of w.kv.list({ prefix: ["registry", "challenge"] })) await w.kv.delete(key);
    }, 1],
  ];
  for (const [state, prepare, agents] of states) {
    await t.step(state, async () => {
      await using machine = await Machine.ofPerson();
      await prepare(machine.world, machine);
      machine.fetch = machine.world.fetch;
      const { code, stderr } = await machine.svc("agent", "create", "alpha");
      assertEquals(code, 0, stderr);
      assertEquals(agentFiles(machine, "alpha"), FILES);
      const inspected = await machine.json("agent", "inspect", "alpha");
      assertEquals([inspected.verified, inspected.status], [true, "active"]);
      assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
      assertEquals((await registered(machine)).length, agents);
      assertEquals(Object.keys(machine.tree()).filter((file) => file.includes(".svc-")), []);
    });
  }
});

Deno.test("one of two concurrent creations of an agent wins, the other gets an error, and one agent exists", async () => {
  await using machine = await Machine.ofPerson();
  const moving = setInterval(() => machine.world.clock.advance(50), 1);
  const outcomes = await Promise.all([1, 2, 3].map(() => machine.svc("agent", "create", "alpha")));
  clearInterval(moving);
  assertEquals(outcomes.map(({ code }) => code).sort(), [0, 1, 1]);
  for (const { code, stderr } of outcomes) if (code === 1) assertStringIncludes(stderr, "CLI_AGENT_EXISTS");
  assertEquals((await registered(machine)).length, 1);
  assertEquals(agentFiles(machine, "alpha"), FILES);
});

Deno.test("an answer with another agent's key is refused", async () => {
  await using machine = await Machine.ofPerson();
  const other = await machine.world.agent();
  machine.changeAnswers(REGISTRATION, (body) => ({ ...body, agent: other.agent }));
  assertEquals((await machine.failure("agent", "create", "alpha")).exit, 5);
  assert(!("agents/alpha/" in machine.tree()));
});
